use haft_core::tool;

struct Opaque;

/// Does it.
#[tool]
async fn f() -> Opaque {
    Opaque
}

fn main() {}
