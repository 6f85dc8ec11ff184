//! Patterns: regular expressions of ECMA-262, matched in bounded time (ReDoS).
//!
//! A pattern is translated to the syntax of `regex`, which matches in linear time. Only a pattern
//! with look-around or a back-reference needs backtracking, which has a limit.

use super::ecma;

/// Limits the compiled size of a pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;
/// Enough for look-around on argument-sized text; beyond it the value counts as invalid.
const MAX_BACKTRACKS: usize = 100_000;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    source: Box<str>,
    engine: Engine,
}

#[derive(Debug, Clone)]
enum Engine {
    /// `^text`
    Prefix(Box<str>),
    /// `^text$`
    Exact(Box<str>),
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

impl Pattern {
    /// Compiles a pattern.
    pub(super) fn new(source: &str) -> Result<Self, String> {
        let engine = Engine::new(source)?;
        Ok(Self { source: source.into(), engine })
    }

    /// Returns the pattern as it was written.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether it matches a part of a text; `None` if that takes too many steps.
    pub(super) fn matches(&self, text: &str) -> Option<bool> {
        match &self.engine {
            Engine::Prefix(prefix) => Some(text.starts_with(&**prefix)),
            Engine::Exact(exact) => Some(text == &**exact),
            Engine::Linear(regex) => Some(regex.is_match(text)),
            Engine::Backtracking(regex) => regex.is_match(text).ok(),
        }
    }
}

impl Engine {
    fn new(source: &str) -> Result<Self, String> {
        if let Some(simple) = Self::simple(source) {
            return Ok(simple);
        }
        let translated = ecma::translate(source)?;
        if !translated.needs_backtracking {
            let linear =
                regex::RegexBuilder::new(&translated.pattern).size_limit(MAX_PATTERN_BYTES).build();
            match linear {
                Ok(regex) => return Ok(Self::Linear(regex)),
                Err(regex::Error::CompiledTooBig(_)) => {
                    return Err("it is too large".to_owned());
                }
                // The other engine knows more syntax.
                Err(_) => {}
            }
        }
        fancy_regex::RegexBuilder::new(&translated.pattern)
            .backtrack_limit(MAX_BACKTRACKS)
            .delegate_size_limit(MAX_PATTERN_BYTES)
            .build()
            .map(|regex| Self::Backtracking(Box::new(regex)))
            .map_err(|error| error.to_string())
    }

    /// A pattern of plain characters after `^` needs no engine.
    fn simple(source: &str) -> Option<Self> {
        let body = source.strip_prefix('^')?;
        let is_plain = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/' | b' '))
        };
        match body.strip_suffix('$') {
            Some(body) => is_plain(body).then(|| Self::Exact(body.into())),
            None => is_plain(body).then(|| Self::Prefix(body.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}")).matches(text).unwrap()
    }

    #[test]
    fn ecma_syntax_keeps_its_meaning() {
        for (pattern, text, expected) in [
            ("^abc", "abcd", true),
            ("^abc$", "abcd", false),
            ("a$", "a\n", false),
            (r"^\d$", "৪", false),
            (r"^[\d_]$", "৪", false),
            (r"^\W$", "é", true),
            (r"^\s$", "\u{feff}", true),
            (r"^\S$", "\u{a0}", false),
            (r"^\cA$", "\u{1}", true),
            (r"^\u0041\x42\/\-$", "AB/-", true),
            (r"^\uD83D\uDE00$", "😀", true),
            (r"^\u{1f600}$", "😀", true),
            (r"^\p{L}+$", "žluť", true),
            (r"^\p{Script=Greek}$", "π", true),
            ("^[a-z&&b]$", "&", true),
            ("^[[]$", "[", true),
            ("^[a~~b]$", "~", true),
            (r"^[\w--z]$", "-", true),
            (r"^[\w.-]$", "-", true),
            ("^[^]$", "x", true),
            ("[]", "x", false),
            ("^{a}$", "{a}", true),
            ("^a{2}$", "aa", true),
            ("^(?!x)", "y", true),
            ("^(?!x)", "x", false),
            (r"^(?=\d)", "৪", false),
            (r"^(a)\1$", "aa", true),
            (r"(?<=a)b", "ab", true),
            (r"^(?<n>a)\k<n>$", "aa", true),
            (r"^[\b]$", "\u{8}", true),
            (r"^\0$", "\0", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in
            ["(", "a)", "[a", "*a", r"\", r"\a", r"\c1", r"\u12", "[z-a]", "(?<a", r"\uD83D"]
        {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::new("(a{1000}){1000}{1000}").is_err(), "too large");
    }

    #[test]
    fn backtracking_is_bounded() {
        let evil = Pattern::new(r"^(?:(a|aa)\1?)+b$").unwrap();
        assert_eq!(evil.matches(&format!("{}!", "a".repeat(60))), None);
        assert_eq!(evil.matches("aaaab"), Some(true));
        let linear = Pattern::new("^(a+)+$").unwrap();
        assert_eq!(linear.matches(&format!("{}!", "a".repeat(100_000))), Some(false));
    }
}
