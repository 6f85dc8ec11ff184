//! A program that is nothing but the sandbox's helper: a test cannot be its own.

fn main() {
    haft_sandbox::init();
    std::process::exit(2);
}
