//! All built-in tools of one workspace, to be added to a registry.

use std::{path::PathBuf, sync::Arc};

use haft::CommandTool;
use haft_core::{DynTool, IntoTools};
use haft_sandbox::{Access, Environment, Helper, Profile, Sandbox, Workspace};

use crate::{AskUser, Fetch, ask, fetch, files, process};

/// The built-in tools of one workspace. Add it to a registry like a tool.
///
/// The tools say which workspace it is: judges take what lies there for inside, and a run that says
/// nothing else works in its first folder.
#[derive(Debug, Clone)]
#[must_use]
pub struct BuiltinTools {
    pub(crate) workspace: Arc<Workspace>,
    /// What confines processes; without it tools which start processes are refused.
    pub(crate) boundary: process::Boundary,
    /// What processes are given of the host's variables.
    pub(crate) environment: Environment,
    /// What git reads inside.
    pub(crate) git: process::GitConfig,
    /// Whether commands of the shell may reach other machines.
    pub(crate) network: bool,
    /// What commands may touch besides the workspace, and whether they run confined unasked.
    pub(crate) settings: process::Settings,
    /// Tools that people declare as commands.
    pub(crate) declared: Vec<CommandTool>,
    /// How pages are fetched; nothing means that they are not.
    pub(crate) fetch: Option<Fetch>,
    /// How the user is asked; nothing means that nobody is.
    pub(crate) ask: Option<AskUser>,
}

impl BuiltinTools {
    /// Works in a workspace, with files alone.
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

    /// Starts processes in the strongest sandbox that this machine has. It is looked for when the
    /// first process is to be started; where there is none, that is refused.
    pub fn helper(mut self, helper: Helper) -> Self {
        self.boundary = process::Boundary::later(helper);
        self
    }

    /// Keeps the memory limit of commands by control groups in a directory that the operator
    /// delegated; see [`Sandbox::with_cgroup`]. It comes after [`helper`](Self::helper), and changes
    /// nothing where a sandbox was given. A directory that cannot hold the limit refuses every command.
    pub fn cgroup(mut self, directory: impl Into<PathBuf>) -> Self {
        self.boundary = self.boundary.with_cgroup(directory.into());
        self
    }

    /// Gives processes the harmless ones of the host's variables: `PATH`, the language, the time
    /// zone and the like. Without this they get a plain `PATH` and no others.
    pub fn variables<K: Into<String>, V: Into<String>>(
        mut self,
        host: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let given = Environment::from_host(host, &Profile::default().environment);
        // A folder that is not named in full would be one of the workspace, and its programs too.
        let path = given.get("PATH").map(|path| {
            path.split(':').filter(|folder| folder.starts_with('/')).collect::<Vec<_>>().join(":")
        });
        self.environment = match path {
            Some(path) => given.set("PATH", path),
            None => given,
        };
        self
    }

    /// Says who commits are by that commands make. The user's own configuration of git is not seen
    /// inside, because it can start programs. A repository's `user.name` goes before this, and so
    /// does `GIT_AUTHOR_NAME` of [`variables`](Self::variables).
    pub fn git_identity(mut self, name: impl Into<String>, email: impl Into<String>) -> Self {
        self.git.set_identity(name.into(), email.into());
        self
    }

    /// Lets commands of the shell reach other machines. Those that only read still cannot.
    pub fn network(mut self) -> Self {
        self.network = true;
        self
    }

    /// Says whether a command of the shell that is not known to write runs confined where no rule
    /// speaks of it: everything is read-only, there is no network, and no one is asked. It does unless
    /// this says otherwise, and only in the tier `namespaces`; elsewhere such a command asks.
    pub fn confine_unasked(mut self, confine: bool) -> Self {
        self.settings.confine_unasked = confine;
        self
    }

    /// Shows commands a directory outside the workspace, such as a toolchain in the home directory.
    /// File tools do not work there. The path must be an existing directory without symlinks.
    pub fn read_only_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.add_root(path.into(), Access::Read);
        self
    }

    /// Lets commands that are allowed to write also write a directory outside the workspace, such as a
    /// cache of packages. File tools do not work there. The path must be an existing directory without
    /// symlinks.
    pub fn writable_root(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.add_root(path.into(), Access::Write);
        self
    }

    /// Hides a file or a directory below such a root from commands, such as a file of credentials.
    /// Needs the tier `namespaces`.
    pub fn hide(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.hidden.push(path.into());
        self
    }

    /// Gives commands one more variable.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment = self.environment.set(name, value);
        self
    }

    /// Adds tools that people declare as commands.
    pub fn declared(mut self, tools: impl IntoIterator<Item = CommandTool>) -> Self {
        self.declared.extend(tools);
        self
    }

    /// Returns the declared tools alone, for hosts that want nothing else.
    #[must_use]
    pub fn only_declared(self) -> Vec<DynTool> {
        let tools =
            self.declared.iter().map(|tool| process::declared(&self, tool.clone())).collect();
        self.within(tools)
    }

    /// Says of tools which folders they keep to, so that nobody else has to.
    fn within(&self, tools: Vec<DynTool>) -> Vec<DynTool> {
        let roots: Vec<PathBuf> =
            self.workspace.roots().into_iter().map(|root| root.path).collect();
        tools.into_iter().map(|tool| tool.within(roots.clone())).collect()
    }

    /// Fetches pages.
    pub fn fetch(mut self, fetch: Fetch) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// Asks the user.
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
