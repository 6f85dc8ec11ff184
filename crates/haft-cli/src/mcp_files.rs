//! The files of other programs that name MCP servers: those of a project, and the user's own.
//!
//! In: directories. Out: texts and formats; what a person sees before a project becomes trusted.

use std::path::{Path, PathBuf};

use haft::{Error, ErrorKind, policy::McpServerTable};
use haft_mcp::{
    client::{ServerConfig, ServerTransport},
    config::{self, ConfigContext, ConfigFiles, ConfigFormat, FoundServer},
};

use crate::{error::Problem, mcp_inputs, setup::Setup};

/// The files of a project directory that name MCP servers.
const PROJECT_FILES: [&str; 4] =
    [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".codex/config.toml"];
/// The user's files of other programs, below the home directory.
const USER_FILES: [(&str, ConfigFormat); 3] = [
    (".claude.json", ConfigFormat::ClaudeCode),
    (".cursor/mcp.json", ConfigFormat::Json),
    (".codex/config.toml", ConfigFormat::Codex),
];
/// The same, below the directory of applications.
const APPLICATION_FILES: [&str; 2] = ["Code/User/mcp.json", "Claude/claude_desktop_config.json"];

/// The directory of the user's applications, below the home directory.
pub(crate) const fn applications() -> &'static str {
    if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" }
}

/// The format of a project's file.
pub(crate) fn format_of(path: &Path) -> ConfigFormat {
    if path.extension().is_some_and(|extension| extension == "toml") {
        ConfigFormat::Codex
    } else {
        ConfigFormat::Json
    }
}

/// The files of other programs in the project, with their directories and texts.
pub(crate) fn project_files(setup: &Setup) -> Result<Vec<(PathBuf, PathBuf, String)>, Problem> {
    files_of(setup.site.directories().map(Path::to_owned), &setup.site.root)
}

/// The files of other programs in some directories below a root.
pub(crate) fn files_of(
    directories: impl Iterator<Item = PathBuf>,
    root: &Path,
) -> Result<Vec<(PathBuf, PathBuf, String)>, Problem> {
    let mut files = Vec::new();
    for directory in directories {
        for name in PROJECT_FILES {
            let path = directory.join(name);
            // A symlink out of the project is not a file of the project.
            let Ok(target) = path.canonicalize() else { continue };
            let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
            if !target.starts_with(&root) {
                continue;
            }
            if let Some(text) = haft::policy::read_config_file(&path)? {
                files.push((path, directory.clone(), text));
            }
        }
    }
    Ok(files)
}

/// The user's files of other programs, whether or not they exist.
pub(crate) fn user_files(setup: &Setup) -> Vec<(PathBuf, ConfigFormat)> {
    let Some(home) = setup.site.home() else { return Vec::new() };
    let own = USER_FILES.into_iter().map(|(name, format)| (home.join(name), format));
    let below = home.join(applications());
    let applications = APPLICATION_FILES.map(|name| (below.join(name), ConfigFormat::Json));
    // A home directory that is the project itself has only files of the project.
    own.chain(applications).filter(|(path, _)| !path.starts_with(&setup.site.root)).collect()
}

/// Reads a file of the user; a missing one has no servers.
pub(crate) fn read_user_file(
    path: &Path,
    format: ConfigFormat,
    setup: &Setup,
    asks: bool,
) -> Result<Vec<FoundServer>, Error> {
    let bytes = haft::policy::read_regular_file(path, config::MAX_FILE_BYTES)?;
    let Some(bytes) = bytes else { return Ok(Vec::new()) };
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::new(ErrorKind::BadConfig, "it is not UTF-8".to_owned()))?;
    let mut context = context(setup, setup.here());
    context.files = ConfigFiles::All;
    context.inputs = mcp_inputs::of_file(path, &text, setup, asks);
    config::read(format, &text, &context)
}

/// The values of the variables of a file.
pub(crate) fn context(setup: &Setup, workspace: &Path) -> ConfigContext {
    let mut context = ConfigContext::default();
    context.variables = setup.variables().clone();
    context.workspace = workspace.to_owned();
    context.home = setup.site.home().map(Path::to_owned);
    context
}

/// The same for a person who has not decided about trust: variables are not expanded, because they
/// may be secrets.
fn unexpanded(text: &str) -> ConfigContext {
    let mut context = ConfigContext::default();
    context.workspace = "${workspaceFolder}".into();
    context.files = ConfigFiles::NotRead;
    let inputs = config::inputs(text).into_iter();
    context.inputs = inputs.map(|input| (input.id.clone(), input.reference())).collect();
    context
}

/// A server as a person sees it: its name, and what is started or reached.
fn server_line(name: &str, found: &FoundServer) -> String {
    match &found.config {
        Ok(config) => format!("{name}: {}{}", config.transport.identity(), more_of(config)),
        Err(why) => format!("{name}: not usable, {why}"),
    }
}

/// What else a server brings: a file of variables, or a command that makes headers.
fn more_of(config: &ServerConfig) -> String {
    match &config.transport {
        ServerTransport::Stdio(command) => match &command.env_file {
            Some(file) => format!(", with the variables of {file:?}"),
            None => String::new(),
        },
        ServerTransport::Http(endpoint) => match &endpoint.headers_helper {
            Some(helper) => format!(", with headers of the command {:?}", helper.command),
            None => String::new(),
        },
    }
}

/// The MCP servers of a file of another program.
pub(crate) fn servers_of(path: &Path, text: &str) -> Result<Vec<String>, String> {
    let found = config::read(format_of(path), text, &unexpanded(text));
    let found = found.map_err(|why| why.message().to_owned())?;
    Ok(found.iter().map(|server| server_line(&server.name, server)).collect())
}

/// A server of `haft.toml`, as a person sees it.
pub(crate) fn table_line(table: &McpServerTable) -> String {
    match config::read_haft(&table.name, &table.table, &unexpanded("")) {
        Ok(found) => server_line(&table.name, &found),
        Err(_) => format!("{}: {}", table.name, table.table),
    }
}
