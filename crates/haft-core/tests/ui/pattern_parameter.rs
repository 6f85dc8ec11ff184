use haft_core::tool;

/// Does it.
#[tool]
async fn f((a, b): (u8, u8)) -> u8 {
    a + b
}

fn main() {}
