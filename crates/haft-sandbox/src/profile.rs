//! What a sandboxed process may access, as plain data.
//!
//! In: capabilities and the roots of a workspace. Out: roots, protected names, network, environment
//! and limits. File tools use the same roots, so a shell command has the same limits as they have.
//!
//! FAIL CLOSED: everything that is not listed here is read-only, unreachable or absent.

use std::path::{Path, PathBuf};

use haft_core::{Capabilities, Capability};
use serde::{Deserialize, Serialize};

use crate::{Access, GitDirectory, Root, Workspace};

/// What a sandboxed process may access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Directories with an access mode of their own. Everything else is read-only or unreachable.
    #[serde(default)]
    pub roots: Vec<Root>,
    /// Roots that are git directories of linked worktrees. Only what a commit needs is writable
    /// there.
    #[serde(default)]
    pub git_directories: Vec<GitDirectory>,
    /// Names below each writable root that cannot be changed, nor created if they do not exist.
    #[serde(default)]
    pub protected: Vec<String>,
    /// Protected names that this command may create and change anyway, such as `.git/config`.
    #[serde(default)]
    pub exceptions: Vec<String>,
    /// Paths that rules deny.
    #[serde(default)]
    pub denied: DeniedFiles,
    /// What may be read outside the roots.
    #[serde(default)]
    pub reads: ReadableFiles,
    /// Whether the network can be reached.
    #[serde(default)]
    pub network: Network,
    /// Names of variables that are copied from the host. A trailing `*` matches any suffix.
    #[serde(default = "default_environment")]
    pub environment: Vec<String>,
    /// Resource limits.
    #[serde(default)]
    pub limits: ProcessLimits,
}

/// Paths that rules deny. `read` and `edit` have no symlinks above their last component. Both need
/// namespaces: without them the launch fails.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeniedFiles {
    /// Existing files and directories that cannot be accessed at all.
    pub read: Vec<PathBuf>,
    /// Existing files and directories that are read-only.
    pub edit: Vec<PathBuf>,
    /// Absolute patterns for names that do not exist yet. A matching name cannot be created. `*`,
    /// `?` and `[a-z]` match within a component, `**` crosses components.
    pub new: Vec<String>,
}

/// What may be read outside the roots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadableFiles {
    /// Everything that this user may read, except `/run` and the shared temporary directories.
    #[default]
    Everything,
    /// What programs need to start (`/usr`, `/lib`, `/etc`, …), and these paths.
    Only(Vec<PathBuf>),
}

/// Whether the network can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No socket can be opened.
    #[default]
    None,
    /// Only a proxy: a listening socket on loopback, in a network namespace of its own, which
    /// [`RunningProcess::take_listener`](crate::RunningProcess::take_listener) returns. Nothing
    /// else is reachable. Needs namespaces: without them the launch fails.
    Proxy,
    /// TCP and UDP of the host. No Unix sockets of other programs.
    Host,
}

/// The port of the listening socket of [`Network::Proxy`], on `127.0.0.1` of its namespace.
pub const PROXY_PORT: u16 = 3128;

/// Resource limits of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessLimits {
    /// Seconds of CPU time, per process.
    pub cpu_seconds: u64,
    /// Bytes of address space, per process. Programs reserve far more than they use.
    pub memory: u64,
    /// Bytes of resident memory, all processes together: anonymous and shared memory, without
    /// mapped files. The helper samples it and kills the command above it. `u64::MAX` means no
    /// limit.
    pub resident: u64,
    /// Open files, per process.
    pub open_files: u64,
    /// Bytes of the largest file that may be written.
    pub file_size: u64,
    /// Processes and threads at one time.
    pub processes: u64,
    /// Bytes of the private temporary directory.
    pub scratch: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            cpu_seconds: 600,   // enough to build a medium project; stops a busy loop
            memory: 64 << 30,   // node reserves about 10 GiB for each WebAssembly memory
            resident: 8 << 30,  // enough for a parallel build; stops a leak
            open_files: 1024,   // what a login shell has on most systems
            file_size: 1 << 30, // larger than any source or build product we have seen
            processes: 512,     // enough for parallel builds with threads; stops a fork bomb
            scratch: 512 << 20, // it is a tmpfs, so it uses memory
        }
    }
}

/// Variables that programs need to behave as usual. None carries a secret.
fn default_environment() -> Vec<String> {
    [
        "PATH",
        "LANG",
        "LC_*",
        "TERM",
        "TZ",
        "COLUMNS",
        "LINES",
        "NO_COLOR",
        "USER",
        "LOGNAME",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ]
    .map(str::to_owned)
    .into()
}

impl Default for Profile {
    /// Read-only, no network.
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            git_directories: Vec::new(),
            protected: Vec::new(),
            exceptions: Vec::new(),
            denied: DeniedFiles::default(),
            reads: ReadableFiles::default(),
            network: Network::default(),
            environment: default_environment(),
            limits: ProcessLimits::default(),
        }
    }
}

impl ReadableFiles {
    /// What programs need to start. It is readable with [`ReadableFiles::Only`] too.
    pub const SYSTEM: &'static [&'static str] = &[
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/etc",
        "/opt",
        "/proc",
        "/nix/store",
        "/run/systemd/resolve",
        "/run/resolvconf",
        "/run/NetworkManager",
    ];
}

impl Profile {
    /// Creates the profile of a tool with these capabilities in this workspace.
    ///
    /// Without `filesystem` nothing is writable. Without `network` no socket can be opened.
    #[must_use]
    pub fn of(capabilities: Capabilities, workspace: &Workspace) -> Self {
        let mut profile = Self {
            roots: workspace.roots(),
            protected: workspace.names_at_launch(),
            ..Self::default()
        };
        for (directory, root) in workspace.git_directories() {
            profile.roots.push(root.clone());
            profile.git_directories.push(directory.clone());
        }
        if capabilities.has(Capability::Network) {
            profile.network = Network::Host;
        }
        if capabilities.has(Capability::Filesystem) { profile } else { profile.read_only() }
    }

    /// Returns the profile with every root read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        for root in &mut self.roots {
            root.access = Access::Read;
        }
        self
    }

    /// Returns what is writable in a root that is the git directory of a linked worktree.
    pub(crate) fn git_directory(&self, root: &Root) -> Option<&GitDirectory> {
        self.git_directories.iter().find(|directory| directory.path == root.path)
    }

    /// Returns where a protected name is below a root: the name itself, and its rest if the path of
    /// the root ends with its beginning.
    pub(crate) fn names_below<'n>(
        root: &Root,
        name: &'n str,
    ) -> impl Iterator<Item = &'n Path> + use<'n> {
        // A name that begins with `./` holds at the root only.
        let (name, is_anchored) = match name.strip_prefix("./") {
            Some(name) => (Path::new(name), true),
            None => (Path::new(name), false),
        };
        let path = root.path.clone();
        let rest = name.ancestors().skip(1).filter(move |begin| {
            !is_anchored && !begin.as_os_str().is_empty() && path.ends_with(begin)
        });
        std::iter::once(name).chain(rest.filter_map(|begin| name.strip_prefix(begin).ok()))
    }

    /// Iterates over the writable roots.
    pub fn writable(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter().filter(|root| root.access == Access::Write)
    }
}
