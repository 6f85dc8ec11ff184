use std::rc::Rc;

use haft_core::tool;

/// Does it.
#[tool]
async fn f() {
    let here = Rc::new(1);
    std::future::ready(()).await;
    drop(here);
}

fn main() {}
