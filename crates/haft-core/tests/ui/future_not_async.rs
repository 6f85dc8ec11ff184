use haft_core::tool;

/// Does it.
#[tool]
fn f() -> impl Future<Output = u8> {
    async { 1 }
}

fn main() {}
