use haft_core::tool;

/// Does it.
#[tool]
async fn f(#[default(1)] text: String) -> String {
    text
}

fn main() {}
