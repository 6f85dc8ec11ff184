//! What a call may read without naming it: whether a rule restricts a file below the directories
//! that it reads, and which of its parts are harmless because no rule does.
//!
//! FAIL CLOSED: what cannot be searched counts as restricted.

use std::path::{Path, PathBuf};

use haft_core::{HardLinkedFile, Operation, OtherNames, Scope};

use super::{Rules, decide::CheckRecorder};
use crate::{
    PolicyRequest,
    facts::{Facts, HarmlessParts, Part, Parts},
    path_resolver::MAX_SEARCHED_ENTRIES,
};

impl Rules {
    /// Returns the parts that need no rule: commands that only read files of the workspace, none of
    /// them restricted by a rule.
    pub(super) fn harmless<N: CheckRecorder>(
        &self,
        facts: &Facts<'_>,
        call: Option<&PolicyRequest<'_>>,
        notes: &mut N,
    ) -> Parts {
        let HarmlessParts { parts: harmless, read, listed } = facts.harmless();
        if harmless.is_empty() {
            return harmless;
        }
        // FAIL CLOSED: an example has no file system to search.
        let restricts = |call: &PolicyRequest<'_>| self.restricts_reads(call, &read, &listed);
        if !(read.is_empty() && listed.is_empty()) && call.is_none_or(restricts) {
            let why = "they may read a file that a rule restricts".to_owned();
            notes.note("harmless parts", "none", why, None);
            return Parts::NONE;
        }
        if N::ENABLED {
            let why = format!("need no rule: {}", facts.describe(harmless));
            notes.note("harmless parts", "allow", why, None);
        }
        harmless
    }

    /// Returns whether a command that needs no approval may read, below a directory that it names,
    /// what a rule denies or asks about. Which files it reads is known only when it runs.
    pub(super) fn may_read_restricted_below(&self, call: &PolicyRequest<'_>) -> bool {
        if !call.declares_reads() || !(self.deny.has_paths() || self.ask.has_paths()) {
            return false;
        }
        let facts = Facts::of(call, &self.context);
        let HarmlessParts { parts, read, listed } = facts.harmless();
        if facts.all().without(parts).is_empty() {
            return self.restricts_reads(call, &read, &listed);
        }
        self.restricts_within(facts)
    }

    /// Returns whether a rule restricts a file at or below the paths that are read, or one of the
    /// paths that are only listed.
    fn restricts_reads(
        &self,
        call: &PolicyRequest<'_>,
        read: &[PathBuf],
        listed: &[PathBuf],
    ) -> bool {
        if !(self.deny.has_paths() || self.ask.has_paths()) {
            return false;
        }
        let show = |paths: &[PathBuf]| {
            let mut facts = Facts::of(call, &self.context);
            facts.show(paths);
            facts
        };
        !listed.is_empty() && self.restricts_any(&show(listed))
            || !read.is_empty() && self.restricts_within(show(read))
    }

    /// Returns whether a confined run of a call could read what a rule asks about, or what one
    /// denies and the sandbox does not mask. The sandbox masks denied paths below its roots; if
    /// these cannot be determined, the tool's guard asks.
    pub(super) fn confined_may_read_restricted(&self, call: &PolicyRequest<'_>) -> bool {
        if !(self.deny.has_paths() || self.ask.has_paths()) {
            return false;
        }
        // FAIL CLOSED: what it could read is not known.
        let Some(Ok(confinement)) = call.confinement() else { return true };
        let mut system = Facts::of(call, &self.context);
        system.show(&confinement.system);
        // The system is too large to search; a rule is compared with it by path.
        system.declares_reads = false;
        system.widen();
        if self.restricts_any(&system) {
            return true;
        }
        if !self.ask.has_paths() {
            return false;
        }
        let mut facts = Facts::of(call, &self.context);
        facts.show(&confinement.readable);
        facts.widen();
        let asks = |facts: &Facts<'_>| self.strongest(&self.ask, facts, &mut (), "").is_some();
        // FAIL CLOSED: symlinks that cannot be resolved may lead there.
        asks(&facts)
            || facts.follow().is_err()
            || asks(&facts)
            || self.hard_links_below(&facts).unwrap_or(true)
    }

    /// Returns whether a command may read a hard link to a file that a rule restricts, at or below
    /// the paths that it names.
    pub(super) fn may_read_restricted_link(&self, call: &PolicyRequest<'_>) -> bool {
        let mut facts = Facts::of(call, &self.context);
        facts.widen();
        // FAIL CLOSED: symlinks that cannot be resolved may lead there.
        facts.follow().is_err() || self.hard_links_below(&facts).unwrap_or(true)
    }

    /// Returns whether a rule denies or asks about a file at or below the named paths.
    fn restricts_within(&self, mut facts: Facts<'_>) -> bool {
        facts.widen();
        // FAIL CLOSED: symlinks that cannot be resolved may lead there.
        self.restricts_any(&facts)
            || facts.follow().is_err()
            || self.restricts_any(&facts)
            || self.hard_links_below(&facts).unwrap_or(true)
    }

    fn restricts_any(&self, facts: &Facts<'_>) -> bool {
        self.strongest(&self.deny, facts, &mut (), "").is_some()
            || self.strongest(&self.ask, facts, &mut (), "").is_some()
    }

    /// Returns whether a command names a hard link to a file that a rule restricts. Files below a
    /// directory do not count: a rule allows the command, and what it reads is known only when it
    /// runs.
    pub(super) fn names_restricted_link(&self, facts: &Facts<'_>) -> bool {
        if facts.named_files().next().is_none() || !(self.deny.has_paths() || self.ask.has_paths())
        {
            return false;
        }
        let only_named = |path: &Path, found: &mut Vec<_>| {
            // With a limit of zero a directory is not entered.
            let _ = self.context.resolver.hard_links(path, &mut 0, found);
            Some(())
        };
        self.finds_restricted_link(facts, only_named).unwrap_or(true)
    }

    /// Returns whether a command may reach a hard link to a file that a rule restricts. `None` if
    /// there are too many files to check.
    fn hard_links_below(&self, facts: &Facts<'_>) -> Option<bool> {
        let mut left = MAX_SEARCHED_ENTRIES;
        self.finds_restricted_link(facts, |path, found| {
            self.context.resolver.hard_links(path, &mut left, found).ok()
        })
    }

    fn finds_restricted_link(
        &self,
        facts: &Facts<'_>,
        mut look: impl FnMut(&Path, &mut Vec<(PathBuf, HardLinkedFile)>) -> Option<()>,
    ) -> Option<bool> {
        let mut scope = Scope::clone(facts.scope);
        scope.working_directory = facts.base().ok()?.into();
        let mut found = Vec::new();
        for (_, part) in facts.named_files() {
            // A path that cannot be resolved already counts against every rule.
            if let Part::Path { resolved: Ok(path), .. } = part {
                look(path, &mut found)?;
            }
        }
        Some(found.iter().any(|(path, file)| {
            let names = self.judge_other_names(Operation::Read, path, file, &scope);
            names != OtherNames::Allowed
        }))
    }
}
