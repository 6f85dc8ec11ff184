use haft_core::tool;

/// Does it.
#[tool(type_name = "get-time")]
async fn f() {}

fn main() {}
