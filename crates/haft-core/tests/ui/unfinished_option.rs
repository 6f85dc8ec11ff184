use haft_core::tool;

/// Does it.
#[tool(timeout =)]
async fn f() {}

fn main() {}
