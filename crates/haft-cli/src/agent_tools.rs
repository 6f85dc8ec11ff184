//! The tools of an agent: those of every command, and `tool_search`.

use haft::{registry::ToolRegistryBuilder, search::SearchTools};

use crate::{builtin, error::Problem, session::Person, setup::Setup};

/// Returns the registry of `haft run` and `haft chat`.
pub(crate) fn registry(setup: &Setup, person: &Person) -> Result<ToolRegistryBuilder, Problem> {
    Ok(builtin::registry(setup, person)?.add(SearchTools))
}
