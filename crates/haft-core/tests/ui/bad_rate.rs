use haft_core::tool;

/// Does it.
#[tool(rate = "10 per second")]
async fn f() {}

fn main() {}
