use haft_core::tool;

/// Does it.
#[tool]
async fn option() {}

fn main() {}
