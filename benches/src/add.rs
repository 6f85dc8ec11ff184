//! The one tool of all subjects, its schema, and arguments with known answers.
//!
//! The numbers vary, so that neither the branch predictor nor an allocator meets the same bytes
//! every time. Making them and knowing their sums is not measured.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

/// The name every subject looks up.
pub(crate) const NAME: &str = "add";
/// What a model would read.
pub(crate) const DESCRIPTION: &str = "Adds two numbers and returns the sum as text.";
/// How many calls one fan makes at once.
pub(crate) const FAN: u32 = 100;

/// The arguments. `u64` says `>= 0` to subjects that do not validate against the schema.
#[derive(Debug, Deserialize)]
pub(crate) struct Add {
    a: u64,
    b: u64,
}

/// The body.
pub(crate) async fn add(args: Add) -> String {
    (args.a + args.b).to_string()
}

/// What a subject declares, where it wants a schema.
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

/// One call as a model writes it, and the answer it must get.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) arguments: String,
    answer: String,
}

impl Question {
    /// Stops the run when a subject answers wrongly: a fast wrong answer is no result.
    #[track_caller]
    pub(crate) fn check(&self, text: &str) {
        assert_eq!(text, self.answer, "for {}", self.arguments);
    }
}

/// Returns this many questions, out of 64 with numbers of one to six digits, round and round.
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
