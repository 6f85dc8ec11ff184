use haft_core::Tool;

/// Does it.
#[derive(Tool)]
struct G<T> {
    x: T,
}

fn main() {}
