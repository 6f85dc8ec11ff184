//! In place of the MCP client, in a build without the feature `mcp`: there is no server.
//!
//! FAIL CLOSED: the files of other programs that name servers are not listed by `haft trust`, so
//! they do not become trusted.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use haft::{
    BoxFuture, Turn,
    policy::McpServerTable,
    registry::ToolSource,
    tool::{BoxError, DynTool},
};

use crate::{error::Problem, session::Person, setup::Setup};

/// No time is spent waiting.
pub(crate) const PATIENCE: Duration = Duration::ZERO;

/// A server, of which there is none. It is not an empty enum, because code that takes servers would
/// be reported as unreachable.
#[derive(Debug, Clone)]
pub(crate) struct RemoteServer(());

impl RemoteServer {
    pub(crate) async fn shut_down(&self) {}
}

impl ToolSource for RemoteServer {
    fn name(&self) -> &str {
        "none"
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// What servers may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoHost;

pub(crate) fn host_with(_: &Setup, _: &Person) -> NoHost {
    NoHost
}

pub(crate) fn servers(setup: &Setup, wait: Option<Duration>) -> Result<Vec<RemoteServer>, Problem> {
    servers_with(setup, wait, NoHost)
}

pub(crate) fn for_calls<'a>(
    mut names: impl Iterator<Item = &'a str>,
    setup: &Setup,
    _: &Person,
) -> Result<Vec<RemoteServer>, Problem> {
    if names.any(|name| name.contains("__")) { servers(setup, None) } else { Ok(Vec::new()) }
}

/// Notes the configured servers, which are not started.
pub(crate) fn servers_with(
    setup: &Setup,
    _: Option<Duration>,
    _: NoHost,
) -> Result<Vec<RemoteServer>, Problem> {
    for table in &setup.loaded.mcp_servers {
        setup.note(format!("MCP server `{}` is not started: this haft has no MCP", table.name));
    }
    Ok(Vec::new())
}

/// The tool of `haft call`, which is none of a server.
pub(crate) fn find(
    name: &str,
    _: &Setup,
    _: &Person,
) -> Result<(String, Option<RemoteServer>), Problem> {
    Ok((name.to_owned(), None))
}

pub(crate) fn missing(_: &str, _: &Turn, _: Option<&RemoteServer>) -> Problem {
    Problem::new("there is no such server")
}

/// The files of other programs, which are not read.
pub(crate) fn files_of(
    _: impl Iterator<Item = PathBuf>,
    _: &Path,
) -> Result<Vec<(PathBuf, PathBuf, String)>, Problem> {
    Ok(Vec::new())
}

pub(crate) fn servers_of(_: &Path, _: &str) -> Result<Vec<String>, String> {
    Ok(Vec::new())
}

/// A server of `haft.toml`, as a person sees it. Another build of haft may start it.
pub(crate) fn table_line(table: &McpServerTable) -> String {
    format!("{}: {}", table.name, table.table)
}

/// Closes servers.
pub(crate) async fn shut_down(servers: Vec<RemoteServer>) {
    for server in servers {
        server.shut_down().await;
    }
}
