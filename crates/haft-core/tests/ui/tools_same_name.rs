use haft_core::tools;

struct S;

#[tools]
impl S {
    /// Does it.
    #[tool]
    async fn f(&self) {}

    /// Does it.
    #[tool(name = "f")]
    async fn g(&self) {}
}

fn main() {}
