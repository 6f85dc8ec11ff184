//! The MCP server of a tool that `haft call` names, and why such a tool is missing.

use haft::Turn;
use haft_mcp::client::RemoteServer;

use crate::{error::Problem, mcp_servers, session::Person, setup::Setup, style};

/// The name of a tool, and the MCP server that has it.
pub(crate) fn find(
    name: &str,
    setup: &Setup,
    person: &Person,
) -> Result<(String, Option<RemoteServer>), Problem> {
    // Rules spell such a tool `mcp__server__tool`.
    let plain = name.strip_prefix("mcp__").unwrap_or(name);
    let Some((server, _)) = plain.split_once("__") else { return Ok((name.to_owned(), None)) };
    let Some(mut entry) =
        mcp_servers::find(setup)?.into_iter().find(|entry| entry.prefix() == server)
    else {
        return Ok((name.to_owned(), None));
    };
    if let Some(why) = entry.obstacle() {
        return Err(Problem::new(format!("the MCP server `{server}` {why}")));
    }
    entry.wait_for(Some(mcp_servers::PATIENCE));
    Ok((plain.to_owned(), Some(entry.server(&mcp_servers::host_with(setup, person))?)))
}

/// Why a server does not offer a tool.
pub(crate) fn missing(tool: &str, turn: &Turn, server: Option<&RemoteServer>) -> Problem {
    let Some(server) = server else { return Problem::new("there is no such server") };
    let status = server.status();
    let name = &status.name;
    if let Some(error) = status.error {
        let problem = Problem::new(format!("the MCP server `{name}` failed: {error}"));
        return match status.needs_login {
            true => problem.hint(format!("log in with `haft mcp login {name}`")),
            false => problem,
        };
    }
    let own = tool.split_once("__").map_or(tool, |(_, own)| own);
    if let Some(withheld) = status.withheld.iter().find(|withheld| withheld.tool == own) {
        return Problem::new(format!("`{tool}` is withheld: {}", withheld.reasons.join("; ")))
            .hint(format!("`haft mcp diff {name}` shows changes, `haft mcp pin {name}` accepts"));
    }
    let names = turn.snapshot().entries().map(|entry| entry.name().as_str());
    Problem::new(format!("the MCP server `{name}` has no tool `{own}`"))
        .similar(style::nearest(tool, names))
        .hint(format!("`haft mcp get {name}` lists its tools"))
}
