use haft_core::tool;

/// Does it.
#[tool]
async fn f(#[param] n: u8, #[inject(Db)] m: u8) -> u8 {
    n + m
}

fn main() {}
