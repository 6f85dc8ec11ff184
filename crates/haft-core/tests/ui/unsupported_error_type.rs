use haft_core::tool;

struct Opaque;

/// Does it.
#[tool]
async fn f() -> Result<String, Opaque> {
    Err(Opaque)
}

fn main() {}
