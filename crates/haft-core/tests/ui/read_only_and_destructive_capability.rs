use haft_core::tool;

/// Does it.
#[tool(read_only, capabilities(destructive))]
async fn f() {}

fn main() {}
