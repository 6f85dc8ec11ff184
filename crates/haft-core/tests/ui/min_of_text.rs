use haft_core::tool;

/// Does it.
#[tool]
async fn f(#[param(min = 1)] text: String, #[param(max_length = 3)] n: u8) {
    let _ = (text, n);
}

fn main() {}
