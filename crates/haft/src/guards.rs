//! Ready-made guards: deny all, by tool name, by path, destructive calls, external reviewer.
//!
//! A guard judges and cannot rewrite. Its allow lifts nothing: the strictest verdict wins, so a
//! guard can only restrict. The model gets the reason alone; the pattern or directory that decided
//! is in the source, for people and records.

use std::{fmt, sync::Arc, time::Duration};

use haft_core::{BoxFuture, Capability, Error, Failure, Verdict};
use haft_policy::{NameGlob, PathGuard};
use tokio::sync::Semaphore;

use crate::{
    clock::clock_of,
    host_code::{read_name, within},
    validate::ValidatedCall,
};

/// Decides about calls, with I/O. Added to the runtime, it decides about every call.
///
/// A closure with a typed parameter is a guard that decides at once; [`guard_fn`] gives it a name.
///
/// ```
/// use haft::{policy::Verdict, turn::ValidatedCall};
///
/// let runtime = haft::Runtime::builder().guard(|call: &ValidatedCall| {
///     let deletes = call.tool().name().as_str().starts_with("delete_");
///     Ok(deletes.then(|| Verdict::deny("this agent deletes nothing")))
/// });
/// # let _ = runtime;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a guard",
    label = "not a guard",
    note = "for a closure, write `guard_fn(\"its name\", |call| Ok(None))`, or `|call: &ValidatedCall| Ok(None)` with the type",
    note = "otherwise implement `Guard`"
)]
pub trait Guard: Send + Sync + 'static {
    /// Returns its name, for verdicts and records.
    fn name(&self) -> &str;

    /// Decides about one call. `None` means no opinion, and an error refuses the call.
    fn decide<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>>;
}

impl<G: Guard + ?Sized> Guard for Arc<G> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn decide<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        (**self).decide(call)
    }
}

impl<F> Guard for F
where
    F: Fn(&ValidatedCall) -> Result<Option<Verdict>, Failure> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "a guard function"
    }

    fn decide<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        Box::pin(std::future::ready(self(call)))
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
pub fn guard_fn<F>(name: impl Into<String>, decide: F) -> impl Guard
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

        fn decide<'a>(
            &'a self,
            call: &'a ValidatedCall,
        ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
            Box::pin(std::future::ready((self.1)(call)))
        }
    }

    Function(name.into(), decide)
}

type GuardFuture<'a> = BoxFuture<'a, Result<Option<Verdict>, Failure>>;

fn ready<'a>(verdict: Option<Verdict>) -> GuardFuture<'a> {
    Box::pin(std::future::ready(Ok(verdict)))
}

/// Allows every call, for records. It lifts nothing: a policy's ask stays an ask. To really allow
/// everything, use the policy [`AllowAll`](haft_policy::AllowAll).
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObjection;

impl Guard for NoObjection {
    fn name(&self) -> &str {
        "allow all"
    }

    fn decide<'a>(&'a self, _: &'a ValidatedCall) -> GuardFuture<'a> {
        ready(Some(Verdict::allow("this guard does not object")))
    }
}

/// Refuses every call with a reason.
#[derive(Debug, Clone)]
pub struct DenyAll(String);

impl DenyAll {
    /// Refuses with this reason, which is sent to the model.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl Guard for DenyAll {
    fn name(&self) -> &str {
        "deny all"
    }

    fn decide<'a>(&'a self, _: &'a ValidatedCall) -> GuardFuture<'a> {
        ready(Some(Verdict::deny(self.0.clone())))
    }
}

/// Limits how many calls a guard judges concurrently, in FIFO order. Waiting is part of its answer:
/// a call that waits longer than `policy_timeout` is refused.
#[derive(Debug)]
pub struct ConcurrencyLimit<G> {
    guard: G,
    turns: Semaphore,
}

impl<G: Guard> ConcurrencyLimit<G> {
    /// Judges one call at a time.
    pub fn new(guard: G) -> Self {
        Self::at_a_time(guard, 1)
    }

    /// Judges `calls` calls at a time, at least one.
    pub fn at_a_time(guard: G, calls: usize) -> Self {
        Self { guard, turns: Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS)) }
    }
}

impl<G: Guard> Guard for ConcurrencyLimit<G> {
    fn name(&self) -> &str {
        self.guard.name()
    }

    fn decide<'a>(&'a self, call: &'a ValidatedCall) -> GuardFuture<'a> {
        Box::pin(async move {
            // Fair: FIFO order.
            let _turn = self
                .turns
                .acquire()
                .await
                .map_err(|_| Failure::failed("the limit of concurrent calls is closed"))?;
            self.guard.decide(call).await
        })
    }
}

/// A guard for some tools only: those whose name matches a pattern with `*` and `?`.
#[derive(Debug)]
pub struct ForTools<G> {
    names: NameGlob,
    guard: G,
}

impl<G: Guard> ForTools<G> {
    /// Applies a guard to the tools that match.
    pub fn new(pattern: impl Into<String>, guard: G) -> Self {
        Self { names: NameGlob::new(pattern), guard }
    }
}

impl<G: Guard> Guard for ForTools<G> {
    fn name(&self) -> &str {
        self.guard.name()
    }

    fn decide<'a>(&'a self, call: &'a ValidatedCall) -> GuardFuture<'a> {
        // The alias of a view does not bypass the guard.
        let tool = call.tool();
        if [tool.name(), tool.registered()].iter().any(|n| self.names.matches(n.as_str())) {
            self.guard.decide(call)
        } else {
            ready(None)
        }
    }
}

/// Refuses tools by name. A deny beats an allow; without any allow, everything is allowed that is
/// not denied; with one, only what it matches. Case-sensitive.
#[derive(Debug, Clone, Default)]
pub struct ToolNameGuard {
    allow: Vec<NameGlob>,
    deny: Vec<NameGlob>,
}

impl ToolNameGuard {
    /// Refuses nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows tools that match one of these.
    #[must_use]
    pub fn allow<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.allow.extend(patterns.into_iter().map(NameGlob::new));
        self
    }

    /// Refuses tools that match one of these.
    #[must_use]
    pub fn deny<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.deny.extend(patterns.into_iter().map(NameGlob::new));
        self
    }
}

impl Guard for ToolNameGuard {
    fn name(&self) -> &str {
        "name policy"
    }

    fn decide<'a>(&'a self, call: &'a ValidatedCall) -> GuardFuture<'a> {
        // The alias of a view neither hides a denied tool nor matches an allow.
        let (name, shown) = (call.tool().registered().as_str(), call.tool().name().as_str());
        let denied = self.deny.iter().find(|glob| glob.matches(name) || glob.matches(shown));
        let source = match denied {
            Some(glob) => format!("guard `name policy`: denied by `{}`", glob.as_str()),
            None if self.allow.is_empty() || self.allow.iter().any(|g| g.matches(name)) => {
                return ready(None);
            }
            None => {
                let all: Vec<_> = self.allow.iter().map(NameGlob::as_str).collect();
                format!("guard `name policy`: not among the allowed `{}`", all.join("`, `"))
            }
        };
        ready(Some(Verdict::deny("this tool may not be used here").by(source)))
    }
}

/// Asks about every call that may destroy something. Without an approver, such calls are refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConfirmDestructive;

impl Guard for ConfirmDestructive {
    fn name(&self) -> &str {
        "confirm destructive"
    }

    fn decide<'a>(&'a self, call: &'a ValidatedCall) -> GuardFuture<'a> {
        let declared = call.tool().spec().capabilities;
        let destroys = declared.is_some_and(|all| all.has(Capability::Destructive));
        let ask = destroys || call.profile().may_destroy();
        ready(ask.then(|| Verdict::ask("it may destroy something irrecoverably")))
    }
}

impl Guard for PathGuard {
    fn name(&self) -> &str {
        "path guard"
    }

    fn decide<'a>(&'a self, call: &'a ValidatedCall) -> GuardFuture<'a> {
        Box::pin(async move { Ok(PathGuard::decide(self, &call.policy_request())) })
    }
}

/// A reviewer's opinion of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// No objection. This does not allow the call either.
    Safe,
    /// A person should decide, with the reason.
    Risky(String),
    /// It must not run, with the reason.
    Deny(String),
}

/// Reviews calls: another model, a service, a heuristic.
pub trait Reviewer: Send + Sync + 'static {
    /// Returns its name, for verdicts and records.
    fn name(&self) -> &str;

    /// Reviews one call.
    fn review<'a>(&'a self, call: &'a ValidatedCall) -> BoxFuture<'a, Result<Review, Failure>>;
}

/// A guard that consults a reviewer. The reviewer only advises: safe is no opinion, risky asks,
/// deny refuses. An error, a panic or a timeout counts as risky, never as safe.
pub struct ReviewGuard<R> {
    reviewer: R,
    limit: Duration,
}

/// Shorter than the timeout of a guard, so that a slow reviewer leads to an ask, not a refusal.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum characters that are kept of a reviewer's reason.
const MAX_REASON_CHARS: usize = 500;

impl<R: Reviewer> ReviewGuard<R> {
    /// Uses a reviewer with a timeout of twenty seconds.
    pub fn new(reviewer: R) -> Self {
        Self { reviewer, limit: REVIEW_TIMEOUT }
    }

    /// Sets the reviewer's timeout. Beyond `policy_timeout` the guard itself times out, and then
    /// the call is refused.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

impl<R: Reviewer> Guard for ReviewGuard<R> {
    fn name(&self) -> &str {
        self.reviewer.name()
    }

    fn decide<'a>(&'a self, call: &'a ValidatedCall) -> GuardFuture<'a> {
        Box::pin(async move {
            // Creating the future runs the reviewer's code too, so it happens inside
            // `catch_unwind`.
            let clock = clock_of(call.context());
            let review = async { self.reviewer.review(call).await };
            let reviewed = within(&*clock, self.limit, review).await;
            let trouble = match reviewed {
                Ok(Ok(Review::Safe)) => return Ok(None),
                Ok(Ok(Review::Risky(why))) => return Ok(Some(Verdict::ask(bounded(&why)))),
                Ok(Ok(Review::Deny(why))) => return Ok(Some(Verdict::deny(bounded(&why)))),
                Ok(Err(failure)) => failure.to_string(),
                Err(stopped) => stopped.to_string(),
            };
            let source = format!("guard `{}`: {trouble}", self.reviewer.name());
            Ok(Some(Verdict::ask("the review failed, so the call counts as risky").by(source)))
        })
    }
}

fn bounded(why: &str) -> String {
    why.chars().take(MAX_REASON_CHARS).collect()
}

impl<R: Reviewer> fmt::Debug for ReviewGuard<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReviewGuard")
            .field("reviewer", &self.reviewer.name())
            .field("limit", &self.limit)
            .finish()
    }
}

/// A guard with its name.
pub(crate) struct NamedGuard {
    name: String,
    guard: Box<dyn Guard>,
}

impl NamedGuard {
    /// Reads the guard's name.
    pub(crate) fn new(guard: Box<dyn Guard>) -> Result<Self, Error> {
        Ok(Self { name: read_name("guard", || guard.name().to_owned())?, guard })
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs the guard.
    pub(crate) fn decide<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        self.guard.decide(call)
    }
}
