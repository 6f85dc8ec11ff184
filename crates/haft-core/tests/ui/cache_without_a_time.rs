use haft_core::tool;

/// Does it.
#[tool(read_only, cache(scope = "user"))]
async fn f() {}

fn main() {}
