//! A program that is nothing but the sandbox's helper, for hosts that cannot be their own.

fn main() {
    haft_sandbox::init();
    // Whoever starts it by hand learns what it is.
    std::process::exit(2);
}
