use haft_core::tool;

/// Does it.
#[tool(permission = "never", exposure = "defered", interrupt = Cancel)]
async fn f() {}

fn main() {}
