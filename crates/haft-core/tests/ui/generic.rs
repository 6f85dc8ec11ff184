use haft_core::tool;

/// Does it.
#[tool]
async fn f<T>(_x: T) {}

fn main() {}
