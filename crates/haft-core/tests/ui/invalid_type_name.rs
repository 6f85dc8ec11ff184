use haft_core::tool;

/// Does it.
#[tool]
async fn __() {}

fn main() {}
