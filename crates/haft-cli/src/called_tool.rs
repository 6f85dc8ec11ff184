//! The tool of `haft call`: one of this directory, or one of an MCP server, which is then started.

use haft::{
    ToolCall, ToolResult, Turn,
    registry::{RegisteredTool, ToolRegistryBuilder},
    turn::StopReason,
};
use serde_json::Value;

use crate::{
    args, arguments,
    error::Problem,
    mcp_servers::RemoteServer,
    remote_call,
    session::{self, Person},
    setup::Setup,
};

/// Where the schema of a tool declares the argument that lists hosts.
const NETWORK_ARGUMENT: &str = "/properties/network/x-haft";

/// A tool and its arguments as a person typed them.
pub(crate) struct CalledTool {
    name: String,
    /// The server that has it; only this one is started.
    server: Option<RemoteServer>,
    pairs: Vec<String>,
    args_json: Option<String>,
    /// Hosts that its command may contact.
    network: Vec<String>,
    /// The arguments, as soon as the schema is known.
    arguments: Option<Value>,
}

impl CalledTool {
    /// Finds the tool by its name.
    pub(crate) fn find(args: &args::Call, setup: &Setup, person: &Person) -> Result<Self, Problem> {
        let (name, server) = remote_call::find(&args.tool, setup, person)?;
        let (pairs, args_json) = (args.pairs.clone(), args.args_json.clone());
        let network = args.network.clone();
        Ok(Self { name, server, pairs, args_json, network, arguments: None })
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
        let mut arguments = arguments::read(&self.pairs, self.args_json.as_deref(), entry)?;
        self.add_network(&mut arguments, entry)?;
        Ok(arguments)
    }

    /// Adds the hosts of `--network` to the argument that lists them.
    fn add_network(
        &self,
        arguments: &mut Value,
        entry: Option<&RegisteredTool>,
    ) -> Result<(), Problem> {
        if self.network.is_empty() {
            return Ok(());
        }
        let lists_hosts = |schema: &Value| schema.pointer(NETWORK_ARGUMENT).is_some();
        let Some(arguments) = arguments
            .as_object_mut()
            .filter(|_| entry.is_some_and(|entry| lists_hosts(entry.input_schema())))
        else {
            let what = format!("`--network`: the tool `{}` has no argument for hosts", self.name);
            return Err(Problem::new(what)
                .hint("a declared tool lists its hosts itself: `network = [\"x.org\"]`"));
        };
        let list = arguments.entry("network").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(list) = list.as_array_mut() {
            list.extend(self.network.iter().map(|host| Value::from(host.as_str())));
        }
        Ok(())
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
                    return Err(remote_call::missing(&self.name, &turn, self.server.as_ref()));
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
