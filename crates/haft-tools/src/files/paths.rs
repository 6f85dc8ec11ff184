//! Resolves the paths of a call and declares them for authorization and locking.
//!
//! Relative paths start in the run's working directory if that is inside the workspace, else in its
//! first root. Resource keys use the path without symlinks, so two spellings of one file are one
//! key.
//!
//! INVARIANT: a tool body accesses only the path that was authorized (TOCTOU, symlink race).

use std::{
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use haft_core::{
    CallProfile, ConcurrencyClass, Effect, Effects, Failure, FailureCode, Operation, OtherNames,
    ResourceKey, ToolContext, host::HostContext,
};
use haft_sandbox::{FileMeta, PathError, PathErrorKind, ResolvedPath, Root, Workspace};

use super::nearest;
use crate::working_directory::resolve_working_directory;

/// File access of a tool.
#[derive(Debug, Clone)]
pub(super) struct Files {
    workspace: Arc<Workspace>,
}

/// One path of a call: as written, the operation, and what it resolves to.
pub(crate) struct PathAccess<'a> {
    pub(crate) path: &'a str,
    pub(crate) operation: Operation,
    pub(crate) resolved: Option<ResolvedPath>,
}

impl Files {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }

    pub(super) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Resolves a path and follows a symlink at its end.
    pub(super) fn find(&self, path: &str, cx: &ToolContext) -> Result<ResolvedPath, PathError> {
        if let Some(path) = self.path_from_above(path, cx) {
            return self.workspace.resolve(path);
        }
        match self.start(cx) {
            Some(start) => self.workspace.resolve_from(&start, path),
            None => self.workspace.resolve(path),
        }
    }

    /// Returns the absolute form of a path that starts with `..` and leads from one root into
    /// another. The start has no symlinks, so that its parents are known.
    fn path_from_above(&self, path: &str, cx: &ToolContext) -> Option<PathBuf> {
        let mut rest = Path::new(path).components();
        if rest.clone().next() != Some(Component::ParentDir) {
            return None;
        }
        let roots = self.workspace.roots();
        let mut above = match self.start(cx) {
            Some(start) => start.absolute(),
            None => roots.first()?.path.clone(),
        };
        let own = roots.iter().find(|root| above.starts_with(&root.path))?;
        while rest.clone().next() == Some(Component::ParentDir) {
            rest.next();
            above.pop();
        }
        let whole = above.join(rest.as_path());
        let is_other = |root: &Root| root.path != own.path && whole.starts_with(&root.path);
        roots.iter().any(is_other).then_some(whole)
    }

    /// Resolves a path without following a symlink at its end.
    pub(super) fn find_entry(
        &self,
        path: &str,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        if let Some(path) = self.path_from_above(path, cx) {
            return self.workspace.resolve_entry(path);
        }
        match self.start(cx) {
            Some(start) => self.workspace.resolve_entry_from(&start, path),
            None => self.workspace.resolve_entry(path),
        }
    }

    fn start(&self, cx: &ToolContext) -> Option<ResolvedPath> {
        resolve_working_directory(&self.workspace, cx.working_directory())
    }

    /// Resolves a path at execution time. Refuses a path that was not authorized.
    pub(super) fn authorized(
        &self,
        path: &str,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        check_authorized(self.find(path, cx)?, cx)
    }

    /// Like `authorized`, without following a symlink at the end.
    pub(super) fn authorized_entry(
        &self,
        path: &str,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        check_authorized(self.find_entry(path, cx)?, cx)
    }

    /// Accepts a path for a new directory. A protected path is refused before authorization, unless
    /// the policy asks about it.
    pub(super) fn writable(
        &self,
        resolved: ResolvedPath,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        if self.workspace.is_protected(&resolved) && !self.is_granted(&resolved, cx) {
            return Err(PathError::new(PathErrorKind::Protected, resolved.to_string()));
        }
        Ok(resolved)
    }

    /// The same for a path that becomes a file, or is moved or deleted with its contents.
    pub(super) fn writable_whole(
        &self,
        resolved: ResolvedPath,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        if self.workspace.is_protected_file(&resolved) && !self.is_granted(&resolved, cx) {
            return Err(PathError::new(PathErrorKind::Protected, resolved.to_string()));
        }
        Ok(resolved)
    }

    /// The same for a path that must exist. A missing path needs no approval.
    pub(super) fn existing_whole(
        &self,
        resolved: ResolvedPath,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        let is_protected = self.workspace.is_protected_file(&resolved);
        if resolved.exists() {
            self.writable_whole(resolved, cx)
        } else if is_protected {
            Err(PathError::new(PathErrorKind::Protected, resolved.to_string()))
        } else {
            Err(PathError::new(PathErrorKind::NotFound, resolved.to_string()))
        }
    }

    /// Returns the workspace for an authorized call. It may also change the protected paths among
    /// these, because a person or a rule allowed exactly them.
    ///
    /// FAIL CLOSED: a protected path without approval is refused.
    pub(super) fn granted(
        &self,
        places: &[&ResolvedPath],
        cx: &ToolContext,
    ) -> Result<Workspace, PathError> {
        let mut granted = Vec::new();
        for resolved in places {
            if self.workspace.is_protected_file(resolved) {
                granted.push(self.writable_whole((*resolved).clone(), cx)?);
            }
        }
        if granted.is_empty() {
            return Ok(self.workspace().clone());
        }
        Ok(self.workspace.with_writable(granted))
    }

    /// Creates the parent directories. A protected parent is created if the path itself is granted.
    pub(super) fn make_parents(
        &self,
        resolved: &ResolvedPath,
        granted: &Workspace,
    ) -> Result<(), PathError> {
        let Some(parent) = resolved.parent() else { return Ok(()) };
        let is_granted = self.workspace.is_protected(resolved) && !granted.is_protected(resolved);
        if is_granted && !parent.relative().as_os_str().is_empty() {
            granted.with_writable([parent.clone()]).make_directory(&parent)
        } else {
            granted.make_directory(&parent)
        }
    }

    fn is_granted(&self, resolved: &ResolvedPath, cx: &ToolContext) -> bool {
        self.workspace.is_listed(resolved) && cx.may_change_protected(&resolved.absolute())
    }
}

/// FAIL CLOSED (TOCTOU): a symlink that was placed after authorization makes this another call.
pub(crate) fn check_authorized(
    resolved: ResolvedPath,
    cx: &ToolContext,
) -> Result<ResolvedPath, PathError> {
    // Compares with the authorized effects. The key may cover more: a path that did not resolve at
    // authorization time is exclusive, so its key covers everything.
    let is_authorized = cx.profile().is_none_or(|profile| match &profile.effects {
        Effects::Declared(list) => {
            let here = target(&resolved);
            list.iter().any(|effect| effect.target.as_ref() == Some(&here))
        }
        Effects::Undeclared => false,
    });
    if is_authorized {
        Ok(resolved)
    } else {
        Err(PathError::new(PathErrorKind::Changed, resolved.to_string()))
    }
}

/// Hard links: refuses an open file if a rule denies it under another name. Checks the open file
/// descriptor, so the file cannot be swapped in between (TOCTOU).
pub(crate) fn check_other_names(
    resolved: &ResolvedPath,
    meta: &FileMeta,
    doing: Operation,
    cx: &ToolContext,
) -> Result<(), Failure> {
    let denied = |message: String, next: &str| {
        Err(Failure::new(FailureCode::Denied, message).with_next(next))
    };
    match other_names(resolved, meta, doing, cx) {
        OtherNames::Allowed => Ok(()),
        OtherNames::Denied => denied(
            format!("`{resolved}` is a hard link to a file that a rule denies or asks about"),
            "use the other path of the file, so that the rule is applied, or continue without it",
        ),
        OtherNames::Unknown => denied(
            format!(
                "`{resolved}` has {} names (hard links), and there are too many files to check \
                 whether a rule denies one of them",
                meta.links
            ),
            "continue without it, or ask the user to anchor the rules, as in `Read(./secrets/**)`",
        ),
    }
}

/// Returns whether rules deny another name of a file.
pub(crate) fn other_names(
    resolved: &ResolvedPath,
    meta: &FileMeta,
    doing: Operation,
    cx: &ToolContext,
) -> OtherNames {
    match meta.hard_linked() {
        Some(file) => cx.other_names(doing, &resolved.absolute(), &file),
        None => OtherNames::Allowed,
    }
}

/// Declares effects and resource keys. A path that does not resolve is declared as written and is
/// exclusive; `check` refuses it.
pub(crate) fn declare(mut declared: CallProfile, accesses: &[PathAccess<'_>]) -> CallProfile {
    let writes = accesses.iter().any(|access| access.operation == Operation::Write);
    declared.class =
        if writes { ConcurrencyClass::WriteExclusive } else { ConcurrencyClass::ReadOnly };
    let effect = |access: &PathAccess<'_>| Effect {
        operation: access.operation,
        target: Some(match &access.resolved {
            Some(resolved) => target(resolved),
            None => access.path.to_owned(),
        }),
    };
    declared.effects = accesses.iter().map(effect).collect::<Vec<_>>().into();
    let own = |access: &PathAccess<'_>| {
        access.resolved.as_ref().map_or_else(|| ResourceKey::new("file:/"), key)
    };
    declared.keys = accesses.iter().map(own).collect();
    declared
}

/// The path as the policy sees it.
fn target(resolved: &ResolvedPath) -> String {
    resolved.absolute().to_string_lossy().into_owned()
}

/// The path as a lock key.
pub(super) fn key(resolved: &ResolvedPath) -> ResourceKey {
    let path = resolved.absolute();
    let text = path.to_string_lossy();
    // macOS: `a` and `A` are one file. Fewer parallel calls are always safe.
    let text = if cfg!(target_os = "macos") { text.to_lowercase() } else { text.into_owned() };
    ResourceKey::new(format!("file:{text}"))
}

/// Formats a path on one line. A file name with a line break would look like two paths.
pub(super) fn shown(resolved: &ResolvedPath) -> String {
    let path = resolved.to_string();
    if path.chars().any(char::is_control) { path.escape_debug().to_string() } else { path }
}

/// The failure of a cancelled call.
pub(super) fn stopped() -> Failure {
    Failure::failed("the call was cancelled before its end")
}

/// The failure of a read error.
pub(crate) fn unreadable(resolved: &ResolvedPath, error: std::io::Error) -> Failure {
    PathError::new(PathErrorKind::Failed, resolved.to_string()).because(error).into()
}

/// Formats a count: `1 line`, `2 lines`.
pub(super) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The note about directories below the depth limit.
pub(super) fn stopped_at_depth(depth: usize, directories: usize, what: &str) -> String {
    let directories = match directories {
        1 => "1 directory is".to_owned(),
        n => format!("{n} directories are"),
    };
    format!("stopped at depth {depth}: {directories} not {what}; start further down with `path`")
}

/// Names of a directory that are compared with a missing one.
const MAX_COMPARED_NAMES: usize = 2_000;

impl Files {
    /// Finds a similar name in the same directory.
    pub(super) fn similar(&self, path: &str, cx: &ToolContext) -> Option<String> {
        let resolved = self.find(path, cx).ok()?;
        let wanted = resolved.relative().file_name()?.to_str()?.to_lowercase();
        let entries = self.workspace.list(&resolved.parent()?, MAX_COMPARED_NAMES).ok()?;
        let near = |entry: haft_sandbox::WalkEntry| {
            let name = entry.resolved().relative().file_name()?.to_str()?.to_lowercase();
            let far = nearest::distance(&name, &wanted, (wanted.chars().count() / 3).clamp(1, 3))?;
            Some((far, shown(entry.resolved())))
        };
        entries.into_iter().filter_map(near).min().map(|(_, path)| path)
    }
}
