//! Network access of commands by host: real commands in the real sandbox, through the proxy.
#![cfg(target_os = "linux")]

mod access;
mod asking;
mod attacks;
mod bounds;
mod packages;

use std::{
    collections::HashMap,
    fs, io,
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft::{
    Run, Runtime, RuntimeBuilder, ToolCall, ToolRegistry, ToolResult,
    policy::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, Rules},
};
use haft_core::BoxFuture;
use haft_sandbox::{Access, Helper, Level, Sandbox, Workspace};
use haft_tools::{BuiltinTools, NetworkLimits, Resolve};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::helper;

/// A rule that allows every command.
const ALLOW: &str = "[[rule]]\nmatch = \"Bash\"\ndecision = \"allow\"\n";

/// A workspace whose commands have network access by `haft.toml`.
struct Networked {
    inside: PathBuf,
    tools: BuiltinTools,
    config: PolicyConfig,
    _directory: TempDir,
}

impl Networked {
    /// Reads a configuration that allows all commands.
    fn new(text: &str) -> Self {
        Self::with_rules(&format!("{text}\n{ALLOW}"))
    }

    fn with_rules(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().canonicalize().unwrap().join("inside");
        fs::create_dir(&inside).unwrap();
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: inside.clone(),
            text: text.to_owned(),
        };
        let options = LoadOptions { trusted: true, ..LoadOptions::default() };
        let config = PolicyConfig::read(&[file], &options).unwrap();
        let workspace = Workspace::builder().root(&inside, Access::Write).build().unwrap();
        let tools = BuiltinTools::new(workspace)
            .helper(helper())
            .network_access(config.sandbox.network.clone())
            .declared(config.tools.iter().cloned());
        Self { inside, tools, config, _directory: directory }
    }

    fn tools(mut self, change: impl FnOnce(BuiltinTools) -> BuiltinTools) -> Self {
        self.tools = change(self.tools);
        self
    }

    fn limits(self, change: impl FnOnce(&mut NetworkLimits)) -> Self {
        let mut limits = NetworkLimits::default();
        change(&mut limits);
        self.tools(|tools| tools.network_limits(limits))
    }

    fn builder(&self) -> RuntimeBuilder {
        let PolicyConfig { rules, context, .. } = self.config.clone();
        let registry = ToolRegistry::builder().add(self.tools.clone()).build().unwrap();
        Runtime::builder().registry(registry).policy(Rules::new(rules, context).unwrap())
    }

    fn run(&self, runtime: &Runtime) -> Run {
        runtime.run_builder().working_directory(&self.inside).start()
    }

    /// Runs a bash script in a run of its own.
    async fn shell(&self, script: &str) -> ToolResult {
        self.call("shell", json!({"command": script})).await
    }

    async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.call_with(self.builder(), tool, arguments).await
    }

    async fn call_with(&self, runtime: RuntimeBuilder, tool: &str, arguments: Value) -> ToolResult {
        let turn = self.run(&runtime.build().unwrap()).turn().await.unwrap();
        let mut answers = turn.run(vec![ToolCall::new("c1", tool, arguments)]).await;
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }
}

/// What a result says to the model.
fn text(result: &ToolResult) -> String {
    match result.output() {
        Some(output) => output.to_text(),
        None => result.failure().map(|failure| failure.model_text()).unwrap_or_default(),
    }
}

/// The recorded contacts: `host:port verdict`.
fn contacts(result: &ToolResult) -> Vec<String> {
    let hosts = result.tier().and_then(|tier| tier.get("hosts")?.as_array().cloned());
    let line = |host: &Value| {
        let (name, verdict) = (host["host"].as_str().unwrap(), host["verdict"].as_str().unwrap());
        format!("{name}:{} {verdict}", host["port"])
    };
    hosts.unwrap_or_default().iter().map(line).collect()
}

/// Whether this machine can filter hosts. Prints the reason if not.
async fn has_namespaces() -> bool {
    match Sandbox::at(helper(), Level::Namespaces).await {
        Ok(_) => true,
        Err(error) => {
            eprintln!("NOT TESTED: level namespaces is missing here: {error}");
            false
        }
    }
}

/// Whether a program is installed. Prints the reason if not.
fn has_program(name: &str) -> bool {
    let found = std::process::Command::new(name).arg("--version").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("NOT TESTED: the program `{name}` is not installed here");
    }
    is_there
}

/// A resolver with fixed answers that counts lookups. The last answer repeats.
#[derive(Debug, Clone, Default)]
struct FixedDns {
    answers: Arc<Mutex<HashMap<String, Vec<IpAddr>>>>,
    lookups: Arc<AtomicUsize>,
}

impl FixedDns {
    fn answer(self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), addresses);
        self
    }

    fn lookups(&self) -> usize {
        self.lookups.load(Ordering::Relaxed)
    }
}

impl Resolve for FixedDns {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().unwrap();
        let found = match answers.get_mut(name) {
            Some(list) if list.len() > 1 => Ok(vec![list.remove(0)]),
            Some(list) => Ok(list.clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        Box::pin(std::future::ready(found))
    }
}

/// A bash function that sends bytes to the proxy and prints the status line.
const RAW: &str = "trap '' PIPE; raw() { exec 3<>/dev/tcp/127.0.0.1/3128; printf \"$1\" >&3; \
    head -1 <&3 | cut -d' ' -f2; exec 3>&-; }\n";

/// Uses the sandbox without namespaces.
async fn landlock() -> Option<Sandbox> {
    let Helper::At(path) = helper() else { return None };
    Sandbox::at(Helper::At(path), Level::Landlock).await.ok()
}
