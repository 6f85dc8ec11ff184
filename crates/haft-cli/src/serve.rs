//! `haft serve`: the tools of a workspace as an MCP server.
//!
//! INVARIANT: with `--stdio`, stdout has messages of the protocol and nothing else.

use std::{collections::BTreeSet, net::SocketAddr, process::ExitCode};

use haft::{Config, Runtime, RuntimeBuilder, artifacts::ReadResult, host::Frame};
use haft_mcp::{
    client::RemoteServer,
    gateway::Gateway,
    server::{Changes, ClientApprover, HttpOptions, McpServer},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    args, audit, builtin,
    client_question::AskUserQuestions,
    error::Problem,
    host_env::HostEnv,
    input, mcp_servers, result,
    session::{self, Person},
    setup::{Setup, print_notes},
    signals::Signals,
    style,
    waiting_calls::WaitingCalls,
};

/// How many questions may be open at once. Each client has a user of its own.
const MAX_OPEN_QUESTIONS: usize = 256;

pub(crate) fn run(args: &args::Serve, setup: Setup, host: &HostEnv) -> Result<ExitCode, Problem> {
    args.place.refuse_wide_default(host)?;
    let transport = match &args.http {
        Some(address) => {
            let (address, options) = (parse_address(address)?, http_options(args, host)?);
            // Before anything is started.
            options.check(address)?;
            Transport::Http(address, options)
        }
        None => {
            refuse_http_options(args)?;
            Transport::Stdio
        }
    };
    let changes = Changes::default();
    let mut client = mcp_servers::host(&setup);
    client.forward_questions = true;
    client.prefix_resources = true;
    client.changes = Some(changes.clone());
    let servers = mcp_servers::servers_with(&setup, None, client)?;
    let mut registry = builtin::registry(&setup, &Person::default())?.add(ReadResult);
    for server in &servers {
        registry = registry.source(server.clone());
    }
    let runtime = runtime(&setup).registry(registry.build()?);
    let runtime = result::store_large_results(runtime, &args.artifacts, host)?;
    let waiting = WaitingCalls::open(host)?;
    let runtime = waiting.iter().try_fold(runtime, |runtime, calls| calls.sign(runtime))?;
    let runtime = audit::add(runtime, &setup)?;
    let approver = ClientApprover.question_tool(AskUserQuestions);
    let runtime = setup.hooks()?.add_with(runtime, approver).build()?;
    let (here, budget) = (setup.here().to_owned(), setup.loaded.budget.clone());
    let server = McpServer::builder(runtime.clone())
        .provider(Gateway::new(servers.clone()).policy(setup.policy()))
        .changes(changes)
        .run(move |run| run.working_directory(&here).budget(budget.clone()));
    let server = audit::add_reads(server, &setup)?;
    let server = waiting.into_iter().fold(server, |server, calls| calls.keep(server)).build()?;
    session::block_on(async move {
        let served = serve(server, transport, servers).await;
        runtime.close().await;
        served
    })??;
    Ok(ExitCode::SUCCESS)
}

pub(crate) enum Transport {
    Stdio,
    Http(SocketAddr, HttpOptions),
}

/// Serves until the client leaves or a signal comes. `upstream` are the servers behind it.
pub(crate) async fn serve(
    server: McpServer,
    transport: Transport,
    upstream: Vec<RemoteServer>,
) -> Result<(), Problem> {
    let stop = CancellationToken::new();
    let mut signals = Signals::listen();
    let serving = async {
        match transport {
            Transport::Stdio => {
                server.serve(tokio::io::stdin(), tokio::io::stdout()).await?;
            }
            Transport::Http(address, options) => {
                let listener = tokio::net::TcpListener::bind(address).await.map_err(|e| {
                    Problem::new(format!("cannot listen on {address}: {e}"))
                        .hint("choose another port; port 0 picks a free one")
                })?;
                let address = listener.local_addr().unwrap_or(address);
                style::print(format_args!("http://{address}/mcp\n"))?;
                server.serve_http(listener, options, stop.clone()).await?;
            }
        }
        Ok::<_, Problem>(())
    };
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served,
        _ = signals.next() => stop.cancel(),
        () = note_failures(upstream) => {}
    }
    // A second signal ends it at once.
    tokio::select! {
        served = serving => served,
        _ = signals.next() => Ok(()),
        // Reading stdin cannot be stopped, so that a client over pipes is left.
        () = tokio::time::sleep(std::time::Duration::from_secs(3)) => Ok(()),
    }
}

/// Notes on stderr which servers did not start: a client sees only that their tools are missing.
/// Never ends.
async fn note_failures(upstream: Vec<RemoteServer>) {
    let mut waits = JoinSet::new();
    for server in upstream {
        waits.spawn(async move {
            let status = server.wait(server.config().start_timeout).await;
            if let Some(error) = status.error {
                print_notes(&[format!("the MCP server `{}` failed: {error}", status.name)]);
            }
        });
    }
    while waits.join_next().await.is_some() {}
    std::future::pending().await
}

/// Refuses options of HTTP with `--stdio`, which would do nothing.
fn refuse_http_options(args: &args::Serve) -> Result<(), Problem> {
    let given = [
        ("--token-file", args.token_file.is_some()),
        ("--allow-host", !args.allow_host.is_empty()),
        ("--allow-origin", !args.allow_origin.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Problem::new(format!("`{name}` is for `--http`"))
            .hint("a client over pipes is the one that started haft; it needs no token")),
        None => Ok(()),
    }
}

/// The runtime of a server: results are for programs as well as models, every tool is listed, and
/// questions of several clients do not wait for each other.
pub(crate) fn runtime(setup: &Setup) -> RuntimeBuilder {
    let mut config: Config = setup.config().clone();
    config.frame = Frame::Never;
    config.max_tool_tokens = setup.loaded.limits.max_tool_tokens;
    config.prompts_at_once = MAX_OPEN_QUESTIONS;
    setup.runtime(Runtime::builder()).config(config)
}

/// Reads an address; a port alone is one of the loopback address.
fn parse_address(text: &str) -> Result<SocketAddr, Problem> {
    let whole = if text.parse::<u16>().is_ok() { format!("127.0.0.1:{text}") } else { text.into() };
    whole.replace("localhost:", "127.0.0.1:").parse().map_err(|_| {
        Problem::new(format!("`--http {text}`: this is not an address"))
            .hint("write it as 127.0.0.1:8765")
    })
}

fn http_options(args: &args::Serve, host: &HostEnv) -> Result<HttpOptions, Problem> {
    let mut options = HttpOptions::default();
    for name in &args.allow_host {
        options = options.allow_host(name);
    }
    for origin in &args.allow_origin {
        options = options.allow_origin(origin);
    }
    if let Some(token) = host.variables.get("HAFT_SERVE_TOKEN").filter(|token| !token.is_empty()) {
        options = options.token("token", token);
    }
    let Some(file) = &args.token_file else { return Ok(options) };
    let shown = file.display();
    let text = input::file(file)?;
    let mut known = BTreeSet::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, token)) = line.split_once(char::is_whitespace) else {
            let at = at + 1;
            return Err(Problem::new(format!("`{shown}`, line {at}: a token needs a name"))
                .hint("write `NAME TOKEN`"));
        };
        let token = token.trim();
        if !known.insert(token) {
            let at = at + 1;
            return Err(Problem::new(format!("`{shown}`, line {at}: this token has another name"))
                .hint("each caller has a token of its own"));
        }
        options = options.token(name, token);
    }
    Ok(options)
}
