use haft_core::tool;

/// Does it.
#[tool(examples(r#"{"n": }"#))]
async fn f(n: u8) -> u8 {
    n
}

fn main() {}
