//! One external hook as a hook of the runtime: translates between the protocol and the pipeline.
//!
//! Every entry of a file is a separate hook, so that the runtime validates a rewrite before the
//! next hook sees it.

use std::time::Duration;

use haft::{
    BoxFuture, Failure, Output,
    hooks::{
        AnsweredCall, CompletedCall, Hook, HookEffects, PostCallResult, PreCallDecision, TurnInfo,
    },
    policy::Verdict,
    registry::RegisteredTool,
    turn::ValidatedCall,
};
use serde_json::{Map, Value, json};

use crate::{
    configured::ConfiguredHook,
    input,
    names::Names,
    reply::{Decision, ParsedReply},
};

/// A hook that is a command or an HTTP endpoint.
#[derive(Debug, Clone)]
pub struct ExternalHook {
    hook: ConfiguredHook,
    point: HookPoint,
}

/// When a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HookPoint {
    Before,
    After,
    AfterFailure,
    AfterTurn,
    Start,
}

impl ExternalHook {
    /// Makes a hook. `None` if its event is not one of a hook.
    pub(crate) fn new(hook: ConfiguredHook) -> Option<Self> {
        let point = match hook.event.as_str() {
            "PreToolUse" => HookPoint::Before,
            "PostToolUse" => HookPoint::After,
            "PostToolUseFailure" => HookPoint::AfterFailure,
            "PostToolBatch" => HookPoint::AfterTurn,
            "SessionStart" => HookPoint::Start,
            _ => return None,
        };
        Some(Self { hook, point })
    }

    async fn before_call(&self, call: &ValidatedCall) -> Result<PreCallDecision, Failure> {
        if self.point != HookPoint::Before || !self.hook.condition_holds(call) {
            return Ok(PreCallDecision::proceed());
        }
        let cx = call.context();
        let input = input::base(&self.hook.project_dir, cx.scope(), &self.hook.event);
        let names = Names::of(call.tool());
        let input = input::tool(input, &names, call.arguments(), cx.call_id().as_str());
        let parsed = self.hook.call(input).await;
        let mut before = PreCallDecision::proceed();
        if parsed.is_refused(self.hook.fails_closed) {
            return Err(self.hook.refusal(&parsed));
        }
        if let Some(why) = &parsed.problem {
            before = before.with_problem(why);
        }
        if let Some(reason) = parsed.block {
            before = PreCallDecision::block(reason);
        } else if let Some((decision, reason)) = parsed.decision {
            before = before.with_verdict(match decision {
                Decision::Allow => Verdict::allow(reason),
                // There is no deferral here, so a person must decide.
                Decision::Ask | Decision::Defer => Verdict::ask(reason),
                Decision::Deny => Verdict::deny(reason),
            });
        }
        if let Some(arguments) = parsed.rewrite {
            before = before.with_rewrite(arguments);
        }
        if let Some(context) = parsed.context {
            before = before.with_host_note(context);
        }
        if let Some(reason) = parsed.halt {
            before = before.with_halt(reason);
        }
        Ok(before)
    }

    async fn after_call(
        &self,
        call: &CompletedCall,
        outcome: Result<Output, Failure>,
    ) -> PostCallResult {
        let is_due = match &outcome {
            Ok(_) => self.point == HookPoint::After,
            Err(_) => self.point == HookPoint::AfterFailure,
        };
        let names = Names::of(call.tool());
        if !is_due || !self.hook.condition_holds_for(&names.registered, call.arguments()) {
            return PostCallResult::from(outcome);
        }
        let cx = call.context();
        let input = input::base(&self.hook.project_dir, cx.scope(), &self.hook.event);
        // No decision depends on the input any more, so secrets are redacted.
        let redactor = call.redactor();
        let mut input = input::tool(input, &names, &call.shown(), cx.call_id().as_str());
        match &outcome {
            Ok(output) => {
                let response = input::response(output);
                let response = redactor.json(&response).unwrap_or(response);
                input.insert("tool_response".to_owned(), response);
            }
            Err(failure) => {
                input.insert("error".to_owned(), json!(redactor.text(&failure.model_text())));
                input.insert("is_interrupt".to_owned(), json!(cx.is_cancelled()));
            }
        }
        let parsed = self.hook.call(input).await;
        if parsed.is_refused(self.hook.fails_closed) {
            return PostCallResult::from(Err(self.hook.refusal(&parsed)));
        }
        let outcome = match (&parsed.output, outcome) {
            (Some(Value::String(text)), Ok(_)) => Ok(Output::text(text)),
            (Some(data), Ok(_)) => Ok(Output::json(data.clone())),
            (_, outcome) => outcome,
        };
        PostCallResult::from(outcome).with(effects(parsed))
    }

    async fn after_answers(
        &self,
        turn: &TurnInfo,
        answers: &[AnsweredCall<'_>],
    ) -> Result<HookEffects, Failure> {
        if self.point != HookPoint::AfterTurn || !self.hook.is_first() {
            return Ok(HookEffects::nothing());
        }
        let mut input = input::base(&self.hook.project_dir, turn.scope(), &self.hook.event);
        let calls: Vec<Value> = answers.iter().map(answered_call).collect();
        input.insert("tool_calls".to_owned(), Value::Array(calls));
        let mut parsed = self.checked(input).await?;
        // The calls have run already, so blocking a batch ends the run.
        if parsed.halt.is_none() {
            parsed.halt = parsed.block.take();
        }
        Ok(effects(parsed))
    }

    async fn start(&self, turn: &TurnInfo) -> Result<HookEffects, Failure> {
        if self.point != HookPoint::Start
            || turn.cycle() != 1
            || !self.hook.matches_value("startup")
        {
            return Ok(HookEffects::nothing());
        }
        let mut input = input::base(&self.hook.project_dir, turn.scope(), &self.hook.event);
        input.insert("source".to_owned(), json!("startup"));
        Ok(effects(self.checked(input).await?))
    }

    /// Calls the hook. Fails if it has a problem and fails closed.
    async fn checked(&self, input: Map<String, Value>) -> Result<ParsedReply, Failure> {
        let parsed = self.hook.call(input).await;
        if parsed.is_refused(self.hook.fails_closed) {
            return Err(self.hook.refusal(&parsed));
        }
        Ok(parsed)
    }
}

/// Converts an answer after the fact: nothing can be stopped, so an objection becomes a note for
/// the model.
fn effects(parsed: ParsedReply) -> HookEffects {
    let mut effects = HookEffects::nothing();
    let notes: Vec<String> = parsed.block.into_iter().chain(parsed.context).collect();
    if !notes.is_empty() {
        effects = effects.with_host_note(notes.join("\n"));
    }
    if let Some(reason) = parsed.halt {
        effects = effects.with_halt(reason);
    }
    if let Some(why) = parsed.problem {
        effects = effects.with_problem(why);
    }
    effects
}

fn answered_call(call: &AnsweredCall<'_>) -> Value {
    let answer = call.answer();
    let names = call
        .tool()
        .map_or_else(|| Names::from_name(answer.tool_name().as_str()), |tool| Names::of(tool));
    let response = match answer.output() {
        Some(output) => input::response(output),
        None => Value::String(answer.text().into_owned()),
    };
    json!({
        "tool_name": names.protocol,
        "tool_input": call.shown().map_or(Value::Null, |arguments| Value::clone(&arguments)),
        "tool_use_id": answer.id().as_str(),
        "tool_response": response,
    })
}

impl Hook for ExternalHook {
    fn name(&self) -> &str {
        &self.hook.name
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.hook.limit())
    }

    fn applies_to(&self, tool: &RegisteredTool) -> bool {
        self.hook.matches_tool(&Names::of(tool))
    }

    fn before_turn<'a>(
        &'a self,
        turn: &'a TurnInfo,
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        Box::pin(self.start(turn))
    }

    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        Box::pin(self.before_call(call))
    }

    fn after<'a>(
        &'a self,
        call: &'a CompletedCall,
        outcome: Result<Output, Failure>,
    ) -> BoxFuture<'a, PostCallResult> {
        Box::pin(self.after_call(call, outcome))
    }

    fn after_turn<'a>(
        &'a self,
        turn: &'a TurnInfo,
        answers: &'a [AnsweredCall<'a>],
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        Box::pin(self.after_answers(turn, answers))
    }
}
