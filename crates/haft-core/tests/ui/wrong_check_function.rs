use haft_core::tool;

fn is_even(n: &u8) -> bool {
    n % 2 == 0
}

/// Halves a number.
#[tool(check = is_even)]
async fn halve(n: u8) -> u8 {
    n / 2
}

fn main() {}
