use haft_core::tool;

/// Does it.
#[tool(effects(delete("/a")))]
async fn f() {}

fn main() {}
