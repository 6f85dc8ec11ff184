//! One external hook as a hook of the runtime: what the protocol says becomes what the walk does.
//!
//! Every line of a file is a hook of its own, so that the runtime admits and checks a rewrite
//! before the next one sees it.

use std::time::Duration;

use haft::{
    AnsweredCall, BoxFuture, CompletedCall, Failure, Hook, HookEffects, Output, PostCallResult,
    PreCallDecision, RegisteredTool, TurnInfo, ValidatedCall, Verdict,
};
use serde_json::{Map, Value, json};

use crate::{
    input,
    line::Line,
    names::Names,
    ruling::{Decision, Ruling},
};

/// A hook that is a command or an HTTP endpoint.
#[derive(Debug, Clone)]
pub struct ExternalHook {
    line: Line,
    at: At,
}

/// The moment a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Before,
    After,
    AfterFailure,
    AfterTurn,
    Start,
}

impl ExternalHook {
    /// Makes a hook of a line; nothing when its event is not one of a hook.
    pub(crate) fn new(line: Line) -> Option<Self> {
        let at = match line.event.as_str() {
            "PreToolUse" => At::Before,
            "PostToolUse" => At::After,
            "PostToolUseFailure" => At::AfterFailure,
            "PostToolBatch" => At::AfterTurn,
            "SessionStart" => At::Start,
            _ => return None,
        };
        Some(Self { line, at })
    }

    async fn before_call(&self, call: &ValidatedCall) -> Result<PreCallDecision, Failure> {
        if self.at != At::Before || !self.line.holds(call) {
            return Ok(PreCallDecision::proceed());
        }
        let cx = call.context();
        let told = input::base(&self.line.place, cx.scope(), &self.line.event);
        let names = Names::of(call.tool());
        let told = input::tool(told, &names, call.arguments(), cx.call_id().as_str());
        let ruling = self.line.call(told).await;
        let mut before = PreCallDecision::proceed();
        if ruling.is_refused(self.line.fails_closed) {
            return Err(self.line.refusal(&ruling));
        }
        if let Some(why) = &ruling.problem {
            before = before.with_problem(why);
        }
        if let Some(reason) = ruling.block {
            before = PreCallDecision::block(reason);
        } else if let Some((decision, reason)) = ruling.decision {
            before = before.with_verdict(match decision {
                Decision::Allow => Verdict::allow(reason),
                // Nobody takes a deferred call up here, so a person must.
                Decision::Ask | Decision::Defer => Verdict::ask(reason),
                Decision::Deny => Verdict::deny(reason),
            });
        }
        if let Some(arguments) = ruling.rewrite {
            before = before.with_rewrite(arguments);
        }
        if let Some(context) = ruling.context {
            before = before.with_host_note(context);
        }
        if let Some(reason) = ruling.halt {
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
            Ok(_) => self.at == At::After,
            Err(_) => self.at == At::AfterFailure,
        };
        let names = Names::of(call.tool());
        if !is_due || !self.line.holds_for(&names.own, call.arguments()) {
            return PostCallResult::from(outcome);
        }
        let cx = call.context();
        let told = input::base(&self.line.place, cx.scope(), &self.line.event);
        // Nothing is judged any more, so whoever is told needs no secrets.
        let redactor = call.redactor();
        let mut told = input::tool(told, &names, &call.shown(), cx.call_id().as_str());
        match &outcome {
            Ok(output) => {
                let response = input::response(output);
                let response = redactor.json(&response).unwrap_or(response);
                told.insert("tool_response".to_owned(), response);
            }
            Err(failure) => {
                told.insert("error".to_owned(), json!(redactor.text(&failure.to_string())));
                told.insert("is_interrupt".to_owned(), json!(cx.is_cancelled()));
            }
        }
        let ruling = self.line.call(told).await;
        if ruling.is_refused(self.line.fails_closed) {
            return PostCallResult::from(Err(self.line.refusal(&ruling)));
        }
        let outcome = match (&ruling.output, outcome) {
            (Some(Value::String(text)), Ok(_)) => Ok(Output::text(text)),
            (Some(data), Ok(_)) => Ok(Output::json(data.clone())),
            (_, outcome) => outcome,
        };
        PostCallResult::from(outcome).with(said(ruling))
    }

    async fn after_answers(
        &self,
        turn: &TurnInfo,
        answers: &[AnsweredCall<'_>],
    ) -> Result<HookEffects, Failure> {
        if self.at != At::AfterTurn || !self.line.is_first() {
            return Ok(HookEffects::nothing());
        }
        let mut told = input::base(&self.line.place, turn.scope(), &self.line.event);
        let calls: Vec<Value> = answers.iter().map(landed).collect();
        told.insert("tool_calls".to_owned(), Value::Array(calls));
        let mut ruling = self.checked(told).await?;
        // What ran has run: to block a batch is to end the run before the model goes on.
        if ruling.halt.is_none() {
            ruling.halt = ruling.block.take();
        }
        Ok(said(ruling))
    }

    async fn start(&self, turn: &TurnInfo) -> Result<HookEffects, Failure> {
        if self.at != At::Start || turn.cycle() != 1 || !self.line.is_about_word("startup") {
            return Ok(HookEffects::nothing());
        }
        let mut told = input::base(&self.line.place, turn.scope(), &self.line.event);
        told.insert("source".to_owned(), json!("startup"));
        Ok(said(self.checked(told).await?))
    }

    /// Calls the hook; one that fails closed and has a problem fails.
    async fn checked(&self, told: Map<String, Value>) -> Result<Ruling, Failure> {
        let ruling = self.line.call(told).await;
        if ruling.is_refused(self.line.fails_closed) {
            return Err(self.line.refusal(&ruling));
        }
        Ok(ruling)
    }
}

/// What a hook says when nothing can be stopped any more: an objection is for the model to read.
fn said(ruling: Ruling) -> HookEffects {
    let mut said = HookEffects::nothing();
    let words: Vec<String> = ruling.block.into_iter().chain(ruling.context).collect();
    if !words.is_empty() {
        said = said.with_host_note(words.join("\n"));
    }
    if let Some(reason) = ruling.halt {
        said = said.with_halt(reason);
    }
    if let Some(why) = ruling.problem {
        said = said.with_problem(why);
    }
    said
}

fn landed(landed: &AnsweredCall<'_>) -> Value {
    let answer = landed.answer();
    let names = landed
        .tool()
        .map_or_else(|| Names::plain(answer.tool_name().as_str()), |tool| Names::of(tool));
    let response = match answer.output() {
        Some(output) => input::response(output),
        None => Value::String(answer.text().into_owned()),
    };
    json!({
        "tool_name": names.shown,
        "tool_input": landed.shown().map_or(Value::Null, |arguments| Value::clone(&arguments)),
        "tool_use_id": answer.id().as_str(),
        "tool_response": response,
    })
}

impl Hook for ExternalHook {
    fn name(&self) -> &str {
        &self.line.name
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.line.limit())
    }

    fn applies_to(&self, tool: &RegisteredTool) -> bool {
        self.line.is_about(&Names::of(tool))
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
