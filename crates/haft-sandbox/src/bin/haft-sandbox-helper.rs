//! The sandbox helper as a program of its own, for hosts that cannot start themselves as the
//! helper.

fn main() {
    haft_sandbox::init();
    // Not started as the helper.
    std::process::exit(2);
}
