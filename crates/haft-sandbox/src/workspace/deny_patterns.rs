//! Matches paths against deny rules: whether a path may be created, or moved to a new name.
//!
//! In: absolute glob patterns. `*`, `?` and `[a-z]` match within one component, `**` crosses
//! components, `\` escapes the next character. Out: verdicts about paths without symlinks, `.` and
//! `..`. Pure: no disk access.
//!
//! INVARIANT: a path gets the same verdict as from a deny rule with this pattern in the policy.
//! Only names that are not UTF-8 differ: the policy denies them, here their bytes are compared.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

/// Patterns for names that may not be created. Compiled once; a check does not allocate.
///
/// ```
/// use std::path::Path;
///
/// use haft_sandbox::DeniedNames;
///
/// let denied = DeniedNames::new(&["/w/**/.env".to_owned(), "/w/secrets/**".to_owned()])?;
/// assert!(denied.matches(Path::new("/w/app/.env")));
/// assert!(denied.matches(Path::new("/w/secrets/a/b")));
/// assert!(!denied.matches(Path::new("/w/app/env")));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeniedNames {
    patterns: Vec<Vec<Step>>,
}

/// Steps of a pattern. A longer one is truncated, so that it denies more. Rules that people write
/// are shorter.
const MAX_STEPS: usize = 127;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `**`
    Any,
    Name(Glob),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Glob {
    Text(Vec<u8>),
    Parts(Vec<Part>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Char(char),
    /// `?`
    AnyChar,
    /// `*`
    AnyText,
    /// `[…]`
    Class {
        not: bool,
        ranges: Vec<(char, char)>,
    },
}

impl DeniedNames {
    /// Compiles patterns.
    ///
    /// # Errors
    /// Fails for a pattern that is not absolute, contains `..`, or has an unclosed bracket.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let patterns = patterns.iter().map(|text| steps(text)).collect::<Result<_, _>>()?;
        Ok(Self { patterns })
    }

    /// Returns whether there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns whether a pattern matches the path or a directory above it.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        self.patterns.iter().any(|steps| matches_path(steps, names(path)))
    }

    /// Returns whether a pattern matches this directory, or could match something below it.
    #[must_use]
    pub fn may_contain(&self, directory: &Path) -> bool {
        self.patterns.iter().any(|steps| {
            let mut names = names(directory);
            for step in steps {
                let Step::Name(glob) = step else { return true };
                match names.next() {
                    None => return true,
                    Some(name) if !glob.matches(name) => return false,
                    Some(_) => {}
                }
            }
            true
        })
    }

    /// Returns whether a directory can be moved without a denied name for an entry below it that
    /// had an allowed one. With `**/.env`, `mv a b` is allowed, because the pattern applies equally
    /// below both. With `secrets/**`, `mv a secrets` is not.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use haft_sandbox::DeniedNames;
    ///
    /// let denied = DeniedNames::new(&["/w/**/.env".to_owned(), "/w/**/conf/key".to_owned()])?;
    /// assert!(denied.may_move(Path::new("/w/a"), Path::new("/w/b")));
    /// assert!(!denied.may_move(Path::new("/w/a"), Path::new("/w/conf")), "`a/key` gets a denied name");
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn may_move(&self, from: &Path, to: &Path) -> bool {
        self.patterns.iter().all(|steps| {
            let (before, after) = (reached(steps, from), reached(steps, to));
            !is_complete(steps, after) && after & !before == 0
        })
    }

    /// Returns whether a path below this directory may be denied because of the name or the
    /// location of the directory. If so, moving it may bypass the deny rule for the entries below.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "mounts are of Linux"))]
    pub(crate) fn depends_on(&self, root: &Path, directory: &Path) -> bool {
        self.patterns.iter().any(|steps| {
            // What is denied below every directory of the root, at any depth.
            let mut anywhere = root.to_path_buf();
            let mut always = u128::MAX;
            for _ in 0..=steps.len() {
                anywhere.push(OTHER_NAME);
                always &= reached(steps, &anywhere);
            }
            reached(steps, directory) & !always != 0
        })
    }
}

/// A name that no pattern contains literally.
const OTHER_NAME: &str = "\u{1}\u{fffd}";

/// Parses the steps of a pattern.
fn steps(text: &str) -> Result<Vec<Step>, String> {
    let rest =
        text.strip_prefix('/').ok_or_else(|| format!("`{text}` is not an absolute pattern"))?;
    let mut steps = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(format!("`{text}` contains `..`")),
            "**" if steps.last() == Some(&Step::Any) => {}
            "**" => steps.push(Step::Any),
            name => steps.push(Step::Name(Glob::parse(name).ok_or_else(|| {
                format!("`{text}` has a `[` that is never closed; write `\\[` for the character")
            })?)),
        }
    }
    // FAIL CLOSED: a prefix of a pattern matches everything that the whole pattern matches.
    steps.truncate(MAX_STEPS);
    Ok(steps)
}

/// Returns the names of a path. It is absolute and has no `.` and `..`.
fn names(path: &Path) -> impl Iterator<Item = &[u8]> + Clone {
    path.as_os_str().as_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// Returns whether the steps match the names or a prefix of them. A mismatch backtracks to the last
/// `**` only, so the cost is at most the product of the lengths.
fn matches_path<'p>(steps: &[Step], mut names: impl Iterator<Item = &'p [u8]> + Clone) -> bool {
    let mut step = 0;
    let mut any = None;
    loop {
        match steps.get(step) {
            None => return true,
            Some(Step::Any) => {
                any = Some((step, names.clone()));
                step += 1;
                continue;
            }
            Some(Step::Name(glob)) => {
                if names.next().is_some_and(|name| glob.matches(name)) {
                    step += 1;
                    continue;
                }
            }
        }
        let Some((many, from)) = &mut any else { return false };
        if from.next().is_none() {
            return false;
        }
        names = from.clone();
        step = *many + 1;
    }
}

/// Returns which steps may come next after the names of a path: bit `n` is step `n`, and the bit
/// after the last step says that all of them matched.
fn reached(steps: &[Step], path: &Path) -> u128 {
    let mut at = closed(steps, 1);
    for name in names(path) {
        let mut next = at & 1_u128.checked_shl(index(steps.len())).unwrap_or(0);
        for (n, step) in steps.iter().enumerate().filter(|(n, _)| at >> n & 1 == 1) {
            match step {
                Step::Any => next |= 1 << n,
                Step::Name(glob) if glob.matches(name) => next |= 1 << (n + 1),
                Step::Name(_) => {}
            }
        }
        at = closed(steps, next);
    }
    at
}

/// Adds the steps that are reached without a name: `**` also matches zero components.
fn closed(steps: &[Step], mut at: u128) -> u128 {
    for n in 0..steps.len() {
        if at >> n & 1 == 1 && steps.get(n) == Some(&Step::Any) {
            at |= 1 << (n + 1);
        }
    }
    at
}

fn is_complete(steps: &[Step], at: u128) -> bool {
    at >> steps.len() & 1 == 1
}

fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Glob {
    /// Parses one component. Returns `None` for an unclosed bracket.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '\\' => Part::Char(chars.next().unwrap_or('\\')),
                '*' if parts.last() == Some(&Part::AnyText) => continue,
                '*' => Part::AnyText,
                '?' => Part::AnyChar,
                '[' => class(&mut chars)?,
                other => Part::Char(other),
            });
        }
        let text: Option<String> = parts
            .iter()
            .map(|part| match part {
                Part::Char(c) => Some(*c),
                _ => None,
            })
            .collect();
        Some(text.map_or(Self::Parts(parts), |text| Self::Text(text.into_bytes())))
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Text(text) => text == name,
            Self::Parts(parts) => matches_name(parts, name),
        }
    }
}

/// Parses `a-z]`, after the opening bracket.
fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Part> {
    let not = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let low = chars.next()?;
        if low == ']' && !ranges.is_empty() {
            return Some(Part::Class { not, ranges });
        }
        let low = if low == '\\' { chars.next()? } else { low };
        let mut high = low;
        if chars.next_if_eq(&'-').is_some() {
            match chars.peek() {
                Some(']') => ranges.push(('-', '-')),
                _ => high = chars.next()?,
            }
        }
        ranges.push((low, high));
    }
}

/// Returns whether one component matches. A mismatch backtracks to the last `*` only.
fn matches_name(parts: &[Part], name: &[u8]) -> bool {
    let (mut part, mut rest) = (0, name);
    let mut star: Option<(usize, &[u8])> = None;
    while let Some((c, after)) = first(rest) {
        match parts.get(part) {
            Some(Part::AnyText) => {
                star = Some((part, rest));
                part += 1;
                continue;
            }
            Some(one) if matches_char(one, c) => {
                part += 1;
                rest = after;
                continue;
            }
            _ => {}
        }
        let Some((many, from)) = star else { return false };
        let Some((_, after)) = first(from) else { return false };
        rest = after;
        star = Some((many, rest));
        part = many + 1;
    }
    parts.iter().skip(part).all(|part| *part == Part::AnyText)
}

/// Returns the first character and the rest. Invalid UTF-8 counts as one unnamed character, which
/// `?`, `*` and `[!…]` match.
fn first(bytes: &[u8]) -> Option<(Option<char>, &[u8])> {
    let chunk = bytes.get(..4).unwrap_or(bytes).utf8_chunks().next()?;
    let c = chunk.valid().chars().next();
    let len = c.map_or(chunk.invalid().len(), char::len_utf8);
    Some((c, bytes.get(len..)?))
}

fn matches_char(part: &Part, c: Option<char>) -> bool {
    match part {
        Part::Char(own) => c == Some(*own),
        Part::AnyChar | Part::AnyText => true,
        Part::Class { not, ranges } => {
            let within = |c| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
            c.is_some_and(within) != *not
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use proptest::prelude::*;

    use super::*;

    fn denied(patterns: &[&str]) -> DeniedNames {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        DeniedNames::new(&patterns).unwrap()
    }

    #[test]
    fn pattern_denies_the_path_and_everything_below() {
        for (pattern, path, is) in [
            ("/w/secrets/**", "/w/secrets", true),
            ("/w/secrets/**", "/w/secrets/a/b", true),
            ("/w/secrets/**", "/w/secrets2", false),
            ("/w/**/.env", "/w/.env", true),
            ("/w/**/.env", "/w/a/b/.env/c", true),
            ("/w/**/.env", "/v/.env", false),
            ("/w/*.pem", "/w/a.pem", true),
            ("/w/*.pem", "/w/a/b.pem", false),
            ("/w/[!a-c]?", "/w/dx", true),
            ("/w/[!a-c]?", "/w/ax", false),
            ("/w/\\*", "/w/*", true),
            ("/w/\\*", "/w/a", false),
            ("/w/**/a/**/b", "/w/a/x/a/b", true),
            ("/**", "/anything", true),
            ("/w/ü?", "/w/üä", true),
        ] {
            assert_eq!(denied(&[pattern]).matches(Path::new(path)), is, "{pattern} {path}");
        }
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for bad in ["secrets/**", "", "/w/../x", "/w/[ab", "/w/[a-"] {
            assert!(DeniedNames::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert!(DeniedNames::new(&[]).unwrap().is_empty());
    }

    #[test]
    fn non_utf8_name_is_compared_by_its_bytes() {
        let path = Path::new(OsStr::from_bytes(b"/w/a\xff.env"));
        assert!(denied(&["/w/a?.env"]).matches(path));
        assert!(denied(&["/w/*.env"]).matches(path));
        assert!(denied(&["/w/a[!b].env"]).matches(path));
        assert!(!denied(&["/w/a[b].env"]).matches(path));
        assert!(!denied(&["/w/a\u{fffd}.env"]).matches(path));
    }

    #[test]
    fn may_contain_holds_above_and_below_the_pattern() {
        let names = denied(&["/w/conf/*.key"]);
        for (directory, is) in
            [("/", true), ("/w", true), ("/w/conf", true), ("/w/conf/a.key/x", true)]
        {
            assert_eq!(names.may_contain(Path::new(directory)), is, "{directory}");
        }
        for directory in ["/v", "/w/conf2", "/w/conf/a", "/w/a/conf"] {
            assert!(!names.may_contain(Path::new(directory)), "{directory}");
        }
        assert!(denied(&["/w/**/.env"]).may_contain(Path::new("/w/a/b")));
    }

    #[test]
    fn depends_on_only_directories_whose_location_matters() {
        for (pattern, directory, is) in [
            ("/w/**/.env", "/w/a", false),
            ("/w/**/.env", "/w/a/b", false),
            ("/w/conf/prod/key", "/w/conf", true),
            ("/w/conf/prod/key", "/w/conf/prod", true),
            ("/w/conf/prod/key", "/w/other", false),
            ("/w/**/conf/key", "/w/a/conf", true),
            ("/w/**/conf/key", "/w/a", false),
            ("/w/*/key", "/w/a", true),
            ("/w/*/*/**/key", "/w/a/b", true),
        ] {
            let is_so = denied(&[pattern]).depends_on(Path::new("/w"), Path::new(directory));
            assert_eq!(is_so, is, "{pattern} {directory}");
        }
    }

    #[test]
    fn pattern_with_too_many_steps_is_truncated_and_denies_more() {
        let deep = "/a".repeat(200);
        let names = denied(&[&deep]);
        assert!(names.matches(Path::new(&deep)));
        assert!(names.matches(Path::new(&"/a".repeat(MAX_STEPS))));
        assert!(!names.matches(Path::new(&"/a".repeat(MAX_STEPS - 1))));
        assert!(!names.may_move(Path::new("/b"), Path::new(&"/a".repeat(MAX_STEPS))));
    }

    fn pattern() -> impl Strategy<Value = String> {
        let step = prop::sample::select(vec!["**", "*", "a", "b", "a*", "?b", "[ab]", "[!a]c"]);
        prop::collection::vec(step, 0..6).prop_map(|steps| format!("/{}", steps.join("/")))
    }

    fn path() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec!["a", "b", "c", "ab", "bc", "aab"]);
        prop::collection::vec(name, 0..6).prop_map(|names| format!("/{}", names.join("/")))
    }

    proptest! {
        #[test]
        fn backtracking_and_state_set_matchers_agree(pattern in pattern(), path in path()) {
            let steps = steps(&pattern).unwrap();
            let by_states = is_complete(&steps, reached(&steps, Path::new(&path)));
            prop_assert_eq!(matches_path(&steps, names(Path::new(&path))), by_states);
        }

        #[test]
        fn may_contain_is_true_above_every_match(
            pattern in pattern(), directory in path(), below in path(),
        ) {
            let names = denied(&[&pattern]);
            let whole = format!("{directory}{below}");
            if names.matches(Path::new(&whole)) {
                prop_assert!(names.may_contain(Path::new(&directory)));
            }
        }

        #[test]
        fn allowed_move_never_creates_a_denied_name(
            pattern in pattern(), from in path(), to in path(), below in path(),
        ) {
            let names = denied(&[&pattern]);
            if names.may_move(Path::new(&from), Path::new(&to)) {
                let (before, after) = (format!("{from}{below}"), format!("{to}{below}"));
                let is_new = names.matches(Path::new(&after)) && !names.matches(Path::new(&before));
                prop_assert!(!is_new, "{before} -> {after}");
            }
        }
    }
}
