use haft_core::tools;

struct S;

#[tools]
fn f() {}

fn main() {}
