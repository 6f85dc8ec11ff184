use haft_core::tools;

struct S;

#[tools]
impl S {
    fn f(&self) {}
}

fn main() {}
