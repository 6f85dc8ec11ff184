use haft_core::tool;

/// Does it.
#[tool]
async fn f(#[inject] n: u8) -> u8 {
    n
}

fn main() {}
