//! Middleware: code of the host around whole calls. It may skip the call, or wrap or replace the
//! outcome.
//!
//! A middleware sees the call as it was authorized and cannot change its arguments. `Next` is
//! consumed by running it, so that a body runs at most once per authorization. Each middleware has
//! its own timeout, paused while the inner layers run. A panic becomes a `hook_failed` failure.
//!
//! INVARIANT: inner work that a middleware abandons is cancelled and ends before the call gets its
//! result; and a middleware cannot change whether the body ran.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
    time::Duration,
};

use haft_core::{
    Args, BoxFuture, Error, ErrorKind, Execution, Failure, FailureCode, Output, host::HostContext,
    sync::lock,
};
use haft_policy::NameGlob;

use super::{
    ExecuteMachine, ExecutionStats, Outcome, Pending, Work,
    middleware_timeout::{Said, watched},
    next::{Frame, Going, Passed},
    poll_execution,
};
use crate::{
    call::AuthorizedCall,
    host_code::{caught, panic_message},
    registry::RegisteredTool,
};

/// Code around whole calls.
///
/// ```
/// use haft::{BoxFuture, Output};
/// use haft::middleware::{Middleware, Next, Outcome};
/// use haft::turn::AuthorizedCall;
///
/// /// Answers for the tool while it is being moved.
/// struct Maintenance;
///
/// impl Middleware for Maintenance {
///     fn name(&self) -> &str {
///         "maintenance"
///     }
///
///     fn call<'a>(&'a self, call: &'a AuthorizedCall, next: Next<'a>) -> BoxFuture<'a, Outcome> {
///         Box::pin(async move {
///             match call.validated().arguments().get("region").and_then(|r| r.as_str()) {
///                 Some("north") => Ok(Output::text("north is being moved; ask again tomorrow")),
///                 _ => next.run().await,
///             }
///         })
///     }
/// }
/// ```
pub trait Middleware: Send + Sync + 'static {
    /// Returns its name, for people. Names are unique in a runtime.
    fn name(&self) -> &str;

    /// Returns its timeout, without the time of the inner layers; `None` for the runtime's
    /// `policy_timeout`.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Runs the call with `next`, or answers it.
    fn call<'a>(&'a self, call: &'a AuthorizedCall, next: Next<'a>) -> BoxFuture<'a, Outcome>;
}

/// Makes a middleware from a function.
///
/// ```
/// use haft::Output;
/// use haft::middleware::middleware_fn;
///
/// let shouts = middleware_fn("shouts", |_call, next| {
///     Box::pin(async move {
///         let output = next.run().await?;
///         Ok(Output::text(output.as_text().to_uppercase()))
///     })
/// });
/// # let _ = haft::Runtime::builder().middleware(shouts);
/// ```
pub fn middleware_fn<F>(name: impl Into<String>, call: F) -> impl Middleware
where
    F: for<'a> Fn(&'a AuthorizedCall, Next<'a>) -> BoxFuture<'a, Outcome> + Send + Sync + 'static,
{
    struct Function<F>(String, F);

    impl<F> Middleware for Function<F>
    where
        F: for<'a> Fn(&'a AuthorizedCall, Next<'a>) -> BoxFuture<'a, Outcome>
            + Send
            + Sync
            + 'static,
    {
        fn name(&self) -> &str {
            &self.0
        }

        fn call<'a>(&'a self, call: &'a AuthorizedCall, next: Next<'a>) -> BoxFuture<'a, Outcome> {
            (self.1)(call, next)
        }
    }

    Function(name.into(), call)
}

/// A middleware that was handed to the builder, and the tools it was added for.
pub(crate) struct AroundPlace {
    pub(crate) middleware: Box<dyn Middleware>,
    /// A glob over names; nothing means all tools.
    pub(crate) tools: Option<String>,
}

/// A middleware in its place.
pub(crate) struct Around {
    name: Box<str>,
    limit: Duration,
    tools: Option<NameGlob>,
    middleware: Box<dyn Middleware>,
}

impl Around {
    /// Asks every middleware who it is. A name is asked for once, under a watch.
    pub(crate) fn seat(places: Vec<AroundPlace>, limit: Duration) -> Result<Vec<Self>, Error> {
        let mut all: Vec<Self> = Vec::with_capacity(places.len());
        for place in places {
            let own = Self::new(place, limit)?;
            if all.iter().any(|other| other.name == own.name) {
                return Err(Error::new(
                    ErrorKind::BadConfig,
                    format!("two middleware are called `{}`", own.name),
                )
                .hint("each middleware needs a unique name"));
            }
            all.push(own);
        }
        Ok(all)
    }

    fn new(place: AroundPlace, limit: Duration) -> Result<Self, Error> {
        let AroundPlace { middleware, tools } = place;
        let bad = |why: String| Error::new(ErrorKind::BadConfig, why);
        let asked = caught(|| (middleware.name().to_owned(), middleware.timeout()));
        let (name, own) = asked.map_err(|panic| {
            bad(format!("a middleware panicked in `name` or `timeout`: {panic}"))
                .hint("`name` and `timeout` must only return a value")
        })?;
        if name.trim().is_empty() {
            return Err(bad("a middleware has no name".to_owned())
                .hint("each middleware needs a unique name"));
        }
        if own.is_some_and(|own| own.is_zero()) {
            return Err(bad(format!(
                "a timeout of zero would let middleware `{name}` stop every call"
            )));
        }
        let (limit, tools) = (own.unwrap_or(limit), tools.map(NameGlob::new));
        Ok(Self { name: name.into(), limit, tools, middleware })
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it wraps calls of this tool. Renaming the tool in a view does not evade it.
    pub(crate) fn applies_to(&self, tool: &RegisteredTool) -> bool {
        let Some(tools) = &self.tools else { return true };
        tools.matches(tool.name().as_str()) || tools.matches(tool.registered().as_str())
    }
}

/// The inner layers, up to the body.
#[must_use = "the body runs only when this is run"]
pub struct Next<'a> {
    rest: &'a [Around],
    trail: &'a Trail<'a>,
    first: Args,
    frame: Arc<Frame<'a>>,
}

impl<'a> Next<'a> {
    /// Runs the inner layers. If the future is dropped before its end, the body is cancelled, and
    /// ends before the call gets its result.
    pub fn run(self) -> BoxFuture<'a, Outcome> {
        let way = level(self.rest, self.trail, self.first);
        Box::pin(Going::new(way, self.frame, self.trail.work))
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("further", &self.rest.len()).finish_non_exhaustive()
    }
}

/// What all middleware of one call share.
struct Trail<'a> {
    work: &'a Work<'a>,
    course: Mutex<ExecutionStats>,
}

impl Trail<'_> {
    fn course(&self) -> MutexGuard<'_, ExecutionStats> {
        lock(&self.course)
    }
}

/// Runs a call through all middleware of its tool.
pub(crate) async fn around(work: &Work<'_>, first: Args, course: &mut ExecutionStats) -> Outcome {
    let trail = Trail { work, course: Mutex::new(std::mem::take(course)) };
    let outcome = level(&work.turn.run.inner.middleware, &trail, first).await;
    *course = std::mem::take(&mut *trail.course());
    outcome
}

/// Goes on to the next middleware, or to the body behind the last.
fn level<'a>(around: &'a [Around], trail: &'a Trail<'a>, first: Args) -> BoxFuture<'a, Outcome> {
    let mut rest = around;
    while let Some((own, further)) = rest.split_first() {
        if own.applies_to(trail.work.entry) {
            return Box::pin(run_one(own, further, trail, first));
        }
        rest = further;
    }
    Box::pin(innermost(trail, first))
}

/// Goes on to everything inside the middleware. The statistics are written back on every path.
fn innermost<'a>(trail: &'a Trail<'a>, first: Args) -> Innermost<'a> {
    let machine = ExecuteMachine::new(first, std::mem::take(&mut *trail.course()));
    Innermost { trail, machine, pending: Pending::default() }
}

/// The execution inside all middleware.
struct Innermost<'a> {
    trail: &'a Trail<'a>,
    machine: ExecuteMachine,
    pending: Pending,
}

impl Future for Innermost<'_> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.get_mut();
        poll_execution(this.trail.work, &mut this.machine, &mut this.pending, task)
    }
}

impl Drop for Innermost<'_> {
    fn drop(&mut self) {
        *self.trail.course() = std::mem::take(&mut self.machine.stats);
    }
}

/// Runs one middleware, and finds out whether the body ran inside it.
async fn run_one<'a>(
    own: &'a Around,
    rest: &'a [Around],
    trail: &'a Trail<'a>,
    first: Args,
) -> Outcome {
    let work = trail.work;
    let frame = Arc::new(Frame::new(work.turn.run.inner.clock.now()));
    let next = Next { rest, trail, first, frame: Arc::clone(&frame) };
    // Making the future runs the host's code too, so it happens under the watch.
    let call = async { own.middleware.call(work.permitted, next).await };
    let returned = watched(work, &frame, own.limit, call).await;
    // It stopped waiting for the body. The body is cancelled, and its end is awaited here.
    if let Some(left) = frame.take_left() {
        let ended = left.await;
        frame.pass(Passed::of(&ended));
    }
    let passed = frame.passed();
    let attempts = trail.course().attempts;
    let ran = match passed {
        _ if attempts == 0 => Execution::NotStarted,
        Passed::Failure(_, Execution::Unknown) => Execution::Unknown,
        _ => Execution::Completed,
    };
    let outcome = match returned {
        Said::Ended(Ok(outcome)) if passed.is(&outcome) => return outcome,
        Said::Ended(Ok(outcome)) => outcome.map_err(|failure| failure.with_execution(ran)),
        Said::Ended(Err(panic)) => {
            Err(broken(own, ran, &format!("it panicked: {}", panic_message(panic))))
        }
        Said::Late => Err(broken(own, ran, &format!("no answer within {:?}", own.limit))),
        Said::Stopped(stop) => Err(stop.with_execution(ran)),
    };
    trail.course().answered_by = Some(own.name.clone());
    still_open(work, outcome)
}

/// Refuses the answer of a middleware while the body is still running.
fn still_open(work: &Work<'_>, outcome: Outcome) -> Outcome {
    let output: Output = outcome?;
    if !work.cx.has_running_work() {
        return Ok(output);
    }
    Err(Failure::new(
        FailureCode::UnknownOutcome,
        "the tool did not stop when it was cancelled, and may still be running",
    )
    .with_next("check what happened before you call it again"))
}

/// The failure of a call whose middleware could not do its work.
fn broken(own: &Around, ran: Execution, why: &str) -> Failure {
    let message = match ran {
        Execution::NotStarted => "a middleware of the host failed; the tool was not run",
        Execution::Completed | Execution::Unknown => {
            "the tool ran, but code of the host failed afterwards, so its result is not available"
        }
    };
    Failure::new(FailureCode::HookFailed, message)
        .with_execution(ran)
        .with_source(format!("middleware `{}`: {why}", own.name))
}
