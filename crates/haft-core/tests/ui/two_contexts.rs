use haft_core::{ToolContext, tool};

/// Does it.
#[tool]
async fn f(_a: &ToolContext, _b: &ToolContext) {}

fn main() {}
