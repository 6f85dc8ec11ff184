//! Finds the paths that deny rules match, so that sandboxed processes cannot access them.
//!
//! In: the directories that a process may use. Out: existing files and directories that may not be
//! read or changed, and patterns for names that may not be created. The walk searches only where a
//! pattern can match; a literal path is looked up by name. Each hit is judged by the rules like a
//! file tool's call, so both agree. A directory that is denied as a whole represents everything
//! below it.
//!
//! INVARIANT: no symlink is followed; each directory is opened relative to its parent's descriptor.
//! FAIL CLOSED: if the search does not finish in time it is an error, and the call needs approval.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use haft_core::{Decision, DeniedPaths, DeniedPathsUnknown, Operation, Scope};

use super::Rules;
use crate::{
    facts::Sample,
    path_resolver::{Storage, start},
    pattern::AbsolutePattern,
    rule::Rule,
};

#[cfg(unix)]
mod walk;

/// Maximum number of entries: a large project with its dependencies.
pub(super) const MAX_ENTRIES: usize = 200_000;
/// Maximum duration of the search.
const MAX_TIME: Duration = Duration::from_millis(150);
/// Maximum number of paths in the result.
const MAX_PATHS: usize = 10_000;

fn unknown(why: impl Into<String>) -> DeniedPathsUnknown {
    DeniedPathsUnknown::new(why)
}

impl Rules {
    /// Finds the paths that deny rules match.
    pub(super) fn find_denied(
        &self,
        roots: &[PathBuf],
        scope: &Scope,
        now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        let by_path = |rule: &&Rule| rule.decision == Decision::Deny && is_about_paths(rule);
        if !self.rules.iter().any(|rule| by_path(&rule)) {
            return Ok(DeniedPaths::default());
        }
        let resolver = &*self.context.resolver;
        // Relative paths have the same base as those of the tool.
        let mut scope = Scope::clone(scope);
        let base = start(roots, &scope.working_directory, resolver).map_err(unknown)?;
        scope.working_directory = base.into();
        let patterns = self.deny_patterns(&scope)?;
        let mut denied = DeniedPaths::default();
        if patterns.is_empty() {
            return Ok(denied);
        }
        for pattern in &patterns {
            let text = pattern.written();
            if !denied.new.contains(&text) {
                denied.new.push(text);
            }
        }
        match resolver.storage() {
            Storage::Empty => return Ok(denied),
            Storage::Unknown => return Err(unknown("files cannot be listed here")),
            Storage::ThisMachine => {}
        }
        #[cfg(not(unix))]
        return Err(unknown("files can be searched only on Unix"));
        #[cfg(unix)]
        {
            let real: Result<Vec<PathBuf>, String> =
                roots.iter().map(|root| resolver.resolve(root)).collect();
            let roots = real.map_err(unknown)?;
            let search = walk::Search {
                rules: self,
                scope: &scope,
                patterns: &patterns,
                roots: &roots,
                max_entries: self.max_entries,
            };
            match search.run(now, &mut denied) {
                Ok(()) => Ok(denied),
                Err(unknown) => Err(DeniedPathsUnknown { found: denied, ..unknown }),
            }
        }
    }

    /// Returns the path patterns of deny rules.
    fn deny_patterns(&self, scope: &Scope) -> Result<Vec<AbsolutePattern>, DeniedPathsUnknown> {
        let mut all = Vec::new();
        for doing in [Operation::Read, Operation::Write] {
            let sample = Sample::touching(doing, ".", scope.clone());
            let facts = sample.facts(&self.context);
            let rules = self.rules.iter().filter(|rule| {
                rule.enabled && rule.decision == Decision::Deny && is_about_paths(rule)
            });
            for pattern in rules.flat_map(|rule| &rule.matches) {
                let absolute = pattern.absolute(&facts).ok_or_else(|| {
                    unknown(format!("the base directory of `{}` is not known", pattern.as_str()))
                })?;
                for pattern in absolute {
                    if !all.contains(&pattern) {
                        all.push(pattern);
                    }
                }
            }
        }
        Ok(all)
    }

    /// Returns how a deny rule about paths applies to a path.
    fn denial(&self, doing: Operation, path: &Path, scope: &Scope) -> Denial {
        // FAIL CLOSED: a name that is not UTF-8 cannot be matched against a rule.
        let Some(text) = path.to_str() else { return Denial::Whole };
        let sample = Sample::touching(doing, text, scope.clone());
        let facts = sample.facts(&self.context);
        let finds = |counts: &dyn Fn(&Rule) -> bool| {
            self.strongest_where(&self.deny, &facts, &mut (), "", counts).is_some()
        };
        if finds(&|rule| is_about_paths(rule) && rule.except.is_empty()) {
            Denial::Whole
        } else if finds(&is_about_paths) {
            Denial::Entry
        } else {
            Denial::None
        }
    }
}

/// Whether a rule restricts by path, and not every call of a tool.
fn is_about_paths(rule: &Rule) -> bool {
    rule.enabled && rule.matches.iter().any(|pattern| !pattern.may_cover_tools())
}

/// How far a deny goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denial {
    None,
    /// The entry is denied; something below it may be excepted.
    Entry,
    /// The entry and all below it.
    Whole,
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        FileRules as _, PathBase, Pattern, PolicyContext,
        testing::{TestDirectory, now},
    };

    fn rules(root: &TestDirectory, patterns: &[&str]) -> Rules {
        let anchor = PathBase { directory: Some(root.at("")), ..PathBase::default() };
        let rule = |text: &&str| Rule::new(Decision::Deny, Pattern::parse(text, &anchor).unwrap());
        Rules::new(patterns.iter().map(rule).collect(), PolicyContext::default()).unwrap()
    }

    fn find(rules: &Rules, directory: &TestDirectory) -> Result<DeniedPaths, DeniedPathsUnknown> {
        let root = directory.at("").canonicalize().unwrap();
        let scope = Scope::from(haft_core::RunScope {
            working_directory: root.as_path().into(),
            ..haft_core::RunScope::default()
        });
        let now = now();
        rules.denied_paths(&[root], &scope, &|| now)
    }

    #[test]
    fn too_many_entries_are_an_error_but_a_literal_path_needs_no_walk() {
        let directory = TestDirectory::new("denied-bound");
        for n in 0..50 {
            directory.dir(&format!("many/{n}"));
        }
        directory.dir("secrets/a");
        let mut all = rules(&directory, &["Read(**/.env)", "Read(./secrets/**)"]);
        assert_eq!(find(&all, &directory).unwrap().read.len(), 1);
        all.max_entries = 30;
        let error = find(&all, &directory).unwrap_err();
        assert!(error.why.contains("more than 30 files"), "{error}");
        let mut literal = rules(&directory, &["Read(./secrets/**)", "Read(//etc/ssh/*_key)"]);
        literal.max_entries = 30;
        let found = find(&literal, &directory).unwrap();
        assert!(found.read.iter().any(|path| path.ends_with("secrets")), "{found:?}");
    }

    #[test]
    fn walk_timeout_is_an_error() {
        let directory = TestDirectory::new("denied-time");
        for n in 0..300 {
            directory.dir(&format!("many/{n}"));
        }
        let rules = rules(&directory, &["Read(**/.env)"]);
        let root = directory.at("").canonicalize().unwrap();
        let scope = Scope::from(haft_core::RunScope {
            working_directory: root.as_path().into(),
            ..haft_core::RunScope::default()
        });
        let (start, looks) = (now(), std::cell::Cell::new(0));
        let now = || {
            looks.set(looks.get() + 1);
            start + MAX_TIME * (looks.get() - 1) * 2
        };
        let error = rules.denied_paths(&[root], &scope, &now).unwrap_err();
        assert!(error.why.contains("longer than 150 ms"), "{error}");
    }

    #[test]
    fn patterns_for_new_names_are_absolute() {
        let directory = TestDirectory::new("denied-new");
        let rules = rules(&directory, &["Read(./a[!x-z]?/**)", "Edit(*.lock)", "Read(//o\\*/b)"]);
        let new = find(&rules, &directory).unwrap().new;
        let root = directory.at("").canonicalize().unwrap();
        let root = root.to_str().unwrap();
        for text in
            [format!("{root}/a[!\\x-z]?/**"), format!("{root}/**/*.lock"), "/o\\*/b".to_owned()]
        {
            assert!(new.contains(&text), "{text} {new:?}");
        }
    }
}
