use haft_core::tool;

/// Does it.
#[tool(name = "get time!")]
async fn f() {}

fn main() {}
