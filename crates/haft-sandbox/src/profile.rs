//! What a confined process may touch, as plain data.
//!
//! In: capabilities and the roots of a workspace. Out: roots, protected names, network, environment
//! and limits. The same roots feed the file tools, so that a shell and a file tool cannot differ.
//!
//! FAIL CLOSED: everything that is not named here is read-only, unreachable or absent.

use std::path::{Path, PathBuf};

use haft_core::{Capabilities, Capability};
use serde::{Deserialize, Serialize};

use crate::{Access, GitDirectory, Workspace};

/// What a confined process may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Folders with an access of their own. Everything else is read-only or out of reach.
    #[serde(default)]
    pub roots: Vec<Root>,
    /// Roots that are git directories of linked worktrees: only what a commit needs changes there.
    #[serde(default)]
    pub git_directories: Vec<GitDirectory>,
    /// Names below each writable root that stay as they are, also when they do not exist yet.
    #[serde(default)]
    pub protected: Vec<String>,
    /// Protected names that this command may create and change all the same, as in `.git/config`.
    #[serde(default)]
    pub exceptions: Vec<String>,
    /// Paths that rules deny.
    #[serde(default)]
    pub denied: Denied,
    /// What may be read outside the roots.
    #[serde(default)]
    pub reads: Reads,
    /// Whether other machines can be reached.
    #[serde(default)]
    pub network: Network,
    /// Names of variables that are passed on from the host. A trailing `*` stands for any ending.
    #[serde(default = "default_environment")]
    pub environment: Vec<String>,
    /// Bounds on what is used.
    #[serde(default)]
    pub limits: ProcessLimits,
}

/// Paths that rules deny. `read` and `edit` have no symlinks above their last component. They need
/// namespaces: without them a launch with either is refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Denied {
    /// Existing files and directories that give an access error, whatever is done with them.
    pub read: Vec<PathBuf>,
    /// Existing files and directories that can be read and not changed.
    pub edit: Vec<PathBuf>,
    /// Absolute patterns for names that do not exist yet: nothing is created that one of them
    /// matches. `*`, `?` and `[a-z]` stay within a component, `**` crosses components.
    pub new: Vec<String>,
}

/// One folder of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// Where it is, without links.
    pub path: PathBuf,
    /// What may be done there.
    pub access: Access,
    /// Device and inode it had when it was judged. Another folder in its place is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<(u64, u64)>,
}

/// What may be read outside the roots.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Everything that this user may read, but `/run` and the shared temporary folders.
    #[default]
    Everything,
    /// What programs need to start (`/usr`, `/lib`, `/etc` and the like), and these.
    Only(Vec<PathBuf>),
}

/// Whether other machines can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No socket can be opened at all.
    #[default]
    None,
    /// TCP and UDP of the host. No local sockets of other programs.
    Host,
}

/// Bounds on what one command uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProcessLimits {
    /// Seconds of processor time, each process.
    pub cpu_seconds: u64,
    /// Bytes of address space, each process. Programs reserve far more than they use.
    pub memory: u64,
    /// Bytes of resident memory, all processes together: anonymous and shared memory, without mapped
    /// files. The helper samples it and ends everything above it. `u64::MAX` is no bound.
    pub resident: u64,
    /// Open files, each process.
    pub open_files: u64,
    /// Bytes of the largest file that may be written.
    pub file_size: u64,
    /// Processes and threads at one time.
    pub processes: u64,
    /// Bytes of the private temporary folder.
    pub scratch: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            cpu_seconds: 600,   // a build of a middling project; a busy loop ends all the same
            memory: 64 << 30,   // node reserves some 10 GiB for each WebAssembly memory
            resident: 8 << 30,  // a parallel build; a leak ends before the machine does
            open_files: 1024,   // what a login shell has on most systems
            file_size: 1 << 30, // larger than any source or build product we have seen
            processes: 512,     // parallel builds with threads; a fork bomb ends at once
            scratch: 512 << 20, // it is memory
        }
    }
}

/// What programs need to behave like at home, and nothing that carries a secret.
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
    /// Reads, no writes, no network.
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            git_directories: Vec::new(),
            protected: Vec::new(),
            exceptions: Vec::new(),
            denied: Denied::default(),
            reads: Reads::default(),
            network: Network::default(),
            environment: default_environment(),
            limits: ProcessLimits::default(),
        }
    }
}

impl Reads {
    /// What programs need to start: it can be read also where not everything may be.
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
    /// Makes the profile of a tool with these capabilities in this workspace.
    ///
    /// Without `filesystem` nothing is writable; without `network` no socket can be opened.
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

    /// Returns the profile with nothing writable: for commands that only read.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        for root in &mut self.roots {
            root.access = Access::Read;
        }
        self
    }

    /// Returns what may change in a root that is the git directory of a linked worktree.
    pub(crate) fn git_directory(&self, root: &Root) -> Option<&GitDirectory> {
        self.git_directories.iter().find(|directory| directory.path == root.path)
    }

    /// Returns where a protected name lies below a root: as it is, and what is left of it where the
    /// root's own name is its beginning.
    pub(crate) fn names_below<'n>(
        root: &Root,
        name: &'n str,
    ) -> impl Iterator<Item = &'n Path> + use<'n> {
        let name = Path::new(name);
        let path = root.path.clone();
        let rest = name
            .ancestors()
            .skip(1)
            .filter(move |begin| !begin.as_os_str().is_empty() && path.ends_with(begin));
        std::iter::once(name).chain(rest.filter_map(|begin| name.strip_prefix(begin).ok()))
    }

    /// Goes through the roots that may be written to.
    pub fn writable(&self) -> impl Iterator<Item = &Root> {
        self.roots.iter().filter(|root| root.access == Access::Write)
    }
}
