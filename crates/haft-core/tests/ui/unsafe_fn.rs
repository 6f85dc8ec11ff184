use haft_core::tool;

/// Does it.
#[tool]
unsafe fn f() {}

fn main() {}
