use haft_core::tools;

struct S;

#[tools(prefx = "s_", read_only)]
impl S {
    /// Does it.
    #[tool]
    async fn f(&self) {}
}

fn main() {}
