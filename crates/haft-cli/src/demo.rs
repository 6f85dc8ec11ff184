//! `haft demo`: runs a recorded model response through the runtime.
//!
//! In: `demo.json`, a provider's response. Out: the plan, each verdict, each result as the model
//! reads it, and the times. Only the response and the approver are simulated.

use std::{
    collections::HashMap,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anstyle::Style;
use haft::{
    BoxFuture, Config, Dialect, Failure, Runtime, ToolCall, ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    events::Event,
    policy::{Decision, Verdict},
    tool::CallId,
    turn::PlannedCall,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    args, demo_tools,
    error::Problem,
    input, session,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table, WARN},
};

const RESPONSE: &str = include_str!("demo.json");

/// The delay of each note tool, so that parallel calls are visible.
const NOTE_DELAY: Duration = Duration::from_millis(60);

/// Everything that happened.
struct DemoRun {
    calls: Vec<ToolCall>,
    planned: Vec<PlannedCall>,
    answers: Vec<ToolResult>,
    seen: Observations,
    took: Duration,
    is_interrupted: bool,
}

pub(crate) fn run(output: args::Output, config: Config) -> Result<ExitCode, Problem> {
    let response = input::json(RESPONSE, "the recorded response")?;
    let run = session::block_on(play(response.clone(), config))??;
    if output.json {
        let message = Dialect::Anthropic.render_results(&run.answers);
        let whole = json!({
            "plan": run.planned,
            "verdicts": run.verdicts(),
            "answers": run.answers,
            "message": message,
        });
        style::print(format_args!("{whole}\n"))?;
    } else {
        style::print_page(run.page(&response))?;
    }
    Ok(session::exit(run.is_interrupted))
}

async fn play(response: Value, config: Config) -> Result<DemoRun, haft::Error> {
    let seen = Observations::default();
    let runtime = Runtime::builder()
        .config(config)
        .registry(demo_tools::registry(NOTE_DELAY)?)
        .approver(ScriptedApprover)
        .observer({
            let seen = seen.clone();
            move |event: &Event| seen.note(event)
        })
        .build()?;
    let haft::dialect::ModelResponse { calls, stop, .. } = Dialect::Anthropic.parse(&response)?;
    let turn = runtime.run().turn().await?;
    let planned = turn.plan(calls.clone());
    let began = Instant::now();
    let (answers, is_interrupted) = session::run(turn, calls.clone(), stop).await;
    Ok(DemoRun { calls, planned, answers, seen, took: began.elapsed(), is_interrupted })
}

/// The simulated approver: approves writing notes and fetching pages.
struct ScriptedApprover;

impl Approver for ScriptedApprover {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        let answer = match question.call.tool().name().as_str() {
            "write_note" | "fetch_page" => ApprovalResponse::allow(),
            _ => ApprovalResponse::Deny(Some("not in the demo".to_owned())),
        };
        Box::pin(async { Ok(answer) })
    }
}

/// What the observer recorded of each call.
#[derive(Clone, Default)]
struct Observations(Arc<Mutex<HashMap<CallId, Noted>>>);

#[derive(Clone, Default)]
struct Noted {
    asked: Option<Verdict>,
    permitted: Option<Verdict>,
    refused: Option<Verdict>,
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Observations {
    fn note(&self, event: &Event) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of = |call: &CallId, note: &dyn Fn(&mut Noted)| {
            note(all.entry(call.clone()).or_default());
        };
        match event {
            Event::Started { call, .. } => of(call, &|n| n.began = Some(Instant::now())),
            Event::Asked { call, verdict, .. } => of(call, &|n| n.asked = Some(verdict.clone())),
            Event::Authorized { call, verdict } => {
                of(call, &|n| n.permitted = Some(verdict.clone()));
            }
            Event::Refused { call, verdict, .. } => {
                of(call, &|n| n.refused = Some(verdict.clone()))
            }
            Event::Finished { call, .. } => of(call, &|n| n.ended = Some(Instant::now())),
            _ => {}
        }
    }

    fn of(&self, call: &CallId) -> Noted {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(call).cloned().unwrap_or_default()
    }
}

/// How one call was authorized.
enum Authorization {
    /// Allowed without asking.
    Allowed(Verdict),
    /// The approver was asked, with this answer.
    Asked(Verdict, Result<Verdict, String>),
    /// The policy or a guard denied it.
    Denied(Verdict),
    /// It ended before authorization, for this reason.
    Not(&'static str),
}

impl DemoRun {
    fn authorization(&self, answer: &ToolResult) -> Authorization {
        let noted = self.seen.of(answer.id());
        let failure = answer.failure();
        let message = || failure.map(|f| f.message().to_owned()).unwrap_or_default();
        match (noted.asked, noted.permitted) {
            (None, Some(verdict)) => Authorization::Allowed(verdict),
            (Some(asked), Some(verdict)) => Authorization::Asked(asked, Ok(verdict)),
            (Some(asked), None) => Authorization::Asked(asked, Err(message())),
            (None, None) => match noted.refused {
                Some(verdict) => Authorization::Denied(verdict),
                _ if self.is_refused(answer) => {
                    Authorization::Not("it was rejected before authorization")
                }
                _ => Authorization::Not("it was cancelled before authorization"),
            },
        }
    }

    fn is_refused(&self, answer: &ToolResult) -> bool {
        self.planned.iter().any(|p| *answer.id() == p.id.as_str() && p.refused.is_some())
    }

    fn verdicts(&self) -> Vec<Value> {
        let each = |answer: &ToolResult| {
            let authorization = match self.authorization(answer) {
                Authorization::Allowed(verdict) => json!({"verdict": verdict}),
                Authorization::Asked(asked, Ok(verdict)) => {
                    json!({"asked": asked, "verdict": verdict})
                }
                Authorization::Asked(asked, Err(said)) => {
                    json!({"asked": asked, "verdict": {"decision": "deny", "reason": said}})
                }
                Authorization::Denied(verdict) => json!({"verdict": verdict}),
                Authorization::Not(_) => return None,
            };
            let mut row = json!({"call": answer.id(), "tool": answer.tool_name()});
            if let (Some(row), Value::Object(authorization)) = (row.as_object_mut(), authorization)
            {
                row.extend(authorization);
            }
            Some(row)
        };
        self.answers.iter().filter_map(each).collect()
    }

    fn page(&self, response: &Value) -> String {
        let says = response.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
        let mut out = format!(
            "{}  {}\n{}  {}\n\n{}\n{}",
            style::paint(BOLD, "model"),
            says,
            style::paint(BOLD, "haft "),
            style::paint(
                DIM,
                format_args!(
                    "{}, recorded; no key, no network",
                    style::count(self.calls.len(), "tool call"),
                ),
            ),
            style::paint(BOLD, "Plan"),
            self.plan(),
        );
        out += &format!("\n{}\n", style::paint(BOLD, "Calls"));
        for (call, answer) in self.calls.iter().zip(&self.answers) {
            out += &self.call(call, answer);
        }
        out + &self.summary()
    }

    /// One line per batch: its calls, its time, and why the batch starts there.
    fn plan(&self) -> String {
        let mut table = Table::new(2);
        for batch in self.planned.chunk_by(|a, b| a.batch == b.batch) {
            let names: Vec<&str> = batch.iter().map(|p| p.tool.as_str()).collect();
            let mut why: Vec<&str> = batch.iter().map(|p| p.why.as_str()).collect();
            why.dedup();
            table.row([
                (DIM, format!("{}", batch.first().map_or(0, |p| p.batch) + 1)),
                (NAME, names.join(" + ")),
                (Style::new(), self.wall(batch)),
                (DIM, why.join("; ")),
            ]);
        }
        table.to_string()
    }

    /// How long a batch took from its first start to its last end.
    fn wall(&self, batch: &[PlannedCall]) -> String {
        let noted: Vec<Noted> = batch.iter().map(|p| self.seen.of(&p.id.as_str().into())).collect();
        let began = noted.iter().filter_map(|n| n.began).min();
        let ended = noted.iter().filter_map(|n| n.ended).max();
        began.zip(ended).map_or_else(String::new, |(began, ended)| style::time(ended - began))
    }

    fn call(&self, call: &ToolCall, answer: &ToolResult) -> String {
        let written = match &call.arguments {
            haft::turn::Arguments::Json(json) => style::arguments(json),
            haft::turn::Arguments::Text(text) => style::visible(text),
        };
        let (mark, colour) = if answer.is_error() { ("✗", BAD) } else { ("✓", GOOD) };
        let mut out = format!(
            "  {} {}({written})  {}\n",
            style::paint(colour, mark),
            style::paint(NAME, answer.requested_name()),
            style::paint(DIM, style::time(answer.elapsed())),
        );
        out += &format!("    {}\n", verdict(&self.authorization(answer)));
        for line in style::visible(&answer.text()).lines() {
            out += &format!("    {} {line}\n", style::paint(colour, "│"));
        }
        out
    }

    fn summary(&self) -> String {
        let failed = self.answers.iter().filter(|a| a.is_error()).count();
        let apart: Duration = self.answers.iter().map(ToolResult::elapsed).sum();
        format!(
            "\n{}, {} in order: {} succeeded, {} failed, each with an error the model can act on. {}\n",
            style::paint(BOLD, style::count(self.calls.len(), "call")),
            style::paint(BOLD, style::count(self.answers.len(), "result")),
            style::paint(GOOD, self.answers.len() - failed),
            style::paint(BAD, failed),
            style::paint(
                DIM,
                format_args!(
                    "{}; {} one after another",
                    style::time(self.took),
                    style::time(apart)
                ),
            ),
        )
    }
}

fn verdict(authorization: &Authorization) -> String {
    let word = |decision: &Decision| style::paint(style::decision(decision), decision.as_str());
    let by = |v: &Verdict| style::paint(DIM, format_args!("{} ({})", v.reason, v.source));
    match authorization {
        Authorization::Allowed(verdict) | Authorization::Denied(verdict) => {
            format!("{} {}", word(&verdict.decision), by(verdict))
        }
        Authorization::Asked(asked, Ok(verdict)) => format!(
            "{} {} → {} {}",
            word(&asked.decision),
            by(asked),
            word(&verdict.decision),
            style::paint(DIM, format_args!("({}, simulated)", verdict.source)),
        ),
        Authorization::Asked(asked, Err(said)) => format!(
            "{} {} → {} {}",
            word(&asked.decision),
            by(asked),
            word(&Decision::Deny),
            style::paint(DIM, said),
        ),
        Authorization::Not(why) => {
            format!("{} {}", style::paint(WARN, "not authorized"), style::paint(DIM, why))
        }
    }
}
