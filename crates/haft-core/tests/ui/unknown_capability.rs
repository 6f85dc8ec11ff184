use haft_core::tool;

/// Does it.
#[tool(capabilities(netwrok))]
async fn f() {}

fn main() {}
