use haft_core::tool;

/// Does it.
#[tool(readonly, tiemout = "1s", colour = "red")]
async fn f() {}

fn main() {}
