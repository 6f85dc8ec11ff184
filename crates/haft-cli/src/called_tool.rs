//! The tool of `haft call`: one of this directory, or one of an MCP server, which is then started.

use haft::{
    ToolCall, ToolResult, Turn,
    registry::{RegisteredTool, ToolRegistryBuilder},
    turn::StopReason,
};
use haft_mcp::client::RemoteServer;
use serde_json::Value;

use crate::{
    args, arguments,
    error::Problem,
    mcp_servers,
    session::{self, Person},
    setup::Setup,
    style,
};

/// A tool and its arguments as a person typed them.
pub(crate) struct CalledTool {
    name: String,
    /// The server that has it; only this one is started.
    server: Option<RemoteServer>,
    pairs: Vec<String>,
    args_json: Option<String>,
    /// The arguments, as soon as the schema is known.
    arguments: Option<Value>,
}

impl CalledTool {
    /// Finds the tool by its name.
    pub(crate) fn find(args: &args::Call, setup: &Setup, person: &Person) -> Result<Self, Problem> {
        let (name, server) = remote_tool(&args.tool, setup, person)?;
        let (pairs, args_json) = (args.pairs.clone(), args.args_json.clone());
        Ok(Self { name, server, pairs, args_json, arguments: None })
    }

    /// Adds its server to a registry.
    pub(crate) fn add_to(&self, registry: ToolRegistryBuilder) -> ToolRegistryBuilder {
        match &self.server {
            Some(server) => registry.source(server.clone()),
            None => registry,
        }
    }

    /// Reads the arguments of a tool of this directory. The schema of a remote tool is known only
    /// after its server has started.
    pub(crate) fn read_own(mut self, entry: Option<&RegisteredTool>) -> Result<Self, Problem> {
        if self.server.is_none() {
            self.arguments = Some(self.read(entry)?);
        }
        Ok(self)
    }

    fn read(&self, entry: Option<&RegisteredTool>) -> Result<Value, Problem> {
        arguments::read(&self.pairs, self.args_json.as_deref(), entry)
    }

    /// Runs the call, and stops the server.
    pub(crate) async fn call(self, id: &str, turn: Turn) -> Result<Vec<ToolResult>, Problem> {
        let arguments = match &self.arguments {
            Some(arguments) => arguments.clone(),
            None => {
                let entry = turn.snapshot().get(&self.name);
                // A tool that a rule hides is called, so that the answer names the rule.
                let is_hidden = turn.snapshot().withheld().any(|(name, _)| *name == *self.name);
                if entry.is_none() && !is_hidden {
                    return Err(missing_remote(&self.name, &turn, self.server.as_ref()));
                }
                self.read(entry.map(|entry| &**entry))?
            }
        };
        let call = ToolCall::new(id, self.name.as_str(), arguments);
        let (answers, _) = session::run(turn, vec![call], StopReason::Done).await;
        if let Some(server) = self.server {
            server.shut_down().await;
        }
        Ok(answers)
    }
}

/// The name of a tool, and the MCP server that has it.
fn remote_tool(
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
fn missing_remote(tool: &str, turn: &Turn, server: Option<&RemoteServer>) -> Problem {
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
