use haft_core::tool;

#[tool]
async fn f() {}

fn main() {}
