//! Drives call machines by hand, without tokio: every need is answered in every way, calls
//! interleave in every order, and the process crashes or the turn is parked at every step.
//!
//! A run is a sequence of choices. `explore` enumerates all sequences depth first: it replays a
//! prefix, takes the first option afterwards, and then changes the last choice that has another
//! option. The invariants are checked after every step.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    task::{self, Poll, Waker},
};

use futures_util::FutureExt as _;
use haft_core::{
    BoxFuture, Capabilities, ConcurrencyClass, DynTool, Failure, FailureCode, Output, StopReason,
    ToolCall, ToolContext, ToolSpec, Verdict, host::HostContext,
};
use haft_policy::{Budget, Policy, PolicyRequest};
use proptest::prelude::*;
use serde_json::json;

use super::{
    acquire,
    machine::{CallMachine, Restored, restore},
    record::Parent,
    step::{Input, Need, Step},
};
use crate::{
    approval::{Answered, ApprovalResponse},
    call::TurnCore,
    clock::ManualClock,
    event::Event,
    hooks::{Hook, PostCallResult, PreCallDecision},
    host_code::Stopped,
    journal::{CallIntent, CallOutcome, Journal, WriteStatus},
    registry::ToolRegistry,
    run::Run,
    runtime::Runtime,
    tool_result::BoxedResult,
    turn::validate_call,
};

/// The choices of one run.
struct Choices {
    prefix: Vec<usize>,
    /// Each choice, and how many options there were.
    made: Vec<(usize, usize)>,
}

impl Choices {
    fn choose(&mut self, options: usize) -> usize {
        let at = self.made.len();
        let choice = self.prefix.get(at).copied().unwrap_or(0) % options.max(1);
        self.made.push((choice, options));
        choice
    }

    /// The prefix of the next run; `None` if all were made.
    fn next(mut self) -> Option<Vec<usize>> {
        while let Some((choice, options)) = self.made.pop() {
            if choice + 1 < options {
                let mut prefix: Vec<usize> = self.made.iter().map(|(choice, _)| *choice).collect();
                prefix.push(choice + 1);
                return Some(prefix);
            }
        }
        None
    }
}

/// What happened, for the invariants.
#[derive(Default)]
struct Seen {
    permitted: HashSet<String>,
    finished: HashMap<String, usize>,
    /// Calls whose intent is in the journal.
    intended: HashSet<String>,
    bodies: Vec<String>,
    approvals: usize,
    /// What the next bodies do.
    body: usize,
}

type Shared = Arc<Mutex<Seen>>;

fn lock(seen: &Shared) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap()
}

struct Asks(bool);

impl Policy for Asks {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        if self.0 { Verdict::ask("the model test asks") } else { Verdict::allow("allowed") }
    }
}

/// A journal of the host: each write is a need of the machine.
struct HostJournal;

impl Journal for HostJournal {
    fn intend(&self, _: &CallIntent<'_>) -> WriteStatus {
        WriteStatus::Now(Ok(()))
    }

    fn settle(&self, _: &CallOutcome<'_>) -> WriteStatus {
        WriteStatus::Now(Ok(()))
    }
}

struct Nothing;

impl Hook for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
}

/// Which parts a world has.
#[derive(Clone, Copy, Debug)]
struct Parts {
    asks: bool,
    hooks: bool,
    /// Whether failures, panics, timeouts and cancellations are among the options.
    faults: bool,
    class: ConcurrencyClass,
    /// Whether the first call makes a nested call while it executes.
    nests: bool,
    disturbance: Disturbance,
}

/// What happens once, at any step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Disturbance {
    None,
    /// The process ends; only the journal is left.
    Crash,
    /// The turn is parked, and another turn finishes it.
    Park,
}

const BUDGET: u64 = 10;

struct World {
    runtime: Runtime,
    /// Only to take snapshots: the machines are driven outside of it.
    tokio: tokio::runtime::Runtime,
    clock: ManualClock,
    run: Run,
    turn: Arc<TurnCore>,
    seen: Shared,
    parts: Parts,
    /// How many bodies ran in a process that crashed: its budget is gone with it.
    before_crash: usize,
}

impl World {
    fn new(parts: Parts) -> Self {
        let seen = Shared::default();
        let log = Arc::clone(&seen);
        let body = move |_, cx: ToolContext| {
            let kind = {
                let mut seen = lock(&log);
                seen.bodies.push(cx.call_id().to_string());
                seen.body
            };
            async move {
                match kind {
                    0 => Ok("done"),
                    1 => Err(Failure::failed("no luck")),
                    _ => panic!("on purpose"),
                }
            }
        };
        let spec =
            ToolSpec::new("act", "Acts.").class(parts.class).capabilities(Capabilities::NONE);
        let schema = json!({"properties": {"n": {"type": "integer"}}});
        let mut tool = DynTool::new(spec, schema, body);
        if parts.hooks {
            tool = tool.with_check(|_, _| Box::pin(async { Ok(()) }));
            tool = tool.with_guard(|_, _| Ok(None));
        }
        let log = Arc::clone(&seen);
        let clock = ManualClock::new();
        let mut builder = Runtime::builder()
            .registry(ToolRegistry::builder().add(vec![tool]).build().unwrap())
            .policy(Asks(parts.asks))
            .approver(crate::approval::approver_fn("person", |_| {
                Box::pin(async { Ok(ApprovalResponse::allow()) })
            }))
            .clock(clock.clone())
            .journal(HostJournal)
            .budget(Budget { calls: Some(BUDGET), ..Budget::default() })
            .observer(move |event: &Event| match event {
                Event::Authorized { call, .. } => {
                    lock(&log).permitted.insert(call.to_string());
                }
                Event::Finished { call, .. } => {
                    *lock(&log).finished.entry(call.to_string()).or_default() += 1;
                }
                _ => {}
            });
        if parts.hooks {
            builder = builder.hook(Nothing);
        }
        let runtime = builder.build().unwrap();
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let run = runtime.run();
        let turn = turn(&tokio, &run);
        Self { runtime, tokio, clock, run, turn, seen, parts, before_crash: 0 }
    }

    /// Starts another run.
    fn reset(&mut self) {
        *lock(&self.seen) = Seen::default();
        self.before_crash = 0;
        // What was parked and approved in earlier runs has expired, and is forgotten.
        self.clock.advance(std::time::Duration::from_secs(8 * 86_400));
        self.run = self.runtime.run();
        self.turn = turn(&self.tokio, &self.run);
    }

    /// The process ends. What the journal says decides about each call: one without an intent has
    /// not started, and is made again; the outcome of any other is unknown.
    fn crash(&mut self, calls: &mut Vec<Driven>) {
        let open: Vec<Driven> = calls.extract_if(.., |call| call.result.is_none()).collect();
        let ids: Vec<(String, bool)> =
            open.iter().map(|call| (call.id.clone(), call.is_nested())).collect();
        drop(open);
        self.run = self.runtime.run();
        self.turn = turn(&self.tokio, &self.run);
        let seen = lock(&self.seen);
        self.before_crash = seen.bodies.len();
        let not_started: Vec<String> = ids
            .into_iter()
            // The caller of a nested call has an intent, so its outcome is unknown as a whole.
            .filter(|(id, is_nested)| !is_nested && !seen.intended.contains(id))
            .map(|(id, _)| id)
            .collect();
        drop(seen);
        calls.extend(not_started.iter().map(|id| self.call(id, None)));
    }

    /// Finishes the calls that were parked in another turn of the run. Each is written and read.
    fn resume(&mut self, calls: &mut Vec<Driven>) {
        let is_parked =
            |call: &mut Driven| call.result.as_ref().is_some_and(|r| r.parked().is_some());
        let parked: Vec<Driven> = calls.extract_if(.., is_parked).collect();
        self.turn = turn(&self.tokio, &self.run);
        for call in parked {
            let saved = call.result.as_ref().and_then(|result| result.parked()).unwrap();
            let saved = serde_json::from_str(&serde_json::to_string(saved).unwrap()).unwrap();
            let Restored { cx, call: mut restored, resume, .. } = restore(&self.turn, saved);
            assert!(restored.is_ok(), "{:?}", restored.err());
            self.turn.register(&cx);
            let reservation = self.turn.reserve_budget(&mut restored, Some(1));
            let mut machine = CallMachine::new(&self.turn, restored, cx.clone(), None, reservation);
            machine.set_resume(resume);
            let at = At::Input(Input::Start);
            calls.push(Driven { id: call.id.clone(), cx, machine, at, result: None });
        }
    }

    fn call(&self, id: &str, parent: Option<Arc<Parent>>) -> Driven {
        let mut call = ToolCall::new(id, "act", json!({"n": 1}));
        let (cx, mut validated) = validate_call(&self.turn, &mut call);
        self.turn.register(&cx);
        let reservation = self.turn.reserve_budget(&mut validated, Some(1));
        let machine = CallMachine::new(&self.turn, validated, cx.clone(), parent, reservation);
        Driven { id: id.to_owned(), cx, machine, at: At::Input(Input::Start), result: None }
    }

    fn check(&self, calls: &[Driven]) {
        let seen = lock(&self.seen);
        for id in &seen.bodies {
            assert!(seen.permitted.contains(id), "{id} ran without authorization");
            assert!(seen.intended.contains(id), "{id} ran without an intent");
            assert_eq!(seen.bodies.iter().filter(|b| *b == id).count(), 1, "{id} ran twice");
        }
        if self.parts.asks {
            assert!(seen.bodies.len() <= seen.approvals, "a grant was used twice");
        }
        for call in calls {
            let ends = seen.finished.get(&call.id).copied().unwrap_or_default();
            let has_ended = call.result.as_ref().is_some_and(|result| result.parked().is_none());
            assert_eq!(ends, usize::from(has_ended), "terminal events of {}", call.id);
        }
        let holding = |call: &&Driven| matches!(call.at, At::Execution) && !call.is_nested();
        if self.parts.class != ConcurrencyClass::ReadOnly {
            assert!(calls.iter().filter(holding).count() <= 1, "two exclusive calls run at once");
        }
    }

    /// All calls have ended: the budget is exact.
    fn check_end(&self) {
        let left = self.turn.run.remaining(0, None).calls;
        let ran = lock(&self.seen).bodies.len() - self.before_crash;
        let ran = u64::try_from(ran).unwrap();
        assert_eq!(left, Some(BUDGET - ran), "reserved budget is used or given back");
    }
}

fn turn(tokio: &tokio::runtime::Runtime, run: &Run) -> Arc<TurnCore> {
    let turn = tokio.block_on(run.turn()).unwrap();
    turn.core().end.set(StopReason::Done);
    Arc::clone(turn.core())
}

/// Where a driven call is.
enum At {
    Input(Input),
    Need(Need),
    /// Waits for locks that another call holds.
    Locks(BoxFuture<'static, Input>),
    /// Between the intent and the end of the body.
    Execution,
    Done,
}

struct Driven {
    id: String,
    cx: ToolContext,
    machine: CallMachine,
    at: At,
    result: Option<BoxedResult>,
}

fn poll_now<T>(future: &mut BoxFuture<'static, T>) -> Option<T> {
    match future.as_mut().poll(&mut task::Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

impl Driven {
    fn is_nested(&self) -> bool {
        self.machine.facts().parent().is_some()
    }

    /// Whether it waits for something, and is parked now.
    fn is_to_park(&self, world: &World) -> bool {
        let waits =
            matches!(self.at, At::Locks(_) | At::Need(Need::ApprovalPermit | Need::Approval(_)));
        waits && world.turn.is_parking() && !self.is_nested()
    }

    /// Makes one step. Returns whether the call could move.
    fn step(&mut self, world: &World, choices: &mut Choices) -> bool {
        let is_to_park = self.is_to_park(world);
        let input = match std::mem::replace(&mut self.at, At::Done) {
            At::Done => return false,
            waiting if is_to_park => {
                drop(waiting);
                Input::Stopped(Stopped::Parked)
            }
            At::Input(input) => input,
            At::Locks(mut wait) => match poll_now(&mut wait) {
                Some(input) => input,
                None => {
                    self.at = At::Locks(wait);
                    return false;
                }
            },
            At::Execution => {
                let options = if world.parts.faults { 3 } else { 1 };
                lock(&world.seen).body = choices.choose(options);
                let mut task = task::Context::from_waker(Waker::noop());
                let execution = self.machine.execution_mut().expect("an execution");
                let Some(Poll::Ready(())) = execution.poll(&world.turn, &mut task) else {
                    panic!("the body of this test is ready at once")
                };
                Input::Executed(None)
            }
            At::Need(need) => match self.answer(world, choices, need) {
                Some(input) => input,
                None => return false,
            },
        };
        match self.machine.advance(&world.turn, input) {
            Step::Wait(Need::Execute) => self.at = At::Execution,
            Step::Wait(Need::Acquire(call, deadline)) => {
                let turn = Arc::clone(&world.turn);
                let parent = self.machine.facts().shared_parent();
                self.at = At::Locks(Box::pin(async move {
                    let parent = parent.as_deref();
                    let locks = acquire::acquire(&turn, call.validated(), parent, deadline).await;
                    drop(call);
                    Input::Acquired(Box::new(locks))
                }));
            }
            Step::Wait(need) => self.at = At::Need(need),
            Step::Done(result) => {
                assert!(self.result.replace(result).is_none(), "a second result");
            }
        }
        true
    }

    /// A stop of the current need, or `None` for the ordinary answers.
    fn stopped(&self, world: &World, choices: &mut Choices, cancels: bool) -> Option<Input> {
        if !world.parts.faults {
            return None;
        }
        match choices.choose(if cancels { 4 } else { 3 }) {
            0 => None,
            1 => Some(Input::Stopped(Stopped::Panicked("on purpose".to_owned()))),
            2 => Some(Input::Stopped(Stopped::TimedOut(std::time::Duration::from_secs(1)))),
            _ => {
                self.cx.stop(FailureCode::Cancelled, "cancelled by the test");
                Some(Input::Stopped(Stopped::Cancelled(world.turn.why_stopped(&self.cx))))
            }
        }
    }

    /// Answers a need; `None` if the call stays where it is.
    fn answer(&mut self, world: &World, choices: &mut Choices, need: Need) -> Option<Input> {
        let faults = world.parts.faults;
        let options = |with_faults: usize| if faults { with_faults } else { 1 };
        Some(match need {
            Need::Check(call) => self.stopped(world, choices, true).unwrap_or_else(|| {
                let bad = || Err(Failure::invalid("no"));
                let answer = if choices.choose(options(2)) == 0 { Ok(()) } else { bad() };
                Input::Checked(call, answer)
            }),
            Need::PreHook(call, _) => self.stopped(world, choices, true).unwrap_or_else(|| {
                let answer = match choices.choose(options(4)) {
                    0 => Ok(PreCallDecision::proceed()),
                    1 => Ok(PreCallDecision::rewrite(json!({"n": 2}))),
                    2 => Ok(PreCallDecision::block("blocked")),
                    _ => Err(Failure::failed("broken hook")),
                };
                Input::PreHook(call, Box::new(answer))
            }),
            Need::Guard(call, _) => self.stopped(world, choices, true).unwrap_or_else(|| {
                let answer = match choices.choose(options(3)) {
                    0 => Ok(None),
                    1 => Ok(Some(Verdict::deny("no"))),
                    _ => Err(Failure::failed("broken guard")),
                };
                Input::Guard(call, Box::new(answer))
            }),
            Need::MessageEnd => Input::MessageEnd(StopReason::Done),
            Need::ApprovalPermit => {
                // If an approver is busy with another call, this one waits for its turn.
                let Some(permit) = world.turn.run.inner.approvals.permit().now_or_never() else {
                    self.at = At::Need(Need::ApprovalPermit);
                    return None;
                };
                Input::ApprovalPermit(permit.filter(|_| choices.choose(options(2)) == 0))
            }
            Need::Approval(open) => self.stopped(world, choices, true).unwrap_or_else(|| {
                let answer = match choices.choose(if faults { 5 } else { 2 }) {
                    0 => ApprovalResponse::allow(),
                    1 => ApprovalResponse::Deny(None),
                    2 => ApprovalResponse::Edit(json!({"n": 3})),
                    3 => ApprovalResponse::ReplaceResult("by hand".to_owned()),
                    _ => {
                        drop(open);
                        let failed = Err(Failure::failed("broken approver"));
                        return Input::Answer(Box::new(failed));
                    }
                };
                if matches!(answer, ApprovalResponse::Allow { .. }) {
                    lock(&world.seen).approvals += 1;
                }
                let answered = Answered { by: "person".into(), answer, is_person: true };
                drop(open);
                Input::Answer(Box::new(Ok(answered)))
            }),
            Need::WriteIntent => self.stopped(world, choices, false).unwrap_or_else(|| {
                let result = match choices.choose(options(2)) {
                    0 => {
                        assert!(self.machine.intent(&world.turn).is_some());
                        lock(&world.seen).intended.insert(self.id.clone());
                        Ok(())
                    }
                    _ => Err("disk full".into()),
                };
                Input::IntentWritten { result, took_time: choices.choose(options(2)) == 1 }
            }),
            Need::PostHook(_, _, outcome) => {
                self.stopped(world, choices, false).unwrap_or_else(|| {
                    let outcome = match choices.choose(options(2)) {
                        0 => *outcome,
                        _ => Ok(Output::text("replaced")),
                    };
                    Input::PostHook(Box::new(PostCallResult::from(outcome)))
                })
            }
            Need::WriteOutcome => self.stopped(world, choices, false).unwrap_or_else(|| {
                assert!(self.machine.outcome().is_some());
                Input::OutcomeWritten(match choices.choose(options(2)) {
                    0 => Ok(()),
                    _ => Err("disk full".into()),
                })
            }),
            Need::Explain(failure) => Input::Explained(failure),
            Need::Sanitize(outcome) => Input::Sanitized(outcome, 0),
            Need::Acquire(..) | Need::Execute | Need::Truncate(..) => {
                panic!("answered elsewhere, or the result is small")
            }
        })
    }
}

/// Plays one run. Returns its choices and the number of steps.
fn play(world: &mut World, calls: usize, prefix: Vec<usize>) -> (Choices, usize) {
    let mut choices = Choices { prefix, made: Vec::new() };
    let mut driven: Vec<Driven> = (0..calls).map(|n| world.call(&format!("c{n}"), None)).collect();
    let (mut steps, mut nested) = (0, !world.parts.nests);
    let mut disturbance = world.parts.disturbance;
    loop {
        if driven.iter().all(|call| call.result.is_some()) {
            let is_parked =
                |call: &Driven| call.result.as_ref().is_some_and(|r| r.parked().is_some());
            if !driven.iter().any(is_parked) {
                break;
            }
            world.resume(&mut driven);
        }
        if disturbance != Disturbance::None && choices.choose(2) == 1 {
            match std::mem::replace(&mut disturbance, Disturbance::None) {
                Disturbance::Crash => {
                    nested = true;
                    world.crash(&mut driven);
                    continue;
                }
                _ => world.turn.park(),
            }
        }
        let open: Vec<usize> = (0..driven.len()).filter(|n| driven[*n].result.is_none()).collect();
        // Any call may move next. One that waits for locks is skipped.
        let first = if open.len() == 1 { 0 } else { choices.choose(open.len()) };
        let moved = (0..open.len())
            .any(|n| driven[open[(first + n) % open.len()]].step(world, &mut choices));
        assert!(moved, "calls wait for each other (deadlock)");
        steps += 1;
        world.check(&driven);
        if !nested && matches!(driven[0].at, At::Execution) {
            nested = true;
            let cx = driven[0].cx.clone();
            let profile = cx.profile().cloned().expect("it executes");
            let parent = Parent { cx: cx.clone(), profile, deadline: cx.deadline() };
            let id = cx.next_nested_id();
            driven.push(world.call(id.as_str(), Some(Arc::new(parent))));
        }
    }
    world.check_end();
    (choices, steps)
}

/// Plays all runs, up to a limit. Returns how many runs and steps there were, and whether all.
fn explore(parts: Parts, calls: usize, limit: usize) -> (usize, usize, bool) {
    let (mut runs, mut steps, mut prefix) = (0, 0, Some(Vec::new()));
    let mut world = World::new(parts);
    while let Some(choices) = prefix {
        world.reset();
        let (played, more) = play(&mut world, calls, choices);
        (runs, steps) = (runs + 1, steps + more);
        if runs >= limit {
            return (runs, steps, false);
        }
        prefix = played.next();
    }
    (runs, steps, true)
}

const READ: Parts = Parts {
    asks: false,
    hooks: false,
    faults: true,
    class: ConcurrencyClass::ReadOnly,
    nests: false,
    disturbance: Disturbance::None,
};

/// A panic of a body is part of the test, so its message is not printed.
fn quietly<T>(test: impl FnOnce() -> T) -> T {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&"on purpose") {
                hook(info);
            }
        }));
    });
    test()
}

#[test]
fn one_call_keeps_every_invariant_for_every_answer() {
    for asks in [false, true] {
        for hooks in [false, true] {
            let parts = Parts { asks, hooks, ..READ };
            let (runs, steps, all) = quietly(|| explore(parts, 1, 200_000));
            println!("one call, {parts:?}: {runs} runs, {steps} steps");
            assert!(all, "{runs} runs were not all");
        }
    }
}

#[test]
fn two_calls_keep_every_invariant_in_every_order() {
    for class in [ConcurrencyClass::ReadOnly, ConcurrencyClass::WriteExclusive] {
        for (asks, nests) in [(false, false), (true, false), (false, true)] {
            let parts = Parts { asks, class, nests, faults: false, ..READ };
            let (runs, steps, all) = quietly(|| explore(parts, 2, 100_000));
            println!("two calls, {parts:?}: {runs} runs, {steps} steps");
            assert!(all, "{runs} runs were not all");
        }
    }
}

#[test]
fn three_calls_keep_every_invariant_in_every_order() {
    let parts = Parts { class: ConcurrencyClass::WriteExclusive, faults: false, ..READ };
    let (runs, steps, all) = quietly(|| explore(parts, 3, 100_000));
    println!("three calls, {parts:?}: {runs} runs, {steps} steps");
    assert!(all, "{runs} runs were not all");
}

/// Explores some calls that are disturbed at any step. All runs are played if there are not too
/// many; `HAFT_LONG_TESTS=1` plays all of them.
fn explore_disturbed(disturbance: Disturbance) {
    let is_long = std::env::var_os("HAFT_LONG_TESTS").is_some();
    let limit = if is_long { 10_000_000 } else { 4_000 };
    for (calls, asks, nests) in
        [(1, true, false), (1, false, true), (2, false, false), (2, true, false), (3, false, false)]
    {
        let class = ConcurrencyClass::WriteExclusive;
        let parts = Parts { asks, nests, class, disturbance, faults: false, ..READ };
        let (runs, steps, all) = quietly(|| explore(parts, calls, limit));
        println!("{calls} calls, all: {all}, {parts:?}: {runs} runs, {steps} steps");
        assert!(all || runs == limit && calls > 1, "{runs} runs were not all");
    }
    let parts = Parts { asks: true, hooks: true, disturbance, ..READ };
    let (runs, steps, all) = quietly(|| explore(parts, 1, limit));
    println!("one call with faults, all: {all}, {parts:?}: {runs} runs, {steps} steps");
}

#[test]
fn a_crash_at_any_step_loses_no_call_and_repeats_no_body() {
    explore_disturbed(Disturbance::Crash);
}

#[test]
fn a_turn_that_is_parked_at_any_step_ends_like_any_other() {
    explore_disturbed(Disturbance::Park);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Three calls with every part and every fault: too many orders to play all, so random ones.
    #[test]
    fn random_orders_and_faults_keep_every_invariant(
        choices in prop::collection::vec(0usize..60, 0..120),
        asks in any::<bool>(),
        nests in any::<bool>(),
        writes in any::<bool>(),
        disturbance in prop_oneof![
            Just(Disturbance::None), Just(Disturbance::Crash), Just(Disturbance::Park),
        ],
    ) {
        let class = if writes { ConcurrencyClass::WriteExclusive } else { ConcurrencyClass::ReadOnly };
        let parts = Parts { asks, hooks: true, faults: true, class, nests, disturbance };
        quietly(|| play(&mut World::new(parts), 3, choices));
    }
}

#[test]
fn what_moves_between_machine_and_driver_is_small() {
    let sizes = [size_of::<Need>(), size_of::<Step>(), size_of::<Input>()];
    assert!(sizes.iter().all(|size| *size <= 64), "{sizes:?} bytes");
}
