use haft_core::Tool;

/// Does it.
#[derive(Tool)]
enum E {
    A,
}

fn main() {}
