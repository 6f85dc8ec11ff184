//! A program that is only the sandbox helper: a test binary cannot be its own helper.

fn main() {
    haft_sandbox::init();
    std::process::exit(2);
}
