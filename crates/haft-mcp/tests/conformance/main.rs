//! The server that the official conformance suite is run against: `conformance_server ADDRESS`.
//!
//! The suite calls tools, prompts and resources by fixed names. They are here and not in the
//! product; everything else is the product's.

mod provider;
mod questions;
mod tasks;
mod tools;

use haft::{Config, Runtime, ToolRegistry, host::Frame};
use haft_mcp::server::{Changes, HttpOptions, McpServer};
use tokio_util::sync::CancellationToken;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the script reads the address")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let changes = Changes::default();
    let registry = ToolRegistry::builder()
        .add(tools::all(&changes))
        .add(questions::all())
        .add(tasks::all())
        .build()?;
    let mut config = Config::default();
    config.frame = Frame::Never;
    config.max_tool_tokens = None;
    let runtime = Runtime::builder().registry(registry).config(config).build()?;
    let server = McpServer::builder(runtime)
        .name("haft-conformance", "0.1.0")
        .instructions("Fixtures of the conformance suite.")
        .provider(provider::Fixtures::new(changes.clone()))
        .changes(changes)
        .build()?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    server.serve_http(listener, HttpOptions::default(), CancellationToken::new()).await?;
    Ok(())
}
