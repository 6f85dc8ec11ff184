use haft_core::Tool;

#[derive(Tool)]
#[tool(read_onli)]
struct S {
    #[param(min = 3, max = 1)]
    n: u8,
}

fn main() {}
