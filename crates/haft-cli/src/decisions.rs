//! The decision log, one JSON line each: `--decisions FILE` writes it, `haft policy suggest` reads
//! it.
//!
//! A line is `{run, call, tool, arguments, cwd, decision, answer, by, source}`. `decision` is
//! `allow` or `deny`; `answer` is the key that was pressed; `source` is what asked. There is no
//! timestamp, so equal runs write equal lines. Secret arguments are not logged.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
    sync::Mutex,
};

use haft::{
    BoxFuture, Failure,
    approval::{ApprovalRequest, ApprovalResponse, ApprovalScope, Approver},
    policy::RecordedDecision,
};
use haft_core::sync::lock;
use serde_json::{Value, json};

use crate::{
    error::Problem,
    input::{self, Lines},
    schema,
};

/// Replaces a secret argument.
const HIDDEN: &str = "(hidden)";

/// An approver whose answers are logged.
pub(crate) struct RecordingApprover<A> {
    inner: A,
    file: Mutex<File>,
}

impl<A: Approver> RecordingApprover<A> {
    /// Opens the file, so that an unwritable one is an error before anything runs.
    pub(crate) fn new(inner: A, path: &Path) -> Result<Self, Problem> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file =
            file.map_err(|e| Problem::new(format!("cannot write to `{}`: {e}", path.display())))?;
        Ok(Self { inner, file: Mutex::new(file) })
    }

    /// FAIL CLOSED: an approval that could not be logged does not count.
    fn write(
        &self,
        question: &ApprovalRequest<'_>,
        answer: &ApprovalResponse,
    ) -> Result<(), Failure> {
        let Some(line) = line(question, answer, self.inner.name()) else { return Ok(()) };
        let mut file = lock(&self.file);
        // One write, so that lines of two processes do not interleave.
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    }
}

impl<A: Approver> Approver for RecordingApprover<A> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn is_person(&self) -> bool {
        self.inner.is_person()
    }

    fn closed(&self, question: &ApprovalRequest<'_>, by: &str) {
        self.inner.closed(question, by);
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async {
            let answer = self.inner.ask(question).await?;
            self.write(question, &answer)?;
            Ok(answer)
        })
    }
}

/// The line for an answer; `None` for one that asks again with other arguments.
fn line(question: &ApprovalRequest<'_>, answer: &ApprovalResponse, by: &str) -> Option<Value> {
    let (decision, word) = match answer {
        ApprovalResponse::Allow { scope: ApprovalScope::Once, .. } => ("allow", "once"),
        ApprovalResponse::Allow { scope: ApprovalScope::Session, .. } => ("allow", "session"),
        ApprovalResponse::Allow { scope: ApprovalScope::Always, .. } => ("allow", "always"),
        ApprovalResponse::Grant(_) => ("allow", "grant"),
        ApprovalResponse::ReplaceResult(_) => ("deny", "instead"),
        ApprovalResponse::Deny(_) => ("deny", "no"),
        _ => return None,
    };
    let call = question.call;
    let scope = call.context().scope();
    let known = schema::parameters(call.tool().input_schema());
    let mut arguments = Value::clone(&call.redacted_arguments());
    for (key, value) in arguments.as_object_mut().into_iter().flatten() {
        if known.iter().any(|p| p.name == key && p.is_secret()) {
            *value = json!(HIDDEN);
        }
    }
    Some(json!({
        "run": scope.run,
        "call": call.context().call_id(),
        "tool": call.tool().name(),
        "arguments": arguments,
        "cwd": scope.working_directory,
        "decision": decision,
        "answer": word,
        "by": by,
        "source": question.verdict.source,
    }))
}

/// Reads a decision log. An invalid line is an error with its number.
pub(crate) fn read(path: &Path) -> Result<Vec<RecordedDecision>, Problem> {
    let mut decided = Vec::new();
    for line in Lines::open(path)? {
        let (at, bytes) = line?;
        let name = format!("line {at} of `{}`", path.display());
        let wrong = |why: &str| {
            Problem::new(format!("{name} is not a decision: {why}")).hint(
                "each line is {tool, arguments, decision}; `--decisions FILE` writes such lines",
            )
        };
        let text = String::from_utf8_lossy(&bytes);
        let value = input::json(&text, &name)?;
        let one: RecordedDecision =
            serde_json::from_value(value).map_err(|e| wrong(&e.to_string()))?;
        if !matches!(one.decision.as_str(), "allow" | "deny") {
            return Err(wrong(&format!("`{}` is neither `allow` nor `deny`", one.decision)));
        }
        // A hidden argument cannot become part of a rule.
        let is_hidden = |value: &Value| value == HIDDEN;
        if !one.arguments.as_object().is_some_and(|map| map.values().any(is_hidden)) {
            decided.push(one);
        }
    }
    Ok(decided)
}
