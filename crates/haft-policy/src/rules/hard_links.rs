//! Hard links: a hard link to a denied file is that file under another name.
//!
//! In: an open file, by device and inode. Out: its other names where a deny or an ask is about
//! paths. These directories are walked once and the result is cached, so that trees full of hard
//! links, as pnpm and cargo make them, cost one walk and need no approval.
//!
//! Cache invalidation: every new hard link changes the `ctime` of a file. A file whose `ctime` is
//! before a walk has no name that the walk missed; for a later one the directories are walked
//! again. Times are compared within one device, and only with times that were known before the walk
//! began. Not detected: a directory that is moved as a whole to where a rule applies.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use haft_core::{
    Decision, HardLinkedFile, Operation, OtherNames, Scope, host::RandomState, sync::lock,
};

use super::Rules;
use crate::{
    facts::{Facts, Sample},
    path_resolver::PathResolver,
    rule::Rule,
};

/// Maximum number of entries in one walk: a large project with its dependencies.
const MAX_ENTRIES: usize = 200_000;
/// Maximum number of cached working directories.
const MAX_DIRECTORIES: usize = 16;
/// Maximum number of cached files that have no restricted name.
const MAX_CHECKED: usize = 100_000;

type Changed = (i64, u64);
type Identity = (u64, u64);

/// The names of files with several hard links, for each working directory of the rules.
#[derive(Debug, Default)]
pub(super) struct LinkIndex(Mutex<Vec<(PathBuf, Names)>>);

/// The result of one walk.
#[derive(Debug, Default)]
struct Names {
    found: HashMap<Identity, Arc<[PathBuf]>, RandomState>,
    /// Whether everything was visited.
    is_complete: bool,
    /// For each device: a time before the walk began.
    begun_after: HashMap<u64, Changed>,
    /// For each device: the latest known change.
    newest: HashMap<u64, Changed>,
    /// Files that had this state before a walk began.
    checked: HashMap<Identity, (Changed, u64), RandomState>,
}

impl Names {
    fn is_fresh(&self, file: &HardLinkedFile) -> bool {
        let before = self.begun_after.get(&file.device).is_some_and(|begun| file.changed < *begun);
        before || self.checked.get(&file.identity()) == Some(&(file.changed, file.links))
    }

    /// Walks again. Everything known so far counts as known before the walk.
    fn walk(&mut self, starts: &[PathBuf], resolver: &dyn PathResolver, file: &HardLinkedFile) {
        self.hear(file);
        self.begun_after = self.newest.clone();
        if self.checked.len() >= MAX_CHECKED {
            self.checked.clear();
        }
        self.checked.insert(file.identity(), (file.changed, file.links));
        let (mut left, mut found) = (MAX_ENTRIES, Vec::new());
        self.is_complete = starts.iter().all(|start| {
            // FAIL CLOSED: for any error, the walk is incomplete.
            resolver.hard_links(start, &mut left, &mut found).is_ok()
        });
        let mut names: HashMap<Identity, Vec<PathBuf>, RandomState> = HashMap::default();
        for (path, linked) in found {
            self.hear(&linked);
            names.entry(linked.identity()).or_default().push(path);
        }
        self.found = names.into_iter().map(|(file, names)| (file, names.into())).collect();
    }

    fn hear(&mut self, file: &HardLinkedFile) {
        let newest = self.newest.entry(file.device).or_insert(file.changed);
        *newest = file.changed.max(*newest);
    }
}

impl LinkIndex {
    /// Returns the names of a file where rules restrict, and whether all such directories were
    /// visited.
    fn names(
        &self,
        file: &HardLinkedFile,
        work: &Path,
        resolver: &dyn PathResolver,
        starts: impl FnOnce() -> Vec<PathBuf>,
    ) -> (Arc<[PathBuf]>, bool) {
        let mut known = lock(&self.0);
        let at = known.iter().position(|(own, _)| own == work).unwrap_or_else(|| {
            if known.len() >= MAX_DIRECTORIES {
                known.remove(0);
            }
            known.push((work.to_owned(), Names::default()));
            known.len() - 1
        });
        let Some((_, names)) = known.get_mut(at) else { return (Arc::new([]), false) };
        if !names.is_fresh(file) {
            names.walk(&starts(), resolver, file);
        }
        let found = names.found.get(&file.identity()).cloned().unwrap_or_default();
        (found, names.is_complete)
    }
}

impl Rules {
    /// Returns what the rules decide about the other names of a file that is open under this path.
    pub(super) fn judge_other_names(
        &self,
        doing: Operation,
        path: &Path,
        file: &HardLinkedFile,
        scope: &Scope,
    ) -> OtherNames {
        if file.links < 2 || !(self.deny.has_paths() || self.ask.has_paths()) {
            return OtherNames::Allowed;
        }
        let here = Sample::touching(doing, ".", scope.clone());
        let facts = here.facts(&self.context);
        let Ok(work) = facts.base() else { return OtherNames::Unknown };
        let resolver = &*self.context.resolver;
        let (names, is_complete) =
            self.hard_links.names(file, work, resolver, || self.restricted_starts(&facts));
        let sample = |name: &Path| Some(Sample::touching(doing, name.to_str()?, scope.clone()));
        let is = |name: &Path, kept: fn(&Self, &Facts<'_>) -> bool| {
            // FAIL CLOSED: a name that is not UTF-8 cannot be matched against a rule.
            sample(name).is_none_or(|sample| kept(self, &sample.facts(&self.context)))
        };
        let others = || names.iter().filter(|name| **name != path);
        if others().any(|name| is(name, Self::is_denied)) {
            return OtherNames::Denied;
        }
        // If a rule asks about the path itself, that was already approved.
        if others().any(|name| is(name, Self::is_restricted)) && !is(path, Self::is_restricted) {
            return OtherNames::Denied;
        }
        if is_complete || names.len() as u64 == file.links {
            OtherNames::Allowed
        } else {
            OtherNames::Unknown
        }
    }

    /// Returns the directories that contain every file that a rule restricts by path, symlinks
    /// resolved and none below another.
    fn restricted_starts(&self, facts: &Facts<'_>) -> Vec<PathBuf> {
        let restricts = |rule: &&Rule| rule.enabled && rule.decision != Decision::Allow;
        let patterns = self.rules.iter().filter(restricts).flat_map(|rule| &rule.matches);
        let resolve = |start: PathBuf| self.context.resolver.resolve(&start).unwrap_or(start);
        let mut all: Vec<PathBuf> =
            patterns.flat_map(|pattern| pattern.restricted_starts(facts)).map(resolve).collect();
        all.sort_unstable();
        all.dedup_by(|later, kept| later.starts_with(&*kept));
        // The small ones first, so that they are complete even if the limit is reached.
        all.sort_by_key(|start| std::cmp::Reverse(start.components().count()));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{PathBase, Pattern, PolicyContext};

    /// A fake file system that lists these hard links, counts its walks, and may exceed the limit.
    #[derive(Debug, Clone, Default)]
    struct Fake {
        links: Arc<Mutex<Vec<(PathBuf, HardLinkedFile)>>>,
        walks: Arc<AtomicUsize>,
        is_large: bool,
    }

    impl PathResolver for Fake {
        fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
            Ok(path.to_owned())
        }

        fn hard_links(
            &self,
            path: &Path,
            _: &mut usize,
            found: &mut Vec<(PathBuf, HardLinkedFile)>,
        ) -> Result<(), String> {
            self.walks.fetch_add(1, Ordering::Relaxed);
            let links = self.links.lock().unwrap();
            found.extend(links.iter().filter(|(name, _)| name.starts_with(path)).cloned());
            if self.is_large { Err("there are too many files".to_owned()) } else { Ok(()) }
        }
    }

    impl Fake {
        fn link(&self, name: &str, file: HardLinkedFile) {
            self.links.lock().unwrap().push((name.into(), file));
        }
    }

    fn file(inode: u64, changed: i64) -> HardLinkedFile {
        HardLinkedFile { device: 1, inode, links: 2, changed: (changed, 0) }
    }

    fn rules(resolver: &Fake, texts: &[(Decision, &str)]) -> Rules {
        let context =
            PolicyContext { resolver: Arc::new(resolver.clone()), ..PolicyContext::default() };
        let anchor = PathBase { home: Some("/home/u".into()), ..PathBase::default() };
        let rule = |(decision, text): &(Decision, &str)| {
            Rule::new(decision.clone(), Pattern::parse(text, &anchor).unwrap())
        };
        Rules::new(texts.iter().map(rule).collect(), context).unwrap()
    }

    fn judged(rules: &Rules, path: &str, file: &HardLinkedFile) -> OtherNames {
        let scope = Scope::from(haft_core::RunScope {
            working_directory: Path::new("/w").into(),
            ..haft_core::RunScope::default()
        });
        rules.judge_other_names(Operation::Read, Path::new(path), file, &scope)
    }

    #[test]
    fn hard_link_is_judged_by_every_restricted_name() {
        let resolver = Fake::default();
        resolver.link("/w/secrets/key", file(1, 5));
        resolver.link("/w/vendor/secrets/key", file(2, 5));
        resolver.link("/home/u/.ssh/id", file(3, 5));
        resolver.link("/w/docs/a", file(4, 5));
        let restricts = [
            (Decision::Deny, "Read(./secrets/**)"),
            (Decision::Ask, "Read(secrets/**)"),
            (Decision::Deny, "Read(~/.ssh/**)"),
        ];
        let rules = rules(&resolver, &restricts);
        for (inode, is) in [
            (1, OtherNames::Denied),
            (2, OtherNames::Denied),
            (3, OtherNames::Denied),
            (4, OtherNames::Allowed),
            (9, OtherNames::Allowed),
        ] {
            assert_eq!(judged(&rules, "/w/pub", &file(inode, 5)), is, "{inode}");
        }
        assert_eq!(judged(&rules, "/w/vendor/secrets/key", &file(2, 5)), OtherNames::Allowed);
    }

    #[test]
    fn hard_link_walk_is_cached_until_a_new_link_appears() {
        let resolver = Fake::default();
        let rules = rules(&resolver, &[(Decision::Deny, "Read(secrets/**)")]);
        for inode in 0..1_000 {
            resolver.link(&format!("/w/node_modules/{inode}"), file(inode, 100));
        }
        resolver.link("/w/z", file(1_000, 200));
        let walks = || resolver.walks.load(Ordering::Relaxed);
        for _ in 0..2 {
            for inode in 0..1_000 {
                let name = format!("/w/node_modules/{inode}");
                assert_eq!(judged(&rules, &name, &file(inode, 100)), OtherNames::Allowed);
            }
        }
        assert!(walks() <= 2, "{} walks", walks());
        let before = walks();
        // `ln secrets/key pub`
        resolver.link("/w/secrets/key", file(7_000, 300));
        assert_eq!(judged(&rules, "/w/pub", &file(7_000, 300)), OtherNames::Denied);
        assert_eq!(walks(), before + 1);
        // An inode that gets another name later.
        resolver.link("/w/secrets/other", HardLinkedFile { links: 3, ..file(7, 400) });
        let linked = HardLinkedFile { links: 3, ..file(7, 400) };
        assert_eq!(judged(&rules, "/w/node_modules/7", &linked), OtherNames::Denied);
    }

    #[test]
    fn beyond_the_limit_only_files_with_all_names_seen_are_clear() {
        let resolver = Fake { is_large: true, ..Fake::default() };
        resolver.link("/w/target/a", file(1, 5));
        resolver.link("/w/target/deps/a", file(1, 5));
        resolver.link("/w/node_modules/a", file(2, 5));
        let rules = rules(&resolver, &[(Decision::Deny, "Read(.env)")]);
        assert_eq!(judged(&rules, "/w/target/a", &file(1, 5)), OtherNames::Allowed);
        assert_eq!(judged(&rules, "/w/node_modules/a", &file(2, 5)), OtherNames::Unknown);
    }

    #[test]
    fn rules_without_paths_walk_nothing() {
        let resolver = Fake::default();
        let rules = rules(&resolver, &[(Decision::Deny, "Bash(rm *)")]);
        assert_eq!(judged(&rules, "/w/a", &file(1, 5)), OtherNames::Allowed);
        assert_eq!(resolver.walks.load(Ordering::Relaxed), 0);
    }
}
