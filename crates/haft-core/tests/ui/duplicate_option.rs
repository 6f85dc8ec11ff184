use haft_core::tool;

/// Does it.
#[tool(read_only, timeout = "1s", read_only)]
async fn f() {}

fn main() {}
