use haft_core::{ConcurrencyClass, tool};

fn class_of(n: &str) -> ConcurrencyClass {
    let _ = n;
    ConcurrencyClass::ReadOnly
}

/// Does it.
#[tool(class = class_of)]
async fn f(n: u8) -> u8 {
    n
}

fn main() {}
