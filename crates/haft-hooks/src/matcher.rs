//! Which tools a hook matches: all, a list of names, or a regular expression.
//!
//! A text of letters, digits, `_`, `-`, space, `,` and `|` is a list of exact names. Anything else
//! is a regular expression that may match anywhere in the name. The protocol uses JavaScript
//! expressions; look-around and backreferences are not supported and rejected at load.

use regex::{Regex, RegexBuilder};

/// The largest compiled size of an expression, so that a hostile one cannot exhaust memory.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Which tools a hook matches.
#[derive(Debug, Clone)]
pub struct Matcher(Kind);

#[derive(Debug, Clone)]
enum Kind {
    All,
    Names(Vec<String>),
    Regex(Regex),
}

impl Matcher {
    /// Parses a matcher. `None`, an empty text and `*` match all tools.
    ///
    /// # Errors
    /// Fails for an invalid or unsupported expression, with the reason.
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
        let regex = RegexBuilder::new(text).size_limit(MAX_COMPILED_BYTES).build();
        regex.map(Kind::Regex).map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the expression is too large".to_owned(),
            // The last line is the reason; the lines above show the position.
            other => other.to_string().lines().last().unwrap_or_default().trim().to_owned(),
        })
    }

    /// Returns whether it matches a tool of this name.
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
    fn a_matcher_is_a_wildcard_a_list_or_an_expression() {
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
    fn unsupported_javascript_expressions_are_rejected_with_a_reason() {
        for text in [r"(?=Bash)", r"(?<!x)Bash", r"(a)\1", "Bash(", "a{1000}{1000}{1000}"] {
            let error = Matcher::parse(Some(text)).unwrap_err();
            assert!(!error.is_empty(), "{text}");
        }
        assert!(Matcher::parse(Some("(?=x)")).unwrap_err().contains("look-around"));
    }
}
