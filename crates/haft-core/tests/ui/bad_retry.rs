use haft_core::tool;

/// Does it.
#[tool(retry(attempts = 3))]
async fn f() {}

fn main() {}
