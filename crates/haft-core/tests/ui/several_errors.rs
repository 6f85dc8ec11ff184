use haft_core::tool;

/// Does it.
#[tool(red_only, timeout = "soon", name = "a b")]
async fn f(list: &[u8], #[param(mn = 1)] n: u8) -> u8 {
    list[0] + n
}

fn main() {}
