//! Text that a person types: messages for the agent, and answers to its questions.

use std::{
    io::Write,
    sync::atomic::{AtomicBool, Ordering},
};

use haft::{Failure, FailureCode};
use haft_tools::UserQuestion;

use super::{Keys, Prompt};
use crate::{
    screen::OpenQuestion,
    style::{self, BOLD, NAME, one_line},
};

impl<K: Keys, W: Write + Send + 'static> Prompt<K, W> {
    /// Reads a message of the person for the agent; `None` at the end of the input.
    pub(crate) async fn message(&self) -> Result<Option<String>, Failure> {
        let mut keys = self.keys.lock().await;
        let _screen = OpenQuestion::new();
        self.is_stale.store(false, Ordering::Relaxed);
        self.line(&mut keys, "you > ").await
    }

    /// Asks a question of the model, and returns the answer of the person.
    pub(crate) async fn ask_text(&self, question: &UserQuestion) -> Result<String, Failure> {
        self.ask_under("The model asks you", &question.question, &question.choices).await
    }

    /// Asks a question under a heading that says who asks.
    pub(crate) async fn ask_under(
        &self,
        heading: &str,
        question: &str,
        choices: &[String],
    ) -> Result<String, Failure> {
        let mut keys = self.keys.lock().await;
        let _screen = OpenQuestion::new();
        keys.discard_typed().await;
        if self.is_stale.swap(false, Ordering::Relaxed) {
            self.line(&mut keys, "  press Enter for the next question ").await?;
        }
        // A cancelled question may leave half an answer in the input line.
        let stale = Stale(&self.is_stale);
        self.write(&question_page(heading, question, choices));
        let line = self.line(&mut keys, "  your answer (Enter alone: no answer) > ").await?;
        stale.forget();
        let Some(line) = line else {
            return Err(Failure::new(
                FailureCode::NeedsInteraction,
                "the user closed the input without an answer",
            )
            .with_next("continue without an answer, or put the question into your reply"));
        };
        let chosen = line.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
        let chosen = chosen.and_then(|at| choices.get(at));
        Ok(chosen.cloned().unwrap_or(line))
    }
}

/// Marks the input line as stale when a question is dropped without an answer.
struct Stale<'a>(&'a AtomicBool);

impl Stale<'_> {
    fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Stale<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The text of a question.
fn question_page(heading: &str, question: &str, choices: &[String]) -> String {
    let mut out = format!("\n{}\n", style::paint(BOLD, one_line(heading)));
    for line in style::visible(question).lines() {
        out += &format!("  {line}\n");
    }
    for (at, choice) in choices.iter().enumerate() {
        let number = style::paint(NAME, format_args!("{:>4}", at + 1));
        out += &format!("{number}  {}\n", one_line(choice));
    }
    if !choices.is_empty() {
        out += "  type a number, or an answer of your own\n";
    }
    out
}
