use haft_core::tool;

/// Does it.
#[tool]
const fn f() {}

fn main() {}
