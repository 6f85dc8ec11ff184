use haft_core::tool;

/// Does it.
#[tool(timeout = "99999999d")]
async fn f() {}

fn main() {}
