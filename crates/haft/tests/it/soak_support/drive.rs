//! Submits random calls, stops some of them, and checks every result.
//!
//! Several runs are concurrent, each turn by turn. A turn has up to twenty calls. Some turns are
//! interrupted, some are stopped by force, some are dropped while they run; some runs are
//! cancelled. One event subscriber is too slow on purpose.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::{Either, select};
use haft::{
    Config, Run, Runtime, ToolCall, ToolResult,
    artifacts::{ArtifactLimits, Artifacts},
    events::{EventStream, StreamItem},
    hooks::Hook,
    host::Breaker,
    middleware::middleware_fn,
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
};
use serde_json::json;
use tokio::{sync::Notify, task::JoinSet};

use super::{
    chance::Chance,
    ledger::{Ledger, Reader, lock},
    tools,
};

/// The number of concurrent runs.
const CONCURRENT_RUNS: u64 = 6;
/// The maximum number of calls of one turn.
const MAX_TURN_CALLS: u64 = 20;
/// The artifact quota in bytes.
pub(crate) const MAX_ARTIFACT_BYTES: u64 = 2 << 20;

/// The plan of one soak.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) calls: u64,
    pub(crate) seed: u64,
    /// The artifact directory.
    pub(crate) directory: PathBuf,
}

/// The outcome of a soak.
#[derive(Debug)]
pub(crate) struct Report {
    /// Calls that were submitted and calls that ended, nested ones included.
    pub(crate) asked: u64,
    pub(crate) ended: u64,
    /// Results by code; `ok` for a success.
    pub(crate) answers: BTreeMap<String, u64>,
    /// Background results, events read, events missed.
    pub(crate) late: u64,
    pub(crate) read: u64,
    pub(crate) missed: u64,
    pub(crate) mistakes: Vec<String>,
}

/// Observes every call and changes nothing.
struct Idle;

impl Hook for Idle {
    fn name(&self) -> &str {
        "idle"
    }
}

fn runtime(plan: &Plan, ledger: &Arc<Ledger>) -> Result<Runtime, haft::Error> {
    let rule = |decision, text: &str| {
        let pattern = Pattern::parse(text, &PathBase::default());
        Rule::new(decision, pattern.unwrap_or_else(|e| panic!("{text}: {}", e.message)))
    };
    let rules = vec![
        rule(Decision::Deny, "forbidden"),
        rule(Decision::Allow, "look"),
        rule(Decision::Allow, "change"),
        rule(Decision::Allow, "block"),
        rule(Decision::Allow, "frail"),
        rule(Decision::Allow, "later"),
        rule(Decision::Allow, "check_task"),
        rule(Decision::Allow, "read_result"),
    ];
    let mut config = Config::default();
    // Short, so that bodies that ignore cancellation do not delay the whole.
    config.grace = Duration::from_millis(2);
    // It opens and closes all the time.
    config.breaker = Some(Breaker { failures: 5, cooldown: Duration::from_millis(20) });
    // Small, so that each is full before the memory is measured.
    config.max_cache = 1 << 20;
    config.max_records = 1_000;
    config.max_record_bytes = 1 << 20;
    config.background_ttl = Duration::from_millis(50);
    let limits =
        ArtifactLimits::default().quota(MAX_ARTIFACT_BYTES).expiry(Duration::from_millis(100));
    let through = middleware_fn("through", |_call, next| next.run());
    Runtime::builder()
        .config(config)
        .registry(tools::registry()?)
        .policy(Rules::new(rules, PolicyContext::default())?)
        .hook(Idle)
        .middleware(through)
        .secret("mail", tools::SECRET)
        .artifacts(Artifacts::directory(&plan.directory, limits)?)
        .observer(Reader(Arc::clone(ledger)))
        .build()
}

/// State shared by all runs.
struct Shared {
    runtime: Runtime,
    ledger: Arc<Ledger>,
    /// Submitted calls.
    done: AtomicU64,
    /// Background results.
    late: AtomicU64,
    answers: Mutex<BTreeMap<String, u64>>,
}

/// Runs everything to its end. `step` is called periodically with the calls so far.
pub(crate) async fn soak(plan: &Plan, step: &dyn Fn(u64)) -> Result<Report, haft::Error> {
    let ledger = Arc::new(Ledger::default());
    let runtime = runtime(plan, &ledger)?;
    let stop = Arc::new(Notify::new());
    let mut reader = JoinSet::new();
    reader.spawn(slow(runtime.events(256), Arc::clone(&stop), Arc::clone(&ledger)));
    let shared = Arc::new(Shared {
        runtime,
        ledger,
        done: AtomicU64::new(0),
        late: AtomicU64::new(0),
        answers: Mutex::default(),
    });
    let mut drivers = JoinSet::new();
    for name in 0..CONCURRENT_RUNS {
        // The first one takes the remainder.
        let calls =
            plan.calls / CONCURRENT_RUNS + if name == 0 { plan.calls % CONCURRENT_RUNS } else { 0 };
        let chance = Chance::new(plan.seed.wrapping_add(name << 32));
        let shared = Arc::clone(&shared);
        drivers.spawn(Driver { shared, name, chance, kept: String::new() }.drive(calls));
    }
    while !drivers.is_empty() {
        let now = Box::pin(tokio::time::sleep(Duration::from_millis(5)));
        if let Either::Left((Some(Err(error)), _)) =
            select(Box::pin(drivers.join_next()), now).await
        {
            shared.ledger.mistake(format!("a driver fell over: {error}"));
        }
        step(shared.done.load(Ordering::Relaxed));
    }
    shared.runtime.close().await;
    // Dropped bodies end by themselves, within their timeout and grace period.
    for _ in 0..200 {
        let (asked, ended) = shared.ledger.counts();
        if asked == ended {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.notify_one();
    let (read, missed) = match reader.join_next().await {
        Some(Ok(read)) => read,
        other => {
            shared.ledger.mistake(format!("the reader fell over: {other:?}"));
            (0, 0)
        }
    };
    let (asked, ended) = shared.ledger.counts();
    Ok(Report {
        asked,
        ended,
        answers: lock(&shared.answers).clone(),
        late: shared.late.load(Ordering::Relaxed),
        read,
        missed,
        mistakes: shared.ledger.close(),
    })
}

/// Reads events more slowly than they arrive, until stopped, and then the rest. Each sequence
/// number must come once and in order, as an event or among the missed ones.
async fn slow(mut events: EventStream, stop: Arc<Notify>, ledger: Arc<Ledger>) -> (u64, u64) {
    let (mut read, mut missed, mut last) = (0, 0, 0);
    let mut received = 0_u64;
    let mut hear = |reported: StreamItem| {
        let (from, to) = match &reported {
            StreamItem::Event(event) => (event.at.seq, event.at.seq),
            StreamItem::Lagged(gap) => (gap.from_seq, gap.to_seq),
        };
        if from != last + 1 {
            ledger.mistake(format!("after event {last} came {from}"));
        }
        last = to;
        match reported {
            StreamItem::Event(_) => read += 1,
            StreamItem::Lagged(gap) => missed += gap.count,
        }
    };
    loop {
        match select(Box::pin(events.next()), Box::pin(stop.notified())).await {
            Either::Left((Some(reported), _)) => {
                received += 1;
                hear(reported);
            }
            _ => break,
        }
        // Reads a few, and then pauses for longer than the queue lasts.
        if received.is_multiple_of(32) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    while let Some(reported) = events.try_next() {
        hear(reported);
    }
    (read, missed)
}

/// Runs one run after another.
struct Driver {
    shared: Arc<Shared>,
    name: u64,
    chance: Chance,
    /// The latest artifact of this run.
    kept: String,
}

impl Driver {
    async fn drive(mut self, mut left: u64) {
        let mut turns = 0_u64;
        while left > 0 {
            let session = format!("s{}", self.name);
            let run = self.shared.runtime.run_builder().session(session).start();
            for _ in 0..1 + self.chance.below(100) {
                let count = (1 + self.chance.below(MAX_TURN_CALLS)).min(left);
                if count == 0 {
                    break;
                }
                left -= count;
                turns += 1;
                self.turn(&run, turns, count).await;
                self.shared
                    .late
                    .fetch_add(run.take_background_results().len() as u64, Ordering::Relaxed);
                self.shared.done.fetch_add(count, Ordering::Relaxed);
            }
            if self.chance.once_in(3) {
                run.cancel();
            }
            self.kept.clear();
        }
    }

    async fn turn(&mut self, run: &Run, number: u64, count: u64) {
        let ids: Vec<String> = (0..count).map(|n| format!("{}-{number}-{n}", self.name)).collect();
        let mut calls: Vec<ToolCall> = ids.iter().map(|id| self.call(id)).collect();
        // An interrupt arrives while at least one of them runs.
        let is_stopped = self.chance.once_in(20);
        if is_stopped {
            calls[0] = ToolCall::new(&*ids[0], "look", json!({"how": "hang", "n": number}));
        }
        let turn = match run.turn().await {
            Ok(turn) => turn,
            Err(error) => return self.shared.ledger.mistake(format!("no turn: {error}")),
        };
        ids.iter().for_each(|id| self.shared.ledger.ask(id));
        let control = turn.handle();
        let answered = turn.run(calls);
        if !is_stopped {
            return self.check(&ids, &answered.await);
        }
        let between = Box::pin(tokio::time::sleep(Duration::from_millis(1)));
        match select(Box::pin(answered), between).await {
            Either::Left((answers, _)) => self.check(&ids, &answers),
            Either::Right((_, answered)) => {
                match self.chance.below(4) {
                    0 => control.interrupt(),
                    1 => control.abort(),
                    2 => drop(control.cancel_call(&ids[0])),
                    // Dropped: what runs ends by itself, and its terminal event is emitted.
                    _ => return drop(answered),
                }
                self.check(&ids, &answered.await);
            }
        }
    }

    fn call(&mut self, id: &str) -> ToolCall {
        let n = self.chance.below(10_000);
        let mut at = self.chance.below(10_000);
        let how = tools::BEHAVIOURS.iter().find(|(_, share)| match at.checked_sub(*share) {
            None => true,
            Some(rest) => {
                at = rest;
                false
            }
        });
        let how = how.map_or("plain", |(how, _)| how);
        let arguments = json!({"how": how, "n": n});
        match self.chance.below(2_000) {
            0 => ToolCall::new(id, "block", json!({"millis": n % 10})),
            1..20 => ToolCall::new(id, "later", json!({"n": n})),
            20..30 => ToolCall::new(id, "forbidden", arguments),
            30..40 => ToolCall::new(id, "loook", arguments),
            40..60 => ToolCall::new(id, "look", json!({"how": 5})),
            60..70 => ToolCall::new(id, "look", "{\"how\": \"plain\", \"n\": "),
            70..90 => ToolCall::new(id, "check_task", json!({})),
            90..300 => ToolCall::new(id, "change", arguments),
            300..330 => ToolCall::new(id, "frail", json!({"n": n})),
            330..360 if !self.kept.is_empty() => ToolCall::new(
                id,
                "read_result",
                json!({"id": self.kept, "offset": 1 + n % 900, "limit": 5}),
            ),
            _ => ToolCall::new(id, "look", arguments),
        }
    }

    /// Every call has its result, in order, and no result contains the secret.
    fn check(&mut self, ids: &[String], answers: &[ToolResult]) {
        let same = ids.iter().map(String::as_str).eq(answers.iter().map(|a| a.id().as_str()));
        if !same {
            self.shared.ledger.mistake(format!("{} calls, {} answers", ids.len(), answers.len()));
        }
        let mut counted = lock(&self.shared.answers);
        for answer in answers {
            let shown = answer.model_text();
            if shown.contains(tools::SECRET) || shown.contains('\u{1b}') {
                self.shared
                    .ledger
                    .mistake(format!("{} shows what it must not: {shown}", answer.id()));
            }
            if let Some(id) = answer.truncation().and_then(|cut| cut.artifact) {
                self.kept = id.to_string();
            }
            let code = answer.failure().map_or("ok", |failure| failure.code().as_str());
            match counted.get_mut(code) {
                Some(count) => *count += 1,
                None => drop(counted.insert(code.to_owned(), 1)),
            }
        }
    }
}
