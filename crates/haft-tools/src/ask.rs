//! The tool `ask_user`: asks the user one question through a host-provided [`AskHandler`].
//!
//! In: the model's question, shown as plain text (no control or invisible characters, so it cannot
//! spoof the terminal). Out: the user's answer, labelled trusted. Without an `AskHandler` the tool
//! does not exist.

use std::{fmt, sync::Arc, time::Duration};

use haft_core::{
    BoxFuture, Capabilities, Confidentiality, Effects, Failure, Interrupt, Label, Tool,
    ToolContext, ToolSpec, Trust, Verdict,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum length of a question in characters: it fits on one screen.
const MAX_QUESTION_CHARS: usize = 2_000;
/// Maximum length of one choice in characters, and the maximum number of choices.
const MAX_CHOICE_CHARS: usize = 200;
const MAX_CHOICES: usize = 20;
/// Longer answers are truncated to this many characters.
const MAX_ANSWER_CHARS: usize = 20_000;

/// Asks the user. A host implements it for its terminal, window or chat.
pub trait AskHandler: fmt::Debug + Send + Sync + 'static {
    /// Shows a question and returns the user's answer. The context says which call asks, so that a
    /// host with several users finds the right one. The future is dropped when the call is
    /// cancelled or times out; the question should then disappear.
    ///
    /// # Errors
    /// Fails if no user can be asked, or if the user declines to answer.
    fn ask<'a>(
        &'a self,
        question: &'a UserQuestion,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<String, Failure>>;

    /// Returns whether an approver of the runtime shows the question of this call, and answers in
    /// place of the tool (`ApprovalResponse::ReplaceResult`, with
    /// [`answer_text`](UserQuestion::answer_text)). The call then waits before its body, so that it
    /// can be parked and finished by another process.
    fn is_asked_by_approver(&self, _cx: &ToolContext) -> bool {
        false
    }
}

/// A question for the user.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UserQuestion {
    /// The question, as plain text.
    pub question: String,
    /// Answers to choose from. The user may always answer something else.
    #[serde(default)]
    pub choices: Vec<String>,
}

impl UserQuestion {
    /// Returns the result of a call that the user answered with `answer`.
    #[must_use]
    pub fn answer_text(answer: &str) -> String {
        match answer.trim() {
            "" => "(The user gave an empty answer.)".to_owned(),
            answer => answer.chars().take(MAX_ANSWER_CHARS).collect(),
        }
    }
}

/// The tool `ask_user`.
#[derive(Debug, Clone)]
#[must_use]
pub struct AskUser {
    handler: Arc<dyn AskHandler>,
    timeout: Duration,
}

impl AskUser {
    /// Asks through `handler`, with a timeout of ten minutes.
    pub fn new(handler: impl AskHandler) -> Self {
        // People need time to think, but a run has to end.
        Self { handler: Arc::new(handler), timeout: Duration::from_secs(600) }
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

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "ask_user",
            "Asks the user one question and returns the answer. Use it when you cannot continue \
             without a decision or a fact that only the user has; give `choices` if there are few \
             likely answers.",
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
        check_question(args)
    }

    async fn guard(&self, _: &UserQuestion, cx: &ToolContext) -> Result<Option<Verdict>, Failure> {
        let is_asked = self.handler.is_asked_by_approver(cx);
        Ok(is_asked.then(|| Verdict::ask("the user answers this call")))
    }

    async fn call(&self, args: UserQuestion, cx: &ToolContext) -> Result<String, Failure> {
        check_question(&args)?;
        Ok(UserQuestion::answer_text(&self.handler.ask(&args, cx).await?))
    }
}

/// Requires a short plain-text question, so that it cannot imitate other terminal output.
fn check_question(question: &UserQuestion) -> Result<(), Failure> {
    let UserQuestion { question, choices } = question;
    if question.trim().is_empty() {
        return Err(Failure::invalid("`question` is empty").with_next("write the question"));
    }
    let count = question.chars().count();
    if count > MAX_QUESTION_CHARS {
        return Err(Failure::invalid(format!(
            "`question` has {count} characters; the maximum is {MAX_QUESTION_CHARS}"
        ))
        .with_next("shorten the question; the user can see your earlier text"));
    }
    if choices.len() > MAX_CHOICES {
        return Err(Failure::invalid(format!(
            "there are {} `choices`; the maximum is {MAX_CHOICES}",
            choices.len()
        ))
        .with_next("give only the likely ones; the user can always type another answer"));
    }
    for (index, choice) in choices.iter().enumerate() {
        if choice.trim().is_empty()
            || choice.chars().count() > MAX_CHOICE_CHARS
            || choice.contains('\n')
        {
            return Err(Failure::invalid(format!(
                "`choices[{index}]` is empty, has a line break or is longer than \
                 {MAX_CHOICE_CHARS} characters"
            ))
            .with_next("give each choice in a few words"));
        }
    }
    if std::iter::once(question).chain(choices).any(|text| text.contains(is_spoofing_char)) {
        return Err(Failure::invalid("the question has control or invisible characters")
            .with_next("write it in plain text"));
    }
    Ok(())
}

/// Control characters, invisible characters and bidirectional overrides (terminal spoofing).
fn is_spoofing_char(c: char) -> bool {
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
    fn long_empty_or_spoofing_questions_are_refused() {
        assert!(
            check_question(&question("Which colour?\nBlue is nice.", &["red", "blue"])).is_ok()
        );
        for (text, choices) in [
            ("", &[][..]),
            (" \n", &[]),
            (&"x".repeat(MAX_QUESTION_CHARS + 1), &[]),
            ("a\u{1b}[2Jb", &[]),
            ("a\u{202e}b", &[]),
            ("a\rb", &[]),
            ("ok?", &["yes", ""]),
            ("ok?", &["two\nlines"]),
            ("ok?", &["zero\u{200b}width"]),
            ("ok?", &["x"; MAX_CHOICES + 1]),
            ("ok?", &[&"x".repeat(MAX_CHOICE_CHARS + 1)]),
        ] {
            assert!(check_question(&question(text, choices)).is_err(), "{text:?} {choices:?}");
        }
    }
}
