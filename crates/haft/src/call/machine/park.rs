//! Parked calls: a call that waits is written down, and finished later, perhaps by another process.
//!
//! In: a call whose body has not started. Out: a `ParkedCall`, signed with the key of the grants. A
//! resumed call is validated and authorized again. What was approved comes back as a grant, never
//! as an `AuthorizedCall`.
//!
//! INVARIANT: the body of a parked call has not started, and a parked call is resumed at most once
//! per grant store.
//!
//! FAIL CLOSED: a parked call that was changed, resumed before, has expired or was signed with
//! another key is refused.

use std::time::Duration;

use haft_core::{CallId, Decision, Scope, ToolCall, ToolName, Verdict, host::HostContext as _};
use haft_schema::RepairPolicy;
use serde_json::Value;

use super::{
    super::validate::{self, Terms},
    Arc, AuthorizedCall, CallMachine, Failure, FailureCode, Step, ToolContext, TurnCore,
    ValidatedCall, authorize,
};
use crate::{
    parked::{ParkedCall, ParkedPhase, ParkedState},
    tool_result::{BoxedResult, ToolResult},
};

/// How long a parked call can be resumed. An approval in it holds as long.
const LIFETIME: Duration = Duration::from_secs(7 * 86_400);
const VERSION: u32 = 1;

/// How a resumed call goes on.
pub(crate) struct Resume {
    phase: ParkedPhase,
    round: u8,
    counted: bool,
    grant: Option<String>,
    notes: Vec<String>,
}

impl CallMachine {
    /// Sets how a resumed call goes on.
    pub(crate) fn set_resume(&mut self, resume: Option<Box<Resume>>) {
        self.resume = resume;
    }

    /// Starts a call in a turn that is being parked, or one that was parked before.
    #[cold]
    pub(in crate::call) fn start_parked(
        &mut self,
        turn: &Arc<TurnCore>,
        call: ValidatedCall,
    ) -> Step {
        let Some(resume) = self.resume.take() else {
            return match self.can_park(turn) {
                true => self.park(turn, &call, (ParkedPhase::Start, None), None),
                false => self.round_later(turn, call),
            };
        };
        let Resume { phase, round, counted, grant, notes } = *resume;
        self.record.is_counted = counted;
        notes.into_iter().for_each(|note| self.record.notes.add_text(note));
        self.round = round;
        if turn.is_parking() {
            return self.park(turn, &call, (phase, None), grant);
        }
        if phase == ParkedPhase::Start {
            return self.round_later(turn, call);
        }
        if turn.is_stopped(call.context()) {
            return self.outcome_of(turn, Err(turn.why_stopped(call.context())));
        }
        if grant.is_some() {
            let notes = Vec::new();
            self.resume = Some(Box::new(Resume { phase, round, counted, grant, notes }));
        }
        self.authorize(turn, call, None)
    }

    /// Takes the grant of a call that was authorized before it was parked.
    pub(super) fn take_grant(&mut self) -> Option<String> {
        self.resume.take()?.grant
    }

    /// Whether this call is to be parked when it waits. A nested call is not: its caller's body
    /// runs.
    fn can_park(&self, turn: &TurnCore) -> bool {
        turn.is_parking() && self.record.parent().is_none()
    }

    /// Parks a call that waits for an approver.
    pub(in crate::call) fn park_question(
        &mut self,
        turn: &TurnCore,
        call: &ValidatedCall,
        verdict: &Verdict,
    ) -> Step {
        let phase = match verdict.decision {
            Decision::NeedInput(_) => ParkedPhase::Input,
            _ => ParkedPhase::Approval,
        };
        let question = turn.run.inner.redactor.text(&verdict.reason).into_owned();
        self.park(turn, call, (phase, Some(question)), None)
    }

    /// Parks a call that is authorized and waits for its locks.
    pub(in crate::call) fn park_authorized(
        &mut self,
        turn: &TurnCore,
        call: &AuthorizedCall,
    ) -> Step {
        let call = call.validated();
        let grant = authorize::bind(turn, call)
            .map(|binding| turn.run.inner.approvals.grants.issue_once(&binding, LIFETIME));
        match grant {
            Ok(grant) => self.park(turn, call, (ParkedPhase::Locks, None), Some(grant)),
            Err(failure) => self.outcome_of(turn, Err(failure)),
        }
    }

    /// Ends the call here, without a terminal event: the process that resumes it emits it.
    fn park(
        &mut self,
        turn: &TurnCore,
        call: &ValidatedCall,
        (phase, question): (ParkedPhase, Option<String>),
        grant: Option<String>,
    ) -> Step {
        let cx = call.context();
        let state = ParkedState {
            version: VERSION,
            run: cx.run_id().clone(),
            cycle: cx.cycle(),
            call: cx.call_id().clone(),
            requested_name: cx.requested_name().clone(),
            tool_name: cx.tool_name().clone(),
            definition: call.tool().hash(),
            arguments: Value::clone(call.arguments()),
            phase,
            round: self.round,
            counted: self.record.is_counted,
            question,
            grant,
            repairs: call.repairs().to_vec(),
            supplied: call.supplied_arguments().to_vec(),
            hook_allow: call.hook_allow().cloned(),
            asked: call.asked().cloned(),
            opinions: call.opinions().to_vec(),
            notes: self.record.notes.take_texts(),
            overrides: call.limits().cloned(),
        };
        let seal = turn.run.inner.approvals.grants.seal(&state, LIFETIME);
        if let Some(reservation) = self.record.reservation.take() {
            reservation.settle(false, 0, &turn.run.inner.events);
        }
        turn.emit_parked(cx, phase);
        let (config, nonces) = (&turn.run.inner.config, &turn.run.inner.nonces);
        let parked = ParkedCall { state, seal };
        Step::Done(BoxedResult::new(ToolResult::of_parked(config, nonces, parked)))
    }
}

/// A parked call that was read back.
pub(crate) struct Restored {
    pub(crate) id: CallId,
    pub(crate) requested_name: ToolName,
    pub(crate) cx: ToolContext,
    pub(crate) call: Result<ValidatedCall, Failure>,
    pub(crate) resume: Option<Box<Resume>>,
}

/// Validates a parked call again, with the tools and the configuration of this turn.
pub(crate) fn restore(turn: &Arc<TurnCore>, parked: ParkedCall) -> Restored {
    let ParkedCall { state, seal } = parked;
    // The turn in which the model made the call is part of what an approval is bound to.
    let scope = Scope { cycle: state.cycle, ..turn.scope.clone() };
    let (id, requested_name) = (state.call.clone(), state.requested_name.clone());
    let (name, host) = (state.tool_name.clone(), Arc::clone(turn) as _);
    let cx = ToolContext::new(id.clone(), requested_name.clone(), name, host).with_scope(scope);
    let resume = Box::new(Resume {
        phase: state.phase,
        round: state.round,
        counted: state.counted,
        grant: state.grant.clone(),
        notes: state.notes.clone(),
    });
    let call = validate_restored(turn, &cx, state, &seal);
    let resume = call.is_ok().then_some(resume);
    Restored { id, requested_name, cx, call, resume }
}

fn validate_restored(
    turn: &Arc<TurnCore>,
    cx: &ToolContext,
    state: ParkedState,
    seal: &str,
) -> Result<ValidatedCall, Failure> {
    let tool = validate::resolve(&turn.snapshot, &state.requested_name)?;
    if state.version != VERSION || state.run != *cx.run_id() || state.tool_name != *tool.name() {
        return Err(refused("it belongs to another run, or another version has written it"));
    }
    if tool.hash() != state.definition {
        return Err(authorize::redefined());
    }
    let grants = &turn.run.inner.approvals.grants;
    let opened = grants.open_sealed(&state, seal);
    opened.map_err(|error| refused(&error.to_string()))?;
    let terms = Terms { limit: usize::MAX, repair: RepairPolicy::Off, ..turn.terms() };
    let mut written = ToolCall::new(state.call, state.requested_name, state.arguments);
    let mut call = validate::validate(tool, &mut written, cx.clone(), terms)?;
    call.set_repairs(state.repairs);
    let is_plain = state.supplied.is_empty()
        && state.hook_allow.is_none()
        && state.asked.is_none()
        && state.opinions.is_empty()
        && state.overrides.is_none();
    if !is_plain {
        let added = call.added_mut();
        added.supplied = state.supplied;
        added.hook_allow = state.hook_allow;
        added.asked = state.asked;
        added.opinions = state.opinions;
        added.limits = state.overrides.map(Box::new);
    }
    Ok(call)
}

/// The failure of a parked call that must not be resumed.
fn refused(why: &str) -> Failure {
    Failure::new(FailureCode::Denied, "this parked call cannot be resumed, so the tool was not run")
        .with_next("call the tool again if it is still needed")
        .with_source(format!("parked call: {why}"))
}
