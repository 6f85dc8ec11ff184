//! The approval queue: asks one or more approvers and takes the first valid answer.
//!
//! In: an `ApprovalRequest`. Out: the answer and who gave it. The queue limits concurrent requests,
//! notifies approvers that are no longer needed, remembers what was allowed for a session, and
//! limits the rate of requests. It decides nothing: the authorization step applies the answer to
//! the call.
//!
//! INVARIANT: a request has at most one answer, and an answer that does not match it counts as
//! none.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use haft_core::{Decision, Failure, FailureCode, Scope, ToolName, sync::lock};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{ApprovalRequest, ApprovalResponse, ApprovalScope, Approver, GrantStore};
use crate::{
    config::Config,
    host_code::{caught, panic_message},
};

/// Asks approvers, and limits how many requests are open.
pub(crate) struct ApprovalQueue {
    approvers: Vec<Box<dyn Approver>>,
    pub(crate) grants: Arc<GrantStore>,
    /// Permits for open requests; further requests wait.
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_waiting: usize,
    /// By session and user.
    sessions: Mutex<BoundedMap<SessionKey, Arc<Session>>>,
}

type SessionKey = (String, Option<String>);

/// The permit to ask.
pub(crate) struct QueuePermit {
    _permit: OwnedSemaphorePermit,
    /// Whether the permit had to be waited for, so that the state may have changed.
    pub(crate) waited: bool,
}

/// A valid answer, and who gave it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) by: Arc<str>,
    pub(crate) answer: ApprovalResponse,
    /// Whether a person gave it.
    pub(crate) is_person: bool,
}

impl ApprovalQueue {
    pub(crate) fn new(
        approvers: Vec<Box<dyn Approver>>,
        grants: Arc<GrantStore>,
        config: &Config,
    ) -> Self {
        Self {
            approvers,
            grants,
            permits: Arc::new(Semaphore::new(config.prompts_at_once.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            max_waiting: config.max_waiting_prompts,
            sessions: Mutex::new(BoundedMap::new(MAX_SESSIONS)),
        }
    }

    /// Returns whether there is an approver.
    pub(crate) fn has_approver(&self) -> bool {
        !self.approvers.is_empty()
    }

    /// Returns how many calls are waiting.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for a permit; `None` if the queue is full. Dropping the future leaves the queue.
    pub(crate) async fn permit(&self) -> Option<QueuePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(QueuePermit { _permit: permit, waited: false });
        }
        let _place = QueuePlace::join(&self.waiting, self.max_waiting)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        Some(QueuePermit { _permit: permit, waited: true })
    }

    /// Asks all approvers at once. The first valid answer counts, and the other approvers are
    /// notified. An approver that fails, or whose answer does not match the request, is skipped. If
    /// all are skipped, the last error is returned.
    pub(crate) async fn ask(&self, question: &ApprovalRequest<'_>) -> Result<Answered, Failure> {
        let mut open: FuturesUnordered<_> = self
            .approvers
            .iter()
            .enumerate()
            .map(|(at, approver)| {
                // Creating the future runs the approver's code too, so it happens inside
                // `catch_unwind`.
                let asking = AssertUnwindSafe(async { approver.ask(question).await });
                asking.catch_unwind().map(move |answered| (at, answered))
            })
            .collect();
        let mut broken = Vec::new();
        let mut trouble = Failure::new(FailureCode::GuardFailed, APPROVAL_FAILED);
        while let Some((at, answered)) = open.next().await {
            let name = name(&*self.approvers[at]);
            let out = match answered {
                Ok(Ok(answer)) => match fits(question, &answer, &self.grants) {
                    Ok(()) => {
                        // Dropping the future runs the approver's code as well.
                        let _ = caught(|| drop(open));
                        self.close(question, at, &broken, &name);
                        let is_person = caught(|| self.approvers[at].is_person()).unwrap_or(true);
                        return Ok(Answered { by: name, answer, is_person });
                    }
                    Err(misfit) => misfit,
                },
                Ok(Err(failure)) => {
                    broken.push(at);
                    match failure.code() {
                        FailureCode::NeedsInteraction => {
                            AnswerError::CannotAsk(failure.message().to_owned())
                        }
                        _ => AnswerError::Broken(failure.to_string()),
                    }
                }
                Err(panic) => {
                    broken.push(at);
                    AnswerError::Broken(format!("it panicked: {}", panic_message(panic)))
                }
            };
            trouble = out.failure(&name, trouble.cause());
        }
        Err(trouble)
    }

    fn close(&self, question: &ApprovalRequest<'_>, winner: usize, broken: &[usize], by: &str) {
        for (at, approver) in self.approvers.iter().enumerate() {
            if at != winner && !broken.contains(&at) {
                let _ = caught(|| approver.closed(question, by));
            }
        }
    }

    /// Returns what was allowed for the session of a run. A run without a session gets an empty
    /// one.
    pub(crate) fn session(&self, scope: &Scope) -> Arc<Session> {
        let Some(session) = &scope.session else { return Arc::default() };
        let key = (session.clone(), scope.user.clone());
        lock(&self.sessions).get_or(key, Arc::default)
    }
}

/// What a model can do if no person can be asked.
const NOT_ASKED: &str = "continue without it, or report to the user what you would have done";
const APPROVAL_FAILED: &str = "the approval failed, so this call is not allowed";

/// Maximum number of remembered sessions. A forgotten one is asked again.
const MAX_SESSIONS: usize = 1_000;
/// Maximum number of remembered calls for each session.
const MAX_CALLS_PER_SESSION: usize = 1_000;

/// The name is only for records; an approver that panics here gets a generic name.
fn name(approver: &dyn Approver) -> Arc<str> {
    caught(|| Arc::from(approver.name())).unwrap_or_else(|_| Arc::from("an approver"))
}

/// Why an answer is rejected.
enum AnswerError {
    /// It does not match this request.
    Wrong(String),
    /// It changes the arguments into something the tool does not accept.
    Unusable,
    /// There is no answer.
    Broken(String),
    /// The approver cannot ask a person about this call.
    CannotAsk(String),
}

impl AnswerError {
    fn failure(self, who: &str, before: Option<String>) -> Failure {
        let (failure, why) = match self {
            Self::Wrong(why) | Self::Broken(why) => {
                (Failure::new(FailureCode::GuardFailed, APPROVAL_FAILED), why)
            }
            Self::CannotAsk(why) => {
                let failure = Failure::new(FailureCode::NeedsInteraction, why.as_str());
                (failure.with_next(NOT_ASKED), why)
            }
            Self::Unusable => (
                Failure::new(
                    FailureCode::Declined,
                    "the approver changed the arguments, and the tool does not accept the changed \
                     ones",
                ),
                "the arguments do not match the schema".to_owned(),
            ),
        };
        failure.with_source(match before {
            Some(before) => format!("{before}; {who}: {why}"),
            None => format!("{who}: {why}"),
        })
    }
}

/// Checks that an answer matches the request.
fn fits(
    question: &ApprovalRequest<'_>,
    answer: &ApprovalResponse,
    grants: &GrantStore,
) -> Result<(), AnswerError> {
    let wrong = |why: &str| Err(AnswerError::Wrong(why.to_owned()));
    let is_need = matches!(question.verdict.decision, Decision::NeedInput(_));
    match answer {
        // An allow does not supply the requested argument, and an input does not allow.
        ApprovalResponse::Allow { .. } | ApprovalResponse::Grant(_) if is_need => {
            wrong("the answer does not match the request: an argument was requested")
        }
        ApprovalResponse::Allow { scope: lasting, .. } => may_last(question, *lasting),
        ApprovalResponse::Grant(token) => match grants.look(token, question.binding) {
            Ok(lasting) => may_last(question, lasting),
            Err(refusal) => Err(AnswerError::Wrong(format!("the grant is invalid: {refusal}"))),
        },
        ApprovalResponse::Input(value) => match input(question, value) {
            Some(arguments) => takes(question, &arguments),
            None => wrong("the answer does not match the request: no argument was requested"),
        },
        ApprovalResponse::Edit(arguments) => takes(question, arguments),
        ApprovalResponse::ReplaceResult(_) | ApprovalResponse::Deny(_) => Ok(()),
    }
}

fn may_last(question: &ApprovalRequest<'_>, lasting: ApprovalScope) -> Result<(), AnswerError> {
    match lasting {
        ApprovalScope::Session if !question.session => Err(AnswerError::Wrong(
            "the run has no session that the approval could apply to".to_owned(),
        )),
        ApprovalScope::Always if question.offer.is_none() => {
            Err(AnswerError::Wrong("there is no suggested rule to save".to_owned()))
        }
        ApprovalScope::AlwaysInDirectory if question.directory_offer.is_none() => {
            Err(AnswerError::Wrong("there is no suggested rule for a directory".to_owned()))
        }
        _ => Ok(()),
    }
}

/// The arguments together with the requested one.
fn input(question: &ApprovalRequest<'_>, value: &Value) -> Option<Value> {
    let Decision::NeedInput(argument) = &question.verdict.decision else { return None };
    let mut arguments = Value::clone(question.call.arguments());
    arguments.as_object_mut()?.insert(argument.clone(), value.clone());
    Some(arguments)
}

/// Checks that the tool would accept these arguments. They are validated in full before anything
/// runs.
fn takes(question: &ApprovalRequest<'_>, arguments: &Value) -> Result<(), AnswerError> {
    let entry = question.call.tool();
    let Value::Object(map) = arguments else { return Err(AnswerError::Unusable) };
    let mut map = map.clone();
    entry.drop_unknown(&mut map);
    if entry.input().is_valid(&Value::Object(map)) { Ok(()) } else { Err(AnswerError::Unusable) }
}

/// A place in the queue, released on drop.
struct QueuePlace<'a>(&'a AtomicUsize);

impl<'a> QueuePlace<'a> {
    fn join(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let more = |n: usize| (n < most).then_some(n + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(waiting))
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What was allowed for a session, by the digest of the exact request.
pub(crate) struct Session(Mutex<BoundedMap<[u8; 32], Arc<str>>>);

impl Default for Session {
    fn default() -> Self {
        Self(Mutex::new(BoundedMap::new(MAX_CALLS_PER_SESSION)))
    }
}

impl Session {
    /// Returns whether nothing was allowed, which skips the digest.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).map.is_empty()
    }

    /// Returns who allowed this for the session.
    pub(crate) fn allowed_by(&self, what: &[u8; 32]) -> Option<Arc<str>> {
        lock(&self.0).map.get(what).cloned()
    }

    pub(crate) fn allow(&self, what: [u8; 32], by: Arc<str>) {
        lock(&self.0).get_or(what, || by);
    }
}

/// Counts the approval requests of one run, and how often they were declined.
pub(crate) struct PromptLimits {
    /// Whether an answer can apply to more than one call.
    pub(crate) has_more: bool,
    pub(crate) session: Arc<Session>,
    asked: Mutex<VecDeque<Instant>>,
    declined: Mutex<BoundedMap<ToolName, u32>>,
}

/// The window over which requests are counted.
const REQUEST_WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of counted tools.
const MAX_COUNTED_TOOLS: usize = 1_000;

impl PromptLimits {
    pub(crate) fn new(queue: &ApprovalQueue, scope: &Scope, one_shot: bool) -> Self {
        Self {
            has_more: !one_shot || scope.session.is_some(),
            session: queue.session(scope),
            asked: Mutex::default(),
            declined: Mutex::new(BoundedMap::new(MAX_COUNTED_TOOLS)),
        }
    }

    /// Counts a request that is about to be made; returns `false` if there were too many recently.
    pub(crate) fn may_ask(&self, most: usize, now: Instant) -> bool {
        let mut asked = lock(&self.asked);
        while asked
            .front()
            .is_some_and(|first| now.saturating_duration_since(*first) >= REQUEST_WINDOW)
        {
            asked.pop_front();
        }
        let may = asked.len() < most;
        if may {
            asked.push_back(now);
        }
        may
    }

    /// Counts a decline, and returns how many there are in a row.
    pub(crate) fn count_no(&self, tool: &ToolName) -> u32 {
        let mut declined = lock(&self.declined);
        let count = declined.get_or(tool.clone(), || 0).saturating_add(1);
        declined.map.insert(tool.clone(), count);
        count
    }

    /// Resets the count after another answer.
    pub(crate) fn forget_no(&self, tool: &ToolName) {
        if let Some(count) = lock(&self.declined).map.get_mut(tool) {
            *count = 0;
        }
    }

    /// Returns how often in a row a person declined this tool.
    pub(crate) fn noes(&self, tool: &ToolName) -> u32 {
        lock(&self.declined).map.get(tool).copied().unwrap_or(0)
    }
}

/// A map that evicts its oldest entry when it is full.
struct BoundedMap<K, V> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
    most: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> BoundedMap<K, V> {
    fn new(most: usize) -> Self {
        Self { map: HashMap::new(), order: VecDeque::new(), most }
    }

    fn get_or(&mut self, key: K, make: impl FnOnce() -> V) -> V {
        if let Some(value) = self.map.get(&key) {
            return value.clone();
        }
        if self.order.len() >= self.most
            && let Some(first) = self.order.pop_front()
        {
            self.map.remove(&first);
        }
        let value = make();
        self.order.push_back(key.clone());
        self.map.insert(key, value.clone());
        value
    }
}

/// Returns an answer in one or two words, for events and records.
pub(crate) fn in_words(answer: &ApprovalResponse) -> &'static str {
    match answer {
        ApprovalResponse::Allow { scope: ApprovalScope::Once, .. } => "allow",
        ApprovalResponse::Allow { scope: ApprovalScope::Session, .. } => "allow for the session",
        ApprovalResponse::Allow { scope: ApprovalScope::Always, .. } => "allow always",
        ApprovalResponse::Allow { scope: ApprovalScope::AlwaysInDirectory, .. } => {
            "allow always in the directory"
        }
        ApprovalResponse::Grant(_) => "allow by grant",
        ApprovalResponse::Edit(_) => "edit",
        ApprovalResponse::Input(_) => "input",
        ApprovalResponse::ReplaceResult(_) => "answer instead",
        ApprovalResponse::Deny(_) => "deny",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::clock::{Clock as _, ManualClock};

    #[test]
    fn oldest_entry_is_evicted_first() {
        let mut few = BoundedMap::new(2);
        for n in [1, 2, 1, 3] {
            few.get_or(n, || n * 10);
        }
        let kept: HashSet<_> = few.map.keys().copied().collect();
        assert_eq!((kept, few.order.len()), (HashSet::from([2, 3]), 2));
    }

    #[test]
    fn approval_requests_are_rate_limited_per_minute() {
        let queue = ApprovalQueue::new(
            Vec::new(),
            Arc::new(GrantStore::new().unwrap()),
            &Config::default(),
        );
        let run = PromptLimits::new(&queue, &Scope::default(), false);
        let clock = ManualClock::new();
        let may_ask = |most| run.may_ask(most, clock.now());
        assert!(may_ask(2) && may_ask(2));
        assert!(!may_ask(2));
        clock.advance(REQUEST_WINDOW);
        assert!(may_ask(2));
        assert!(!may_ask(0), "none is none");
    }

    #[test]
    fn declines_in_a_row_are_counted() {
        let queue = ApprovalQueue::new(
            Vec::new(),
            Arc::new(GrantStore::new().unwrap()),
            &Config::default(),
        );
        let run = PromptLimits::new(&queue, &Scope::default(), false);
        let tool = ToolName::from("t");
        assert_eq!((run.count_no(&tool), run.count_no(&tool)), (1, 2));
        run.forget_no(&tool);
        assert_eq!((run.noes(&tool), run.count_no(&tool)), (0, 1));
    }

    #[test]
    fn runs_of_one_session_and_user_share_what_was_allowed() {
        let queue = ApprovalQueue::new(
            Vec::new(),
            Arc::new(GrantStore::new().unwrap()),
            &Config::default(),
        );
        let of = |session: Option<&str>, user: Option<&str>| {
            let scope = Scope::from(haft_core::RunScope {
                session: session.map(str::to_owned),
                user: user.map(str::to_owned),
                ..haft_core::RunScope::default()
            });
            queue.session(&scope)
        };
        of(Some("s"), None).allow([1; 32], "alice".into());
        assert_eq!(of(Some("s"), None).allowed_by(&[1; 32]).as_deref(), Some("alice"));
        assert!(of(Some("s"), Some("u")).is_empty());
        assert!(of(Some("other"), None).is_empty());
        of(None, None).allow([1; 32], "alice".into());
        assert!(of(None, None).is_empty(), "runs without a session share nothing");
    }

    #[tokio::test]
    async fn full_queue_refuses_and_dropped_waiters_leave_it() {
        let config = Config { max_waiting_prompts: 1, ..Config::default() };
        let queue = ApprovalQueue::new(Vec::new(), Arc::new(GrantStore::new().unwrap()), &config);
        let first = queue.permit().await.unwrap();
        assert!(!first.waited);
        let mut second = Box::pin(queue.permit());
        assert!(crate::host_code::once(second.as_mut()).await.is_pending());
        assert_eq!(queue.waiting(), 1);
        assert!(queue.permit().await.is_none(), "the line is full");
        drop(second);
        assert_eq!(queue.waiting(), 0);
        let mut third = Box::pin(queue.permit());
        assert!(crate::host_code::once(third.as_mut()).await.is_pending());
        drop(first);
        assert!(third.await.unwrap().waited);
    }
}
