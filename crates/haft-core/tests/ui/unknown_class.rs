use haft_core::tool;

/// Does it.
#[tool(class = Readonly)]
async fn f() {}

fn main() {}
