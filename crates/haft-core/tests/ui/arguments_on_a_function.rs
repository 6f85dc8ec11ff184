#[haft_core::arguments]
fn main() {}
