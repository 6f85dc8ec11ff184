use haft_core::tool;

/// Does it.
#[tool]
async fn f(list: &Vec<u8>, zone: Option<&str>) {
    let _ = (list, zone);
}

fn main() {}
