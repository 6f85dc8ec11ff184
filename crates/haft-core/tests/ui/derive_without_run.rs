use haft_core::Tool;

/// Does it.
#[derive(Tool)]
struct S {
    n: u8,
}

fn main() {}
