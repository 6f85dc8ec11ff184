use haft_core::tool;

/// Does it.
#[tool(read_only, destructive)]
async fn f() {}

fn main() {}
