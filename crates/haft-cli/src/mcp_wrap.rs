//! `haft mcp wrap`: one MCP server, started here and served to the client that started us, under
//! the rules of the directory.

use std::{path::Path, process::ExitCode};

use haft::{ToolRegistry, registry::ToolView};
use haft_mcp::{
    client::{ClientHost, RemoteServer, ServerConfig, ServerTransport, StdioCommand},
    gateway::Gateway,
    server::{Changes, ClientApprover, McpServer},
};

use crate::{
    args, audit, error::Problem, host_env::HostEnv, install_edit, mcp_files, mcp_servers, result,
    serve, session, setup::Setup, waiting_calls::WaitingCalls,
};

pub(crate) fn run(args: &args::Wrap, setup: Setup, host: &HostEnv) -> Result<ExitCode, Problem> {
    let (changes, server) = server(args, &setup, host)?;
    let name = server.config().name.clone();
    let registry = ToolRegistry::builder().source(server.clone()).build()?;
    let runtime = serve::runtime(&setup).registry(registry);
    let runtime = result::store_large_results(runtime, &args.artifacts, host)?;
    let waiting = WaitingCalls::open(host)?;
    let runtime = waiting.iter().try_fold(runtime, |runtime, calls| calls.sign(runtime))?;
    let runtime = audit::add(runtime, &setup)?;
    let runtime = setup.hooks()?.add_with(runtime, ClientApprover).build()?;
    let (here, budget) = (setup.here().to_owned(), setup.loaded.budget.clone());
    let prefix = format!("{name}__");
    let upstream = server.clone();
    let served = McpServer::builder(runtime.clone())
        .name(name, env!("CARGO_PKG_VERSION"))
        .run(move |run| run.working_directory(&here).budget(budget.clone()))
        .view(move |_| ToolView::all().strip_prefix(&prefix))
        .provider(Gateway::bare(server).policy(setup.policy()))
        .changes(changes);
    let served = audit::add_reads(served, &setup)?;
    let served = waiting.into_iter().fold(served, |server, calls| calls.keep(server)).build()?;
    session::block_on(async move {
        let ended = serve::serve(served, serve::Transport::Stdio, vec![upstream]).await;
        // The child ends with us.
        runtime.close().await;
        ended
    })??;
    Ok(ExitCode::SUCCESS)
}

/// The server of the command line. It gets our whole environment, which the client made for it.
fn server(
    args: &args::Wrap,
    setup: &Setup,
    host: &HostEnv,
) -> Result<(Changes, RemoteServer), Problem> {
    let (program, rest) =
        args.command.split_first().ok_or_else(|| Problem::new("the command is empty"))?;
    let stem = Path::new(program).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = install_edit::server_name(args.name.as_deref().unwrap_or(stem));
    let mut command = StdioCommand::new(program).args(rest.iter().cloned());
    command.environment.extend(host.variables.clone());
    // As the file of the client names it, so that both have the same pins.
    let context = mcp_files::context(setup, setup.here());
    command.written = args.command.iter().map(|word| context.portable(word)).collect();
    let changes = Changes::default();
    let mut client = ClientHost::default();
    client.forward_questions = true;
    client.changes = Some(changes.clone());
    let mut config = ServerConfig::new(name, ServerTransport::Stdio(command));
    // There is nothing to show without it.
    config.start_wait = config.start_timeout;
    let lock = mcp_servers::lock_of(setup, &config.name, &config.transport.identity());
    Ok((changes, mcp_servers::pinned(config, client, lock)?))
}
