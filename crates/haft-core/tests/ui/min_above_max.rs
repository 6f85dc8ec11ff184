use haft_core::tool;

/// Does it.
#[tool]
async fn f(#[param(min = 10, max = 1)] n: u8) -> u8 {
    n
}

fn main() {}
