//! Validates a call: resolves the name, parses, repairs, validates, fills defaults, decodes,
//! computes the profile.
//!
//! In: what the model wrote. Out: a `ValidatedCall`, or the failure that answers it. No I/O and no
//! authorization. The clock is only used to stop repairs that take too long. All later phases see
//! one frozen JSON.
//!
//! INVARIANT: a `ValidatedCall` exists only for arguments that the tool's schema accepts.

mod decode;
mod resolve;

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::FutureExt as _;
use haft_core::{
    Args, Arguments, CallProfile, Execution, Failure, FailureCode, Output, Preview, ToolCall,
    ToolContext, Verdict,
    host::{CallOverrides, HostContext as _},
};
use haft_policy::{PolicyRequest, TaintTracker};
use haft_schema::{Repair, RepairPolicy, SettledIntegers, Stop, Unexplained, parse, syntax};
use serde_json::{Map, Value};

use self::decode::{decoded, decoded_scalars};
pub(crate) use self::resolve::{resolve, with_schema};
use crate::{
    clock::{Clock, RuntimeClock},
    frozen_arguments::FrozenArguments,
    host_code::{after, panic_message},
    registry::RegisteredTool,
    secrets::{Redactor, RuntimeRedactor},
};

/// A call whose arguments are valid, decoded and frozen. Boxed, because it is moved through every
/// phase.
pub struct ValidatedCall(Box<Parts>);

/// What an admitted call is made of.
pub(crate) struct Parts {
    pub(crate) entry: Arc<RegisteredTool>,
    arguments: FrozenArguments,
    pub(crate) args: Args,
    /// What the call would do, if that is not what the tool declares.
    pub(crate) profile: Option<Box<CallProfile>>,
    pub(crate) cx: ToolContext,
    /// What was changed in what the model wrote; most often nothing.
    pub(crate) repairs: Option<Arc<[Repair]>>,
    /// What hooks, rules and approvers have added; most often nothing.
    pub(crate) added: Option<Box<Added>>,
    verdict: LastVerdict,
}

/// The last verdict: that of the rules, and then that of the authorization.
enum LastVerdict {
    None,
    /// The one that the default policy has on every call of the tool.
    OfTool,
    Own(Verdict),
}

/// What hooks, rules and approvers have added to a call before its authorization.
#[derive(Debug, Default)]
pub(crate) struct Added {
    /// Arguments that a person supplied because a judge asked for them.
    pub(crate) supplied: Vec<String>,
    /// A hook's allow: it lifts the default's ask, and nothing else.
    pub(crate) hook_allow: Option<Verdict>,
    /// The ask of a rule that then changed the arguments: it holds although what it asked about may
    /// be gone.
    pub(crate) asked: Option<Verdict>,
    /// What hooks want the judges to take in: asks, wanted inputs and denials.
    pub(crate) opinions: Vec<Verdict>,
    /// The answer that a hook gave instead of the tool.
    pub(crate) answered: Option<Result<Output, Failure>>,
    /// What the host says about the time of this one call.
    pub(crate) limits: Option<Box<CallOverrides>>,
}

/// On which terms calls are taken in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The longest arguments that are read at all, in bytes.
    pub(crate) limit: usize,
    /// What is repaired.
    pub(crate) repair: RepairPolicy,
    /// The timeout and the deadline of a call where neither the call nor its tool has one.
    pub(crate) timeout: Duration,
    pub(crate) deadline: Duration,
    pub(crate) clock: &'a dyn Clock,
    /// Whether arguments that are all scalars may stay text until something asks for their JSON.
    pub(crate) reads_scalars: bool,
}

impl ValidatedCall {
    /// Makes a call of its parts. Only for arguments that the tool's schema accepts.
    #[inline(always)]
    fn new(
        entry: Arc<RegisteredTool>,
        arguments: FrozenArguments,
        (args, profile): (Args, Option<Box<CallProfile>>),
        cx: ToolContext,
        repairs: Option<Arc<[Repair]>>,
        limits: Option<Box<CallOverrides>>,
    ) -> Self {
        let added = limits.map(|own| Box::new(Added { limits: Some(own), ..Added::default() }));
        let verdict = LastVerdict::None;
        let parts = Parts { entry, arguments, args, profile, cx, repairs, added, verdict };
        Self(Box::write(Box::new_uninit(), parts))
    }

    /// Returns the tool that is called.
    #[must_use]
    pub fn tool(&self) -> &Arc<RegisteredTool> {
        &self.0.entry
    }

    /// Returns the arguments with defaults filled in: the one value that all phases see.
    #[must_use]
    pub fn arguments(&self) -> &Arc<Value> {
        self.0.arguments.json()
    }

    /// Returns the arguments, whose JSON may not have been made yet.
    pub(crate) fn frozen_arguments(&self) -> &FrozenArguments {
        &self.0.arguments
    }

    /// Returns it as policies see it: borrowed, without a copy of the arguments.
    #[must_use]
    pub fn policy_request(&self) -> PolicyRequest<'_> {
        let cx = &self.0.cx;
        let tool = self.0.entry.policy_tool();
        PolicyRequest::new(tool, self.arguments(), self.profile(), cx.scope())
            .with_taint(self.taint())
            .with_answers(self.supplied_arguments(), self.hook_allow())
            .with_context(cx)
    }

    /// Returns the arguments redacted: without secrets, and without fields that the tool's schema
    /// marks as secret. The body gets the unredacted ones.
    #[must_use]
    pub fn redacted_arguments(&self) -> Arc<Value> {
        self.redact_arguments(self.arguments())
    }

    /// Redacts other arguments for this call in the same way, such as a proposed edit.
    #[must_use]
    pub fn redact_arguments(&self, arguments: &Arc<Value>) -> Arc<Value> {
        RuntimeRedactor::of(&self.0.cx).arguments(self.0.entry.input(), arguments)
    }

    /// Returns the redactor for texts about this call.
    #[must_use]
    pub fn redactor(&self) -> Redactor {
        Redactor::clone(&RuntimeRedactor::of(&self.0.cx))
    }

    /// Returns what a person reads in place of some arguments, such as the diff of an edit, with
    /// secrets redacted. `None` if the tool makes none, or if the arguments contain a secret; then
    /// the [redacted arguments](Self::redacted_arguments) are shown.
    pub async fn preview(&self) -> Option<Preview> {
        if self.redacted_arguments() != *self.arguments() {
            return None;
        }
        let body = self.0.entry.body();
        let made = AssertUnwindSafe(async { body.preview(&self.0.args, &self.0.cx).await });
        let mut preview = made.catch_unwind().await.map_err(panic_message).ok().flatten()?;
        let redacted = self.redactor().text(&preview.diff).into_owned();
        preview.diff = redacted;
        Some(preview)
    }

    /// Returns what this call would do.
    #[must_use]
    pub fn profile(&self) -> &CallProfile {
        self.0.profile.as_deref().unwrap_or_else(|| self.0.entry.declared())
    }

    /// Returns the call's context.
    #[must_use]
    pub fn context(&self) -> &ToolContext {
        &self.0.cx
    }

    /// Returns the repairs made to the model's arguments. A hook's rewrite and an approver's edit
    /// are never repaired.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        self.0.repairs.as_deref().unwrap_or_default()
    }

    /// Returns the taint tracker of the run.
    #[must_use]
    pub fn taint(&self) -> &Arc<TaintTracker> {
        // FAIL CLOSED: a context without one counts as having read everything.
        static UNKNOWN: LazyLock<Arc<TaintTracker>> = LazyLock::new(TaintTracker::unknown);
        self.0.cx.service::<Arc<TaintTracker>>().unwrap_or_else(|| &UNKNOWN)
    }

    /// Returns the arguments that an approver supplied because a policy required them.
    #[must_use]
    pub fn supplied_arguments(&self) -> &[String] {
        self.0.added.as_ref().map_or(&[], |added| &added.supplied)
    }

    /// Returns the allow of a hook, if there is one. It replaces a missing rule; it overrides no
    /// ask and no deny.
    #[must_use]
    pub fn hook_allow(&self) -> Option<&Verdict> {
        self.0.added.as_ref().and_then(|added| added.hook_allow.as_ref())
    }

    /// Returns whether a hook, a rule, an approver or the host has added something to the call.
    pub(crate) fn has_additions(&self) -> bool {
        self.0.added.is_some()
    }

    /// Returns the ask of a rule that then changed the arguments.
    pub(crate) fn asked(&self) -> Option<&Verdict> {
        self.0.added.as_ref().and_then(|added| added.asked.as_ref())
    }

    /// Returns what hooks want the judges to take in.
    pub(crate) fn opinions(&self) -> &[Verdict] {
        self.0.added.as_ref().map_or(&[], |added| &added.opinions)
    }

    /// Forgets what hooks said for or against it, because they are asked again.
    pub(crate) fn forget_opinions(&mut self) {
        if let Some(added) = &mut self.0.added {
            added.hook_allow = None;
            added.opinions.clear();
        }
    }

    /// Returns whether a hook has answered it.
    pub(crate) fn is_answered(&self) -> bool {
        self.0.added.as_ref().is_some_and(|added| added.answered.is_some())
    }

    /// Answers it instead of the tool; false when it already has an answer. The body does not run,
    /// whatever the answer says.
    pub(crate) fn answer(&mut self, outcome: Result<Output, Failure>) -> bool {
        let added = self.added_mut();
        if added.answered.is_some() {
            return false;
        }
        added.answered =
            Some(outcome.map_err(|failure| failure.with_execution(Execution::NotStarted)));
        true
    }

    /// Gives out the answer of a hook.
    pub(crate) fn take_answer(&mut self) -> Option<Result<Output, Failure>> {
        self.0.added.as_mut()?.answered.take()
    }

    pub(crate) fn added_mut(&mut self) -> &mut Added {
        self.0.added.get_or_insert_default()
    }

    /// Returns what the host says about the time of this one call.
    pub(crate) fn limits(&self) -> Option<&CallOverrides> {
        self.0.added.as_ref().and_then(|added| added.limits.as_deref())
    }

    /// Sets the repairs of a call that was parked.
    pub(crate) fn set_repairs(&mut self, repairs: Vec<Repair>) {
        self.0.repairs = (!repairs.is_empty()).then(|| repairs.into());
    }

    pub(crate) fn shared_repairs(&self) -> Option<&Arc<[Repair]>> {
        self.0.repairs.as_ref()
    }

    /// Sets the verdict. Only the authorization does so.
    pub(crate) fn set_verdict(&mut self, verdict: Verdict) {
        self.0.verdict = LastVerdict::Own(verdict);
    }

    /// Sets the verdict that the default policy has on every call of the tool, if there is one.
    #[inline(always)]
    pub(crate) fn set_verdict_of_tool(&mut self) -> bool {
        let is_fixed = self.0.profile.is_none()
            && self.0.added.is_none()
            && self.0.entry.always_allowed().is_some();
        if is_fixed {
            self.0.verdict = LastVerdict::OfTool;
        }
        is_fixed
    }

    /// Returns the verdict. A call without one is not authorized.
    pub(crate) fn verdict(&self) -> &Verdict {
        static NONE: LazyLock<Verdict> = LazyLock::new(|| Verdict::deny("it is not authorized"));
        match &self.0.verdict {
            LastVerdict::Own(verdict) => verdict,
            LastVerdict::OfTool => self.0.entry.always_allowed().unwrap_or_else(|| &NONE),
            LastVerdict::None => &NONE,
        }
    }

    pub(crate) fn args(&self) -> &Args {
        &self.0.args
    }

    /// Gives out the decoded arguments; what stays behind is empty.
    pub(crate) fn take_args(&mut self) -> Args {
        std::mem::replace(&mut self.0.args, Box::new(()))
    }

    /// Admits other arguments for the same call: a hook's rewrite, a person's edit.
    pub(crate) fn again(self, arguments: Value) -> Result<ValidatedCall, Failure> {
        let Value::Object(map) = arguments else {
            return Err(Failure::new(
                FailureCode::BadArguments,
                format!("the arguments must be an object, got {}", parse::kind(&arguments)),
            ));
        };
        let Parts { entry, cx, repairs, added, .. } = *self.0;
        // Nothing is repaired here, so the clock is not looked at. The host or a person wrote the
        // arguments, and reads the whole explanation.
        let terms = Terms {
            limit: usize::MAX,
            repair: RepairPolicy::Off,
            timeout: Duration::MAX,
            deadline: Duration::MAX,
            clock: &RuntimeClock,
            reads_scalars: false,
        };
        let admitted = take_in(entry, (map, None), cx, terms, Vec::new(), None);
        let mut admitted = admitted.map_err(Unexplained::complete_now)?;
        admitted.0.repairs = repairs;
        admitted.0.added = added;
        Ok(admitted)
    }
}

impl std::fmt::Debug for ValidatedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValidatedCall")
            .field("tool", self.0.entry.name())
            .field("id", self.0.cx.call_id())
            .field("profile", self.profile())
            .finish_non_exhaustive()
    }
}

/// Takes a call in for a tool that is already resolved.
#[inline(always)]
pub(crate) fn validate(
    entry: Arc<RegisteredTool>,
    call: &mut ToolCall,
    cx: ToolContext,
    terms: Terms<'_>,
) -> Result<ValidatedCall, Failure> {
    let (restore, limits) = call.take_host_parts();
    if let Arguments::Text(text) = &mut call.arguments
        && restore.is_none()
        && terms.reads_scalars
        && entry.reads_scalars()
        && text.len() <= terms.limit
        && let Some((args, profile)) = decoded_scalars(&entry, text, &cx)
    {
        let arguments = FrozenArguments::of_text(std::mem::take(text));
        return Ok(ValidatedCall::new(entry, arguments, (args, profile), cx, None, limits));
    }
    let (mut map, repairs) = match &mut call.arguments {
        Arguments::Text(text) => syntax::object(text, terms.limit, terms.repair)?,
        Arguments::Json(json) => object_of(json.take(), &terms)?,
    };
    let mut text = match &mut call.arguments {
        Arguments::Text(text) if repairs.is_empty() => Some(std::mem::take(text)),
        Arguments::Text(_) | Arguments::Json(_) => None,
    };
    if let Some(restore) = restore {
        restore.apply(&mut map);
        text = None;
    }
    take_in(entry, (map, text), cx, terms, repairs, limits)
}

/// Returns arguments that a provider delivers as data.
#[inline(never)]
fn object_of(json: Value, terms: &Terms<'_>) -> Result<(Map<String, Value>, Vec<Repair>), Failure> {
    let Terms { limit, repair, .. } = *terms;
    match json {
        Value::Object(map) => {
            let mut left = limit;
            if !map.iter().all(|(key, value)| fits(key, value, &mut left, MAX_DEPTH)) {
                return Err(Failure::new(
                    FailureCode::UnparseableArguments,
                    format!("the arguments are nested too deep, or longer than {limit} bytes"),
                )
                .with_next("send less at once"));
            }
            Ok((map, Vec::new()))
        }
        // Providers that carry data write "no arguments" in several ways.
        Value::Null => Ok((Map::new(), Vec::new())),
        other => {
            let inside = other.as_str().and_then(|text| syntax::unwrapped(text, limit, repair));
            inside.ok_or_else(|| {
                Failure::new(
                    FailureCode::UnparseableArguments,
                    format!("the arguments must be a JSON object, got {}", parse::kind(&other)),
                )
                .with_next("send the arguments again as one JSON object")
            })
        }
    }
}

#[inline(always)]
fn take_in(
    entry: Arc<RegisteredTool>,
    (mut map, mut text): (Map<String, Value>, Option<String>),
    cx: ToolContext,
    terms: Terms<'_>,
    mut repairs: Vec<Repair>,
    limits: Option<Box<CallOverrides>>,
) -> Result<ValidatedCall, Failure> {
    if entry.drop_unknown(&mut map) {
        text = None;
    }
    let mut json = Value::Object(map);
    let schema = entry.input();
    let timeout = limits.as_ref().and_then(|own| own.timeout).or(entry.spec().timeout);
    let deadline = limits.as_ref().and_then(|own| own.deadline).or(entry.spec().deadline);
    let refused =
        |json: Value| Unexplained::describe(schema, entry.name().as_str(), json, timeout, deadline);
    if !schema.is_valid(&json) {
        let time = timeout.unwrap_or(terms.timeout).min(deadline.unwrap_or(terms.deadline));
        let steps = repaired(&entry, &mut json, &cx, &terms, time);
        if steps.is_empty() {
            return Err(refused(json));
        }
        repairs.extend(steps);
        text = None;
    }
    // What a default adds must fit as well; its author may have slipped below the top level.
    if entry.fill().apply(&mut json) {
        if !schema.is_valid(&json) {
            return Err(refused(json));
        }
        text = None;
    }
    if let SettledIntegers::Visited(inexact) = schema.settle_integers(&mut json) {
        if !inexact.is_empty() {
            return Err(haft_schema::refused(&inexact, entry.name().as_str()));
        }
        text = None;
    }
    let json = Arc::new(json);
    let decoded = decoded(&entry, &json, &cx)?;
    let repairs = (!repairs.is_empty()).then(|| repairs.into());
    let arguments = FrozenArguments::new(json, text);
    Ok(ValidatedCall::new(entry, arguments, decoded, cx, repairs, limits))
}

/// Repairs arguments that the schema does not accept, within a time.
#[cold]
fn repaired(
    entry: &RegisteredTool,
    json: &mut Value,
    cx: &ToolContext,
    terms: &Terms<'_>,
    time: Duration,
) -> Vec<Repair> {
    if terms.repair == RepairPolicy::Off {
        return Vec::new();
    }
    let until = after(terms.clock.now(), time);
    let is_over = || terms.clock.now() >= until || cx.stop_reason().is_some();
    // What may destroy is repaired only where there is nothing to interpret.
    entry.input().repair_until(json, entry.declared().may_destroy(), &Stop::when(&is_over))
}

/// Data is nested no deeper than text may be.
const MAX_DEPTH: usize = 128;

/// Whether data is no larger than its text may be. Counts roughly, and stops when it is clear.
fn fits(key: &str, value: &Value, left: &mut usize, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let own = key.len() + value.as_str().map_or(4, str::len);
    let Some(rest) = left.checked_sub(own) else { return false };
    *left = rest;
    match value {
        Value::Array(list) => list.iter().all(|item| fits("", item, left, depth)),
        Value::Object(map) => map.iter().all(|(key, value)| fits(key, value, left, depth)),
        _ => true,
    }
}
