//! Finds the MCP servers of a directory and of the user, with their trust and their pins.
//!
//! In: the merged configuration and the files of other programs, read in place. Out: servers that
//! may start, and why others may not.
//! FAIL CLOSED: a server of a file that trust does not cover with its content does not start.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft::{policy::McpServerTable, secrets::Secret, tool::BoxError};
use haft_mcp::{
    client::{
        ClientHost, Credentials, Lockfile, PinStore, PinnedServer, ServerConfig, ServerTransport,
    },
    config::{self, ConfigContext, ConfigFormat, FoundServer},
};

pub(crate) use haft_mcp::client::RemoteServer;

use crate::{
    error::Problem, location, session::Person, setup::Setup, style, toolchains, trust_file,
};

/// The files of a project directory that name MCP servers.
pub(crate) const PROJECT_FILES: [&str; 3] = [".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"];
/// The user's files of other programs, below the home directory.
const USER_FILES: [(&str, ConfigFormat); 3] = [
    (".claude.json", ConfigFormat::Json),
    (".cursor/mcp.json", ConfigFormat::Json),
    (".codex/config.toml", ConfigFormat::Codex),
];

/// How long a command waits for servers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// One server of a configuration.
#[derive(Debug, Clone)]
pub(crate) struct McpEntry {
    pub(crate) found: FoundServer,
    /// The file that names it, for people.
    pub(crate) origin: String,
    /// Whether it waits until the directory is trusted.
    pub(crate) waits_for_trust: bool,
    lock: Option<PathBuf>,
}

impl McpEntry {
    /// Why it does not start; `None` if it may.
    pub(crate) fn obstacle(&self) -> Option<String> {
        match &self.found.config {
            Err(why) => Some(why.clone()),
            Ok(_) if self.waits_for_trust => {
                Some("waits until this directory is trusted: run `haft trust`".to_owned())
            }
            Ok(_) if !self.found.is_enabled => Some("is disabled in its file".to_owned()),
            Ok(_) => None,
        }
    }

    /// Makes the first turn wait longer for it.
    pub(crate) fn wait_for(&mut self, wait: Option<Duration>) {
        if let (Some(wait), Ok(config)) = (wait, &mut self.found.config) {
            config.start_wait = config.start_wait.max(wait);
        }
    }

    /// The name of its tools' prefix.
    pub(crate) fn prefix(&self) -> &str {
        self.found.config.as_ref().map_or(&self.found.name, |config| &config.name)
    }

    /// Makes the server. It is not started.
    pub(crate) fn server(&self, host: &ClientHost) -> Result<RemoteServer, Problem> {
        let config = self.found.config.clone().map_err(Problem::new)?;
        pinned(config, host.clone(), self.lock.clone())
    }

    /// Changes what is pinned of it.
    pub(crate) fn keep_pins(&self, pins: PinnedServer) -> Result<PathBuf, Problem> {
        let path = self.lock.clone().ok_or_else(|| {
            Problem::new("there is no directory for your settings")
                .hint("set `HOME` or `XDG_CONFIG_HOME`")
        })?;
        update_lock(&path, |lock| {
            lock.servers.insert(self.prefix().to_owned(), pins);
        })?;
        Ok(path)
    }
}

/// Finds the servers, strongest file first. Of two with the same name the first is used.
pub(crate) fn find(setup: &Setup) -> Result<Vec<McpEntry>, Problem> {
    let mut all = Vec::new();
    let project_lock = setup.site.project.join(Lockfile::FILE);
    let user_lock = setup.site.user().map(|user| user.join(Lockfile::FILE));
    for table in &setup.loaded.mcp_servers {
        let is_from_project = table.layer.is_from_project();
        let workspace = if is_from_project { &table.directory } else { setup.here() };
        let found = config::read_haft(&table.name, &table.table, &context(setup, workspace))
            .map_err(|why| {
                Problem::new(format!("{}: {}", location::at(&table.location, setup.here()), why))
            })?;
        all.push(McpEntry {
            found,
            origin: location::at(&table.location, setup.here()),
            waits_for_trust: false,
            lock: if is_from_project { Some(project_lock.clone()) } else { user_lock.clone() },
        });
    }
    let covers = setup.site.covers_content();
    for (path, directory, text) in project_files(setup)? {
        let is_covered = setup.is_trusted && covers(&path, text.as_bytes());
        let servers = read(ConfigFormat::Json, &path, &text, &context(setup, &directory))?;
        all.extend(servers.into_iter().map(|found| McpEntry {
            found,
            origin: shown(&path, setup.here()),
            waits_for_trust: !is_covered,
            lock: Some(project_lock.clone()),
        }));
    }
    for (path, format) in user_files(setup) {
        // A file of another program that cannot be read must not stop haft.
        let servers = match read_user_file(&path, format, &context(setup, setup.here())) {
            Ok(servers) => servers,
            Err(why) => {
                setup.note(format!("MCP servers of `{}` are not used: {why}", path.display()));
                continue;
            }
        };
        all.extend(servers.into_iter().map(|found| McpEntry {
            found,
            origin: shown(&path, setup.here()),
            waits_for_trust: false,
            lock: user_lock.clone(),
        }));
    }
    for entry in &mut all {
        if let Ok(config) = &mut entry.found.config {
            unwrap(config);
            toolchains::show_to(config, setup);
        }
    }
    Ok(without_duplicates(all, setup))
}

/// Replaces `haft mcp wrap --name NAME -- COMMAND` by the command: haft starts it itself, with the
/// same pins.
fn unwrap(config: &mut ServerConfig) {
    let ServerTransport::Stdio(command) = &mut config.transport else { return };
    let is_haft = Path::new(&command.program).file_stem().is_some_and(|stem| stem == "haft");
    let words: Vec<&str> = command.args.iter().map(String::as_str).collect();
    let (name, rest) = match words.as_slice() {
        ["mcp", "wrap", "--name", name, "--", rest @ ..] => (Some((*name).to_owned()), rest),
        ["mcp", "wrap", "--", rest @ ..] => (None, rest),
        _ => return,
    };
    let Some((program, args)) = rest.split_first().filter(|_| is_haft) else { return };
    let (program, args) = ((*program).to_owned(), args.iter().map(ToString::to_string).collect());
    (command.program, command.args) = (program, args);
    config.name = name.unwrap_or_else(|| config.name.clone());
}

/// The lock file of a server that a client starts behind haft: that of the file which names it, or
/// the user's own.
pub(crate) fn lock_of(setup: &Setup, name: &str, identity: &str) -> Option<PathBuf> {
    let is_it = |entry: &McpEntry| {
        let config = entry.found.config.as_ref().ok();
        entry.prefix() == name
            && config.is_some_and(|config| config.transport.identity() == identity)
    };
    let known = find(setup).ok()?.into_iter().find(is_it).and_then(|entry| entry.lock);
    known.or_else(|| setup.site.user().map(|user| user.join(Lockfile::FILE)))
}

/// Gives a server the pins of a lock file, and keeps its first ones there.
pub(crate) fn pinned(
    config: ServerConfig,
    mut host: ClientHost,
    lock: Option<PathBuf>,
) -> Result<RemoteServer, Problem> {
    let Some(lock) = lock else { return Ok(RemoteServer::with(config, host)?) };
    let pins = read_lock(&lock)?.servers.remove(&config.name);
    host.pins = Some(Arc::new(LockStore(lock)));
    let server = RemoteServer::with(config, host)?;
    server.set_pins(pins);
    Ok(server)
}

/// Returns one server of the configuration.
pub(crate) fn named(setup: &Setup, name: &str) -> Result<McpEntry, Problem> {
    let all = find(setup)?;
    match all.iter().find(|entry| entry.prefix() == name) {
        Some(entry) => Ok(entry.clone()),
        None => Err(Problem::new(format!("there is no MCP server called `{name}`"))
            .similar(style::nearest(name, all.iter().map(McpEntry::prefix)))
            .hint("`haft mcp list` lists the servers")),
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

fn user_files(setup: &Setup) -> impl Iterator<Item = (PathBuf, ConfigFormat)> {
    let home = setup.site.home().map(Path::to_owned);
    let root = setup.site.root.clone();
    USER_FILES.into_iter().filter_map(move |(name, format)| {
        let path = home.as_ref()?.join(name);
        // A home directory that is the project itself has only files of the project.
        (!path.starts_with(&root)).then_some((path, format))
    })
}

fn read_user_file(
    path: &Path,
    format: ConfigFormat,
    context: &ConfigContext,
) -> Result<Vec<FoundServer>, String> {
    let read = haft::policy::read_regular_file(path, config::MAX_FILE_BYTES);
    let Some(bytes) = read.map_err(|why| why.message().to_owned())? else { return Ok(Vec::new()) };
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    config::read(format, &text, context).map_err(|why| why.message().to_owned())
}

fn read(
    format: ConfigFormat,
    path: &Path,
    text: &str,
    context: &ConfigContext,
) -> Result<Vec<FoundServer>, Problem> {
    config::read(format, text, context)
        .map_err(|why| Problem::new(format!("`{}`: {}", path.display(), why.message())))
}

fn context(setup: &Setup, workspace: &Path) -> ConfigContext {
    let mut context = ConfigContext::default();
    context.variables = setup.variables().clone();
    context.workspace = workspace.to_owned();
    context.home = setup.site.home().map(Path::to_owned);
    context
}

fn without_duplicates(all: Vec<McpEntry>, setup: &Setup) -> Vec<McpEntry> {
    let mut kept: Vec<McpEntry> = Vec::new();
    for entry in all {
        match kept.iter().find(|known| known.prefix() == entry.prefix()) {
            None => kept.push(entry),
            Some(known) => setup.note(format!(
                "the MCP server `{}` of {} is not used: {} has one of that name",
                entry.prefix(),
                entry.origin,
                known.origin
            )),
        }
    }
    kept
}

/// A server as a person sees it: its name, and what is started or reached. Variables are not
/// expanded, because they may be secrets.
fn server_line(name: &str, found: &FoundServer) -> String {
    match &found.config {
        Ok(config) => format!("{name}: {}", config.transport.identity()),
        Err(why) => format!("{name}: not usable, {why}"),
    }
}

/// The MCP servers of a file of another program.
pub(crate) fn servers_of(text: &str) -> Result<Vec<String>, String> {
    let found = config::read(ConfigFormat::Json, text, &ConfigContext::default());
    let found = found.map_err(|why| why.message().to_owned())?;
    Ok(found.iter().map(|server| server_line(&server.name, server)).collect())
}

/// A server of `haft.toml`, as a person sees it.
pub(crate) fn table_line(table: &McpServerTable) -> String {
    match config::read_haft(&table.name, &table.table, &ConfigContext::default()) {
        Ok(found) => server_line(&table.name, &found),
        Err(_) => format!("{}: {}", table.name, table.table),
    }
}

fn shown(path: &Path, here: &Path) -> String {
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// The same for a command with a person: servers may ask it.
pub(crate) fn host_with(setup: &Setup, person: &Person) -> ClientHost {
    let mut host = host(setup);
    if person.is_there() {
        host.elicitor = Some(Arc::new(person.clone()));
    }
    host
}

/// What servers of a command may use: tokens of earlier logins, and no browser.
pub(crate) fn host(setup: &Setup) -> ClientHost {
    let mut host = ClientHost::default();
    if let Some(user) = setup.site.user() {
        host.credentials = Some(Arc::new(CredentialFiles(user.join("mcp-logins"))));
    }
    host
}

/// The servers that may start, for a registry. Notes what may not. With `wait` the first turn waits
/// longer for them.
pub(crate) fn servers(setup: &Setup, wait: Option<Duration>) -> Result<Vec<RemoteServer>, Problem> {
    servers_with(setup, wait, host(setup))
}

/// The servers, if one of these calls may be for a tool of a server: its name has `__` then.
pub(crate) fn for_calls<'a>(
    mut names: impl Iterator<Item = &'a str>,
    setup: &Setup,
    person: &Person,
) -> Result<Vec<RemoteServer>, Problem> {
    if !names.any(|name| name.contains("__")) {
        return Ok(Vec::new());
    }
    servers_with(setup, Some(PATIENCE), host_with(setup, person))
}

/// The same, for servers that may use what `host` provides.
pub(crate) fn servers_with(
    setup: &Setup,
    wait: Option<Duration>,
    host: ClientHost,
) -> Result<Vec<RemoteServer>, Problem> {
    let mut servers = Vec::new();
    for mut entry in find(setup)? {
        entry.wait_for(wait);
        for note in &entry.found.notes {
            setup.note(format!("MCP server `{}`: {note}", entry.found.name));
        }
        match entry.obstacle() {
            None => servers.push(entry.server(&host)?),
            Some(_) if !entry.found.is_enabled => {}
            Some(why) => setup.note(format!("MCP server `{}` {why}", entry.found.name)),
        }
    }
    Ok(servers)
}

/// Reads a lock file; a missing one is empty.
fn read_lock(path: &Path) -> Result<Lockfile, Problem> {
    match haft::policy::read_regular_file(path, Lockfile::MAX_BYTES)? {
        Some(bytes) => {
            let text = String::from_utf8(bytes)
                .map_err(|_| Problem::new(format!("`{}` is not UTF-8", path.display())))?;
            Ok(Lockfile::parse(&text)?)
        }
        None => Ok(Lockfile::new()),
    }
}

/// Changes a lock file: under a lock, and replaced at once.
fn update_lock(path: &Path, change: impl FnOnce(&mut Lockfile)) -> Result<(), Problem> {
    let cannot =
        |e: std::io::Error| Problem::new(format!("cannot write `{}`: {e}", path.display()));
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(cannot)?;
    let held = fs::File::open(directory).map_err(cannot)?;
    held.lock().map_err(cannot)?;
    let mut lock = read_lock(path)?;
    change(&mut lock);
    trust_file::replace(path, &lock.to_text()).map_err(cannot)
}

/// Keeps first pins in a lock file.
#[derive(Debug)]
struct LockStore(PathBuf);

impl PinStore for LockStore {
    fn keep_first(&self, server: &str, pins: &PinnedServer) -> Result<(), BoxError> {
        update_lock(&self.0, |lock| {
            // Another command may have been faster; its pins count.
            lock.servers.entry(server.to_owned()).or_insert_with(|| pins.clone());
        })
        .map_err(|problem| problem.to_string().into())
    }
}

/// Credentials of logins, one file for each server, readable by the user alone.
#[derive(Debug)]
struct CredentialFiles(PathBuf);

impl CredentialFiles {
    fn path(&self, server: &str) -> Result<PathBuf, BoxError> {
        if haft_mcp::client::is_server_name(server) {
            Ok(self.0.join(format!("{server}.json")))
        } else {
            Err("the name of the server cannot be a file name".into())
        }
    }
}

impl Credentials for CredentialFiles {
    fn load(&self, server: &str) -> Result<Option<Secret>, BoxError> {
        const MAX_BYTES: usize = 1 << 20;
        let bytes = haft::policy::read_regular_file(&self.path(server)?, MAX_BYTES)?;
        let text = bytes.map(String::from_utf8).transpose()?;
        Ok(text.map(|text| Secret::from(text.as_str())))
    }

    fn save(&self, server: &str, credentials: Option<Secret>) -> Result<(), BoxError> {
        let path = self.path(server)?;
        match credentials {
            Some(secret) => {
                fs::create_dir_all(&self.0)?;
                Ok(trust_file::replace(&path, secret.reveal())?)
            }
            None => match fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
                _ => Ok(()),
            },
        }
    }
}
