//! Approvals: questions to a person, their answers, and the grants that last.
//!
//! An approver asks a person. The answer becomes a signed, single-use grant for exactly the call
//! that was shown. No answer, an error or an unclear answer count as no.

mod canonical;
mod digest;
mod grant;
mod queue;

use std::sync::Arc;

use haft_core::{BoxFuture, Failure, Verdict};
use haft_policy::Explanation;
use serde::Serialize;
use serde_json::Value;

pub use haft_sanitize::deceptive_chars;

#[cfg(test)]
pub(crate) use self::canonical::canonical;
pub use self::{
    digest::ApprovalDigest,
    grant::{GrantError, GrantStore},
};
pub(crate) use self::{
    digest::digest,
    queue::{Answered, ApprovalQueue, PromptLimits, QueuePermit, in_words},
};
use crate::validate::ValidatedCall;
pub use haft_policy::SuggestedRules;

/// A request for approval.
#[derive(Debug)]
#[non_exhaustive]
pub struct ApprovalRequest<'a> {
    /// The call.
    pub call: &'a ValidatedCall,
    /// Why approval is needed. For `need_input` it names the requested argument.
    pub verdict: &'a Verdict,
    /// The explanation: every check, the rule with its location, what would flip it.
    pub explanation: &'a Explanation,
    /// What "always" would write; `None` if it must not be offered.
    pub offer: Option<&'a SuggestedRules>,
    /// What "always in this directory" would write; `None` if it must not be offered.
    pub directory_offer: Option<&'a SuggestedRules>,
    /// Why "always" is not offered, for the person.
    pub no_offer: Option<&'a str>,
    /// Whether an answer can apply to a session: there is one, and it continues after this call.
    pub session: bool,
    /// What an answer for the session covers: every call that this rule matches. `None` means this
    /// call with these arguments.
    pub session_rule: Option<&'a str>,
    /// What the answer is bound to; [`GrantStore::issue`] signs an approval of it.
    pub binding: &'a ApprovalDigest,
    /// How many other calls wait for approval.
    pub waiting: usize,
}

/// The answer of an approver.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ApprovalResponse {
    /// Run it as it is.
    Allow {
        /// The scope of the answer.
        scope: ApprovalScope,
        /// A comment that the model gets as a host note with the result.
        comment: Option<String>,
    },
    /// Run it with a grant that was signed for exactly this call.
    Grant(String),
    /// Run it with these arguments; they are validated and judged again.
    Edit(Value),
    /// The value of the requested argument.
    Input(Value),
    /// Do not run it; the model gets this text as its result.
    ReplaceResult(String),
    /// Do not run it; the model gets the comment.
    Deny(Option<String>),
}

impl ApprovalResponse {
    /// Allows this call, once.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { scope: ApprovalScope::Once, comment: None }
    }
}

/// The scope of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// For this call.
    Once,
    /// For the same call again, as long as the session lasts.
    Session,
    /// Permanently: the suggested rules are written to their file.
    Always,
    /// Permanently, for all files of a directory: the suggested rules for it are written.
    AlwaysInDirectory,
}

/// Asks a person, or decides in their place. Without an approver, a call that needs approval is
/// denied. If there are several, all are asked, and the first valid answer counts.
///
/// A closure with a typed parameter is an approver that decides at once, as a program and not as a
/// person. For one that waits, use [`approver_fn`].
///
/// ```
/// use haft::approval::{ApprovalRequest, ApprovalResponse};
///
/// let runtime = haft::Runtime::builder().approver(|question: &ApprovalRequest<'_>| {
///     match question.call.tool().name().as_str() {
///         "read_file" => Ok(ApprovalResponse::allow()),
///         _ => Ok(ApprovalResponse::Deny(None)),
///     }
/// });
/// # let _ = runtime;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an approver",
    label = "not an approver",
    note = "for a closure that waits, write `approver_fn(\"its name\", |question| Box::pin(async move {{ .. }}))`",
    note = "a closure that decides at once has the parameter `&ApprovalRequest<'_>` and returns `Result<ApprovalResponse, Failure>`",
    note = "otherwise implement `Approver`"
)]
pub trait Approver: Send + Sync + 'static {
    /// Returns its name, for records: `the terminal`, `the console`.
    fn name(&self) -> &str {
        "the approver"
    }

    /// Returns whether a person answers. A no of any other approver is reported as `denied` with
    /// its comment, and not as declined by a person.
    fn is_person(&self) -> bool {
        true
    }

    /// Called when another approver has answered. The future of `ask` is dropped.
    fn closed(&self, _question: &ApprovalRequest<'_>, _by: &str) {}

    /// Asks and waits for the answer. An approver that cannot ask about this call fails with
    /// [`FailureCode::NeedsInteraction`](haft_core::FailureCode::NeedsInteraction) instead of a
    /// denial: then other approvers decide, or the call ends with that failure.
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>>;
}

impl<A: Approver + ?Sized> Approver for Arc<A> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn is_person(&self) -> bool {
        (**self).is_person()
    }

    fn closed(&self, question: &ApprovalRequest<'_>, by: &str) {
        (**self).closed(question, by);
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        (**self).ask(question)
    }
}

impl<F> Approver for F
where
    F: Fn(&ApprovalRequest<'_>) -> Result<ApprovalResponse, Failure> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "an approver function"
    }

    fn is_person(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(std::future::ready(self(question)))
    }
}

/// Makes an approver from a function that answers for a person.
///
/// ```
/// use haft::approval::{ApprovalResponse, approver_fn};
///
/// let yes = approver_fn("the console", |_question| {
///     Box::pin(async { Ok(ApprovalResponse::allow()) })
/// });
/// # let _ = haft::Runtime::builder().approver(yes);
/// ```
pub fn approver_fn<F>(name: impl Into<String>, ask: F) -> impl Approver
where
    F: for<'a> Fn(&'a ApprovalRequest<'a>) -> BoxFuture<'a, Result<ApprovalResponse, Failure>>
        + Send
        + Sync
        + 'static,
{
    struct Function<F>(String, F);

    impl<F> Approver for Function<F>
    where
        F: for<'a> Fn(&'a ApprovalRequest<'a>) -> BoxFuture<'a, Result<ApprovalResponse, Failure>>
            + Send
            + Sync
            + 'static,
    {
        fn name(&self) -> &str {
            &self.0
        }

        fn ask<'a>(
            &'a self,
            question: &'a ApprovalRequest<'a>,
        ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
            (self.1)(question)
        }
    }

    Function(name.into(), ask)
}
