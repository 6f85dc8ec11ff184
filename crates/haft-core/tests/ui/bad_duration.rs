use haft_core::tool;

/// Does it.
#[tool(timeout = "20 seconds", deadline = "5")]
async fn f() {}

fn main() {}
