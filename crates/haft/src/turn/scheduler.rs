//! The scheduler of a turn: accepts calls, starts each as early as its plan allows, and collects
//! the results.
//!
//! Calls of a batch start together; the lock table blocks those that must wait. Before the end of
//! the message only read-only calls are started, and of those only calls that need no approval are
//! authorized.

use std::{
    collections::HashSet,
    fmt,
    sync::Arc,
    task::{self, Poll, Waker},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use haft_core::{
    BoxFuture, CallId, Execution, Failure, FailureCode, StopReason, ToolCall, ToolContext, ToolName,
};
use smallvec::SmallVec;

use super::{
    batch_hooks::{self, Due, before_batch},
    row::{Row, State},
};
use crate::{
    call::{
        self, DrivenCall, RunningCall, TurnCore,
        launch::{Begun, LoneCall, begin, launch},
    },
    concurrency::Planner,
    event::Event,
    parked::ParkedCall,
    tool_result::{BoxedResult, ToolResult},
    validate::{self, ValidatedCall},
};

/// Accepts the calls of one response, one by one.
pub struct CallScheduler {
    pub(super) core: Arc<TurnCore>,
    abort_siblings: bool,
    /// Cleared when all results are there. Otherwise dropping it cancels the turn.
    is_open: bool,
    /// The batch that a failed body has cancelled, and its tool.
    aborted: Option<(usize, ToolName)>,
    planner: Planner,
    /// The ids of all rows, once there are more than a few.
    pub(super) ids: Option<HashSet<CallId>>,
    /// The ids that came looking like a nested call's; such a call has another.
    pub(super) odd: Option<HashSet<CallId>>,
    pub(super) rows: SmallVec<[Row; 1]>,
    /// The batch that is at work.
    current: usize,
    /// The first row that is of a later batch, or has just arrived.
    next: usize,
    /// The first row that is not registered in the turn.
    registered: usize,
    /// Rows of the current batch that wait for the end of the message.
    held: SmallVec<[usize; 2]>,
    /// How many started rows have no answer yet.
    open: usize,
    /// The calls that wait, each in a task of its own; made when there is one.
    pub(super) in_flight: Option<FuturesUnordered<InFlight>>,
    /// The only call of a complete message, if it waits: its caller polls it.
    pub(super) lone: Option<Box<RunningCall>>,
}

/// The end of a call in a task, with its row.
pub(super) type InFlight = BoxFuture<'static, (usize, Option<BoxedResult>)>;

/// Finds the tool of a call, makes its context, and validates it.
#[inline(always)]
pub(crate) fn validate_call(
    core: &Arc<TurnCore>,
    call: &mut ToolCall,
) -> (ToolContext, Result<ValidatedCall, Failure>) {
    let entry = validate::resolve(&core.snapshot, &call.name);
    let tool_name = entry.as_ref().map_or_else(|_| call.name.clone(), |e| e.name().clone());
    let cx = core.context(call.id.clone(), call.name.clone(), tool_name);
    let terms = core.terms();
    let validated = entry.and_then(|entry| {
        let deferred = core.snapshot.is_deferred(&entry).then(|| Arc::clone(&entry));
        let validated = validate::validate(entry, call, cx.clone(), terms);
        let Some(entry) = deferred else { return validated };
        core.run.load_tools(std::iter::once(entry.name()));
        validated.map_err(|failure| validate::with_schema(&entry, failure))
    });
    (cx, validated)
}

impl CallScheduler {
    pub(super) fn new(core: Arc<TurnCore>, abort_siblings: bool) -> Self {
        Self {
            is_open: true,
            core,
            abort_siblings,
            aborted: None,
            planner: Planner::default(),
            ids: None,
            odd: None,
            rows: SmallVec::new(),
            current: 0,
            next: 0,
            registered: 0,
            held: SmallVec::new(),
            open: 0,
            in_flight: None,
            lone: None,
        }
    }

    /// Says beforehand how the message ended, for a message of about so many calls that is already
    /// complete.
    #[inline(always)]
    pub(crate) fn expect(&mut self, stop: StopReason, calls: usize) {
        match self.rows.is_empty() {
            true => self.core.end.set_before_calls(stop),
            false => self.core.end.set(stop),
        }
        // A hint of an iterator is not a promise, so it does not get to reserve without bound.
        let calls = calls.min(1_024);
        self.rows.reserve_exact(calls);
        self.core.reserve(calls);
    }

    /// Accepts a call. If it is read-only and needs no approval, it starts as soon as its plan
    /// allows; all others wait for the end of the message. Must be called inside a tokio runtime,
    /// because the call may become a task.
    #[inline(always)]
    pub fn push(&mut self, mut call: ToolCall) {
        let twice = self.name(&mut call);
        let (cx, validated) = validate_call(&self.core, &mut call);
        let mut validated = self.core.count_invalid_calls(&cx, validated);
        self.core.apply_stops(&cx);
        if let Some(first) = twice {
            validated = Err(Failure::new(
                FailureCode::NotRun,
                format!(
                    "another call of this turn already has the id `{first}`; this one was not run"
                ),
            )
            .with_next("give every call a unique id"));
        }
        self.add((call.id, call.name), cx, validated, None);
    }

    /// Accepts a call that was parked.
    pub(super) fn push_parked(&mut self, parked: ParkedCall) {
        let restored = call::restore(&self.core, parked);
        let call::Restored { id, requested_name, cx, call, resume } = restored;
        self.core.apply_stops(&cx);
        self.add((id, requested_name), cx, call, resume);
    }

    /// Plans a call, and starts it if it may start now.
    #[inline]
    fn add(
        &mut self,
        (id, called): (CallId, ToolName),
        cx: ToolContext,
        validated: Result<ValidatedCall, Failure>,
        resume: Option<Box<call::Resume>>,
    ) {
        let place = self.planner.place(validated.as_ref().ok().map(ValidatedCall::profile));
        if let Some((batch, tool)) = &self.aborted
            && *batch == place.batch
        {
            self.core.stop_as_sibling(&cx, tool);
        }
        self.core.emit(|| Event::Planned {
            call: id.clone(),
            requested_name: called.clone(),
            place: place.clone(),
        });
        let (batch, state) = (place.batch, State::Waiting(validated, cx));
        self.rows.push(Row { id, called, batch, state, reservation: None, resume });
        // A complete message is started as a whole, so that siblings can stop each other.
        if self.core.end.get().is_none() {
            self.advance();
        }
    }

    /// Ends the message, runs what may run, and returns all results in order.
    ///
    /// Dropping the future cancels the turn; its calls still end and are still recorded.
    pub async fn finish(mut self, stop: StopReason) -> Vec<ToolResult> {
        self.run_to_end(stop).await
    }

    /// Does the same without moving the scheduler. It accepts no calls afterwards.
    pub(super) async fn run_to_end(&mut self, stop: StopReason) -> Vec<ToolResult> {
        self.end_message(stop);
        if let Some(call) = self.lone.take() {
            let result = LoneCall::new(call).await;
            self.on_finished(0, Some(result));
        }
        // A caller that stops waiting drops this: the tasks go on by themselves, and what has not
        // started is answered by `drop`.
        while let Some(in_flight) = &mut self.in_flight
            && let Some((at, result)) = in_flight.next().await
        {
            self.on_finished(at, result);
            self.advance();
        }
        let mut answers = self.answers();
        if !self.core.run.inner.hooks.is_empty() {
            self.core.after_turn(&mut answers).await;
        }
        self.end_turn(&mut answers);
        answers
    }

    /// Ends the message, and starts what may start now.
    #[inline(always)]
    fn end_message(&mut self, stop: StopReason) {
        self.core.end.set(stop);
        if self.rows.len() <= self.core.run.inner.config.max_concurrency {
            self.core.slots.set_sufficient();
        }
        if let Some(why) = stop.why_not() {
            self.refuse_waiting(why);
        }
        self.advance();
    }

    /// Ends the turn: all calls have their results.
    #[inline(always)]
    fn end_turn(&mut self, answers: &mut [ToolResult]) {
        self.is_open = false;
        let core = &self.core;
        if core.run.inner.background.any()
            && let Some(last) = answers.last_mut()
        {
            call::add_notes(last, &core.late_news(), &core.run.inner.redactor);
        }
        core.run.record_read(answers);
        core.emit(|| Event::TurnFinished { run: core.scope.run.clone(), answers: answers.len() });
    }

    #[cold]
    fn refuse_waiting(&mut self, why: &str) {
        for row in &mut self.rows {
            if let State::Waiting(validated, _) = &mut row.state {
                *validated = Err(call::not_run(why));
            }
        }
    }

    #[inline(always)]
    fn answers(&mut self) -> Vec<ToolResult> {
        if let [row] = &mut self.rows[..]
            && let State::Done(_) = row.state
            && let State::Done(result) = std::mem::replace(&mut row.state, State::Flying)
        {
            return result.into_list();
        }
        self.take_answers()
    }

    #[inline(never)]
    fn take_answers(&mut self) -> Vec<ToolResult> {
        let inner = &self.core.run.inner;
        let answer = |row: &mut Row| match std::mem::replace(&mut row.state, State::Flying) {
            State::Done(result) => result.into_inner(),
            State::Waiting(..) | State::Flying => {
                let (id, name) = (row.id.clone(), row.called.clone());
                ToolResult::lost(&inner.config, &inner.nonces, id, name)
            }
        };
        self.rows.iter_mut().map(answer).collect()
    }

    /// Starts whatever may start now: calls of the current batch, and those of the next one when
    /// nothing of it is left.
    #[inline(always)]
    fn advance(&mut self) {
        loop {
            let ended = self.core.end.get().is_some();
            let from = self.next;
            // The only call of a complete message is registered when it waits: until then it is
            // polled here, and no other task can reach it.
            if !ended || self.rows.len() > 1 {
                self.register_rows();
            }
            let rows = self.rows.iter().skip(from);
            self.next += rows.take_while(|row| row.batch == self.current).count();
            if self.core.has_budget() {
                self.reserve_budget(from, ended);
            }
            if self.core.run.inner.hooks.is_empty() {
                self.start_each(from, ended);
            } else {
                let due = self.take_due(from, ended);
                self.start_together(&due);
            }
            match self.rows.get(self.next) {
                Some(row) if self.open == 0 && self.held.is_empty() => self.current = row.batch,
                _ => return,
            }
        }
    }

    /// Registers the calls that have arrived, so that they can be cancelled.
    #[inline(never)]
    fn register_rows(&mut self) {
        for row in self.rows.iter().skip(self.registered) {
            match &row.state {
                State::Waiting(_, cx) => self.core.register(cx),
                // A lone call that waits is registered already.
                State::Flying | State::Done(_) => {}
            }
        }
        self.registered = self.rows.len();
    }

    /// Starts the rows from here on that may start, one by one; the others are held.
    #[inline(always)]
    fn start_each(&mut self, from: usize, ended: bool) {
        if ended && !self.held.is_empty() {
            for at in std::mem::take(&mut self.held) {
                self.start(at);
            }
        }
        for at in from..self.next {
            match ended || self.rows[at].may_start_early() {
                true => self.start(at),
                false => self.held.push(at),
            }
        }
    }

    /// Returns the rows that may start, with those from here on; the others are held.
    #[inline(never)]
    fn take_due(&mut self, from: usize, ended: bool) -> SmallVec<[usize; 8]> {
        let mut due: SmallVec<[usize; 8]> = SmallVec::new();
        if ended {
            due.extend(std::mem::take(&mut self.held));
        }
        for at in from..self.next {
            match ended || self.rows[at].may_start_early() {
                true => due.push(at),
                false => self.held.push(at),
            }
        }
        due
    }

    /// Reserves the budget of calls that arrived in the batch, in the model's order, before any of
    /// them runs.
    fn reserve_budget(&mut self, from: usize, ended: bool) {
        let end = self.next;
        for (at, row) in self.rows.iter_mut().enumerate().take(end).skip(from) {
            let State::Waiting(validated, _) = &mut row.state else { continue };
            // While the model writes there may always be one more.
            let among = (end - at).max(if ended { 1 } else { 2 });
            row.reservation = self.core.reserve_budget(validated, Some(among));
        }
    }

    #[inline(always)]
    fn start(&mut self, at: usize) {
        let State::Waiting(validated, cx) =
            std::mem::replace(&mut self.rows[at].state, State::Flying)
        else {
            return;
        };
        self.open += 1;
        self.launch(at, validated, cx);
    }

    /// Starts calls that the hooks see together first. Each call comes here once.
    #[inline(never)]
    fn start_together(&mut self, rows: &[usize]) {
        let mut due = Vec::with_capacity(rows.len());
        for &at in rows {
            let state = std::mem::replace(&mut self.rows[at].state, State::Flying);
            let State::Waiting(validated, cx) = state else { continue };
            self.open += 1;
            due.push(Due { at, validated, cx });
        }
        if due.is_empty() {
            return;
        }
        // The calls, in case the check itself is lost or has to wait.
        let calls: SmallVec<[(usize, ToolContext); 2]> =
            due.iter().map(|call| (call.at, call.cx.clone())).collect();
        match begin(before_batch(Arc::clone(&self.core), due)) {
            Begun::Done(due) => {
                for Due { at, validated, cx } in due {
                    self.launch(at, validated, cx);
                }
            }
            Begun::Waiting(check) => self.wait_for(calls, check),
            Begun::Lost => {
                for (at, cx) in calls {
                    self.launch(at, Err(batch_hooks::lost()), cx);
                }
            }
        }
    }

    /// Polls a call once in place. The only call of a complete message stays with its caller; any
    /// other that waits becomes a task.
    #[inline(always)]
    fn launch(&mut self, at: usize, call: Result<ValidatedCall, Failure>, cx: ToolContext) {
        let row = &mut self.rows[at];
        let (reservation, resume) = (row.reservation.take(), row.resume.take());
        let mut call = DrivenCall::new(&self.core, call, cx, None, reservation);
        if resume.is_some() {
            call.set_resume(resume);
        }
        match call.poll(&self.core, &mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => self.on_finished(at, Some(result)),
            Poll::Pending => self.wait_for_call(at, call),
        }
    }

    /// Stores a result, and cancels the siblings of a failed body if that is wanted.
    #[inline(always)]
    fn on_finished(&mut self, at: usize, result: Option<BoxedResult>) {
        self.open -= 1;
        let row = &self.rows[at];
        let result = result.unwrap_or_else(|| {
            let (inner, id, name) = (&self.core.run.inner, row.id.clone(), row.called.clone());
            BoxedResult::new(ToolResult::lost(&inner.config, &inner.nonces, id, name))
        });
        let batch = row.batch;
        let already = self.aborted.as_ref().is_some_and(|(aborted, _)| *aborted == batch);
        if !already && self.aborts_siblings(&result) {
            for (other, row) in self.rows.iter().enumerate() {
                if row.batch == batch && other != at && !matches!(row.state, State::Done(_)) {
                    self.core.stop_sibling(other, result.tool_name());
                }
            }
            self.aborted = Some((batch, result.tool_name().clone()));
        }
        self.rows[at].state = State::Done(result);
    }
}

impl Drop for CallScheduler {
    /// Cancels a turn whose caller no longer waits for it. Answers the calls that never started, so
    /// that each has its last event and record.
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        self.core.abort();
        let rows = std::mem::take(&mut self.rows);
        for row in rows {
            let State::Waiting(_, cx) = row.state else { continue };
            let never = Failure::new(
                FailureCode::Cancelled,
                "the turn was cancelled before this call started",
            )
            .with_execution(Execution::NotStarted);
            // A refused call waits for nothing but the journal.
            let core = Arc::clone(&self.core);
            drop(launch(RunningCall::new(core, Err(never), cx, None, row.reservation)));
        }
    }
}

impl CallScheduler {
    /// Whether this answer is the failure of a body that is wanted to cancel its siblings. Refused
    /// and invalid calls are not, and neither are calls that were themselves cancelled.
    fn aborts_siblings(&self, result: &ToolResult) -> bool {
        let Some(failure) = result.failure() else { return false };
        failure.execution() != Execution::NotStarted
            && !matches!(failure.code(), FailureCode::Cancelled | FailureCode::SiblingAborted)
            && (self.abort_siblings
                || self
                    .core
                    .snapshot
                    .get(result.tool_name().as_str())
                    .is_some_and(|entry| entry.spec().abort_siblings))
    }
}

impl fmt::Debug for CallScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallScheduler").field("calls", &self.rows.len()).finish_non_exhaustive()
    }
}
