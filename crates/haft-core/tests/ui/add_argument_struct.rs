use haft_core::{IntoTools, Tool, ToolContext};

/// Fetches.
#[derive(Tool)]
struct Fetch {
    url: String,
}

impl Fetch {
    async fn run(self, _: &ToolContext) -> String {
        self.url
    }
}

fn add(_: impl IntoTools) {}

fn main() {
    add(Fetch { url: String::new() });
}
