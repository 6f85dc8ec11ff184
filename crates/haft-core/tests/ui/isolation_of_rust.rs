use haft_core::tool;

/// Does it.
#[tool(isolation = "required")]
async fn f() {}

fn main() {}
