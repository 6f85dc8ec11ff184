//! Resolves `secret://name` references to their values, immediately before the body runs.
//!
//! Policies, people, events, records and the cache see the reference. Only the body of a tool that
//! declares `capabilities(secrets)`, and that the secret was added for, sees the value.
//!
//! FAIL CLOSED: a reference that cannot be resolved stops the call. The model does not learn
//! whether a secret exists for another tool.

use std::sync::Arc;

use haft_core::{
    Args, Body, Capability, Execution, Failure, FailureCode, Secret, ToolContext, ToolName,
    ToolSpec,
};
use haft_sanitize::MAX_JSON_DEPTH;
use serde_json::Value;

use super::RuntimeRedactor;
use crate::frozen_arguments::FrozenArguments;

const SCHEME: &str = "secret://";

/// Returns the name in a text that is a reference and nothing else.
pub(super) fn secret_name(text: &str) -> Option<&str> {
    text.strip_prefix(SCHEME)
}

/// The tool that would use a secret.
#[derive(Clone, Copy)]
pub(crate) struct SecretUser<'a> {
    pub(crate) name: &'a ToolName,
    /// The name it is registered by; secrets are added for this name.
    pub(crate) registered: &'a ToolName,
    pub(crate) spec: &'a ToolSpec,
    pub(crate) body: &'a dyn Body,
}

/// Decodes the arguments with their secret references resolved; `None` if there are none. Done for
/// every attempt, because each has its own instance.
pub(crate) fn resolve(
    redactor: &RuntimeRedactor,
    tool: SecretUser<'_>,
    arguments: &FrozenArguments,
) -> Result<Option<Args>, Failure> {
    // Without secrets a reference is plain text, unless the tool declares that it uses secrets.
    if redactor.secrets().is_empty() && !may_use_secrets(tool.spec) {
        return Ok(None);
    }
    let json = arguments.json();
    if !refers(json, MAX_JSON_DEPTH) {
        return Ok(None);
    }
    let mut whole = Value::clone(json);
    fill(redactor, tool, &mut whole, MAX_JSON_DEPTH)?;
    match tool.body.decode(&Arc::new(whole)) {
        Ok(args) => Ok(Some(args)),
        // The decoder's message may contain the value it rejected.
        Err(failure) => Err(refusal(
            FailureCode::InvalidValue,
            "the value of a secret is invalid for its argument",
        )
        .with_source(redactor.failure(failure).to_string())),
    }
}

/// Returns a secret, if the tool may use it.
fn secret(redactor: &RuntimeRedactor, tool: SecretUser<'_>, name: &str) -> Result<Secret, Failure> {
    if !may_use_secrets(tool.spec) {
        return Err(refusal(
            FailureCode::Denied,
            &format!(
                "`{}` does not declare `capabilities(secrets)`, so it cannot use secrets",
                tool.name
            ),
        ));
    }
    redactor.secrets().get(tool.registered.as_str(), name).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        refusal(
            FailureCode::InvalidValue,
            &format!("`{}` has no secret called `{shown}`", tool.name),
        )
        .with_next("use the name of a configured secret, or ask the user for its name")
    })
}

/// A failure before anything has run.
fn refusal(code: FailureCode, message: &str) -> Failure {
    Failure::new(code, message).with_execution(Execution::NotStarted)
}

/// A tool that declares no capabilities is authorized as if it had all, but gets no secrets.
fn may_use_secrets(spec: &ToolSpec) -> bool {
    spec.capabilities.is_some_and(|all| all.has(Capability::Secrets))
}

fn refers(data: &Value, depth: usize) -> bool {
    match data {
        Value::String(text) => secret_name(text).is_some(),
        Value::Array(items) => depth > 0 && items.iter().any(|item| refers(item, depth - 1)),
        Value::Object(map) => depth > 0 && map.values().any(|value| refers(value, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn fill(
    redactor: &RuntimeRedactor,
    tool: SecretUser<'_>,
    data: &mut Value,
    depth: usize,
) -> Result<(), Failure> {
    match data {
        Value::String(text) => {
            if let Some(name) = secret_name(text) {
                *text = secret(redactor, tool, name)?.reveal().to_owned();
            }
            Ok(())
        }
        Value::Array(items) if depth > 0 => {
            items.iter_mut().try_for_each(|item| fill(redactor, tool, item, depth - 1))
        }
        Value::Object(map) if depth > 0 => {
            map.values_mut().try_for_each(|value| fill(redactor, tool, value, depth - 1))
        }
        _ => Ok(()),
    }
}

/// Returns a secret to a body that requests it by name.
pub(crate) fn secret_for_body(
    redactor: &RuntimeRedactor,
    tool: Option<SecretUser<'_>>,
    cx: &ToolContext,
    name: &str,
) -> Result<Secret, Failure> {
    // The profile is set when the body starts: hooks and policies get no secret.
    match tool {
        Some(tool) if cx.profile().is_some() => secret(redactor, tool, name),
        _ => Err(refusal(FailureCode::Denied, "only the body of a running tool gets a secret")),
    }
}
