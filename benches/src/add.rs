//! The one tool of all subjects, its schema, and arguments with known results.
//!
//! The numbers vary, so that neither the branch predictor nor an allocator sees the same bytes
//! every time. Generating them and their sums is not measured.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};

/// The name every subject looks up.
pub(crate) const NAME: &str = "add";
/// What a model would read.
pub(crate) const DESCRIPTION: &str = "Adds two numbers and returns the sum as text.";
/// How many calls one fan-out makes in parallel.
pub(crate) const FAN: u32 = 100;

/// The arguments. `u64` enforces `>= 0` for subjects that do not validate against the schema.
#[derive(Debug, Deserialize)]
pub(crate) struct Add {
    a: u64,
    b: u64,
}

/// The body.
pub(crate) async fn add(args: Add) -> String {
    wait().await;
    (args.a + args.b).to_string()
}

/// How long bodies wait, in microseconds.
static WAIT: AtomicU64 = AtomicU64::new(0);

/// Makes all bodies wait for this time.
pub(crate) fn set_wait(time: Duration) {
    WAIT.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Waits, if bodies are to wait.
pub(crate) async fn wait() {
    let micros = WAIT.load(Ordering::Relaxed);
    if micros > 0 {
        // Boxed, because it would make the future of every call larger.
        Box::pin(tokio::time::sleep(Duration::from_micros(micros))).await;
    }
}

/// The schema, for subjects that need one.
pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "a": { "type": "integer", "minimum": 0, "description": "The first number." },
            "b": { "type": "integer", "minimum": 0, "description": "The second number." },
        },
        "required": ["a", "b"],
        "additionalProperties": false,
    })
}

/// One call as a model writes it, and the expected result.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) arguments: String,
    answer: String,
}

impl Question {
    /// Stops the run when a subject returns a wrong result.
    #[track_caller]
    pub(crate) fn check(&self, text: &str) {
        assert_eq!(text, self.answer, "for {}", self.arguments);
    }
}

/// Returns this many questions, cycling through 64 with numbers of one to six digits.
pub(crate) fn questions(count: u32) -> impl Iterator<Item = &'static Question> {
    static ALL: LazyLock<Vec<Question>> = LazyLock::new(|| {
        let numbers = (0..64_u64).map(|n| (n * 7919 % 100_003, n * n));
        let question = |(a, b): (u64, u64)| Question {
            arguments: format!(r#"{{"a":{a},"b":{b}}}"#),
            answer: (a + b).to_string(),
        };
        numbers.map(question).collect()
    });
    ALL.iter().cycle().take(count as usize)
}
