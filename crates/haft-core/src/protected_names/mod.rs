//! Protected names: files that another program obeys or executes, so that changing one is more than
//! an edit. One list and one matcher for the file tools, the sandbox and the rules.
//!
//! In: a path without symlinks, relative to a writable root, and the path of the root. Out: whether
//! a change is refused, and why. Matching is pure and errs on the strict side: it ignores case,
//! invisible characters and 8.3 short names. Exceptions are compared literally.
//!
//! INVARIANT: a path that any file system could take for a protected one is protected.
//! INVARIANT: what lies below a protected path is protected; an exception frees nothing but itself
//! and what lies below it.

mod fold;
mod lengths;
mod table;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    ffi::OsStr,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use self::table::PROTECTED;
use self::{fold::fold, lengths::Lengths};

/// One protected name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectedName {
    /// Components with `/` between them; `*` is one whole component. It holds at any depth.
    pub pattern: &'static str,
    /// Why it is protected, as a clause that a person reads.
    pub reason: &'static str,
    /// Where it applies.
    pub scope: NameScope,
}

/// Where a protected name applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NameScope {
    /// Everywhere, in any spelling that some file system takes for the name.
    Everywhere,
    /// Only in exactly this spelling, and not inside of a `.git` directory.
    OutsideGit,
    /// Everywhere but below a directory of dependencies such as `node_modules`: packages bring such
    /// files, and no program obeys them there.
    OutsideDependencies,
}

/// How a path relates to the protected names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protection {
    /// It is not related to them.
    Unprotected,
    /// A protected name would lie below it: moving or replacing it would get around the protection.
    Contains,
    /// It is one, or lies below one.
    Protected,
}

/// A change of one directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// A directory is made. It is empty.
    CreateDir,
    /// A file of any kind but a symlink is made, a hard link included.
    CreateFile,
    /// A symlink is made.
    CreateLink,
    /// An existing file is opened for writing, or truncated.
    Write,
    /// A file or an empty directory is removed.
    Remove,
    /// An entry gets this name by a rename.
    MoveTo,
    /// An entry loses this name by a rename.
    MoveFrom,
}

/// A change that was refused, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefusedChange {
    /// The path that would have been changed.
    pub path: PathBuf,
    /// Why it is protected, as a clause.
    pub reason: String,
}

/// A set of protected names with exceptions, prepared for fast comparison.
///
/// ```
/// use std::path::Path;
/// use haft_core::protected_names::{Change, ProtectedNames, Protection};
///
/// let names = ProtectedNames::standard();
/// assert_eq!(names.protection(Path::new("sub/.git/config")), Protection::Protected);
/// assert_eq!(names.protection(Path::new(".git")), Protection::Contains);
/// assert!(names.check(Path::new(".git"), Change::CreateDir).is_ok());
/// assert!(names.check(Path::new(".git"), Change::CreateFile).is_err());
/// assert!(names.check(Path::new("src/main.rs"), Change::Write).is_ok());
/// ```
#[derive(Debug, Clone, Default)]
pub struct ProtectedNames {
    /// The names as the host passed them.
    given: Vec<String>,
    names: Vec<Name>,
    /// Which names begin with a component. Its key is folded.
    by_first: HashMap<Box<str>, Vec<usize>>,
    /// Names that begin with `*`.
    wild: Vec<usize>,
    /// For each first byte the lengths that a first component has, one bit each. Most components of
    /// ordinary paths end here.
    lengths: Lengths,
    exceptions: Vec<Exception>,
}

#[derive(Debug, Clone)]
struct Name {
    /// Folded components behind the first one.
    rest: Box<[Box<str>]>,
    reason: &'static str,
    pattern: Box<str>,
    scope: NameScope,
    /// It begins at the root, and holds at no other depth.
    is_anchored: bool,
}

#[derive(Debug, Clone)]
struct Exception {
    parts: Box<[Box<str>]>,
    /// It begins at the root, and holds at no other depth.
    is_anchored: bool,
}

/// The reason of a name that is not in the table.
const CONFIGURED_REASON: &str = "the configuration of this workspace protects it";

/// A name that a path matches.
struct Hit<'p> {
    name: &'p Name,
    protection: Protection,
}

impl ProtectedNames {
    /// Prepares names and exceptions. A name of the table keeps its reason and its scope.
    ///
    /// A name and an exception hold at any depth; one that begins with `./` holds at the root only.
    #[must_use]
    pub fn new(
        names: impl IntoIterator<Item = impl Into<String>>,
        exceptions: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Self {
        let mut all =
            Self { given: names.into_iter().map(Into::into).collect(), ..Self::default() };
        for at in 0..all.given.len() {
            let pattern = all.given[at].clone();
            all.add(&pattern);
        }
        all.exceptions =
            exceptions.into_iter().filter_map(|e| Exception::new(e.as_ref())).collect();
        all
    }

    /// Prepares the names of the table, without exceptions.
    #[must_use]
    pub fn standard() -> Self {
        Self::new(PROTECTED.iter().map(|name| name.pattern), [] as [&str; 0])
    }

    /// Returns the names as the host passed them.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.given
    }

    fn add(&mut self, pattern: &str) {
        let mut parts = plain_parts(Path::new(pattern)).map(|part| fold(part).into_owned());
        let Some(first) = parts.next() else { return };
        let rest: Box<[Box<str>]> = parts.map(String::into_boxed_str).collect();
        let known = PROTECTED.iter().find(|name| name.pattern == pattern);
        let (reason, scope) = known
            .map_or((CONFIGURED_REASON, NameScope::Everywhere), |name| (name.reason, name.scope));
        let at = self.names.len();
        let is_anchored = pattern.starts_with("./");
        self.names.push(Name { rest, reason, pattern: pattern.into(), scope, is_anchored });
        if first == "*" {
            self.wild.push(at);
        } else {
            self.lengths.add(&first);
            self.by_first.entry(first.into_boxed_str()).or_default().push(at);
        }
    }

    /// Compares paths below a root with the name of the root as well: in a root that is called
    /// `.github` the directory `workflows` is protected.
    ///
    /// ```
    /// use std::path::Path;
    /// use haft_core::protected_names::{ProtectedNames, Protection};
    ///
    /// let names = ProtectedNames::standard();
    /// let root = Path::new("/home/ada/site/.github");
    /// assert_eq!(names.at(root).protection(Path::new("workflows/ci.yml")), Protection::Protected);
    /// assert_eq!(names.at(root).protection(Path::new("README.md")), Protection::Unprotected);
    /// ```
    #[must_use]
    pub fn at<'p, 'r>(&'p self, root: &'r Path) -> ProtectedBelow<'p, 'r> {
        ProtectedBelow { names: self, root }
    }

    /// Returns how a path relates to the names. They apply at any depth: a repository inside the
    /// workspace has hooks too.
    #[must_use]
    pub fn protection(&self, path: &Path) -> Protection {
        self.at(Path::new(NO_ROOT)).protection(path)
    }

    /// Returns why a path is protected, or why what lies below it is.
    #[must_use]
    pub fn reason(&self, path: &Path) -> Option<&str> {
        self.at(Path::new(NO_ROOT)).reason(path)
    }

    /// Returns the pattern of the name that protects a path, or something below it.
    #[must_use]
    pub fn pattern(&self, path: &Path) -> Option<&str> {
        self.at(Path::new(NO_ROOT)).pattern(path)
    }

    /// Decides about one change.
    ///
    /// # Errors
    /// Refuses every change of a protected path. Where protected names lie below, a directory may
    /// be made and an empty one removed; a file, a symlink or a moved directory there would get
    /// around the protection.
    pub fn check(&self, path: &Path, change: Change) -> Result<(), RefusedChange> {
        self.at(Path::new(NO_ROOT)).check(path, change)
    }

    /// Returns the directories that would make a path protected if they had a `HEAD`: git treats
    /// such a directory as a repository and obeys its `config` and `hooks`. The caller checks that.
    /// Inside of a `.git` directory there are none: a branch may be called `config`.
    pub fn possible_git_directories<'p>(&self, path: &'p Path) -> impl Iterator<Item = &'p Path> {
        let protects_head = self.names.iter().any(|name| name.scope == NameScope::OutsideGit);
        let is_obeyed = |path: &&Path| {
            path.file_name().is_some_and(|name| table::OBEYED_NEXT_TO_HEAD.contains(&&*fold(name)))
        };
        let path = if protects_head { path } else { Path::new("") };
        let ancestors = path.ancestors().filter(is_obeyed).filter_map(Path::parent);
        ancestors.filter(|directory| !has_git(directory))
    }

    /// Finds the first name that protects a path, or else one that would lie below it.
    fn find(&self, path: &Path) -> Option<Hit<'_>> {
        let mut above = None;
        let (mut is_in_git, mut is_in_dependencies) = (false, false);
        let mut rest = path.components();
        let mut is_top = true;
        while let Some(component) = rest.next() {
            let part = component.as_os_str();
            let is_first = std::mem::take(&mut is_top);
            if self.wild.is_empty() && !self.lengths.may_have(part) {
                continue;
            }
            let folded = fold(part);
            let begun = self.by_first.get(&*folded).map_or(&[][..], Vec::as_slice);
            for name in begun.iter().chain(&self.wild).filter_map(|at| self.names.get(*at)) {
                let counts = match name.scope {
                    NameScope::Everywhere => true,
                    NameScope::OutsideGit => !is_in_git && part == &*name.pattern,
                    NameScope::OutsideDependencies => !is_in_dependencies,
                };
                if !counts || name.is_anchored && !is_first {
                    continue;
                }
                match name.compare(rest.clone()) {
                    Protection::Protected if self.is_free(path) => return None,
                    Protection::Protected => {
                        return Some(Hit { name, protection: Protection::Protected });
                    }
                    Protection::Contains if above.is_none() => above = Some(name),
                    Protection::Contains | Protection::Unprotected => {}
                }
            }
            // Another spelling frees nothing.
            is_in_git |= part == ".git";
            is_in_dependencies |= is_dependencies(part);
        }
        let name = above?;
        (!self.is_free(path)).then_some(Hit { name, protection: Protection::Contains })
    }

    /// Finds a name that begins in the path of the root and ends below it: the last component of
    /// the root is part of the match. A directory of dependencies above the root frees nothing.
    fn find_from_root(&self, root: &Path, path: &Path) -> Option<Hit<'_>> {
        let mut above = None;
        let mut from = root.components();
        for _ in 0..root.components().count() {
            let part = from.next()?.as_os_str();
            if self.wild.is_empty() && !self.lengths.may_have(part) {
                continue;
            }
            let left = from.clone().count();
            let folded = fold(part);
            let begun = self.by_first.get(&*folded).map_or(&[][..], Vec::as_slice);
            for name in begun.iter().chain(&self.wild).filter_map(|at| self.names.get(*at)) {
                let begins_below = name.is_anchored || name.scope == NameScope::OutsideGit;
                if name.rest.len() < left || begins_below {
                    continue;
                }
                match name.compare(from.clone().chain(path.components())) {
                    Protection::Protected if self.is_free(path) => return None,
                    Protection::Protected => {
                        return Some(Hit { name, protection: Protection::Protected });
                    }
                    Protection::Contains if above.is_none() => above = Some(name),
                    Protection::Contains | Protection::Unprotected => {}
                }
            }
        }
        let name = above?;
        (!self.is_free(path)).then_some(Hit { name, protection: Protection::Contains })
    }

    /// Whether a path is an exception or lies below one.
    fn is_free(&self, path: &Path) -> bool {
        self.exceptions.iter().any(|exception| exception.covers(path))
    }

    /// Whether an exception lies below a path.
    fn leads_to_exception(&self, path: &Path) -> bool {
        self.exceptions.iter().any(|exception| exception.lies_below(path))
    }
}

/// Returns whether some file system treats two names as equal: it ignores case, invisible
/// characters and suffixes that some systems drop.
///
/// ```
/// use haft_core::protected_names::is_spelling_of;
///
/// assert!(is_spelling_of("Head".as_ref(), "HEAD"));
/// assert!(is_spelling_of("ref\u{17f}".as_ref(), "refs"));
/// assert!(!is_spelling_of("ahead".as_ref(), "HEAD"));
/// ```
#[must_use]
pub fn is_spelling_of(name: &OsStr, known: &str) -> bool {
    fold(name) == fold(OsStr::new(known))
}

/// No root: paths are compared by themselves.
const NO_ROOT: &str = "";

/// The names as they apply below one root. Made by [`ProtectedNames::at`].
#[derive(Debug, Clone, Copy)]
pub struct ProtectedBelow<'p, 'r> {
    names: &'p ProtectedNames,
    root: &'r Path,
}

impl<'p> ProtectedBelow<'p, '_> {
    /// Returns how a path below the root relates to the names.
    #[must_use]
    pub fn protection(self, path: &Path) -> Protection {
        self.find(path).map_or(Protection::Unprotected, |hit| hit.protection)
    }

    /// Returns why a path is protected, or why what lies below it is.
    #[must_use]
    pub fn reason(self, path: &Path) -> Option<&'p str> {
        self.find(path).map(|hit| hit.name.reason)
    }

    /// Returns the pattern of the name that protects a path, or something below it.
    #[must_use]
    pub fn pattern(self, path: &Path) -> Option<&'p str> {
        self.find(path).map(|hit| &*hit.name.pattern)
    }

    /// Decides about one change.
    ///
    /// # Errors
    /// Refuses as [`ProtectedNames::check`] does.
    pub fn check(self, path: &Path, change: Change) -> Result<(), RefusedChange> {
        let Some(hit) = self.find(path) else { return Ok(()) };
        let is_allowed = match hit.protection {
            Protection::Unprotected => true,
            Protection::Contains => matches!(change, Change::CreateDir | Change::Remove),
            Protection::Protected => {
                change == Change::CreateDir && self.names.leads_to_exception(path)
            }
        };
        if is_allowed {
            return Ok(());
        }
        Err(RefusedChange { path: path.to_owned(), reason: hit.name.reason.to_owned() })
    }

    /// Finds the strictest name.
    fn find(self, path: &Path) -> Option<Hit<'p>> {
        let own = self.names.find(path);
        // The root itself is no entry of the workspace.
        let is_settled = own.as_ref().is_some_and(|hit| hit.protection == Protection::Protected);
        if is_settled || path.as_os_str().is_empty() {
            return own;
        }
        self.names.find_from_root(self.root, path).or(own)
    }
}

/// Returns whether a rename may move an entry from one path to the other. No entry is moved into or
/// out of a `.git` directory, or out of a directory of dependencies: a directory that was prepared
/// elsewhere would bring names that were never checked.
#[must_use]
pub fn is_move_allowed(from: &Path, to: &Path) -> bool {
    let is_leaving = match dependencies(from) {
        Some(above) => dependencies(to) != Some(above),
        None => false,
    };
    !is_leaving && git_directory(from) == git_directory(to)
}

impl Name {
    /// Compares the components behind the first one.
    fn compare<'c>(&self, mut path: impl Iterator<Item = Component<'c>>) -> Protection {
        for wanted in &self.rest {
            match path.next() {
                None => return Protection::Contains,
                Some(_) if &**wanted == "*" => {}
                Some(part) if fold(part.as_os_str()) == **wanted => {}
                Some(_) => return Protection::Unprotected,
            }
        }
        Protection::Protected
    }
}

impl Exception {
    /// Parses an exception. One with `..` or an empty component is ignored.
    fn new(text: &str) -> Option<Self> {
        let (text, is_anchored) = match text.strip_prefix("./") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        let parts: Box<[Box<str>]> = text.split('/').map(Into::into).collect();
        parts.iter().all(|part| is_plain(part)).then_some(Self { parts, is_anchored })
    }

    fn covers(&self, path: &Path) -> bool {
        self.holds(path, |exception, path| exception.len() <= path.len())
    }

    fn lies_below(&self, path: &Path) -> bool {
        self.holds(path, |exception, path| path.len() < exception.len())
    }

    /// Compares as many components as both have, from each depth where the exception may begin.
    fn holds(&self, path: &Path, fits: impl Fn(&[Box<str>], &[Component<'_>]) -> bool) -> bool {
        let path: Vec<Component<'_>> = path.components().collect();
        let depths = if self.is_anchored { 1 } else { path.len() };
        (0..depths).filter_map(|depth| path.get(depth..)).any(|path| {
            let is_same = |(wanted, part): (&str, &Component<'_>)| {
                wanted == "*" || part.as_os_str() == wanted
            };
            fits(&self.parts, path) && self.parts.iter().map(|part| &**part).zip(path).all(is_same)
        })
    }
}

/// The components of a pattern, without `.` and `..`.
fn plain_parts(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        _ => None,
    })
}

/// Returns the innermost `.git` directory that a path lies in.
fn git_directory(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|path| path.file_name().is_some_and(|name| fold(name) == ".git"))
}

/// Whether a name is that of a directory of dependencies. The comparison is literal: another
/// spelling frees nothing.
fn is_dependencies(name: &OsStr) -> bool {
    table::DEPENDENCIES.iter().any(|known| name == *known)
}

/// Returns the outermost directory of dependencies that a path is or lies in.
fn dependencies(path: &Path) -> Option<&Path> {
    let is_one = |path: &&Path| path.file_name().is_some_and(is_dependencies);
    path.ancestors().filter(is_one).last()
}

/// Whether a path has a `.git` component.
fn has_git(path: &Path) -> bool {
    path.iter().any(|part| fold(part) == ".git")
}
