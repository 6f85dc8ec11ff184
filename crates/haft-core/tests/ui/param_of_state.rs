use haft_core::{State, tool};

/// Does it.
#[tool]
async fn f(#[param(min = 1)] n: State<u8>) -> u8 {
    *n
}

fn main() {}
