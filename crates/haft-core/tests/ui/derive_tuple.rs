use haft_core::Tool;

/// Does it.
#[derive(Tool)]
struct T(u8);

fn main() {}
