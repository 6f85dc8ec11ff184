use haft_core::tool;

/// Does it.
#[tool]
async fn f(_: u8) {}

fn main() {}
