//! The server that the official conformance suite is run against: `conformance_server ADDRESS`.
//! With a URL as well it is a gateway in front of that server, and has no tools of its own.
//!
//! The suite calls tools, prompts and resources by fixed names. They are here and not in the
//! product; everything else is the product's.

mod provider;
mod questions;
mod tasks;
mod tools;

use haft::{
    Config, Runtime, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse},
    host::Frame,
    registry::ToolView,
};
use haft_mcp::{
    client::{ClientHost, HttpEndpoint, RemoteServer, ServerConfig, ServerTransport, ServerTrust},
    gateway::Gateway,
    server::{Changes, HttpOptions, McpServer},
};
use tokio_util::sync::CancellationToken;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the script reads the address")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let server = match std::env::args().nth(2) {
        Some(url) => gateway(&url)?,
        None => fixtures()?,
    };
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    server.serve_http(listener, HttpOptions::default(), CancellationToken::new()).await?;
    Ok(())
}

fn config() -> Config {
    let mut config = Config::default();
    config.frame = Frame::Never;
    config.max_tool_tokens = None;
    config
}

fn fixtures() -> Result<McpServer, haft::Error> {
    let changes = Changes::default();
    let registry = ToolRegistry::builder()
        .add(tools::all(&changes))
        .add(questions::all())
        .add(tasks::all())
        .build()?;
    let runtime = Runtime::builder().registry(registry).config(config()).build()?;
    McpServer::builder(runtime)
        .name("haft-conformance", "0.1.0")
        .instructions("Fixtures of the conformance suite.")
        .provider(provider::Fixtures)
        .changes(changes)
        .build()
}

/// A gateway that shows everything of one server under its own names.
fn gateway(url: &str) -> Result<McpServer, haft::Error> {
    let changes = Changes::default();
    let mut host = ClientHost::default();
    host.forward_questions = true;
    host.changes = Some(changes.clone());
    let transport = ServerTransport::Http(HttpEndpoint::new(url));
    let upstream =
        ServerConfig { trust: ServerTrust::Annotations, ..ServerConfig::new("up", transport) };
    let upstream = RemoteServer::with(upstream, host)?;
    let registry = ToolRegistry::builder().source(upstream.clone()).build()?;
    let runtime = Runtime::builder()
        .registry(registry)
        .config(config())
        .approver(|_: &ApprovalRequest<'_>| Ok(ApprovalResponse::allow()))
        .build()?;
    McpServer::builder(runtime)
        .name("haft-gateway", "0.1.0")
        .view(|_| ToolView::all().strip_prefix("up__"))
        .provider(Gateway::bare(upstream))
        .changes(changes)
        .build()
}
