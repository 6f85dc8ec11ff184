//! The configuration of one MCP server, as plain data. Who reads it from which file is not decided
//! here.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use haft::{Error, ErrorKind, secrets::Secret};

/// How long a server may take to send its first list of tools.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the first turn waits for servers that are still starting, all together. The first list
/// is there within two seconds, whatever servers do.
const START_WAIT: Duration = Duration::from_millis(1_500);
/// How long a call may take without progress.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a call may take, whatever progress it reports.
const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(600);

/// One MCP server: how it is reached, and how far it is trusted.
///
/// ```
/// use haft_mcp::client::{ServerConfig, ServerTransport, StdioCommand};
///
/// let command = StdioCommand::new("notes-server").args(["--readonly"]);
/// let server = ServerConfig::new("notes", ServerTransport::Stdio(command));
/// assert!(server.check().is_ok());
/// assert!(ServerConfig { name: "a b".into(), ..server }.check().is_err());
/// ```
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name: the prefix of its tools' names. Never the name that the server gives itself.
    pub name: String,
    /// How it is reached.
    pub transport: ServerTransport,
    /// Whether hints of the server may relax what its tools are treated as.
    pub trust: ServerTrust,
    /// What happens if the definition of a tool changes.
    pub pinning: Pinning,
    /// The protocol that it speaks; [`Era::Auto`] asks it.
    pub era: Era,
    /// The only tools to use, by the server's own names; `None` means all.
    pub enabled_tools: Option<Vec<String>>,
    /// Tools that are not used.
    pub disabled_tools: Vec<String>,
    /// How long a call may take without progress.
    pub timeout: Duration,
    /// How long a call may take, whatever progress it reports.
    pub max_timeout: Duration,
    /// How long it may take to start.
    pub start_timeout: Duration,
    /// How long the first turn waits for it. Servers start in parallel, so all of them together
    /// take no longer than the largest value.
    pub start_wait: Duration,
    /// How many calls may run at once; `None` means no limit of its own.
    pub concurrency: Option<usize>,
    /// Whether its tools are shown to the model from the start, also if there are many.
    pub always_load: bool,
}

impl ServerConfig {
    /// Makes a configuration with strict defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, transport: ServerTransport) -> Self {
        Self {
            name: name.into(),
            transport,
            trust: ServerTrust::default(),
            pinning: Pinning::default(),
            era: Era::default(),
            enabled_tools: None,
            disabled_tools: Vec::new(),
            timeout: CALL_TIMEOUT,
            max_timeout: MAX_CALL_TIMEOUT,
            start_timeout: START_TIMEOUT,
            start_wait: START_WAIT,
            concurrency: None,
            always_load: false,
        }
    }

    /// Checks what the types cannot express.
    ///
    /// # Errors
    /// Fails for a name that cannot be the prefix of a tool, an empty command, a URL that is not
    /// HTTP, and a time limit of zero.
    pub fn check(&self) -> Result<(), Error> {
        match self.mistake() {
            None => Ok(()),
            Some(what) => {
                let what = format!("MCP server `{}`: {what}", self.name);
                Err(Error::new(ErrorKind::BadConfig, what))
            }
        }
    }

    /// Why it cannot be used, without its name; `None` if it can.
    pub(crate) fn mistake(&self) -> Option<String> {
        if !is_server_name(&self.name) {
            return Some("a name has 1 to 40 letters, digits, `-` and `_`, and no `__`".to_owned());
        }
        match &self.transport {
            ServerTransport::Stdio(command) if command.program.trim().is_empty() => {
                return Some("the command is empty".to_owned());
            }
            ServerTransport::Http(endpoint) => {
                if let Err(why) = super::http::checked_url(&endpoint.url) {
                    return Some(why);
                }
            }
            ServerTransport::Stdio(_) => {}
        }
        let limits = [self.timeout, self.max_timeout, self.start_timeout];
        let has_zero = limits.iter().any(Duration::is_zero) || self.concurrency == Some(0);
        has_zero.then(|| "a limit of zero would let no call run".to_owned())
    }

    /// Returns whether a tool of the server is used.
    pub(super) fn uses(&self, tool: &str) -> bool {
        let is_enabled = self.enabled_tools.as_ref().is_none_or(|list| is_in(list, tool));
        is_enabled && !is_in(&self.disabled_tools, tool)
    }
}

fn is_in(list: &[String], tool: &str) -> bool {
    list.iter().any(|name| name == tool)
}

/// Whether a text can be the name of a server: the prefix of names that every provider accepts.
#[must_use]
pub fn is_server_name(name: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=40).contains(&name.len()) && name.chars().all(is_safe) && !name.contains("__")
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum ServerTransport {
    /// A child process that speaks on its standard streams.
    Stdio(StdioCommand),
    /// A URL that speaks streamable HTTP.
    Http(HttpEndpoint),
}

impl ServerTransport {
    /// Returns what identifies the server: program and arguments, or the URL, as its file writes
    /// them. It has no environment, no header and no value of a variable: those may be secrets.
    #[must_use]
    pub fn identity(&self) -> String {
        match self {
            Self::Stdio(command) => {
                let words: Vec<String> = match command.written.as_slice() {
                    [] => {
                        std::iter::once(&command.program).chain(&command.args).map(quoted).collect()
                    }
                    written => written.iter().map(quoted).collect(),
                };
                format!("stdio {}", words.join(" "))
            }
            Self::Http(endpoint) => {
                format!("http {}", endpoint.written.as_ref().unwrap_or(&endpoint.url))
            }
        }
    }
}

fn quoted(word: &String) -> String {
    format!("{word:?}")
}

/// A program that is a server. It is started without a shell.
#[derive(Clone, Default)]
pub struct StdioCommand {
    /// The program: a path, or a name that is looked up in `PATH` of `environment`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment. Nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// The file that a part of its environment comes from, as it is written, for people.
    pub env_file: Option<String>,
    /// Where it starts.
    pub directory: Option<PathBuf>,
    /// What it may access; `None` means everything that this program may.
    pub sandbox: Option<ServerSandbox>,
    /// Program and arguments as a file writes them, with variables by name; empty if they are the
    /// same. They identify the server on every machine.
    pub written: Vec<String>,
}

/// What a confined server may access, besides the system's programs and libraries. It has an empty
/// home directory and temporary directory of its own, which are deleted when it ends.
///
/// FAIL CLOSED: on a machine without a sandbox the server does not start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerSandbox {
    /// Files and directories that it may read.
    pub read: Vec<PathBuf>,
    /// Directories that it may read and write.
    pub write: Vec<PathBuf>,
    /// Paths below those that it may not access.
    pub hidden: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
}

impl StdioCommand {
    /// Makes a command without arguments and with an empty environment.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<T: Into<String>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Confines it.
    #[must_use]
    pub fn sandbox(mut self, sandbox: ServerSandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }
}

impl fmt::Debug for StdioCommand {
    /// Values of variables are left out: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("directory", &self.directory)
            .field("sandbox", &self.sandbox)
            .finish()
    }
}

/// The endpoint of a server that speaks streamable HTTP.
#[derive(Debug, Clone, Default)]
pub struct HttpEndpoint {
    /// The URL.
    pub url: String,
    /// Headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// A command that makes more headers.
    pub headers_helper: Option<HeadersHelper>,
    /// The bearer token of every request.
    pub token: Option<Secret>,
    /// Whether requests carry a token of an OAuth login, if there is one.
    pub oauth: Option<super::oauth::OAuthSettings>,
    /// Certificates of own authorities, as PEM.
    pub ca_roots: Vec<Vec<u8>>,
    /// The URL as a file writes it, with variables by name; `None` if it is the same.
    pub written: Option<String>,
}

/// A command that prints headers as a JSON object of texts. It runs at every connection, in a
/// shell, and for at most ten seconds. Its headers replace configured ones.
#[derive(Clone, Default)]
pub struct HeadersHelper {
    /// The command.
    pub command: String,
    /// Its whole environment. The name and the URL of the server are added.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub directory: Option<PathBuf>,
}

impl fmt::Debug for HeadersHelper {
    /// Values of variables are left out: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadersHelper").field("command", &self.command).finish_non_exhaustive()
    }
}

impl HttpEndpoint {
    /// Makes an endpoint without headers.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }
}

/// Whether hints of a server may relax what its tools are treated as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ServerTrust {
    /// Hints may tighten only: a tool is never read-only because its server says so.
    #[default]
    Untrusted,
    /// Hints count in both directions. Results stay untrusted content.
    Annotations,
}

/// What happens if the definition of a tool differs from the pinned one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pinning {
    /// The tool is withheld until the new definition is pinned.
    #[default]
    Pin,
    /// The tool is offered, and the change is reported.
    Warn,
    /// Definitions are not compared.
    Off,
}

/// Which protocol a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Era {
    /// Not known: the server is asked with `server/discover`.
    #[default]
    Auto,
    /// Revisions up to 2025-11-25, with the `initialize` handshake.
    Legacy,
    /// Revisions from 2026-07-28 on, without a handshake.
    Modern,
}

impl Era {
    /// Returns the name of the revision; `None` if it is not known.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Legacy => Some("2025-11-25"),
            Self::Modern => Some("2026-07-28"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names_are_prefixes_that_every_provider_accepts() {
        for good in ["github", "a", "my-server_2"] {
            assert!(is_server_name(good), "{good}");
        }
        for bad in ["", "a b", "a__b", "é", "a.b", &"x".repeat(41)] {
            assert!(!is_server_name(bad), "{bad}");
        }
    }

    #[test]
    fn debug_output_has_no_value_of_a_variable() {
        let command = StdioCommand::new("x").variable("TOKEN", "hunter2");
        let shown = format!("{command:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
        assert!(!ServerTransport::Stdio(command).identity().contains("hunter2"));
    }
}
