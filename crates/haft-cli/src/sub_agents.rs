//! The sub-agents of `haft run` and `haft chat`: `.claude/agents/*.md` of the project and the user.
//!
//! In: the directories of agents. Out: for each file a tool that runs the agent.
//! FAIL CLOSED: a file of a project that trust does not cover with its content is not offered, and
//! a directory that is a symlink out of the project is not read.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft::{
    ToolRegistry,
    agent::{Agent, AgentFile, Model},
    policy::read_regular_file,
    registry::ToolRegistryBuilder,
    secrets::Secret,
    tool::Permission,
};
use serde_json::{Value, json};

use crate::{
    args::AgentArgs,
    builtin,
    error::Problem,
    host_env::HostEnv,
    model::{self, LoadedModel},
    setup::Setup,
    skills,
    style::{self, BOLD, DIM, NAME, Table},
};

/// Where a project and the user keep agents.
pub(crate) const PROJECT_DIRECTORIES: [&str; 2] = [".haft/agents", ".claude/agents"];
const USER_DIRECTORY: &str = ".claude/agents";
/// Tools that an agent has besides those of every command.
const RESERVED_NAMES: [&str; 3] = ["tool_search", "check_task", "read_result"];
/// Part of the names of tools that come from a source, such as `skill__load`.
const SOURCE_SEPARATOR: &str = "__";
/// The most bytes of one file.
const MAX_FILE_BYTES: usize = 256 << 10;
/// The most files of one directory.
const MAX_FILES: usize = 200;

/// An agent of a file.
pub(crate) struct FoundAgent {
    pub(crate) path: PathBuf,
    pub(crate) file: AgentFile,
}

/// The agents that are offered, and what is wrong with other files.
#[derive(Default)]
pub(crate) struct FoundAgents {
    pub(crate) agents: Vec<FoundAgent>,
    pub(crate) problems: Vec<String>,
}

impl FoundAgents {
    /// Reads the agents of one directory, by file name. `is_trusted` gets each file with its
    /// content.
    pub(crate) fn read(
        &mut self,
        directory: &Path,
        mut is_trusted: impl FnMut(&Path, &[u8]) -> bool,
    ) {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return,
            Err(e) => {
                self.problems.push(format!("`{}` cannot be read: {e}", directory.display()));
                return;
            }
        };
        // The type of the entry itself: a symlink could point to a file outside of the project.
        let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        let files = entries.filter_map(Result::ok).filter(is_file).map(|entry| entry.path());
        let is_markdown = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "md");
        let mut files: Vec<PathBuf> = files.filter(is_markdown).collect();
        files.sort();
        if files.len() > MAX_FILES {
            let (count, shown) = (files.len(), directory.display());
            self.problems.push(format!("`{shown}` has {count} files; {MAX_FILES} are read"));
            files.truncate(MAX_FILES);
        }
        for path in files {
            let shown = path.display();
            let content = match read_regular_file(&path, MAX_FILE_BYTES) {
                Ok(Some(content)) => content,
                Ok(None) => continue,
                Err(error) => {
                    self.problems.push(error.to_string());
                    continue;
                }
            };
            if !is_trusted(&path, &content) {
                let why = "it is not trusted, see `haft trust`";
                self.problems.push(format!("the agent `{shown}` is not offered: {why}"));
                continue;
            }
            let parsed = String::from_utf8(content).map_err(|_| "it is not UTF-8".to_owned());
            let parsed = parsed.and_then(|text| AgentFile::parse(&text).map_err(|e| e.to_string()));
            match parsed {
                Ok(file) if self.agents.iter().any(|agent| agent.file.name == file.name) => {
                    let why = "a nearer file has an agent of this name";
                    self.problems.push(format!("the agent `{shown}` is not offered: {why}"));
                }
                Ok(file) => self.agents.push(FoundAgent { path, file }),
                Err(why) => {
                    self.problems.push(format!("the agent `{shown}` is not offered: {why}"));
                }
            }
        }
    }

    /// Prints what is wrong with files, and which fields have no effect.
    pub(crate) fn print_notes(&self, setup: &Setup) {
        for problem in &self.problems {
            setup.note(problem.clone());
        }
        for agent in &self.agents {
            for note in &agent.file.notes {
                setup.note(format!("{}: {note}", agent.path.display()));
            }
        }
    }

    /// The agents for a page; empty without any.
    pub(crate) fn page(&self) -> String {
        if self.agents.is_empty() {
            return String::new();
        }
        let mut table = Table::new(2);
        for agent in &self.agents {
            table.row([
                (NAME, agent.file.name.clone()),
                (DIM, style::visible(&tools_text(&agent.file))),
                (anstyle::Style::new(), style::visible(&agent.file.description)),
            ]);
        }
        format!("\n{}\n{table}", style::paint(BOLD, "Agents"))
    }

    /// The agents as JSON.
    pub(crate) fn to_json(&self) -> impl Iterator<Item = Value> {
        self.agents.iter().map(|agent| {
            let file = &agent.file;
            json!({
                "kind": "agent", "name": file.name, "description": file.description,
                "tools": file.tools, "disallowed_tools": file.disallowed_tools,
                "max_turns": file.max_turns, "model": file.model,
                "read_only": file.is_read_only, "file": agent.path,
            })
        })
    }
}

/// Which tools an agent sees, in words.
pub(crate) fn tools_text(file: &AgentFile) -> String {
    let mut text = match &file.tools {
        None => "all tools".to_owned(),
        Some(tools) if tools.is_empty() => "no tools".to_owned(),
        Some(tools) => tools.join(" "),
    };
    if !file.disallowed_tools.is_empty() {
        text.push_str(&format!(" without {}", file.disallowed_tools.join(" ")));
    }
    if file.is_read_only {
        text.push_str(", read-only");
    }
    text
}

/// Returns the agents of the working directory and the directories above it up to the project's
/// root, then those of the user. A nearer one replaces one of the same name. An agent with the name
/// of a tool is left out.
pub(crate) fn find(setup: &Setup, tools: &ToolRegistry) -> FoundAgents {
    let mut found = FoundAgents::default();
    for directory in setup.site.directories() {
        for name in PROJECT_DIRECTORIES {
            let path = directory.join(name);
            match skills::is_inside(&path, &setup.site.root) {
                Some(true) if setup.is_trusted => found.read(&path, setup.site.covers_content()),
                Some(true) => found.read(&path, |_, _| false),
                Some(false) => found.problems.push(format!(
                    "`{}` is a symlink out of the project, so its agents are not read",
                    path.display()
                )),
                None => {}
            }
        }
    }
    if let Some(home) = setup.site.home() {
        let path = home.join(USER_DIRECTORY);
        if path.is_dir() && !path.starts_with(&setup.site.root) {
            found.read(&path, |_, _| true);
        }
    }
    let FoundAgents { agents, problems } = &mut found;
    agents.retain(|agent| {
        let name = &*agent.file.name;
        let is_reserved = RESERVED_NAMES.contains(&name) || name.contains(SOURCE_SEPARATOR);
        let is_free = !is_reserved && builtin::find(tools, name).is_none();
        if !is_free {
            let path = agent.path.display();
            problems
                .push(format!("the agent `{path}` is not offered: `{name}` is the name of a tool"));
        }
        is_free
    });
    found
}

/// What the agents of a run share.
pub(crate) struct SubAgentSetup<'a> {
    pub(crate) args: &'a AgentArgs,
    pub(crate) setup: &'a Setup,
    pub(crate) host: &'a HostEnv,
    /// The model of the run.
    pub(crate) model: &'a LoadedModel,
    /// Whether the run has a money limit, so that each model needs a price.
    pub(crate) needs_price: bool,
}

impl SubAgentSetup<'_> {
    /// Adds the agents to a registry. Returns the keys of their models, so that they are redacted.
    pub(crate) fn add(
        &self,
        mut registry: ToolRegistryBuilder,
    ) -> Result<(ToolRegistryBuilder, Vec<Secret>), Problem> {
        let found = find(self.setup, &builtin::all(self.setup)?.build()?);
        found.print_notes(self.setup);
        let names: BTreeSet<&str> =
            found.agents.iter().map(|agent| agent.file.name.as_str()).collect();
        let mut keys = Vec::new();
        for agent in &found.agents {
            let (model, max_tokens) = match self.model_of(agent) {
                Ok(None) => (Arc::clone(&self.model.model), self.model.max_tokens),
                Ok(Some(loaded)) => {
                    keys.extend(loaded.key);
                    (loaded.model, loaded.max_tokens)
                }
                Err(why) => {
                    let path = agent.path.display();
                    self.setup.note(format!("the agent `{path}` is not offered: {why}"));
                    continue;
                }
            };
            registry = registry.add(self.tool(agent, model, max_tokens, &names));
        }
        Ok((registry, keys))
    }

    /// The model that a file names; `None` for that of the run.
    fn model_of(&self, agent: &FoundAgent) -> Result<Option<LoadedModel>, String> {
        let Some(name) = &agent.file.model else { return Ok(None) };
        if !name.contains(':') {
            self.setup.note(format!(
                "{}: `model: {name}` has no effect: the agent uses the model of the run; name one \
                 as `--model` does, such as `anthropic:NAME`",
                agent.path.display()
            ));
            return Ok(None);
        }
        let loaded = model::load(Some(name), &self.setup.loaded.model, self.host);
        let loaded = loaded.map_err(|problem| problem.to_string())?;
        if self.needs_price && loaded.model.info().price.is_none() {
            return Err(format!("the run has a money limit, and the price of `{name}` is unknown"));
        }
        Ok(Some(loaded))
    }

    fn tool(
        &self,
        found: &FoundAgent,
        model: Arc<dyn Model>,
        max_tokens: Option<u64>,
        names: &BTreeSet<&str>,
    ) -> haft::tool::DynTool {
        let mut agent: Agent = found.file.agent(model).on_tool_failure(self.args.on_tool_failure);
        // An agent that starts agents could repeat itself until the budget ends.
        agent.tools = agent.tools.without(names.iter().map(|name| (*name).to_owned()));
        if let Some(tokens) = max_tokens {
            agent = agent.max_tokens(tokens);
        }
        // Each call of the agent is authorized. Starting it has no other effect.
        agent.into_tool(found.file.tool_spec().permission(Permission::None))
    }
}
