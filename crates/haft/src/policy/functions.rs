//! Guards and approvers made from functions, and shared ones behind an `Arc`.

use std::sync::Arc;

use haft_core::{BoxFuture, Failure, Verdict};

use super::{ApprovalRequest, ApprovalResponse, Approver, Guard};
use crate::turn::ValidatedCall;

impl<G: Guard + ?Sized> Guard for Arc<G> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn judge<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        (**self).judge(call)
    }
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

/// Makes a guard from a function that decides at once. `None` means no opinion.
///
/// ```
/// use haft::policy::{Verdict, guard_fn};
///
/// let quiet = guard_fn("no deletes", |call| {
///     let deletes = call.tool().name().as_str().starts_with("delete_");
///     Ok(deletes.then(|| Verdict::deny("this agent deletes nothing")))
/// });
/// # let _ = haft::Runtime::builder().guard(quiet);
/// ```
pub fn guard_fn<F>(name: impl Into<String>, judge: F) -> impl Guard
where
    F: Fn(&ValidatedCall) -> Result<Option<Verdict>, Failure> + Send + Sync + 'static,
{
    struct Function<F>(String, F);

    impl<F> Guard for Function<F>
    where
        F: Fn(&ValidatedCall) -> Result<Option<Verdict>, Failure> + Send + Sync + 'static,
    {
        fn name(&self) -> &str {
            &self.0
        }

        fn judge<'a>(
            &'a self,
            call: &'a ValidatedCall,
        ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
            Box::pin(std::future::ready((self.1)(call)))
        }
    }

    Function(name.into(), judge)
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
