use haft_core::tools;

struct S;

#[tools]
impl S {
    /// Does it.
    #[tool(type_name = "F")]
    async fn f(&self) {}
}

fn main() {}
