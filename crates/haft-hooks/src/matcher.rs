//! Which tools a hook is about: all, a list of names, or a regular expression.
//!
//! A text of letters, digits, `_`, `-`, space, `,` and `|` is a list of exact names. Anything else
//! is a regular expression that may match anywhere in the name. It is meant for JavaScript; what
//! that knows and we do not (looking around, going back) is refused when the hook is set up.

use regex::{Regex, RegexBuilder};

/// More than any honest matcher needs once compiled.
const MAX_COMPILED: usize = 1 << 20;

/// Which tools a hook is about.
#[derive(Debug, Clone)]
pub struct Matcher(Kind);

#[derive(Debug, Clone)]
enum Kind {
    All,
    Names(Vec<String>),
    Regex(Regex),
}

impl Matcher {
    /// Reads a matcher; nothing, an empty text and `*` are about all tools.
    ///
    /// # Errors
    /// Fails for an expression that we cannot evaluate, and says what is wrong with it.
    pub fn parse(text: Option<&str>) -> Result<Self, String> {
        let text = match text.map(str::trim) {
            None | Some("" | "*") => return Ok(Self(Kind::All)),
            Some(text) => text,
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' ' | ',' | '|');
        if text.chars().all(plain) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self(Kind::Names(names.map(str::to_owned).collect())));
        }
        let regex = RegexBuilder::new(text).size_limit(MAX_COMPILED).build();
        regex.map(Kind::Regex).map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the expression is too large".to_owned(),
            // The last line says what; the lines above draw where.
            other => other.to_string().lines().last().unwrap_or_default().trim().to_owned(),
        })
    }

    /// Returns whether it is about a tool of this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.0 {
            Kind::All => true,
            Kind::Names(names) => names.iter().any(|own| own == name),
            Kind::Regex(regex) => regex.is_match(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matcher_is_all_a_list_or_an_expression() {
        for (matcher, name, is) in [
            ("", "Bash", true),
            ("*", "anything", true),
            ("Bash", "Bash", true),
            ("Bash", "BashOutput", false),
            ("bash", "Bash", false),
            ("Bash|Edit", "Edit", true),
            ("Bash, Edit", "Edit", true),
            ("Bash,Edit", "Write", false),
            ("mcp__memory", "mcp__memory__read", false),
            ("mcp__memory__.*", "mcp__memory__read", true),
            ("mcp__memory__.*", "mcp__other__read", false),
            ("Edit.*", "NotebookEdit", true),
            ("^Edit$", "NotebookEdit", false),
            ("^(Read|Write)$", "Write", true),
            (r"\d", "Tool7", true),
            ("read-file", "read-file", true),
            ("|", "Bash", false),
        ] {
            assert_eq!(
                Matcher::parse(Some(matcher)).unwrap().matches(name),
                is,
                "{matcher} {name}"
            );
        }
        assert!(Matcher::parse(None).unwrap().matches("Bash"));
    }

    #[test]
    fn what_only_javascript_knows_is_refused_and_said() {
        for text in [r"(?=Bash)", r"(?<!x)Bash", r"(a)\1", "Bash(", "a{1000}{1000}{1000}"] {
            let error = Matcher::parse(Some(text)).unwrap_err();
            assert!(!error.is_empty(), "{text}");
        }
        assert!(Matcher::parse(Some("(?=x)")).unwrap_err().contains("look-around"));
    }
}
