//! Landlock rules: which files a sandboxed process and its children may read and write.
//!
//! In: paths with rights. Out: this process is restricted for good, and so are its children. Rules
//! only add rights; everything else is refused.

use std::{
    io,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::{Network, Strength, exhausted};

/// What may be done below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// Read and execute.
    Read,
    /// Read, write, create, move and delete.
    Write,
    /// Read and write a harmless device, create nothing.
    Device,
}

/// The newest set of file rights that is used.
const NEWEST_ABI: ABI = ABI::V5;

/// Paths with rights.
#[derive(Debug, Default)]
pub(crate) struct Rules(Vec<(PathBuf, Right)>);

impl Rules {
    pub(crate) fn add(&mut self, path: impl Into<PathBuf>, right: Right) {
        self.0.push((path.into(), right));
    }

    /// Restricts this process. Needs `no_new_privs`.
    pub(crate) fn apply(&self, network: Network) -> io::Result<()> {
        let text = |e: landlock::RulesetError| io::Error::other(e.to_string());
        let mut ruleset =
            Ruleset::default().handle_access(AccessFs::from_all(NEWEST_ABI)).map_err(text)?;
        if network == Network::None {
            ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4)).map_err(text)?;
        }
        let ruleset = ruleset.scope(Scope::from_all(ABI::V6)).map_err(text)?;
        let mut ruleset = ruleset.create().map_err(text)?;
        for (path, right) in &self.0 {
            // A path that does not exist gets no right, even if it is created later.
            let handle = match PathFd::new(path) {
                Ok(handle) => handle,
                Err(landlock::PathFdError::OpenCall { source, .. })
                    if exhausted::limit_of(&source).is_some() =>
                {
                    return Err(source);
                }
                Err(_) => continue,
            };
            let rule = PathBeneath::new(handle, rights(path, *right));
            ruleset = ruleset.add_rule(rule).map_err(text)?;
        }
        let status = ruleset.restrict_self().map_err(text)?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(io::Error::other("the kernel does not enforce it")),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        }
    }
}

/// Puts this process into a nested Landlock domain. It can no longer signal or trace processes
/// outside, its supervisor included. Needs `no_new_privs` and Landlock 6. On older kernels the
/// command can kill its supervisor, which kills the command.
pub(crate) fn enter_nested_domain() -> io::Result<()> {
    let text = |e: landlock::RulesetError| io::Error::other(e.to_string());
    // A ruleset must handle at least one right. This one is never needed inside.
    let ruleset = Ruleset::default().handle_access(AccessFs::MakeBlock).map_err(text)?;
    let ruleset = ruleset.scope(Scope::from_all(ABI::V6)).map_err(text)?;
    ruleset.create().map_err(text)?.restrict_self().map_err(text)?;
    Ok(())
}

fn rights(path: &Path, right: Right) -> BitFlags<AccessFs> {
    let all = match right {
        Right::Read => AccessFs::from_read(NEWEST_ABI),
        Right::Write => {
            let never =
                AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::IoctlDev;
            AccessFs::from_all(NEWEST_ABI) & !never
        }
        Right::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
    };
    // The kernel rejects directory rights on a file.
    if path.is_dir() { all } else { all & AccessFs::from_file(NEWEST_ABI) }
}

/// Returns how far this version of Landlock alone enforces the file guarantee.
pub(crate) fn strength(version: i32) -> Strength {
    match version {
        ..=0 => Strength::None,
        1..=2 => Strength::Partial(format!(
            "Landlock {version} does not stop files from being truncated; Linux 6.2 does"
        )),
        _ => Strength::Enforced,
    }
}
