use haft_core::tool;

struct S;
impl S {
    /// Does it.
    #[tool]
    async fn f(&self) {}
}

fn main() {}
