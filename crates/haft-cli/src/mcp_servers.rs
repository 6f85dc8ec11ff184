//! Finds the MCP servers of a directory and of the user, with their trust and their pins.
//!
//! In: the merged configuration and the files of other programs, read in place. Out: servers that
//! may start, and why others may not.
//! FAIL CLOSED: a server of a file that trust does not cover with its content does not start.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_mcp::{
    client::{ClientHost, Lockfile, PinnedServer, ServerConfig, ServerTransport},
    config::{self, ConfigFiles, FoundServer},
};

pub(crate) use haft_mcp::client::RemoteServer;

use crate::{
    error::Problem,
    location,
    mcp_credentials::CredentialFiles,
    mcp_files::{self, context},
    mcp_inputs,
    mcp_lock::LockStore,
    session::Person,
    setup::Setup,
    style, toolchains,
};

pub(crate) use crate::mcp_files::{files_of, servers_of, table_line};

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
    lock: Option<Arc<LockStore>>,
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

    /// What is started or reached.
    fn identity(&self) -> Option<String> {
        self.found.config.as_ref().ok().map(|config| config.transport.identity())
    }

    /// Makes the server. It is not started.
    pub(crate) fn server(&self, host: &ClientHost) -> Result<RemoteServer, Problem> {
        let config = self.found.config.clone().map_err(Problem::new)?;
        pinned(config, host.clone(), self.lock.clone())
    }

    /// Changes what is pinned of it.
    pub(crate) fn keep_pins(&self, pins: PinnedServer) -> Result<PathBuf, Problem> {
        let lock = self.lock.as_ref().ok_or_else(|| {
            Problem::new("there is no directory for your settings")
                .hint("set `HOME` or `XDG_CONFIG_HOME`")
        })?;
        lock.pin(self.prefix(), pins)?;
        Ok(lock.path().to_owned())
    }
}

/// Finds the servers, strongest file first. Of two with the same name the first is used. At a
/// terminal it asks for the inputs of trusted files.
pub(crate) fn find(setup: &Setup) -> Result<Vec<McpEntry>, Problem> {
    find_with(setup, true)
}

/// The same; without `asks` an input that is not known stays unknown.
pub(crate) fn find_with(setup: &Setup, asks: bool) -> Result<Vec<McpEntry>, Problem> {
    let mut all = Vec::new();
    // One for all servers: a lock file of many servers is long.
    let project_lock = Arc::new(LockStore::new(setup.site.project.join(Lockfile::FILE)));
    let user_lock = user_lock(setup);
    for table in &setup.loaded.mcp_servers {
        let is_from_project = table.layer.is_from_project();
        let workspace = if is_from_project { &table.directory } else { setup.here() };
        let mut context = context(setup, workspace);
        context.files = files_of_layer(is_from_project, workspace);
        let found = config::read_haft(&table.name, &table.table, &context).map_err(|why| {
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
    for (path, directory, text) in mcp_files::project_files(setup)? {
        let is_covered = setup.is_trusted && covers(&path, text.as_bytes());
        let mut context = context(setup, &directory);
        context.files =
            if is_covered { files_of_layer(true, &directory) } else { ConfigFiles::NotRead };
        context.inputs = mcp_inputs::of_file(&path, &text, setup, asks && is_covered);
        let servers = config::read(mcp_files::format_of(&path), &text, &context);
        let lock = Some(project_lock.clone());
        all.extend(entries(setup, &path, servers, !is_covered, lock));
    }
    for (path, format) in mcp_files::user_files(setup) {
        let servers = mcp_files::read_user_file(&path, format, setup, asks);
        all.extend(entries(setup, &path, servers, false, user_lock.clone()));
    }
    for entry in &mut all {
        if let Ok(config) = &mut entry.found.config {
            unwrap(config);
            toolchains::show_to(config, setup);
        }
    }
    Ok(without_duplicates(all, setup))
}

/// Which files a configuration may name. One of a project names files of the project.
fn files_of_layer(is_from_project: bool, directory: &Path) -> ConfigFiles {
    if is_from_project { ConfigFiles::Below(directory.to_owned()) } else { ConfigFiles::All }
}

/// The servers of a file of another program. One that cannot be read must not stop haft: it is a
/// note, and its servers do not start.
fn entries(
    setup: &Setup,
    path: &Path,
    servers: Result<Vec<FoundServer>, haft::Error>,
    waits_for_trust: bool,
    lock: Option<Arc<LockStore>>,
) -> Vec<McpEntry> {
    let origin = shown(path, setup.here());
    match servers {
        Ok(servers) => {
            let entry = |found| McpEntry {
                found,
                origin: origin.clone(),
                waits_for_trust,
                lock: lock.clone(),
            };
            servers.into_iter().map(entry).collect()
        }
        Err(why) => {
            setup.note(format!("MCP servers of `{origin}` are not used: {}", why.message()));
            Vec::new()
        }
    }
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
    let own = command.written.len().saturating_sub(rest.len());
    command.written.drain(..own);
    (command.program, command.args) = (program, args);
    config.name = name.unwrap_or_else(|| config.name.clone());
}

/// The lock file of a server that a client starts behind haft: that of the file which names it, or
/// the user's own.
pub(crate) fn lock_of(setup: &Setup, name: &str, identity: &str) -> Option<Arc<LockStore>> {
    let is_it = |entry: &McpEntry| {
        let config = entry.found.config.as_ref().ok();
        entry.prefix() == name
            && config.is_some_and(|config| config.transport.identity() == identity)
    };
    // The client waits for its server: nothing is asked.
    let known = find_with(setup, false).ok()?.into_iter().find(is_it).and_then(|entry| entry.lock);
    known.or_else(|| user_lock(setup))
}

/// The lock file of the user's own servers.
fn user_lock(setup: &Setup) -> Option<Arc<LockStore>> {
    let user = setup.site.user()?;
    Some(Arc::new(LockStore::new(user.join(Lockfile::FILE))))
}

/// Gives a server the pins of a lock file, and keeps its first ones there.
pub(crate) fn pinned(
    config: ServerConfig,
    mut host: ClientHost,
    lock: Option<Arc<LockStore>>,
) -> Result<RemoteServer, Problem> {
    let Some(lock) = lock else { return Ok(RemoteServer::with(config, host)?) };
    let pins = lock.pins(&config.name)?;
    host.pins = Some(lock);
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

fn without_duplicates(all: Vec<McpEntry>, setup: &Setup) -> Vec<McpEntry> {
    let mut kept: Vec<McpEntry> = Vec::new();
    for entry in all {
        match kept.iter().find(|known| known.prefix() == entry.prefix()) {
            None => kept.push(entry),
            // Many people have one server in several clients.
            Some(known) if known.identity().is_some() && known.identity() == entry.identity() => {}
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
        host.credentials = Some(Arc::new(CredentialFiles::new(user.join("mcp-logins"))));
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

/// Closes servers, all at once: each waits for its process.
pub(crate) async fn shut_down(servers: Vec<RemoteServer>) {
    let mut closing = tokio::task::JoinSet::new();
    for server in servers {
        closing.spawn(async move { server.shut_down().await });
    }
    while closing.join_next().await.is_some() {}
}
