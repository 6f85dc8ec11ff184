//! [`BuiltinTools`]: all built-in tools of one workspace, to be added to a registry.

use std::{path::PathBuf, sync::Arc};

use haft::policy::{CommandTool, NetworkAccess};
use haft_core::{DynTool, IntoTools};
use haft_sandbox::{Access, Environment, Helper, Profile, Sandbox, Workspace};

use crate::{
    AskUser, Fetch, NetworkLimits, Resolve, files,
    process::{self, Boundary, ProcessOptions},
};

/// The built-in tools of one workspace. Add it to a registry like a tool.
///
/// Each tool declares the roots of this workspace. The policy treats paths below them as inside. A
/// run without a working directory uses the first root.
#[derive(Debug, Clone)]
#[must_use]
pub struct BuiltinTools {
    workspace: Arc<Workspace>,
    /// What the processes of all tools share.
    processes: ProcessOptions,
    /// Tools declared as commands in configuration.
    declared: Vec<CommandTool>,
    /// Settings of `fetch_url`; `None` leaves the tool out.
    fetch: Option<Fetch>,
    /// Settings of `ask_user`; `None` leaves the tool out.
    ask: Option<AskUser>,
}

impl BuiltinTools {
    /// Offers only the file tools, in this workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace: Arc::new(workspace),
            processes: ProcessOptions::default(),
            declared: Vec::new(),
            fetch: None,
            ask: None,
        }
    }

    /// Starts processes in a sandbox.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.processes.boundary = Boundary::Ready(Box::new(sandbox));
        self
    }

    /// Starts processes in the strongest sandbox that this machine supports. It is detected when
    /// the first process starts; without one, processes are refused.
    pub fn helper(mut self, helper: Helper) -> Self {
        self.processes.boundary = Boundary::lazy(helper);
        self
    }

    /// Enforces the memory limit of commands with cgroups below a directory that the operator
    /// delegated; see [`Sandbox::with_cgroup`]. Call it after [`helper`](Self::helper). It has no
    /// effect if [`sandbox`](Self::sandbox) was called. If the directory cannot enforce the limit,
    /// every command is refused.
    pub fn cgroup(mut self, directory: impl Into<PathBuf>) -> Self {
        self.processes.boundary = self.processes.boundary.with_cgroup(directory.into());
        self
    }

    /// Passes the harmless environment variables of the host to processes: `PATH`, locale, time
    /// zone and similar. Without this call they get a default `PATH` and nothing else.
    pub fn variables<K: Into<String>, V: Into<String>>(
        mut self,
        host: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let given = Environment::from_host(host, &Profile::default().environment);
        // A relative `PATH` entry would resolve inside the workspace, where the model can write
        // programs.
        let path = given.get("PATH").map(|path| {
            path.split(':')
                .filter(|directory| directory.starts_with('/'))
                .collect::<Vec<_>>()
                .join(":")
        });
        self.processes.environment = match path {
            Some(path) => given.set("PATH", path),
            None => given,
        };
        self
    }

    /// Sets the author of commits made by commands. The user's own git configuration is hidden in
    /// the sandbox, because it can start programs. A repository's `user.name` overrides this, and
    /// so does `GIT_AUTHOR_NAME` from [`variables`](Self::variables).
    pub fn git_identity(mut self, name: impl Into<String>, email: impl Into<String>) -> Self {
        self.processes.git.set_identity(name.into(), email.into());
        self
    }

    /// Lets shell commands use the whole network, without a filter. Read-only commands still
    /// cannot.
    pub fn network(self) -> Self {
        self.network_access(NetworkAccess::all())
    }

    /// Lets shell commands contact these hosts, through a proxy that checks every host. A host that
    /// is not listed needs approval at its first contact, and is refused without an approver. It
    /// needs the tier `namespaces`, except for all hosts. Read-only commands have no network.
    pub fn network_access(mut self, access: NetworkAccess) -> Self {
        self.processes.network.access = access;
        self
    }

    /// Sets the bounds on the network traffic of one command.
    pub fn network_limits(mut self, limits: NetworkLimits) -> Self {
        self.processes.network.limits = limits;
        self
    }

    /// Replaces the DNS resolver of the proxy. Its answers are checked like all others.
    pub fn network_resolver(mut self, resolver: impl Resolve) -> Self {
        self.processes.network.resolver = Arc::new(resolver);
        self
    }

    /// Sets whether a shell command that is not known to write runs confined without approval when
    /// no rule matches it: read-only file system, no network. Default: yes, in the tier
    /// `namespaces` only; in other tiers such a command needs approval.
    pub fn confine_unasked(mut self, confine: bool) -> Self {
        self.processes.settings.confine_unasked = confine;
        self
    }

    /// Makes tools whose calls are only explained, with `Turn::explain`: programs are looked up
    /// once. `shell` runs nothing.
    pub fn explain_only(mut self) -> Self {
        self.processes.settings.explains_only = true;
        self
    }

    /// The same for shell commands that another program runs outside of the sandbox: none is
    /// allowed because it would be confined, and no sandbox is needed.
    pub fn judge_only(mut self) -> Self {
        self.processes.settings.confine_unasked = false;
        self.processes.settings.runs_elsewhere = true;
        self.explain_only()
    }

    /// Lets commands read a directory outside the workspace, such as a toolchain in the home
    /// directory. File tools cannot access it. The path must be an existing directory without
    /// symlinks.
    pub fn read_only_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.processes.settings.add_root(path.into(), Access::Read);
        self
    }

    /// Lets commands that may write also write a directory outside the workspace, such as a package
    /// cache. File tools cannot access it. The path must be an existing directory without symlinks.
    pub fn writable_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.processes.settings.add_root(path.into(), Access::Write);
        self
    }

    /// Hides a file or directory below such a root from commands, such as a credentials file. Needs
    /// the tier `namespaces`.
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.processes.settings.hidden.push(path.into());
        self
    }

    /// Sets one more environment variable for commands.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.processes.environment = self.processes.environment.set(name, value);
        self
    }

    /// Adds tools declared as commands.
    pub fn declared(mut self, tools: impl IntoIterator<Item = CommandTool>) -> Self {
        self.declared.extend(tools);
        self
    }

    /// Returns only the declared tools.
    #[must_use]
    pub fn only_declared(self) -> Vec<DynTool> {
        self.within(self.declared_tools().collect())
    }

    fn declared_tools(&self) -> impl Iterator<Item = DynTool> {
        let tools = self.declared.iter();
        tools.map(|tool| process::declared(&self.workspace, &self.processes, tool.clone()))
    }

    /// Declares the workspace roots on each tool.
    fn within(&self, tools: Vec<DynTool>) -> Vec<DynTool> {
        let roots: Vec<PathBuf> =
            self.workspace.roots().into_iter().map(|root| root.path).collect();
        tools.into_iter().map(|tool| tool.within(roots.clone())).collect()
    }

    /// Adds `fetch_url`.
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// Adds `ask_user`.
    pub fn ask(mut self, ask: AskUser) -> Self {
        self.ask = Some(ask);
        self
    }
}

impl IntoTools for BuiltinTools {
    fn into_tools(self) -> Vec<DynTool> {
        let mut tools = files::tools(Arc::clone(&self.workspace));
        tools.push(process::shell(&self.workspace, &self.processes));
        tools.extend(self.declared_tools());
        tools = self.within(tools);
        tools.extend(self.fetch.map(DynTool::of));
        tools.extend(self.ask.map(DynTool::of));
        tools
    }
}
