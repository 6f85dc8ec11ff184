//! Asks the user a question, where the host has a way to ask.
//!
//! The question is the model's and is shown as plain text; the answer is the user's own words, and
//! trusted as such. Without an `Asks` there is no such tool.

use std::{fmt, sync::Arc, time::Duration};

use haft_core::{
    BoxFuture, Capabilities, Confidentiality, DynTool, Effects, Failure, Interrupt, Label, Tool,
    ToolContext, ToolSpec, Trust,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::BuiltinTools;

/// How long a question may be, in characters: what fits on a screen.
const LONG: usize = 2_000;
/// How long a choice may be, and how many there may be.
const LONG_CHOICE: usize = 200;
const MOST_CHOICES: usize = 20;
/// So much of an answer is kept.
const LONG_ANSWER: usize = 20_000;

/// Returns the tools.
pub(crate) fn tools(hands: &BuiltinTools) -> Vec<DynTool> {
    hands.ask.iter().cloned().map(DynTool::of).collect()
}

/// A way to ask the user. A host implements it on its terminal, its window, its chat.
pub trait Asks: fmt::Debug + Send + Sync + 'static {
    /// Shows a question and returns what the user says. The future is dropped when the call is
    /// stopped or its time is over; the question should then disappear.
    ///
    /// # Errors
    /// Fails where nobody can be asked after all, or where the user wants not to answer.
    fn ask<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Result<String, Failure>>;
}

/// What the user is asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UserQuestion {
    /// The question, as plain text.
    pub question: String,
    /// Answers to choose from. The user may always answer something else.
    #[serde(default)]
    pub choices: Vec<String>,
}

/// The tool `ask_user`.
#[derive(Debug, Clone)]
#[must_use]
pub struct AskUser {
    asks: Arc<dyn Asks>,
    timeout: Duration,
}

impl AskUser {
    /// Asks in this way, and waits ten minutes for an answer.
    pub fn new(asks: impl Asks) -> Self {
        // People think, and go for coffee; a run should still come to an end.
        Self { asks: Arc::new(asks), timeout: Duration::from_secs(600) }
    }

    /// Sets how long to wait for an answer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Tool for AskUser {
    type Args = UserQuestion;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "ask_user",
            "Asks the user one question and returns the answer. Use it when you cannot go on without \
             a decision or a fact that only the user has; give `choices` where the likely answers are \
             few.",
        )
        .title("Ask the user")
        .read_only()
        .open_world(false)
        .effects(Effects::none())
        .capabilities(Capabilities::NONE)
        .requires_user_interaction(true)
        .interrupt(Interrupt::Cancel)
        // One person answers one question at a time.
        .concurrency(1)
        .timeout(self.timeout)
        .label(Label { trust: Trust::Trusted, confidentiality: Confidentiality::Internal })
    }

    async fn check(&self, args: &UserQuestion, _: &ToolContext) -> Result<(), Failure> {
        sound(args)
    }

    async fn call(&self, args: UserQuestion, _: &ToolContext) -> Result<String, Failure> {
        sound(&args)?;
        let answer = self.asks.ask(&args).await?;
        let answer = answer.trim();
        Ok(match answer {
            "" => "(The user answered nothing.)".to_owned(),
            answer => answer.chars().take(LONG_ANSWER).collect(),
        })
    }
}

/// A question is short and plain, so that it can be nothing else on a screen than a question.
fn sound(question: &UserQuestion) -> Result<(), Failure> {
    let UserQuestion { question, choices } = question;
    if question.trim().is_empty() {
        return Err(Failure::invalid("`question` is empty").with_next("say what you want to know"));
    }
    let count = question.chars().count();
    if count > LONG {
        return Err(Failure::invalid(format!("`question` has {count} characters; {LONG} fit"))
            .with_next("ask shorter; the user can see what you have written before"));
    }
    if choices.len() > MOST_CHOICES {
        return Err(Failure::invalid(format!(
            "there are {} `choices`; {MOST_CHOICES} can be shown",
            choices.len()
        ))
        .with_next("give the likely ones; the user may always answer something else"));
    }
    for (index, choice) in choices.iter().enumerate() {
        if choice.trim().is_empty() || choice.chars().count() > LONG_CHOICE || choice.contains('\n')
        {
            return Err(Failure::invalid(format!(
                "`choices[{index}]` is empty or longer than a line of {LONG_CHOICE} characters"
            ))
            .with_next("give each choice in a few words"));
        }
    }
    if std::iter::once(question).chain(choices).any(|text| text.contains(is_trickery)) {
        return Err(Failure::invalid("the question holds characters that cannot be seen")
            .with_next("write it in plain text"));
    }
    Ok(())
}

/// Characters that change how a screen looks or which way a text runs.
fn is_trickery(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str, choices: &[&str]) -> UserQuestion {
        UserQuestion {
            question: text.to_owned(),
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
        }
    }

    #[test]
    fn a_question_is_short_and_plain() {
        assert!(sound(&question("Which colour?\nBlue is nice.", &["red", "blue"])).is_ok());
        for (text, choices) in [
            ("", &[][..]),
            (" \n", &[]),
            (&"x".repeat(LONG + 1), &[]),
            ("a\u{1b}[2Jb", &[]),
            ("a\u{202e}b", &[]),
            ("a\rb", &[]),
            ("ok?", &["yes", ""]),
            ("ok?", &["two\nlines"]),
            ("ok?", &["zero\u{200b}width"]),
            ("ok?", &["x"; MOST_CHOICES + 1]),
            ("ok?", &[&"x".repeat(LONG_CHOICE + 1)]),
        ] {
            assert!(sound(&question(text, choices)).is_err(), "{text:?} {choices:?}");
        }
    }
}
