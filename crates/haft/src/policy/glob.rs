//! Globs over names with `*` and `?`, such as `search_*`. Case-sensitive; nothing else is special.

/// A glob over names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Glob {
    text: String,
    chars: Vec<char>,
}

impl Glob {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { chars: text.chars().collect(), text }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether a name matches. Backtracks only to the last star, so the cost is at most the
    /// product of the two lengths, and usually their sum.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        let (mut p, mut n) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while let Some(c) = name.get(n) {
            match self.chars.get(p) {
                Some('*') => {
                    star = Some((p, n));
                    p += 1;
                }
                Some(wanted) if *wanted == '?' || wanted == c => {
                    p += 1;
                    n += 1;
                }
                _ => match star {
                    Some((at, from)) => {
                        star = Some((at, from + 1));
                        p = at + 1;
                        n = from + 1;
                    }
                    None => return false,
                },
            }
        }
        self.chars.get(p..).unwrap_or_default().iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_case_sensitively() {
        for (pattern, name, wanted) in [
            ("read_file", "read_file", true),
            ("read_file", "read_files", false),
            ("read_*", "read_file", true),
            ("read_*", "read_", true),
            ("read_*", "Read_file", false),
            ("*file*", "read_file_x", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxxab", true),
            ("*a*b", "xaxxba", false),
            ("*", "", true),
            ("?", "", false),
            ("", "", true),
            ("", "x", false),
            ("*é?", "caféx", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn many_wildcards_match_fast() {
        let glob = Glob::new(format!("{}b", "*a".repeat(200)));
        assert!(!glob.matches(&"a".repeat(5000)));
    }
}
