use haft_core::{IntoTools, Tool, ToolContext};

/// Answers.
#[derive(Tool)]
struct Ping;

impl Ping {
    async fn run(self, _: &ToolContext) -> String {
        "pong".into()
    }
}

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
    add(Ping);
    add(Fetch { url: String::new() });
}
