//! Patterns over paths, component by component, as in `.gitignore`.
//!
//! ```text
//! //p     from the root             /p      from the directory of the file's project
//! ~/p     from the home directory   ./p     from the run's working directory
//! p       at any depth below the working directory
//! d/p     in a deny or an ask: at any depth below the working directory; in an allow: only `./d/p`
//! *       within one component      **      across components      ?  [a-z]
//! ```
//!
//! `d/p` is read strictly on both sides, as Claude Code documents it: a restricting rule also
//! matches `vendor/d/p`, and an allow does not. A restricting rule also starts from the directory
//! of its file and from every root of the workspace, so that no deny depends on where a run starts.
//!
//! A pattern that names a directory covers what is below it. A deny is compared as written and
//! after resolving symlinks, for both the path and the pattern. An allow is compared with the
//! resolved path only, so a symlink cannot bypass a rule (path traversal).

mod absolute;

use std::{
    borrow::Cow,
    path::{Component, Path, PathBuf},
};

use smallvec::SmallVec;

use super::{Key, PathBase, Side, Ternary};
use crate::{
    facts::Facts,
    glob::{Glob, Style, aligns},
    path_resolver::{PathResolver, normalize_lexically},
};

pub(crate) use self::absolute::{AbsolutePattern, Search, States};

/// Here two spellings that differ in case are one file.
const CASE_INSENSITIVE: bool = cfg!(any(target_os = "macos", target_os = "windows"));

/// Maximum bytes of a file name on common file systems.
const MAX_NAME_BYTES: usize = 255;

/// A pattern over paths.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    text: String,
    base: Base,
    /// The number of `..` above the base.
    up: usize,
    steps: Vec<Step>,
    /// Its components on the restricting side, if those match at any depth: `d/p` is `**/d/p`.
    floating: Option<Vec<Step>>,
    /// The literal components it starts with.
    prefix: PathBuf,
    /// How many those are.
    literal: usize,
    /// From the root to the end of the prefix, if known.
    below: Option<PathBuf>,
    /// The directory of its file. A relative restricting pattern starts there too.
    anchor: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Base {
    Root,
    Home(Option<PathBuf>),
    Directory(Option<PathBuf>),
    Work,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Any,
    Name(Glob),
}

impl Step {
    fn literal(&self) -> Option<&str> {
        match self {
            Self::Any => None,
            Self::Name(glob) => glob.literal(),
        }
    }
}

impl PathPattern {
    /// Parses a pattern; fails with the offset, the message and a hint.
    pub(super) fn parse(text: &str, anchor: &PathBase) -> Result<Self, (usize, String, String)> {
        let wrong =
            |at: usize, message: &str, hint: &str| Err((at, message.to_owned(), hint.to_owned()));
        if text.is_empty() {
            return wrong(0, "the path is empty", "write it as in `./src/**`");
        }
        if is_negated(text) {
            let hint = "use `except` for exceptions; a file whose name starts with `!` is `./!…`";
            return wrong(0, "`!` is not supported", hint);
        }
        let (base, rest) = if let Some(rest) = text.strip_prefix("//") {
            (Base::Root, rest)
        } else if text == "~" || text.starts_with("~/") {
            (Base::Home(anchor.home.clone()), text[1..].trim_start_matches('/'))
        } else if text.starts_with('~') {
            return wrong(
                0,
                "the home directory of another user is not known",
                "write the full path, `//home/…`",
            );
        } else if let Some(rest) = text.strip_prefix('/') {
            (Base::Directory(anchor.directory.clone()), rest)
        } else {
            (Base::Work, text)
        };
        let mut pattern = Self {
            text: text.to_owned(),
            up: 0,
            steps: Vec::new(),
            floating: None,
            prefix: PathBuf::new(),
            literal: 0,
            below: None,
            anchor: None,
            base,
        };
        let trimmed = rest.strip_suffix('/').unwrap_or(rest);
        if matches!(pattern.base, Base::Work)
            && !trimmed.contains('/')
            && !matches!(trimmed, "." | "..")
        {
            pattern.steps.push(Step::Any);
        }
        let mut at = text.len() - rest.len();
        for step in rest.split('/') {
            match step {
                "" | "." => {}
                ".." if pattern.steps.is_empty() && !matches!(pattern.base, Base::Root) => {
                    pattern.up += 1;
                }
                ".." => {
                    return wrong(at, "`..` in the middle of a path", "write the path without it");
                }
                "**" if pattern.steps.last() == Some(&Step::Any) => {}
                "**" => pattern.steps.push(Step::Any),
                name => match Glob::parse(name, Style::Files) {
                    Ok(glob) => pattern.steps.push(Step::Name(glob)),
                    Err(inside) => {
                        return wrong(
                            at + inside,
                            "this `[` is never closed",
                            "write `\\[` for the character",
                        );
                    }
                },
            }
            at += step.len() + 1;
        }
        let is_relative = pattern.base == Base::Work && pattern.up == 0;
        if is_relative {
            pattern.anchor.clone_from(&anchor.directory);
        }
        if is_relative && !text.starts_with("./") && pattern.literal_first() {
            pattern.floating =
                Some(std::iter::once(Step::Any).chain(pattern.steps.iter().cloned()).collect());
        }
        pattern.literal = pattern.steps.iter().map_while(Step::literal).count();
        pattern.prefix = pattern.steps.iter().map_while(Step::literal).collect();
        let base = match &pattern.base {
            Base::Root => Some(root()),
            Base::Home(home) => home.as_deref(),
            Base::Directory(base) => base.as_deref(),
            Base::Work => None,
        };
        pattern.below = base.map(|base| pattern.start(base));
        Ok(pattern)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it starts with a name, possibly with `*` in it.
    fn literal_first(&self) -> bool {
        matches!(self.steps.first(), Some(Step::Name(_)))
    }

    /// Returns its components on this side.
    fn steps_on(&self, side: Side) -> &[Step] {
        match (&self.floating, side) {
            (Some(floating), Side::Restrict) => floating,
            _ => &self.steps,
        }
    }

    /// Returns its index key.
    pub(super) fn key(&self) -> Key<'_> {
        if CASE_INSENSITIVE {
            return Key::Any;
        }
        if let Some(below) =
            self.below.as_deref().filter(|b| b.is_absolute() && b.parent().is_some())
        {
            return Key::Below(below);
        }
        // The base is unknown, so the matching paths cannot be determined.
        if matches!(self.base, Base::Home(None) | Base::Directory(None)) {
            return Key::Any;
        }
        // A path that matches has all of its literal names; the last is the most selective.
        match self.steps.iter().rev().find_map(Step::literal) {
            Some(name) => Key::FileName(name),
            None => Key::Any,
        }
    }

    /// Returns whether its literal prefix contains a symlink, so that its key does not find all it
    /// matches.
    pub(super) fn has_symlink_prefix(&self, resolver: &dyn PathResolver, work: &Path) -> bool {
        let strays_from = |base: &Path| {
            let start = self.start(base);
            resolver.resolve(&start).is_ok_and(|leads| leads != start)
        };
        match &self.base {
            // Its key has only the components after a base, so the bases themselves are resolved.
            Base::Work => std::iter::once(work)
                .chain(self.anchor.as_deref())
                .any(|base| resolver.resolve(base).map_or(true, |base| strays_from(&base))),
            Base::Root => strays_from(root()),
            Base::Home(base) | Base::Directory(base) => base.as_deref().is_some_and(strays_from),
        }
    }

    /// Returns whether it certainly matches all that the other matches, symlinks excluded.
    pub(super) fn covers(&self, other: &Self, side: Side, their_side: Side) -> bool {
        if self.base != other.base || self.up != other.up {
            return false;
        }
        // A restricting pattern starts from the directory of its file too.
        let own_anchor = self.anchor.as_deref().filter(|_| side == Side::Restrict);
        let their_anchor = other.anchor.as_deref().filter(|_| their_side == Side::Restrict);
        if their_anchor.is_some() && own_anchor != their_anchor {
            return false;
        }
        let (own, other) = (self.steps_below(side), other.steps_below(their_side));
        let takes = |own: &&Step, other: &&Step| match (own, other) {
            (Step::Name(own), Step::Name(other)) => own.covers(other),
            _ => false,
        };
        aligns(&own, &other, |step| **step == Step::Any, takes)
    }

    /// Returns whether certainly no path matches both, symlinks excluded.
    pub(super) fn is_disjoint(&self, other: &Self) -> bool {
        // One of the two restricts, and then a floating pattern matches at any depth.
        let floats = self.floating.is_some() || other.floating.is_some();
        let same = self.base == other.base
            && self.up == other.up
            && self.anchor == other.anchor
            && !floats;
        let mut pairs = self.steps.iter().zip(&other.steps).map_while(|pair| match pair {
            (Step::Name(own), Step::Name(other)) => Some(own.is_disjoint(other)),
            _ => None,
        });
        // On a case-insensitive file system, names that differ may be the same.
        same && !CASE_INSENSITIVE && pairs.any(|apart| apart)
    }

    /// Returns its components, and what it covers below them.
    fn steps_below(&self, side: Side) -> Vec<&Step> {
        let steps = self.steps_on(side);
        let more =
            side == Side::Restrict || steps.last().is_none_or(|last| last.literal().is_some());
        let open = more && steps.last() != Some(&Step::Any);
        steps.iter().chain(open.then_some(&Step::Any)).collect()
    }

    /// Returns the literal names in it.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(Step::literal)
    }

    /// Returns whether it matches everything from the root on.
    pub(super) fn is_everything(&self) -> bool {
        self.base == Base::Root && self.steps.iter().all(|step| *step == Step::Any)
    }

    /// Returns why no file can match. `home` is the home directory of the current user.
    pub(super) fn is_nowhere(&self, side: Side, home: Option<&Path>) -> Option<String> {
        let unknown = match &self.base {
            Base::Home(own) if own.as_deref().or(home).is_none() => Some("the home directory"),
            Base::Directory(None) => Some("the directory of its file"),
            _ => None,
        };
        // For a restricting rule that is `Unknown`, which counts.
        if let Some(what) = unknown.filter(|_| side == Side::Allow) {
            return Some(format!("`{}` starts from {what}, which is not known", self.text));
        }
        let long = self.names().find(|name| name.len() > MAX_NAME_BYTES)?;
        let start: String = long.chars().take(20).collect();
        Some(format!("no file name is as long as `{start}…`"))
    }

    /// Returns whether a path matches, as written and resolved.
    pub(super) fn matches(
        &self,
        spelled: &Path,
        resolved: &Result<PathBuf, String>,
        facts: &Facts<'_>,
        side: Side,
    ) -> Ternary {
        let base = self.base(facts);
        if side == Side::Allow {
            return match (base, resolved) {
                (Err(why), _) => Ternary::Unknown(why),
                (_, Err(why)) => Ternary::Unknown(why.clone()),
                (Ok(base), Ok(resolved)) => self.allows(&base, resolved, facts),
            };
        }
        let mut answer = match base {
            Ok(base) => self.restricts(&base, spelled, resolved, facts),
            Err(why) => Ternary::Unknown(why),
        };
        for base in self.further_bases(facts) {
            match self.restricts(base, spelled, resolved, facts) {
                Ternary::Yes => return Ternary::Yes,
                doubt @ Ternary::Unknown(_) if answer == Ternary::No => answer = doubt,
                _ => {}
            }
        }
        answer
    }

    /// Returns the further bases of a relative restricting pattern besides the working directory:
    /// the directory of its file, and every root of the workspace.
    fn further_bases<'f>(&'f self, facts: &'f Facts<'_>) -> impl Iterator<Item = &'f Path> {
        let is_relative = self.base == Base::Work && self.up == 0;
        let work = facts.base().ok().filter(|_| is_relative);
        let roots = facts.context.roots.iter().map(PathBuf::as_path);
        let all = self.anchor.as_deref().into_iter().chain(roots);
        all.filter(move |base| is_relative && base.is_absolute() && Some(*base) != work)
    }

    /// Returns all bases of a restricting pattern, if they are known.
    fn restricting_bases<'f>(&'f self, facts: &'f Facts<'_>) -> Option<Vec<Cow<'f, Path>>> {
        let own = self.base(facts).ok()?;
        Some(std::iter::once(own).chain(self.further_bases(facts).map(Cow::Borrowed)).collect())
    }

    /// An allow: the resolved path, compared from the resolved base. Symlinks in the pattern's own
    /// components are not followed, or a symlink in the workspace could point an allow anywhere.
    fn allows(&self, base: &Path, resolved: &Path, facts: &Facts<'_>) -> Ternary {
        let base = match (&self.base, self.up) {
            (Base::Root, _) => Ok(Cow::Borrowed(base)),
            (Base::Work, 0) => facts.root().map(Cow::Borrowed).map_err(str::to_owned),
            _ => facts.context.resolver.resolve(&self.up_from(base)).map(Cow::Owned),
        };
        match base {
            Err(why) => Ternary::Unknown(why),
            Ok(base) => self.below(&base, &self.steps, resolved, Side::Allow),
        }
    }

    fn restricts(
        &self,
        base: &Path,
        spelled: &Path,
        resolved: &Result<PathBuf, String>,
        facts: &Facts<'_>,
    ) -> Ternary {
        let both = |base: &Path, steps: &[Step]| {
            let first = self.below(base, steps, spelled, Side::Restrict);
            match resolved {
                Ok(resolved) if first != Ternary::Yes => {
                    match self.below(base, steps, resolved, Side::Restrict) {
                        Ternary::No => first,
                        other => other,
                    }
                }
                _ => first,
            }
        };
        let start = normalize_lexically(&self.up_from(base));
        let steps = self.steps_on(Side::Restrict);
        let mut answer = both(&start, steps);
        if answer == Ternary::No
            && let Ok(leads) = facts.context.resolver.resolve(&self.start(base))
        {
            answer = both(&leads, &self.steps[self.literal..]);
        }
        if answer == Ternary::No
            && self.floating.is_some()
            && let Ok(leads) = facts.context.resolver.resolve(&self.up_from(base))
            && leads != start
        {
            answer = both(&leads, steps);
        }
        match (answer, resolved) {
            (Ternary::No, Err(why)) => Ternary::Unknown(why.clone()),
            (answer, _) => answer,
        }
    }

    fn base<'f>(&'f self, facts: &'f Facts<'_>) -> Result<Cow<'f, Path>, String> {
        let unknown =
            |what: &str| format!("`{}` starts from {what}, which is not known", self.text);
        match &self.base {
            Base::Root => Ok(Cow::Borrowed(root())),
            Base::Work => facts.base().map(Cow::Borrowed).map_err(str::to_owned),
            Base::Home(home) => home
                .as_deref()
                .or(facts.context.home.as_deref())
                .map(Cow::Borrowed)
                .ok_or_else(|| unknown("the home directory")),
            Base::Directory(base) => base
                .as_deref()
                .map(Cow::Borrowed)
                .ok_or_else(|| unknown("the directory of its file")),
        }
    }

    /// Returns the deepest directories or files that contain everything a deny or an ask with this
    /// pattern matches. Empty if its base is unknown.
    pub(super) fn restricted_starts(&self, facts: &Facts<'_>) -> Vec<PathBuf> {
        let floats = self.floating.is_some();
        let start = |base: Cow<'_, Path>| {
            if floats { normalize_lexically(&self.up_from(&base)) } else { self.start(&base) }
        };
        self.restricting_bases(facts).into_iter().flatten().map(start).collect()
    }

    fn up_from(&self, base: &Path) -> PathBuf {
        let mut start = base.to_path_buf();
        start.extend(std::iter::repeat_n("..", self.up));
        start
    }

    /// Returns whether it may match a file of this directory with this name prefix, or one further
    /// down.
    pub(super) fn may_begin(&self, directory: &Path, name: &str, facts: &Facts<'_>) -> bool {
        let is_loose = self.floating.is_some() || self.steps.first() == Some(&Step::Any);
        match (is_loose, facts.declares_reads) {
            // It may match anywhere, and the command reads only what exists: so the directory is
            // searched. FAIL CLOSED: if it cannot be searched, a match is assumed.
            (true, true) => self.is_found_below(directory, name, facts).unwrap_or(true),
            (true, false) if self.floating.is_some() => {
                self.may_start(directory, name, facts)
                    || self.is_found_below(directory, name, facts).unwrap_or(false)
            }
            _ => self.may_start(directory, name, facts),
        }
    }

    /// Returns whether it matches something that exists now: this directory, or an entry at any
    /// depth below it with this prefix. `None` if there is too much to search.
    fn is_found_below(&self, parent: &Path, name: &str, facts: &Facts<'_>) -> Option<bool> {
        let steps = self.steps_on(Side::Restrict);
        // The directory is resolved once, not for each entry.
        let leads = |path: &Path| facts.context.resolver.resolve(path).ok();
        let mut starts = Vec::new();
        for base in self.restricting_bases(facts)? {
            let start = normalize_lexically(&self.up_from(&base));
            starts.push(leads(&self.start(&base)).map(|at| (at, &self.steps[self.literal..])));
            starts.push(leads(&start).map(|at| (at, steps)));
            starts.push(Some((start, steps)));
        }
        let is_hit = |path: &Path| {
            let hits = |(start, steps): &(PathBuf, &[Step])| {
                self.below(start, steps, path, Side::Restrict) != Ternary::No
            };
            starts.iter().flatten().any(hits)
        };
        let entries = facts.entries_below(parent)?;
        let begins = |path: &Path| {
            let next = path.strip_prefix(parent).ok().and_then(|rest| rest.iter().next());
            next.is_none_or(|next| next.to_str().is_none_or(|next| next.starts_with(name)))
        };
        Some(is_hit(&parent.join(name)) || entries.iter().any(|path| begins(path) && is_hit(path)))
    }

    /// Returns whether its literal prefix may be in this directory, under a name with this prefix,
    /// or above the directory.
    fn may_start(&self, directory: &Path, name: &str, facts: &Facts<'_>) -> bool {
        // FAIL CLOSED: a pattern with an unknown base may start anywhere.
        let Some(bases) = self.restricting_bases(facts) else { return true };
        let may = |start: &Path| match start.strip_prefix(directory) {
            Ok(rest) => rest
                .iter()
                .next()
                .is_none_or(|next| next.to_str().is_none_or(|next| next.starts_with(name))),
            Err(_) => directory.starts_with(start),
        };
        // The directory may be given resolved, and the pattern through a symlink.
        bases.iter().any(|base| {
            let start = self.start(base);
            may(&start) || facts.context.resolver.resolve(&start).is_ok_and(|leads| may(&leads))
        })
    }

    fn start(&self, base: &Path) -> PathBuf {
        normalize_lexically(&self.up_from(base)).join(&self.prefix)
    }

    /// Whether a path is below a directory and its rest matches.
    fn below(&self, directory: &Path, steps: &[Step], path: &Path, side: Side) -> Ternary {
        let fold = CASE_INSENSITIVE && side == Side::Restrict;
        if path.is_absolute() != directory.is_absolute() {
            return Ternary::Unknown(
                "the base directory of relative paths is not known".to_owned(),
            );
        }
        let mut own = path.components();
        for part in directory.components() {
            if !own.next().is_some_and(|own| same(own, part, fold)) {
                return Ternary::No;
            }
        }
        let mut names: SmallVec<[&str; 12]> = SmallVec::new();
        for part in own {
            match part {
                Component::Normal(name) => match name.to_str() {
                    Some(name) => names.push(name),
                    None => return Ternary::Unknown("the path is not UTF-8".to_owned()),
                },
                _ => {
                    return Ternary::Unknown(
                        "the path leaves the known directories with `..`".to_owned(),
                    );
                }
            }
        }
        // A literal name covers what is below it; a trailing `*` of an allow does not.
        let more =
            side == Side::Restrict || steps.last().is_none_or(|last| last.literal().is_some());
        if fits(steps, &names, more, fold) { Ternary::Yes } else { Ternary::No }
    }
}

/// Whether a pattern is written as an exception, as in `.gitignore`. That is not supported.
pub(super) fn is_negated(text: &str) -> bool {
    text.starts_with('!')
}

fn root() -> &'static Path {
    Path::new("/")
}

fn same(a: Component<'_>, b: Component<'_>, fold: bool) -> bool {
    a == b
        || fold
            && a.as_os_str().to_string_lossy().to_lowercase()
                == b.as_os_str().to_string_lossy().to_lowercase()
}

/// As for one text: a mismatch backtracks to the last `**` alone.
fn fits(steps: &[Step], names: &[&str], more: bool, fold: bool) -> bool {
    let (mut step, mut at) = (0, 0);
    let mut any: Option<(usize, usize)> = None;
    loop {
        match steps.get(step) {
            None if more || at == names.len() => return true,
            Some(Step::Any) => {
                any = Some((step, at));
                step += 1;
                continue;
            }
            Some(Step::Name(glob)) if names.get(at).is_some_and(|n| glob.matches(n, fold)) => {
                step += 1;
                at += 1;
                continue;
            }
            _ => {}
        }
        match any {
            Some((many, from)) if from < names.len() => {
                at = from + 1;
                any = Some((many, at));
                step = many + 1;
            }
            _ => return false,
        }
    }
}
