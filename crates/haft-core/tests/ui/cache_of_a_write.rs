use haft_core::tool;

/// Does it.
#[tool(cache = "5m")]
async fn f() {}

fn main() {}
