//! `haft mcp login`: OAuth with a browser. The redirect comes back to a port on loopback.
//!
//! The URL is printed, and never opened without the person: it comes from the server.

use std::{
    io::Error as IoError,
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{BoxFuture, tool::BoxError};
use haft_core::sync::lock;
use haft_mcp::client::{Browser, ServerState, ServerTransport};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpListener,
};

use crate::{
    args,
    error::{Problem, print_error},
    mcp_servers, session,
    setup::Setup,
    style,
};

/// How long a person may take.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);
/// The exit code of a refused login.
const EXIT_AUTH: u8 = 3;
/// A longer request line is not a redirect.
const MAX_LINE_BYTES: u64 = 16 << 10;

pub(crate) fn run(
    setup: &Setup,
    name: &str,
    is_out: bool,
    output: args::Output,
) -> Result<ExitCode, Problem> {
    let entry = mcp_servers::named(setup, name)?;
    if let Some(why) = entry.obstacle() {
        return Err(Problem::new(format!("the MCP server `{name}` {why}")));
    }
    let mut host = mcp_servers::host(setup);
    let credentials = host.credentials.clone().ok_or_else(|| {
        Problem::new("there is no directory for your settings")
            .hint("set `HOME` or `XDG_CONFIG_HOME`")
    })?;
    if is_out {
        let removed = credentials.save(entry.prefix(), None);
        removed.map_err(|why| Problem::new(format!("the login cannot be removed: {why}")))?;
        return report(name, "logged_out", "logged out of", output);
    }
    let config = entry.found.config.clone().map_err(Problem::new)?;
    let ServerTransport::Http(endpoint) = &config.transport else {
        return Err(Problem::new(format!("the MCP server `{name}` is a program; it has no login")));
    };
    let port = endpoint.oauth.as_ref().and_then(|oauth| oauth.callback_port).unwrap_or(0);
    let browser =
        Loopback::open(port).map_err(|e| Problem::new(format!("no port for the redirect: {e}")))?;
    host.browser = Some(Arc::new(browser));
    let mut config = config.clone();
    config.start_timeout = LOGIN_TIMEOUT;
    let server = haft_mcp::client::RemoteServer::with(config, host)?;
    let status = session::block_on(async move {
        let status = server.wait(LOGIN_TIMEOUT).await;
        server.shut_down().await;
        status
    })?;
    if status.state == ServerState::Ready {
        return report(name, "logged_in", "logged in to", output);
    }
    let why = status.error.unwrap_or_else(|| "no answer".to_owned());
    print_error(&format!("the login to `{name}` failed: {why}"), &[]);
    Ok(ExitCode::from(EXIT_AUTH))
}

fn report(name: &str, key: &str, what: &str, output: args::Output) -> Result<ExitCode, Problem> {
    if output.json {
        style::print(format_args!("{}\n", json!({"server": name, key: true})))?;
    } else {
        style::print_page(format!("{what} {name}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A port on loopback that waits for one redirect.
struct Loopback {
    listener: Mutex<Option<std::net::TcpListener>>,
    port: u16,
}

impl Loopback {
    fn open(port: u16) -> Result<Self, IoError> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener: Mutex::new(Some(listener)), port })
    }
}

impl Browser for Loopback {
    fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    fn authorize(&self, url: String) -> BoxFuture<'_, Result<String, BoxError>> {
        Box::pin(async move {
            let listener = lock(&self.listener).take();
            let listener = TcpListener::from_std(listener.ok_or("one login at a time")?)?;
            style::message(format_args!(
                "Open this URL in a browser, check its host, and log in:\n{}",
                style::visible(&url)
            ));
            let waited = tokio::time::timeout(LOGIN_TIMEOUT, redirect(&listener, self.port)).await;
            let waited = waited.map_err(|_| "no login within five minutes")?;
            // A second login of the same command uses the same port.
            *lock(&self.listener) = Some(listener.into_std()?);
            waited
        })
    }
}

/// Waits for the redirect. Other requests, such as for an icon, get a 404.
async fn redirect(listener: &TcpListener, port: u16) -> Result<String, BoxError> {
    use tokio::io::AsyncReadExt as _;
    loop {
        let (stream, _) = listener.accept().await?;
        let mut reader = BufReader::new(stream.take(MAX_LINE_BYTES));
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(5), reader.read_line(&mut line)).await;
        let mut stream = reader.into_inner().into_inner();
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_redirect = matches!(read, Ok(Ok(_))) && line.starts_with("GET /callback?");
        let (status, text) = if is_redirect {
            ("200 OK", "You can close this window and go back to the terminal.")
        } else {
            ("404 Not Found", "There is nothing here.")
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{text}",
            text.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        if is_redirect {
            return Ok(format!("http://127.0.0.1:{port}{path}"));
        }
    }
}
