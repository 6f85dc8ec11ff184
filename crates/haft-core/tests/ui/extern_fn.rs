use haft_core::tool;

/// Does it.
#[tool]
extern "C" fn f() {}

fn main() {}
