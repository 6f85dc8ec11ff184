//! [`BuiltinTools`]: all built-in tools of one workspace, to be added to a registry.

use std::{path::PathBuf, sync::Arc};

use haft::policy::CommandTool;
use haft_core::{DynTool, IntoTools};
use haft_sandbox::{Access, Environment, Helper, Profile, Sandbox, Workspace};

use crate::{AskUser, Fetch, ask, fetch, files, process};

/// The built-in tools of one workspace. Add it to a registry like a tool.
///
/// Each tool declares the roots of this workspace. The policy treats paths below them as inside. A
/// run without a working directory uses the first root.
#[derive(Debug, Clone)]
#[must_use]
pub struct BuiltinTools {
    pub(crate) workspace: Arc<Workspace>,
    /// Sandbox for processes. Without one, tools that start processes are refused.
    pub(crate) boundary: process::Boundary,
    /// Environment variables of the processes.
    pub(crate) environment: Environment,
    /// Git configuration that processes see.
    pub(crate) git: process::GitConfig,
    /// Whether shell commands may use the network.
    pub(crate) network: bool,
    /// What commands may access outside the workspace, and whether they run confined without
    /// approval.
    pub(crate) settings: process::Settings,
    /// Tools declared as commands in configuration.
    pub(crate) declared: Vec<CommandTool>,
    /// Settings of `fetch_url`; `None` leaves the tool out.
    pub(crate) fetch: Option<Fetch>,
    /// Settings of `ask_user`; `None` leaves the tool out.
    pub(crate) ask: Option<AskUser>,
}

impl BuiltinTools {
    /// Offers only the file tools, in this workspace.
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace: Arc::new(workspace),
            boundary: process::Boundary::default(),
            environment: Environment::new(),
            git: process::GitConfig::default(),
            network: false,
            settings: process::Settings::default(),
            declared: Vec::new(),
            fetch: None,
            ask: None,
        }
    }

    /// Starts processes in a sandbox.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.boundary = process::Boundary::Ready(Box::new(sandbox));
        self
    }

    /// Starts processes in the strongest sandbox that this machine supports. It is detected when
    /// the first process starts; without one, processes are refused.
    pub fn helper(mut self, helper: Helper) -> Self {
        self.boundary = process::Boundary::lazy(helper);
        self
    }

    /// Enforces the memory limit of commands with cgroups below a directory that the operator
    /// delegated; see [`Sandbox::with_cgroup`]. Call it after [`helper`](Self::helper). It has no
    /// effect if [`sandbox`](Self::sandbox) was called. If the directory cannot enforce the limit,
    /// every command is refused.
    pub fn cgroup(mut self, directory: impl Into<PathBuf>) -> Self {
        self.boundary = self.boundary.with_cgroup(directory.into());
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
        self.environment = match path {
            Some(path) => given.set("PATH", path),
            None => given,
        };
        self
    }

    /// Sets the author of commits made by commands. The user's own git configuration is hidden in
    /// the sandbox, because it can start programs. A repository's `user.name` overrides this, and
    /// so does `GIT_AUTHOR_NAME` from [`variables`](Self::variables).
    pub fn git_identity(mut self, name: impl Into<String>, email: impl Into<String>) -> Self {
        self.git.set_identity(name.into(), email.into());
        self
    }

    /// Lets shell commands use the network. Read-only commands still cannot.
    pub fn network(mut self) -> Self {
        self.network = true;
        self
    }

    /// Sets whether a shell command that is not known to write runs confined without approval when
    /// no rule matches it: read-only file system, no network. Default: yes, in the tier
    /// `namespaces` only; in other tiers such a command needs approval.
    pub fn confine_unasked(mut self, confine: bool) -> Self {
        self.settings.confine_unasked = confine;
        self
    }

    /// Lets commands read a directory outside the workspace, such as a toolchain in the home
    /// directory. File tools cannot access it. The path must be an existing directory without
    /// symlinks.
    pub fn read_only_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.add_root(path.into(), Access::Read);
        self
    }

    /// Lets commands that may write also write a directory outside the workspace, such as a package
    /// cache. File tools cannot access it. The path must be an existing directory without symlinks.
    pub fn writable_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.add_root(path.into(), Access::Write);
        self
    }

    /// Hides a file or directory below such a root from commands, such as a credentials file. Needs
    /// the tier `namespaces`.
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.hidden.push(path.into());
        self
    }

    /// Sets one more environment variable for commands.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment = self.environment.set(name, value);
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
        let tools =
            self.declared.iter().map(|tool| process::declared(&self, tool.clone())).collect();
        self.within(tools)
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
        let mut tools = files::tools(&self);
        tools.extend(process::tools(&self));
        tools = self.within(tools);
        tools.extend(fetch::tools(&self));
        tools.extend(ask::tools(&self));
        tools
    }
}
