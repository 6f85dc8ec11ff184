use haft_core::tool;

/// Does it.
#[tool]
struct S {
    n: u8,
}

#[tool]
enum E {
    A,
}

fn main() {}
