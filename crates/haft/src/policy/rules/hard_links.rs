//! Which other names a file has that rules restrict: a hard link to a denied file is that file.
//!
//! In: a file that was opened, by device and inode. Out: the names it has where a deny or an ask is
//! about paths. Those places are walked once and the answer is kept, so that trees full of hard links,
//! as pnpm and cargo make them, cost one walk and ask about nothing.
//!
//! When is a walk too old? Every new name of a file changes its `ctime`. A file whose `ctime` lies
//! before a walk has no name that the walk did not see; for a file that changed later the places are
//! walked again. Times are compared within one device, and only with times that were known before the
//! walk began. What is not noticed: a directory that is moved as a whole to where a rule holds.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::{Decision, HardLinked, Operation, OtherNames, Scope};

use super::{
    super::{
        facts::{Facts, Sample},
        path_resolver::PathResolver,
        rule::Rule,
    },
    Rules,
};

/// So many entries are looked at in one walk: the sources of a large project, with what it depends on.
const MAX_ENTRIES: usize = 200_000;
/// So many working directories are remembered.
const MAX_DIRECTORIES: usize = 16;
/// So many files are remembered that were looked up and have no name where rules restrict.
const MAX_CHECKED: usize = 100_000;

type Changed = (i64, u64);
type Identity = (u64, u64);

/// The names of files with several of them, for each working directory that rules are read from.
#[derive(Debug, Default)]
pub(super) struct LinkIndex(Mutex<Vec<(PathBuf, Names)>>);

/// What one walk found.
#[derive(Debug, Default)]
struct Names {
    found: HashMap<Identity, Arc<[PathBuf]>, ahash::RandomState>,
    /// Whether everything was looked at.
    is_complete: bool,
    /// For each device: a time before the walk began.
    begun_after: HashMap<u64, Changed>,
    /// For each device: the latest change that is known.
    newest: HashMap<u64, Changed>,
    /// Files that had this state before a walk began.
    checked: HashMap<Identity, (Changed, u64), ahash::RandomState>,
}

impl Names {
    fn is_fresh(&self, file: &HardLinked) -> bool {
        let before = self.begun_after.get(&file.device).is_some_and(|begun| file.changed < *begun);
        before || self.checked.get(&file.identity()) == Some(&(file.changed, file.links))
    }

    /// Walks again. Whatever was known before counts as known before the walk.
    fn walk(&mut self, starts: &[PathBuf], world: &dyn PathResolver, file: &HardLinked) {
        self.hear(file);
        self.begun_after = self.newest.clone();
        if self.checked.len() >= MAX_CHECKED {
            self.checked.clear();
        }
        self.checked.insert(file.identity(), (file.changed, file.links));
        let (mut left, mut found) = (MAX_ENTRIES, Vec::new());
        self.is_complete = starts.iter().all(|start| {
            // FAIL CLOSED: whatever the reason, not everything was seen.
            world.hard_links(start, &mut left, &mut found).is_ok()
        });
        let mut names: HashMap<Identity, Vec<PathBuf>, ahash::RandomState> = HashMap::default();
        for (path, linked) in found {
            self.hear(&linked);
            names.entry(linked.identity()).or_default().push(path);
        }
        self.found = names.into_iter().map(|(file, names)| (file, names.into())).collect();
    }

    fn hear(&mut self, file: &HardLinked) {
        let newest = self.newest.entry(file.device).or_insert(file.changed);
        *newest = file.changed.max(*newest);
    }
}

impl LinkIndex {
    /// Returns the names of a file where rules restrict, and whether all such places were looked at.
    fn names(
        &self,
        file: &HardLinked,
        work: &Path,
        world: &dyn PathResolver,
        starts: impl FnOnce() -> Vec<PathBuf>,
    ) -> (Arc<[PathBuf]>, bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(own, _)| own == work).unwrap_or_else(|| {
            if known.len() >= MAX_DIRECTORIES {
                known.remove(0);
            }
            known.push((work.to_owned(), Names::default()));
            known.len() - 1
        });
        let Some((_, names)) = known.get_mut(at) else { return (Arc::new([]), false) };
        if !names.is_fresh(file) {
            names.walk(&starts(), world, file);
        }
        let found = names.found.get(&file.identity()).cloned().unwrap_or_default();
        (found, names.is_complete)
    }
}

impl Rules {
    /// Returns what the rules say about the other names of a file that is open under this path.
    pub(super) fn judge_other_names(
        &self,
        doing: Operation,
        path: &Path,
        file: &HardLinked,
        scope: &Arc<Scope>,
    ) -> OtherNames {
        if file.links < 2 || !(self.deny.has_paths() || self.ask.has_paths()) {
            return OtherNames::Clear;
        }
        let here = Sample::touching(doing, ".", Arc::clone(scope));
        let facts = here.facts(&self.ground);
        let Ok(work) = facts.base() else { return OtherNames::Unknown };
        let world = &*self.ground.world;
        let (names, is_complete) =
            self.hard_links.names(file, work, world, || self.restricted_starts(&facts));
        let sample = |name: &Path| Some(Sample::touching(doing, name.to_str()?, Arc::clone(scope)));
        let is = |name: &Path, kept: fn(&Self, &Facts<'_>) -> bool| {
            // FAIL CLOSED: a name that cannot be written down cannot be held against a rule.
            sample(name).is_none_or(|sample| kept(self, &sample.facts(&self.ground)))
        };
        let others = || names.iter().filter(|name| **name != path);
        if others().any(|name| is(name, Self::is_denied)) {
            return OtherNames::Kept;
        }
        // Where the path itself is asked about, the question was asked.
        if others().any(|name| is(name, Self::is_kept)) && !is(path, Self::is_kept) {
            return OtherNames::Kept;
        }
        if is_complete || names.len() as u64 == file.links {
            OtherNames::Clear
        } else {
            OtherNames::Unknown
        }
    }

    /// Returns the places that hold every file which a rule restricts by its path, symlinks followed
    /// and none below another.
    fn restricted_starts(&self, facts: &Facts<'_>) -> Vec<PathBuf> {
        let restricts = |rule: &&Rule| rule.enabled && rule.decision != Decision::Allow;
        let patterns = self.rules.iter().filter(restricts).flat_map(|rule| &rule.matches);
        let resolve = |start: PathBuf| self.ground.world.resolve(&start).unwrap_or(start);
        let mut all: Vec<PathBuf> =
            patterns.flat_map(|pattern| pattern.restricted_starts(facts)).map(resolve).collect();
        all.sort_unstable();
        all.dedup_by(|later, kept| later.starts_with(&*kept));
        // The small ones first: where there is too much, they are complete at least.
        all.sort_by_key(|start| std::cmp::Reverse(start.components().count()));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::policy::{PathBase, Pattern, PolicyContext};

    /// A disk that lists these hard links, counts its walks, and may have too much on it.
    #[derive(Debug, Clone, Default)]
    struct Fake {
        links: Arc<Mutex<Vec<(PathBuf, HardLinked)>>>,
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
            found: &mut Vec<(PathBuf, HardLinked)>,
        ) -> Result<(), String> {
            self.walks.fetch_add(1, Ordering::Relaxed);
            let links = self.links.lock().unwrap();
            found.extend(links.iter().filter(|(name, _)| name.starts_with(path)).cloned());
            if self.is_large { Err("there are too many files".to_owned()) } else { Ok(()) }
        }
    }

    impl Fake {
        fn link(&self, name: &str, file: HardLinked) {
            self.links.lock().unwrap().push((name.into(), file));
        }
    }

    fn file(inode: u64, changed: i64) -> HardLinked {
        HardLinked { device: 1, inode, links: 2, changed: (changed, 0) }
    }

    fn rules(world: &Fake, texts: &[(Decision, &str)]) -> Rules {
        let ground = PolicyContext { world: Arc::new(world.clone()), ..PolicyContext::default() };
        let anchor = PathBase { home: Some("/home/u".into()), ..PathBase::default() };
        let rule = |(decision, text): &(Decision, &str)| {
            Rule::new(decision.clone(), Pattern::parse(text, &anchor).unwrap())
        };
        Rules::new(texts.iter().map(rule).collect(), ground).unwrap()
    }

    fn said(rules: &Rules, path: &str, file: &HardLinked) -> OtherNames {
        let scope = Scope { working_directory: Path::new("/w").into(), ..Scope::default() };
        rules.judge_other_names(Operation::Read, Path::new(path), file, &Arc::new(scope))
    }

    #[test]
    fn file_is_judged_by_every_name_it_has_where_rules_restrict() {
        let world = Fake::default();
        world.link("/w/secrets/key", file(1, 5));
        world.link("/w/vendor/secrets/key", file(2, 5));
        world.link("/home/u/.ssh/id", file(3, 5));
        world.link("/w/docs/a", file(4, 5));
        let restricts = [
            (Decision::Deny, "Read(./secrets/**)"),
            (Decision::Ask, "Read(secrets/**)"),
            (Decision::Deny, "Read(~/.ssh/**)"),
        ];
        let rules = rules(&world, &restricts);
        for (inode, is) in [
            (1, OtherNames::Kept),
            (2, OtherNames::Kept),
            (3, OtherNames::Kept),
            (4, OtherNames::Clear),
            (9, OtherNames::Clear),
        ] {
            assert_eq!(said(&rules, "/w/pub", &file(inode, 5)), is, "{inode}");
        }
        assert_eq!(said(&rules, "/w/vendor/secrets/key", &file(2, 5)), OtherNames::Clear);
    }

    #[test]
    fn one_walk_serves_a_tree_of_hard_links_and_a_new_link_makes_another() {
        let world = Fake::default();
        let rules = rules(&world, &[(Decision::Deny, "Read(secrets/**)")]);
        for inode in 0..1_000 {
            world.link(&format!("/w/node_modules/{inode}"), file(inode, 100));
        }
        world.link("/w/z", file(1_000, 200));
        let walks = || world.walks.load(Ordering::Relaxed);
        for _ in 0..2 {
            for inode in 0..1_000 {
                let name = format!("/w/node_modules/{inode}");
                assert_eq!(said(&rules, &name, &file(inode, 100)), OtherNames::Clear);
            }
        }
        assert!(walks() <= 2, "{} walks", walks());
        let before = walks();
        // `ln secrets/key pub`
        world.link("/w/secrets/key", file(7_000, 300));
        assert_eq!(said(&rules, "/w/pub", &file(7_000, 300)), OtherNames::Kept);
        assert_eq!(walks(), before + 1);
        // An inode that gets another name since.
        world.link("/w/secrets/other", HardLinked { links: 3, ..file(7, 400) });
        let linked = HardLinked { links: 3, ..file(7, 400) };
        assert_eq!(said(&rules, "/w/node_modules/7", &linked), OtherNames::Kept);
    }

    #[test]
    fn beyond_the_bound_only_files_with_all_names_seen_are_clear() {
        let world = Fake { is_large: true, ..Fake::default() };
        world.link("/w/target/a", file(1, 5));
        world.link("/w/target/deps/a", file(1, 5));
        world.link("/w/node_modules/a", file(2, 5));
        let rules = rules(&world, &[(Decision::Deny, "Read(.env)")]);
        assert_eq!(said(&rules, "/w/target/a", &file(1, 5)), OtherNames::Clear);
        assert_eq!(said(&rules, "/w/node_modules/a", &file(2, 5)), OtherNames::Unknown);
    }

    #[test]
    fn rules_without_paths_walk_nothing() {
        let world = Fake::default();
        let rules = rules(&world, &[(Decision::Deny, "Bash(rm *)")]);
        assert_eq!(said(&rules, "/w/a", &file(1, 5)), OtherNames::Clear);
        assert_eq!(world.walks.load(Ordering::Relaxed), 0);
    }
}
