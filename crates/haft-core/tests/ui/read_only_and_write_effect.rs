use haft_core::tool;

/// Does it.
#[tool(read_only, effects(read("/a"), write("/b")))]
async fn f() {}

fn main() {}
