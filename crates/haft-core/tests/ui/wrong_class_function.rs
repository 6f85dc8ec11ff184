use haft_core::{Class, tool};

fn class_of(n: &str) -> Class {
    let _ = n;
    Class::ReadOnly
}

/// Does it.
#[tool(class = class_of)]
async fn f(n: u8) -> u8 {
    n
}

fn main() {}
