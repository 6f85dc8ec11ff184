use haft_core::tool;

/// Does it.
#[tool(timeout = 20, title, idempotent = "yes", max_result = "big", concurrency = 0)]
async fn f() {}

fn main() {}
