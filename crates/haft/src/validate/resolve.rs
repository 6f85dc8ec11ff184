//! Finds the tool that a call names, and shows its schema to a model that has not seen it.

use std::sync::Arc;

use haft_core::{Failure, FailureCode, ToolName};

use crate::{
    registry::{Found, HiddenReason, RegisteredTool, ToolSnapshot},
    text::shortened,
};

/// The longest schema in a message, in bytes. A longer one is shown from the next turn on.
const MAX_SCHEMA_BYTES: usize = 8_000;
/// Maximum length of a tool name in a message, in characters: a model may have written a page.
const MAX_NAME_CHARS: usize = 80;

/// Finds the tool that a name means in this snapshot.
#[inline(always)]
pub(crate) fn resolve(
    snapshot: &ToolSnapshot,
    name: &ToolName,
) -> Result<Arc<RegisteredTool>, Failure> {
    match snapshot.find(name.as_str()) {
        Found::Entry(entry) => Ok(Arc::clone(entry)),
        Found::Withheld(HiddenReason::NeedsInteraction) => Err(Failure::new(
            FailureCode::NeedsInteraction,
            format!("`{name}` needs user interaction, and no approver is configured"),
        )
        .with_next("continue without it, or say in your answer what you would have asked")),
        Found::Withheld(why) => {
            Err(Failure::new(FailureCode::NotOffered, format!("`{name}` is not offered: {why}"))
                .with_next("call a tool from your list of tools"))
        }
        Found::Nothing(near) => {
            let failure = Failure::new(
                FailureCode::UnknownTool,
                format!("there is no tool called `{}`", shortened(name.as_str(), MAX_NAME_CHARS)),
            );
            Err(match near {
                Some(near) => {
                    failure.with_next(format!("did you mean `{near}`? call it by that name"))
                }
                None => failure.with_next("call a tool from your list of tools"),
            })
        }
    }
}

/// Adds the schema of a tool to a failure of its arguments. The model has not seen the schema of a
/// deferred tool.
#[cold]
pub(crate) fn with_schema(entry: &RegisteredTool, failure: Failure) -> Failure {
    let is_invalid =
        matches!(failure.code(), FailureCode::BadArguments | FailureCode::UnparseableArguments);
    let schema = entry.input_schema().to_string();
    if !is_invalid || schema.len() > MAX_SCHEMA_BYTES {
        return failure;
    }
    let name = entry.name();
    let message = format!("{}\nThe schema of `{name}`: {schema}", failure.message());
    failure.with_message(message)
}
