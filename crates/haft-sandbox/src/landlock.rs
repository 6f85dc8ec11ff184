//! Which files a confined process may read and write, kept by the kernel's Landlock.
//!
//! In: paths with what may be done below them. Out: a process that can do no more, for good, and
//! neither can its children. Rules only ever add; what is not named is refused.

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
    /// Read and run.
    Read,
    /// Everything that people do with files.
    Write,
    /// Read and write a device that is harmless, but make nothing.
    Device,
}

/// The newest set of file rights that we know.
const KNOWN: ABI = ABI::V5;

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
            Ruleset::default().handle_access(AccessFs::from_all(KNOWN)).map_err(text)?;
        if network == Network::None {
            ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4)).map_err(text)?;
        }
        let ruleset = ruleset.scope(Scope::from_all(ABI::V6)).map_err(text)?;
        let mut ruleset = ruleset.create().map_err(text)?;
        for (path, right) in &self.0 {
            // What does not exist needs no right, and gets none when it is made later.
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

/// Gives this process a domain of its own below the one it is in: from now on it can signal and trace
/// nothing outside, its supervisor included. Needs `no_new_privs` and Landlock 6; older kernels have no
/// such domains, and there the command can end its supervisor, which ends the command.
pub(crate) fn apart() -> io::Result<()> {
    let text = |e: landlock::RulesetError| io::Error::other(e.to_string());
    // Rules without a right that is handled would be none; this one is never needed inside.
    let ruleset = Ruleset::default().handle_access(AccessFs::MakeBlock).map_err(text)?;
    let ruleset = ruleset.scope(Scope::from_all(ABI::V6)).map_err(text)?;
    ruleset.create().map_err(text)?.restrict_self().map_err(text)?;
    Ok(())
}

fn rights(path: &Path, right: Right) -> BitFlags<AccessFs> {
    let all = match right {
        Right::Read => AccessFs::from_read(KNOWN),
        Right::Write => {
            let never =
                AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::IoctlDev;
            AccessFs::from_all(KNOWN) & !never
        }
        Right::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
    };
    // Rights of folders on a file would be refused as a mistake.
    if path.is_dir() { all } else { all & AccessFs::from_file(KNOWN) }
}

/// Says how much of the promise about files this version of Landlock keeps by itself.
pub(crate) fn strength(version: i32) -> Strength {
    match version {
        ..=0 => Strength::None,
        1..=2 => Strength::Partial(format!(
            "Landlock {version} does not stop files from being cut to nothing; Linux 6.2 does"
        )),
        _ => Strength::Enforced,
    }
}
