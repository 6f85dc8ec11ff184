//! The tools of an agent: those of every command, `tool_search`, skills, and MCP servers.

use haft::{RuntimeBuilder, registry::ToolRegistryBuilder, search::SearchTools};
use haft_tools::Skills;

use crate::{builtin, error::Problem, mcp_servers, session::Person, setup::Setup, skills};

/// Returns the registry of `haft run` and `haft chat`, and its skills.
pub(crate) fn registry(
    setup: &Setup,
    person: &Person,
) -> Result<(ToolRegistryBuilder, Skills), Problem> {
    let skills = skills::find(setup);
    skills::note_findings(&skills, setup);
    let mut registry = builtin::registry(setup, person)?.add(SearchTools).source(skills.clone());
    for server in mcp_servers::servers_with(setup, None, mcp_servers::host_with(setup, person))? {
        registry = registry.source(server);
    }
    Ok((registry, skills))
}

/// Makes the grants of skills count.
pub(crate) fn add_grants(
    runtime: RuntimeBuilder,
    skills: &Skills,
    setup: &Setup,
) -> RuntimeBuilder {
    if skills.is_empty() {
        return runtime;
    }
    runtime.hook(skills.grants().context(setup.loaded.context.clone()))
}
