use haft_core::tool;

/// Does it.
#[tool(alias("f", "not this"))]
async fn f() {}

fn main() {}
