//! Reads configurations of MCP servers that people already have: `.mcp.json`, the files of Claude
//! Code, Cursor and VS Code, codex's TOML, and `[mcp.servers.*]` of `haft.toml`.
//!
//! In: the text of one file, and the values of its variables. Out: servers, with notes about what
//! was not understood. The caller reads the environment and decides about trust, also whether files
//! that a configuration names may be read.

mod env_file;
mod expand;
mod haft_toml;
mod inputs;
mod json;
mod jsonc;
mod codex;

use std::{collections::BTreeMap, fmt, path::PathBuf};

use haft::{Error, ErrorKind};
use serde_json::Value;

pub use self::{
    env_file::ConfigFiles,
    expand::Variables,
    inputs::{ConfigInput, inputs},
};
use crate::client::{HeadersHelper, ServerConfig};

/// The largest file that is read.
pub const MAX_FILE_BYTES: usize = 16 << 20;
/// The most servers of one file.
const MAX_SERVERS: usize = 1_000;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConfigFormat {
    /// JSON with comments, and servers under `mcpServers` or `servers`.
    Json,
    /// `~/.claude.json`: the same, and first the servers that Claude Code has for the workspace
    /// alone, under `projects`. Never for a file of a project.
    ClaudeCode,
    /// TOML with servers under `mcp_servers`.
    Codex,
}

/// One server of a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoundServer {
    /// Its name in the file.
    pub name: String,
    /// Its configuration, or why it cannot be used.
    pub config: Result<ServerConfig, String>,
    /// Whether the file enables it.
    pub is_enabled: bool,
    /// What was not understood or read differently than written.
    pub notes: Vec<String>,
}

/// The values of the variables of a file.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ConfigContext {
    /// The environment of the command.
    pub variables: BTreeMap<String, String>,
    /// The directory of the project, for `${workspaceFolder}`; programs start there.
    pub workspace: PathBuf,
    /// The home directory, for `${userHome}` and `~/`.
    pub home: Option<PathBuf>,
    /// The answers to `${input:id}`, by id.
    pub inputs: BTreeMap<String, String>,
    /// Which other files it may name.
    pub files: ConfigFiles,
}

impl fmt::Debug for ConfigContext {
    /// Values are left out: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigContext").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// Variables that every server gets: without them most programs do not start.
const BASE_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "SYSTEMROOT",
    "APPDATA",
    "LOCALAPPDATA",
    "USERPROFILE",
    "PROGRAMFILES",
    "TEMP",
    "TMP",
    "PATHEXT",
];

impl ConfigContext {
    /// The command that makes headers, in the workspace and with the usual environment.
    fn headers_helper(&self, command: &str) -> HeadersHelper {
        HeadersHelper {
            command: command.to_owned(),
            environment: self.base_environment(),
            directory: Some(self.workspace.clone()),
        }
    }

    /// The environment that every stdio server starts with. Tokens and keys are not in it.
    fn base_environment(&self) -> BTreeMap<String, String> {
        let base = BASE_VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.variables.get(*name)?.clone())));
        base.collect()
    }
}

/// Reads the servers of a file.
///
/// # Errors
/// Fails for text that is not in the format at all. A single server that cannot be used is in the
/// list, with the reason.
///
/// ```
/// use haft_mcp::config::{ConfigContext, ConfigFormat, read};
///
/// let text = r#"{"mcpServers": {"notes": {"command": "notes", "args": ["${DIR:-/tmp}"]}}}"#;
/// let found = read(ConfigFormat::Json, text, &ConfigContext::default())?;
/// assert_eq!(found[0].name, "notes");
/// assert!(found[0].config.is_ok());
/// # Ok::<(), haft::Error>(())
/// ```
pub fn read(
    format: ConfigFormat,
    text: &str,
    context: &ConfigContext,
) -> Result<Vec<FoundServer>, Error> {
    let wrong = |why: String| Error::new(ErrorKind::BadConfig, why);
    if text.len() > MAX_FILE_BYTES {
        return Err(wrong(format!("{} bytes; at most {MAX_FILE_BYTES} are read", text.len())));
    }
    let found = match format {
        ConfigFormat::Json => json::read(text, context).map_err(wrong)?,
        ConfigFormat::ClaudeCode => json::read_claude(text, context).map_err(wrong)?,
        ConfigFormat::Codex => codex::read(text, context).map_err(wrong)?,
    };
    if found.len() > MAX_SERVERS {
        return Err(wrong(format!("{} servers; at most {MAX_SERVERS} are read", found.len())));
    }
    Ok(found)
}

/// Reads one table `[mcp.servers.NAME]` of `haft.toml`.
///
/// # Errors
/// Fails for an unknown key and for a value of the wrong type.
pub fn read_haft(name: &str, table: &Value, context: &ConfigContext) -> Result<FoundServer, Error> {
    haft_toml::read(name, table, context)
        .map_err(|why| Error::new(ErrorKind::BadConfig, format!("MCP server `{name}`: {why}")))
}

/// Makes a found server, after the checks that every format needs.
fn found(name: &str, config: Result<ServerConfig, String>, notes: Vec<String>) -> FoundServer {
    let config = config.and_then(|config| match config.mistake() {
        None => Ok(config),
        Some(why) => Err(why),
    });
    FoundServer { name: name.to_owned(), config, is_enabled: true, notes }
}
