//! Names that rules deny, as absolute patterns: whether a path may be created or moved somewhere.
//!
//! In: patterns as rules write them, from the root on. `*`, `?` and `[a-z]` stay within one component,
//! `**` crosses components, `\` takes the meaning off the next character. Out: verdicts about paths
//! without symlinks, `.` and `..`. Nothing touches the disk.
//!
//! INVARIANT: a path has the verdict that a deny rule with the same pattern gives it in the policy.
//! Only a name that is no UTF-8 differs: the policy denies it for doubt, here its bytes are compared.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

/// Patterns for names that may not be created. Compiled once; a check allocates nothing.
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

/// More steps than this are cut off, and what is left denies more. No rule that a person writes has
/// as many.
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
    Holes(Vec<Hole>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hole {
    Is(char),
    /// `?`
    One,
    /// `*`
    Many,
    /// `[…]`
    Of {
        not: bool,
        ranges: Vec<(char, char)>,
    },
}

impl DeniedNames {
    /// Compiles patterns.
    ///
    /// # Errors
    /// Fails for a pattern that does not start at the root, climbs, or has a bracket that is never
    /// closed.
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
        self.patterns.iter().any(|steps| fits(steps, names(path)))
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

    /// Returns whether a directory can be moved without giving a denied name to something below it
    /// that had an allowed one. So `mv a b` is fine beside `**/.env`, because the pattern holds equally
    /// below both, and `mv a secrets` is not beside `secrets/**`.
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

    /// Returns whether a path below this directory may be denied because of how the directory is
    /// called or where it lies. If so, a move of it may take the deny off what is below.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "mounts are of Linux"))]
    pub(crate) fn depends_on(&self, root: &Path, directory: &Path) -> bool {
        self.patterns.iter().any(|steps| {
            // What is denied below every directory of the root, whatever its name and depth.
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

/// A name that no pattern spells out.
const OTHER_NAME: &str = "\u{1}\u{fffd}";

/// Reads the steps of a pattern.
fn steps(text: &str) -> Result<Vec<Step>, String> {
    let rest = text.strip_prefix('/').ok_or_else(|| format!("`{text}` is no absolute pattern"))?;
    let mut steps = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(format!("`{text}` has `..` in it")),
            "**" if steps.last() == Some(&Step::Any) => {}
            "**" => steps.push(Step::Any),
            name => steps.push(Step::Name(Glob::parse(name).ok_or_else(|| {
                format!("`{text}` has a `[` that is never closed; write `\\[` for the character")
            })?)),
        }
    }
    // FAIL CLOSED: the beginning of a pattern matches all that the whole matches.
    steps.truncate(MAX_STEPS);
    Ok(steps)
}

/// Returns the names of a path. It is absolute and has no `.` and `..`.
fn names(path: &Path) -> impl Iterator<Item = &[u8]> + Clone {
    path.as_os_str().as_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// Whether steps match the names or the first of them. A mismatch goes back to the last `**` alone,
/// so the cost is at most the product of the lengths.
fn fits<'p>(steps: &[Step], mut names: impl Iterator<Item = &'p [u8]> + Clone) -> bool {
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

/// Returns which steps may come next once the names of a path are used up: bit `n` is step `n`, and
/// the bit behind the last step says that all of them matched.
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

/// Adds the steps that are reached without a name: `**` also matches no component.
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
    /// Reads one component. `None` for a bracket that is never closed.
    fn parse(text: &str) -> Option<Self> {
        let mut holes = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            holes.push(match c {
                '\\' => Hole::Is(chars.next().unwrap_or('\\')),
                '*' if holes.last() == Some(&Hole::Many) => continue,
                '*' => Hole::Many,
                '?' => Hole::One,
                '[' => class(&mut chars)?,
                other => Hole::Is(other),
            });
        }
        let text: Option<String> = holes
            .iter()
            .map(|hole| match hole {
                Hole::Is(c) => Some(*c),
                _ => None,
            })
            .collect();
        Some(text.map_or(Self::Holes(holes), |text| Self::Text(text.into_bytes())))
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Text(text) => text == name,
            Self::Holes(holes) => fits_name(holes, name),
        }
    }
}

/// Reads `a-z]`, after the bracket was opened.
fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Hole> {
    let not = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        let low = chars.next()?;
        if low == ']' && !ranges.is_empty() {
            return Some(Hole::Of { not, ranges });
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

/// Whether one component matches. A mismatch goes back to the last `*` alone.
fn fits_name(holes: &[Hole], name: &[u8]) -> bool {
    let (mut hole, mut rest) = (0, name);
    let mut star: Option<(usize, &[u8])> = None;
    while let Some((c, behind)) = first(rest) {
        match holes.get(hole) {
            Some(Hole::Many) => {
                star = Some((hole, rest));
                hole += 1;
                continue;
            }
            Some(one) if takes(one, c) => {
                hole += 1;
                rest = behind;
                continue;
            }
            _ => {}
        }
        let Some((many, from)) = star else { return false };
        let Some((_, behind)) = first(from) else { return false };
        rest = behind;
        star = Some((many, rest));
        hole = many + 1;
    }
    holes.iter().skip(hole).all(|hole| *hole == Hole::Many)
}

/// Returns the first character and what is behind it. Bytes that are no character are one without a
/// name, which `?`, `*` and `[!…]` take.
fn first(bytes: &[u8]) -> Option<(Option<char>, &[u8])> {
    let chunk = bytes.get(..4).unwrap_or(bytes).utf8_chunks().next()?;
    let c = chunk.valid().chars().next();
    let len = c.map_or(chunk.invalid().len(), char::len_utf8);
    Some((c, bytes.get(len..)?))
}

fn takes(hole: &Hole, c: Option<char>) -> bool {
    match hole {
        Hole::Is(own) => c == Some(*own),
        Hole::One | Hole::Many => true,
        Hole::Of { not, ranges } => {
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
    fn a_pattern_denies_what_it_names_and_everything_below() {
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
    fn bad_patterns_are_refused_and_not_guessed() {
        for bad in ["secrets/**", "", "/w/../x", "/w/[ab", "/w/[a-"] {
            assert!(DeniedNames::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
        assert!(DeniedNames::new(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_name_that_is_no_text_is_compared_by_its_bytes() {
        let path = Path::new(OsStr::from_bytes(b"/w/a\xff.env"));
        assert!(denied(&["/w/a?.env"]).matches(path));
        assert!(denied(&["/w/*.env"]).matches(path));
        assert!(denied(&["/w/a[!b].env"]).matches(path));
        assert!(!denied(&["/w/a[b].env"]).matches(path));
        assert!(!denied(&["/w/a\u{fffd}.env"]).matches(path));
    }

    #[test]
    fn a_directory_may_contain_a_denied_name_above_and_below_the_pattern() {
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
    fn only_directories_whose_place_decides_are_depended_on() {
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
    fn a_pattern_with_too_many_steps_denies_more() {
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
        fn two_algorithms_agree(pattern in pattern(), path in path()) {
            let steps = steps(&pattern).unwrap();
            let by_states = is_complete(&steps, reached(&steps, Path::new(&path)));
            prop_assert_eq!(fits(&steps, names(Path::new(&path))), by_states);
        }

        #[test]
        fn nothing_below_matches_where_nothing_may_be(
            pattern in pattern(), directory in path(), below in path(),
        ) {
            let names = denied(&[&pattern]);
            let whole = format!("{directory}{below}");
            if names.matches(Path::new(&whole)) {
                prop_assert!(names.may_contain(Path::new(&directory)));
            }
        }

        #[test]
        fn a_move_gives_no_denied_name(
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
