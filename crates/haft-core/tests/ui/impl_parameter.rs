use haft_core::tool;

/// Does it.
#[tool]
async fn f(text: impl Into<String>) {
    let _: String = text.into();
}

fn main() {}
