use haft_core::tools;

struct S;

#[tools]
impl Clone for S {
    /// Does it.
    #[tool]
    fn clone(&self) -> Self {
        S
    }
}

fn main() {}
