//! What takes effect when the files of a directory are trusted, as lines for a person.

use std::path::{Path, PathBuf};

use haft::policy::{
    ConfigFile, Decision, HookSpec, KeyReference, McpServerTable, Mode, NetworkAccess,
};

use crate::{
    error::Problem,
    hooks, location, mcp_servers, proxy,
    site::Site,
    style::{self, NAME, WARN},
};

/// Lists the access that `[sandbox]` gives to commands.
fn widened(
    sandbox: &haft::policy::SandboxSettings,
    at: &dyn Fn(&haft::policy::SourceLocation) -> String,
) -> Vec<(String, String)> {
    let shown = |what: &str, path: &Path| format!("{what} {}", path.display());
    let read =
        sandbox.read_only_roots.iter().map(|(path, location)| (at(location), shown("reads", path)));
    let write =
        sandbox.writable_roots.iter().map(|(path, location)| (at(location), shown("writes", path)));
    let variables = sandbox
        .pass_env
        .iter()
        .map(|(name, location)| (at(location), format!("gets variable {name}")));
    let cgroup =
        sandbox.cgroup.iter().map(|(path, location)| (at(location), shown("runs in", path)));
    let network = sandbox.network_location.iter().filter(|_| !sandbox.network.is_none());
    let network = network.map(|location| (at(location), format!("contacts {}", sandbox.network)));
    read.chain(write).chain(variables).chain(network).chain(cgroup).collect()
}

/// What a rule or a tool lets its command contact.
fn contacts(network: Option<&NetworkAccess>) -> String {
    let network = network.filter(|network| !network.is_none());
    network.map(|network| format!(" (contacts {network})")).unwrap_or_default()
}

/// Lists where `[model]` sends conversations, and with which key.
fn model_lines(
    model: &haft::policy::ModelSettings,
    at: &dyn Fn(&haft::policy::SourceLocation) -> String,
) -> Vec<(String, String)> {
    let Some(location) = &model.location else { return Vec::new() };
    let mut lines = Vec::new();
    if let Some(endpoint) = &model.endpoint {
        let mut line = endpoint.name.clone();
        if let Some(url) = &endpoint.base_url {
            line.push_str(&format!(" at {url}"));
        }
        match &endpoint.key {
            Some(KeyReference::Variable(name)) => line.push_str(&format!(" with the key {name}")),
            Some(KeyReference::Secret(name)) => {
                line.push_str(&format!(" with the key secret://{name}"));
            }
            None => {}
        }
        lines.push(line);
    }
    let proxy = model.proxy.as_ref();
    lines.extend(proxy.map(|url| format!("through the proxy {}", proxy::without_user(url))));
    let trusted = |path: &PathBuf| format!("trusts the authorities of {}", path.display());
    lines.extend(model.ca_file.as_ref().map(trusted));
    lines.into_iter().map(|line| (at(location), line)).collect()
}

/// The MCP servers of `haft.toml`.
fn server_lines(
    tables: &[McpServerTable],
    at: &dyn Fn(&haft::policy::SourceLocation) -> String,
) -> Vec<(String, String)> {
    tables.iter().map(|table| (at(&table.location), mcp_servers::table_line(table))).collect()
}

/// What takes effect when the files of one directory are trusted.
#[derive(Default)]
pub(crate) struct TrustEffects {
    pub(crate) allows: Vec<(String, String)>,
    pub(crate) hooks: Vec<(String, String)>,
    pub(crate) tools: Vec<(String, String)>,
    pub(crate) roots: Vec<PathBuf>,
    /// What commands may access besides the workspace.
    pub(crate) sandbox: Vec<(String, String)>,
    /// Where conversations are sent.
    pub(crate) model: Vec<(String, String)>,
    /// The MCP servers that start.
    pub(crate) servers: Vec<(String, String)>,
    /// The skills, and what they allow.
    pub(crate) skills: Vec<(String, String)>,
    /// The agents, and which tools they see.
    pub(crate) agents: Vec<(String, String)>,
    pub(crate) mode: Option<Mode>,
    /// Notes about the hooks.
    pub(crate) notes: Vec<String>,
    /// The files themselves, and the scripts that their hooks run.
    pub(crate) parts: Vec<PathBuf>,
}

impl TrustEffects {
    pub(crate) fn of(files: &[ConfigFile], site: &Site) -> Result<Self, Problem> {
        let (before, after) = (site.load_files(files, false)?, site.load_files(files, true)?);
        let at = |location| location::at(location, &site.root);
        let allows =
            after.rules.iter().filter(|rule| rule.decision == Decision::Allow && rule.enabled);
        let hook = |hook: &HookSpec| format!("{}: {}", hook.event, hooks::called(&hook.handler));
        let scripts = files.iter().flat_map(|file| site.scripts_of(file));
        Ok(Self {
            allows: allows
                .map(|rule| {
                    let patterns: Vec<&str> = rule.matches.iter().map(|p| p.as_str()).collect();
                    (at(&rule.location), patterns.join(", ") + &contacts(Some(&rule.network)))
                })
                .collect(),
            hooks: after.hooks.iter().map(|own| (at(&own.location), hook(own))).collect(),
            tools: after
                .tools
                .iter()
                .map(|tool| {
                    let contacts = contacts(tool.network.as_ref());
                    let text = format!("{}: {}{contacts}", tool.spec.name, tool.command_text());
                    (at(&tool.location), text)
                })
                .collect(),
            notes: after.hooks.iter().filter_map(|hook| site.partial_note(hook)).collect(),
            sandbox: widened(&after.sandbox, &|location| location::at(location, &site.root)),
            model: model_lines(&after.model, &|location| location::at(location, &site.root)),
            servers: server_lines(&after.mcp_servers, &|own| location::at(own, &site.root)),
            skills: Vec::new(),
            agents: Vec::new(),
            roots: after.context.roots,
            mode: (after.context.mode != before.context.mode).then_some(after.context.mode),
            parts: files
                .iter()
                .map(|file| file.path.clone())
                .chain(scripts.map(|(s, _)| s))
                .collect(),
        })
    }

    pub(crate) fn lines(&self) -> String {
        let mut out = String::new();
        let runs = style::paint(WARN, "runs a hook ");
        let adds = style::paint(WARN, "adds a tool ");
        let opens = style::paint(WARN, "for commands");
        let model = style::paint(WARN, "the model   ");
        let skill = style::paint(WARN, "adds a skill");
        let agent = style::paint(WARN, "adds an agent");
        let starts = style::paint(WARN, "MCP server  ");
        let kinds = [
            ("allows      ", &self.allows),
            (&runs, &self.hooks),
            (&adds, &self.tools),
            (&opens, &self.sandbox),
            (&model, &self.model),
            (&starts, &self.servers),
            (&skill, &self.skills),
            (&agent, &self.agents),
        ];
        for (kind, all) in kinds {
            for (location, what) in all {
                let location = style::paint(NAME, location);
                out += &format!("  {kind}  {}  {location}\n", style::visible(what));
            }
        }
        for root in &self.roots {
            out += &format!("  adds a root   {}\n", style::visible(&root.display().to_string()));
        }
        for note in &self.notes {
            out += &format!("  {}\n", style::paint(WARN, style::visible(note)));
        }
        if let Some(mode) = self.mode {
            out += &format!("  sets the mode {}\n", style::paint(WARN, mode.as_str()));
        }
        out
    }
}
