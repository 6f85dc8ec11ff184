use haft_core::tools;

struct S;

#[tools]
impl S {
    /// Does it.
    #[tool]
    async fn f(&mut self) {}

    /// Does it.
    #[tool]
    async fn g() {}
}

fn main() {}
