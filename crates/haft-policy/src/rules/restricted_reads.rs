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

/// The parts of a call that need no rule.
#[derive(Default)]
pub(super) struct Harmless {
    pub(super) parts: Parts,
    /// Those that would need none, and why they do.
    pub(super) refused: Option<(Parts, String)>,
}

/// Says that a part may read what a rule restricts.
pub(super) fn may_read(facts: &Facts<'_>, at: usize) -> String {
    let part = facts.parts.get(at).map_or_else(|| "it".to_owned(), Part::named);
    format!("{part} may read a file that a rule restricts")
}

impl Rules {
    /// Returns the parts that need no rule: commands that only read files of the workspace, none of
    /// them restricted by a rule.
    pub(super) fn harmless<N: CheckRecorder>(
        &self,
        facts: &Facts<'_>,
        call: Option<&PolicyRequest<'_>>,
        notes: &mut N,
    ) -> Harmless {
        let found = facts.harmless();
        if found.parts.is_empty() {
            return Harmless::default();
        }
        let reads = !(found.read.is_empty() && found.listed.is_empty());
        // FAIL CLOSED: an example has no file system to search.
        let restricted = match call {
            None => reads.then(|| found.parts.first_index()),
            Some(_) => self.restricted_read(facts, &found),
        };
        if let Some(at) = restricted {
            let why = may_read(facts, at);
            notes.note("harmless parts", "none", why.clone(), None);
            return Harmless { parts: Parts::NONE, refused: Some((found.parts, why)) };
        }
        if N::ENABLED {
            let why = format!("need no rule: {}", facts.describe(found.parts));
            notes.note("harmless parts", "allow", why, None);
        }
        Harmless { parts: found.parts, refused: None }
    }

    /// Returns whether a command that needs no approval may read, below a directory that it names,
    /// what a rule denies or asks about. Which files it reads is known only when it runs.
    pub(super) fn may_read_restricted_below(
        &self,
        facts: &Facts<'_>,
        call: &PolicyRequest<'_>,
    ) -> Option<String> {
        if !call.declares_reads() || !(self.deny.has_paths() || self.ask.has_paths()) {
            return None;
        }
        let found = facts.harmless();
        if facts.all().without(found.parts).is_empty() {
            return self.restricted_read(facts, &found).map(|at| may_read(facts, at));
        }
        let restricts = self.restricts_within(facts.clone());
        restricts.then(|| may_read(facts, facts.all().without(found.parts).first_index()))
    }

    /// Returns the part that may read a file that a rule restricts: one at or below the paths that
    /// it reads, or one of the paths that it only lists.
    fn restricted_read(&self, facts: &Facts<'_>, found: &HarmlessParts) -> Option<usize> {
        if !(self.deny.has_paths() || self.ask.has_paths()) {
            return None;
        }
        let restricts = |counts: &dyn Fn(usize) -> bool| {
            let paths = |all: &[(usize, PathBuf)]| -> Vec<PathBuf> {
                all.iter().filter(|(at, _)| counts(*at)).map(|(_, path)| path.clone()).collect()
            };
            let (read, listed) = (paths(&found.read), paths(&found.listed));
            !listed.is_empty() && self.restricts_any(&facts.showing(&listed))
                || !read.is_empty() && self.restricts_within(facts.showing(&read))
        };
        if !restricts(&|_| true) {
            return None;
        }
        let alone = |part: &usize| restricts(&|at| at == *part);
        let parts = || (0..facts.parts.len()).filter(|at| found.parts.has(*at));
        Some(parts().find(alone).unwrap_or(found.parts.first_index()))
    }

    /// Returns whether a confined run of a call could read what a rule asks about, or what one
    /// denies and the sandbox does not mask. The sandbox masks denied paths below its roots; if
    /// these cannot be determined, the tool's guard asks.
    pub(super) fn confined_may_read_restricted(
        &self,
        facts: &Facts<'_>,
        call: &PolicyRequest<'_>,
    ) -> bool {
        if !(self.deny.has_paths() || self.ask.has_paths()) {
            return false;
        }
        // FAIL CLOSED: what it could read is not known.
        let Some(Ok(confinement)) = call.confinement() else { return true };
        let mut system = facts.showing(&confinement.system);
        // The system is too large to search; a rule is compared with it by path.
        system.declares_reads = false;
        system.widen();
        if self.restricts_any(&system) {
            return true;
        }
        if !self.ask.has_paths() {
            return false;
        }
        let mut facts = facts.showing(&confinement.readable);
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
    pub(super) fn may_read_restricted_link(&self, facts: &Facts<'_>) -> bool {
        let mut facts = facts.clone();
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
    pub(super) fn names_restricted_link(&self, facts: &Facts<'_>) -> Option<String> {
        if facts.named_files().next().is_none() || !(self.deny.has_paths() || self.ask.has_paths())
        {
            return None;
        }
        let only_named = |path: &Path, found: &mut Vec<_>| {
            // With a limit of zero a directory is not entered.
            let _ = self.context.resolver.hard_links(path, &mut 0, found);
            Some(())
        };
        let found = self.find_restricted_link(facts, only_named);
        let part = found.map_or(Some(0), |found| found)?;
        let named = facts.parts.get(part).map_or_else(|| "it".to_owned(), Part::named);
        Some(format!("{named} names a hard link to a file that a rule restricts"))
    }

    /// Returns whether a command may reach a hard link to a file that a rule restricts. `None` if
    /// there are too many files to check.
    fn hard_links_below(&self, facts: &Facts<'_>) -> Option<bool> {
        let mut left = MAX_SEARCHED_ENTRIES;
        let look = |path: &Path, found: &mut Vec<_>| {
            self.context.resolver.hard_links(path, &mut left, found).ok()
        };
        self.find_restricted_link(facts, look).map(|part| part.is_some())
    }

    /// Returns the part that names such a link; `None` if there are too many files to check.
    fn find_restricted_link(
        &self,
        facts: &Facts<'_>,
        mut look: impl FnMut(&Path, &mut Vec<(PathBuf, HardLinkedFile)>) -> Option<()>,
    ) -> Option<Option<usize>> {
        let mut scope = Scope::clone(facts.scope);
        scope.working_directory = facts.base().ok()?.into();
        let mut all = Vec::new();
        for (at, part) in facts.named_files() {
            // A path that cannot be resolved already counts against every rule.
            if let Part::Path { resolved: Ok(path), .. } = part {
                let mut found = Vec::new();
                look(path, &mut found)?;
                all.extend(found.into_iter().map(|found| (at, found)));
            }
        }
        let is_restricted = |(_, (path, file)): &&(usize, (PathBuf, HardLinkedFile))| {
            let names = self.judge_other_names(Operation::Read, path, file, &scope);
            names != OtherNames::Allowed
        };
        Some(all.iter().find(is_restricted).map(|(at, _)| *at))
    }
}
