//! Where the paths of a call lead, and what the call claims about them.
//!
//! Relative paths start in the run's working folder where that lies in the workspace, and else in
//! its first root. Keys are made of the path without links, so that two spellings of one file are
//! one key.
//!
//! INVARIANT: a body works at the place that was judged, or not at all.

use std::sync::Arc;

use haft_core::{
    CallProfile, ConcurrencyClass, Effect, Effects, Failure, FailureCode, Operation, OtherNames,
    ResourceKey, ToolContext,
};
use haft_sandbox::{Meta, PathError, PathErrorKind, ResolvedPath, Workspace};

use super::nearest;
use crate::start::start;

/// The files that a tool may touch.
#[derive(Debug, Clone)]
pub(super) struct Files {
    workspace: Arc<Workspace>,
}

/// One path of a call: as it was written, what is done there, and where it leads.
pub(super) struct Touch<'a> {
    pub(super) path: &'a str,
    pub(super) operation: Operation,
    pub(super) place: Option<ResolvedPath>,
}

impl Files {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }

    pub(super) fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Finds where a path leads, a link at its end followed.
    pub(super) fn find(&self, path: &str, cx: &ToolContext) -> Result<ResolvedPath, PathError> {
        match self.start(cx) {
            Some(start) => self.workspace.resolve_from(&start, path),
            None => self.workspace.resolve(path),
        }
    }

    /// Finds an entry itself, be it a link or not.
    pub(super) fn find_entry(
        &self,
        path: &str,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        match self.start(cx) {
            Some(start) => self.workspace.resolve_entry_from(&start, path),
            None => self.workspace.resolve_entry(path),
        }
    }

    fn start(&self, cx: &ToolContext) -> Option<ResolvedPath> {
        start(&self.workspace, cx.working_directory())
    }

    /// Finds a place that is about to be read, and refuses one that nobody judged.
    pub(super) fn judged(&self, path: &str, cx: &ToolContext) -> Result<ResolvedPath, PathError> {
        as_judged(self.find(path, cx)?, cx)
    }

    /// The same for an entry itself.
    pub(super) fn judged_entry(
        &self,
        path: &str,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        as_judged(self.find_entry(path, cx)?, cx)
    }

    /// Returns a place that a directory is to be made at. A protected one is refused before the call is
    /// judged, unless the policy asks about it.
    pub(super) fn writable(
        &self,
        place: ResolvedPath,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        if self.workspace.is_protected(&place) && !self.is_granted(&place, cx) {
            return Err(PathError::new(PathErrorKind::Protected, place.to_string()));
        }
        Ok(place)
    }

    /// The same for a place that is to become a file, or is moved or deleted as a whole.
    pub(super) fn writable_whole(
        &self,
        place: ResolvedPath,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        if self.workspace.is_protected_file(&place) && !self.is_granted(&place, cx) {
            return Err(PathError::new(PathErrorKind::Protected, place.to_string()));
        }
        Ok(place)
    }

    /// The same for a place that must exist. Where it does not, there is nothing to ask about.
    pub(super) fn existing_whole(
        &self,
        place: ResolvedPath,
        cx: &ToolContext,
    ) -> Result<ResolvedPath, PathError> {
        let is_protected = self.workspace.is_protected_file(&place);
        match place.exists() {
            true => self.writable_whole(place, cx),
            false if is_protected => {
                Err(PathError::new(PathErrorKind::Protected, place.to_string()))
            }
            false => Err(PathError::new(PathErrorKind::NotFound, place.to_string())),
        }
    }

    /// Returns the workspace for a call that may run: it may also change the protected places among
    /// these, because a person or a rule has allowed exactly them.
    ///
    /// FAIL CLOSED: a place that is protected and was not asked about is refused.
    pub(super) fn granted(
        &self,
        places: &[&ResolvedPath],
        cx: &ToolContext,
    ) -> Result<Workspace, PathError> {
        let mut granted = Vec::new();
        for place in places {
            if self.workspace.is_protected_file(place) {
                granted.push(self.writable_whole((*place).clone(), cx)?);
            }
        }
        if granted.is_empty() {
            return Ok(self.workspace().clone());
        }
        Ok(self.workspace.granting(granted))
    }

    /// Makes the directories that a place lies in. A protected one is made where the place is granted.
    pub(super) fn make_parents(
        &self,
        place: &ResolvedPath,
        granted: &Workspace,
    ) -> Result<(), PathError> {
        let Some(parent) = place.parent() else { return Ok(()) };
        let is_granted = self.workspace.is_protected(place) && !granted.is_protected(place);
        match is_granted && !parent.relative().as_os_str().is_empty() {
            true => granted.granting([parent.clone()]).make_folder(&parent),
            false => granted.make_folder(&parent),
        }
    }

    fn is_granted(&self, place: &ResolvedPath, cx: &ToolContext) -> bool {
        self.workspace.is_listed(place) && cx.may_change_protected(&place.absolute())
    }
}

/// FAIL CLOSED: a link that was put in its way since the call was judged makes it another call.
fn as_judged(place: ResolvedPath, cx: &ToolContext) -> Result<ResolvedPath, PathError> {
    // The files that were judged, one by one. A key may cover more: what led nowhere when the call was
    // judged shares with nobody, so its key is that of everything.
    let judged = cx.profile().is_none_or(|claim| match &claim.effects {
        Effects::Declared(list) => {
            let here = target(&place);
            list.iter().any(|effect| effect.target.as_ref() == Some(&here))
        }
        Effects::Undeclared => false,
    });
    match judged {
        true => Ok(place),
        false => Err(PathError::new(PathErrorKind::Changed, place.to_string())),
    }
}

/// Refuses an open file that a rule keeps under another of its names: a hard link to a denied file is
/// the denied file. What is looked at is what was opened, so nothing can be swapped in between.
pub(super) fn check_other_names(
    place: &ResolvedPath,
    meta: &Meta,
    doing: Operation,
    cx: &ToolContext,
) -> Result<(), Failure> {
    let denied = |message: String, next: &str| {
        Err(Failure::new(FailureCode::Denied, message).with_next(next))
    };
    match other_names(place, meta, doing, cx) {
        OtherNames::Clear => Ok(()),
        OtherNames::Kept => denied(
            format!("`{place}` is a hard link to a file that a rule denies or asks about"),
            "use the other path of the file, so that the rule is applied, or go on without it",
        ),
        OtherNames::Unknown => denied(
            format!(
                "`{place}` has {} names (hard links), and there are too many files to tell whether \
                 a rule denies one of them",
                meta.links
            ),
            "go on without it, or ask the user to anchor the rules, as in `Read(./secrets/**)`",
        ),
    }
}

/// Says what rules have against the other names of a file.
pub(super) fn other_names(
    place: &ResolvedPath,
    meta: &Meta,
    doing: Operation,
    cx: &ToolContext,
) -> OtherNames {
    match meta.hard_linked() {
        Some(file) => cx.other_names(doing, &place.absolute(), &file),
        None => OtherNames::Clear,
    }
}

/// Claims what is done to each path. What leads nowhere is claimed as it was written and shares with
/// nobody; its check refuses it.
pub(super) fn claim(mut declared: CallProfile, touches: &[Touch<'_>]) -> CallProfile {
    let writes = touches.iter().any(|touch| touch.operation == Operation::Write);
    declared.class =
        if writes { ConcurrencyClass::WriteExclusive } else { ConcurrencyClass::ReadOnly };
    let effect = |touch: &Touch<'_>| Effect {
        operation: touch.operation,
        target: Some(match &touch.place {
            Some(place) => target(place),
            None => touch.path.to_owned(),
        }),
    };
    declared.effects = touches.iter().map(effect).collect::<Vec<_>>().into();
    let own =
        |touch: &Touch<'_>| touch.place.as_ref().map_or_else(|| ResourceKey::new("file:/"), key);
    declared.keys = touches.iter().map(own).collect();
    declared
}

/// Names a place to judges.
fn target(place: &ResolvedPath) -> String {
    place.absolute().to_string_lossy().into_owned()
}

/// Names a place on the floor.
pub(super) fn key(place: &ResolvedPath) -> ResourceKey {
    let path = place.absolute();
    let text = path.to_string_lossy();
    // There `a` and `A` are one file. Sharing less than possible is never wrong.
    let text = if cfg!(target_os = "macos") { text.to_lowercase() } else { text.into_owned() };
    ResourceKey::new(format!("file:{text}"))
}

/// Shows a path on one line. A name may have anything in it, and a line break would be two paths.
pub(super) fn shown(place: &ResolvedPath) -> String {
    let path = place.to_string();
    match path.chars().any(char::is_control) {
        true => path.escape_debug().to_string(),
        false => path,
    }
}

/// Says that somebody wanted the work to end.
pub(super) fn stopped() -> Failure {
    Failure::failed("the work was stopped before its end")
}

/// Says what the system said about a file that was open.
pub(super) fn unreadable(place: &ResolvedPath, error: std::io::Error) -> Failure {
    PathError::new(PathErrorKind::Failed, place.to_string()).because(error).into()
}

/// Writes a number of things: `1 line`, `2 lines`.
pub(super) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Says that directories were not entered because of their depth.
pub(super) fn stopped_at_depth(depth: usize, directories: usize, what: &str) -> String {
    let directories = match directories {
        1 => "1 directory is".to_owned(),
        n => format!("{n} directories are"),
    };
    format!("stopped at depth {depth}: {directories} not {what}; start further down with `path`")
}

/// So many names of a folder are compared with one that is not there.
const NAMES: usize = 2_000;

impl Files {
    /// Finds a name that is close to one that is not there, in the same folder.
    pub(super) fn similar(&self, path: &str, cx: &ToolContext) -> Option<String> {
        let place = self.find(path, cx).ok()?;
        let wanted = place.relative().file_name()?.to_str()?.to_lowercase();
        let entries = self.workspace.list(&place.parent()?, NAMES).ok()?;
        let near = |entry: haft_sandbox::Entry| {
            let name = entry.place().relative().file_name()?.to_str()?.to_lowercase();
            let far = nearest::distance(&name, &wanted, (wanted.chars().count() / 3).clamp(1, 3))?;
            Some((far, shown(entry.place())))
        };
        entries.into_iter().filter_map(near).min().map(|(_, path)| path)
    }
}
