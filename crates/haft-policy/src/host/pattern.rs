//! Patterns over hosts, label by label. A leading `*.` matches any depth below, and not the host
//! itself; elsewhere `*` stays inside its label.

use std::net::Ipv6Addr;

use super::plain;
use crate::glob::{Glob, Style};

/// A pattern over hosts.
#[derive(Debug, Clone)]
pub(crate) struct HostPattern {
    text: String,
    shape: Shape,
    /// The suffix of every host that matches, label by label.
    ending: String,
}

#[derive(Debug, Clone)]
enum Shape {
    Any,
    Number(String),
    Labels { below: bool, labels: Vec<Glob> },
}

impl HostPattern {
    /// Parses a pattern; fails with the offset, the message and a hint.
    pub(crate) fn parse(text: &str) -> Result<Self, (usize, String, String)> {
        let wrong =
            |at: usize, message: &str, hint: &str| Err((at, message.to_owned(), hint.to_owned()));
        let lower = text.to_ascii_lowercase();
        let bare = lower.trim_start_matches('[').trim_end_matches(']');
        if let Ok(number) = bare.parse::<Ipv6Addr>() {
            let number = plain(number);
            return Ok(Self {
                text: text.to_owned(),
                shape: Shape::Number(number.clone()),
                ending: number,
            });
        }
        if let Some(at) = lower.find("://") {
            return wrong(at, "a host has no scheme", "write the host alone, as in `x.org`");
        }
        if let Some(at) = lower.find(['/', ':', '@', '?', '#']) {
            return wrong(
                at,
                "a host has no port, user or path",
                "write the host alone, as in `x.org`",
            );
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
        if let Some(at) = lower.find(|c| !is_plain(c)) {
            let hint = "a host has letters, digits, `-`, `_` and dots; other scripts are written \
                as `xn--…`";
            return wrong(at, "this is not a valid host label", hint);
        }
        if lower == "*" {
            return Ok(Self { text: text.to_owned(), shape: Shape::Any, ending: String::new() });
        }
        let name = lower.strip_suffix('.').unwrap_or(&lower);
        let (below, name) = match name.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, name),
        };
        if name.split('.').any(str::is_empty) {
            return wrong(0, "a label of the host is empty", "write it as in `x.org` or `*.x.org`");
        }
        let labels: Vec<Glob> =
            name.split('.').filter_map(|label| Glob::parse(label, Style::Star).ok()).collect();
        let known = labels.iter().rev().map_while(Glob::literal).count();
        let ending: Vec<&str> =
            labels[labels.len() - known..].iter().filter_map(Glob::literal).collect();
        let ending = ending.join(".");
        Ok(Self { text: text.to_owned(), shape: Shape::Labels { below, labels }, ending })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the suffix of every host that matches; may be empty.
    pub(crate) fn ending(&self) -> &str {
        &self.ending
    }

    /// Returns whether it certainly matches all that the other matches.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (&self.shape, &other.shape) {
            (Shape::Any, _) => true,
            (Shape::Number(own), Shape::Number(other)) => own == other,
            (
                Shape::Labels { below, labels },
                Shape::Labels { below: other_below, labels: others },
            ) => {
                let depth = match (below, other_below) {
                    (false, false) => labels.len() == others.len(),
                    (false, true) => false,
                    (true, true) => labels.len() <= others.len(),
                    (true, false) => labels.len() < others.len(),
                };
                depth && labels.iter().rev().zip(others.iter().rev()).all(|(a, b)| a.covers(b))
            }
            _ => false,
        }
    }

    /// Returns whether certainly no host matches both.
    pub(crate) fn is_disjoint(&self, other: &Self) -> bool {
        match (&self.shape, &other.shape) {
            (Shape::Any, _) | (_, Shape::Any) => false,
            (Shape::Number(own), Shape::Number(other)) => own != other,
            (Shape::Labels { below: a, labels }, Shape::Labels { below: b, labels: others }) => {
                let depth = match (a, b) {
                    (false, false) => labels.len() == others.len(),
                    (true, true) => true,
                    (true, false) => labels.len() < others.len(),
                    (false, true) => others.len() < labels.len(),
                };
                let mut pairs = labels.iter().rev().zip(others.iter().rev());
                !depth || pairs.any(|(a, b)| a.is_disjoint(b))
            }
            _ => true,
        }
    }

    /// Returns whether a typed host matches.
    pub(crate) fn matches(&self, host: &str) -> bool {
        match &self.shape {
            Shape::Any => true,
            Shape::Number(number) => number == host,
            Shape::Labels { below, labels } => {
                // An IPv6 address has no labels.
                if host.contains(':') {
                    return false;
                }
                let mut own = host.rsplit('.');
                labels.iter().rev().all(|glob| own.next().is_some_and(|l| glob.matches(l, false)))
                    && own.next().is_some() == *below
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_compared_label_by_label() {
        for (pattern, host, is) in [
            ("x.org", "x.org", true),
            ("X.ORG.", "x.org", true),
            ("x.org", "evilx.org", false),
            ("x.org", "a.x.org", false),
            ("*.x.org", "a.x.org", true),
            ("*.x.org", "a.b.x.org", true),
            ("*.x.org", "x.org", false),
            ("*.x.org", "evilx.org", false),
            ("api-*.x.org", "api-1.x.org", true),
            ("api-*.x.org", "api-1.evil.x.org", false),
            ("a.*.org", "a.b.org", true),
            ("a.*.org", "a.b.c.org", false),
            ("*", "anything", true),
            ("[::1]", "::1", true),
            ("[::ffff:127.0.0.1]", "127.0.0.1", true),
            ("*.1", "::1", false),
            ("127.0.0.1", "127.0.0.1", true),
        ] {
            assert_eq!(HostPattern::parse(pattern).unwrap().matches(host), is, "{pattern} {host}");
        }
        assert_eq!(HostPattern::parse("*.b.x.org").unwrap().ending(), "b.x.org");
        assert_eq!(HostPattern::parse("a*.x.org").unwrap().ending(), "x.org");
        for bad in ["https://x.org", "x.org:80", "x.org/p", "a..b", "", "b\u{fc}cher.de", "a@b"] {
            assert!(HostPattern::parse(bad).is_err(), "{bad}");
        }
    }
}
