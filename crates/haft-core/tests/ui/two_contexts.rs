use haft_core::{Context, tool};

/// Does it.
#[tool]
async fn f(_a: &Context, _b: &Context) {}

fn main() {}
