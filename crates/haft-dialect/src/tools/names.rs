//! Assigns tool names that a provider accepts. A tool keeps its own name where that is valid.
//! INVARIANT: no two tools get the same name.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use crate::Dialect;

/// Assigns names for one request.
#[derive(Debug)]
pub(crate) struct Names {
    dialect: Dialect,
    taken: HashSet<String>,
    given: HashMap<String, usize>,
}

impl Names {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, taken: HashSet::new(), given: HashMap::new() }
    }

    /// Reserves the names that are already valid.
    pub(crate) fn reserve<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.taken.extend(
            names.into_iter().filter(|name| is_valid(self.dialect, name)).map(str::to_owned),
        );
        self
    }

    /// Assigns a name to a tool. The same tools in the same order get the same names.
    pub(crate) fn assign(&mut self, original: &str) -> String {
        let count = self.given.entry(original.to_owned()).or_insert(0);
        *count += 1;
        let is_duplicate = *count > 1;
        if !is_duplicate && is_valid(self.dialect, original) {
            self.taken.insert(original.to_owned());
            return original.to_owned();
        }
        let plain = sanitize(original);
        let max_bytes = max_name_bytes(self.dialect);
        if !is_duplicate && plain.len() <= max_bytes && !self.taken.contains(&plain) {
            self.taken.insert(plain.clone());
            return plain;
        }
        // The hash covers the tool's own name, so it does not depend on the other tools.
        for salt in *count.. {
            let salted = if salt == 1 { original.to_owned() } else { format!("{original}#{salt}") };
            let digest = Sha256::digest(salted.as_bytes());
            let suffix: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            let stem: String = plain.chars().take(max_bytes - 9).collect();
            let name = format!("{stem}_{suffix}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
        plain
    }
}

/// The max_bytes name a dialect accepts.
fn max_name_bytes(dialect: Dialect) -> usize {
    match dialect {
        Dialect::OpenAiResponses | Dialect::Mcp => 128,
        _ => 64,
    }
}

/// Whether a dialect accepts a name unchanged.
fn is_valid(dialect: Dialect, name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let right = match dialect {
        Dialect::Gemini | Dialect::GeminiJson => {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|b| plain(b) || b == b'.' || b == b':')
        }
        Dialect::Mcp => name.bytes().all(|b| plain(b) || b == b'.' || b == b'/'),
        _ => name.bytes().all(plain),
    };
    right && (1..=max_name_bytes(dialect)).contains(&name.len())
}

/// Replaces the characters that some dialect does not accept.
fn sanitize(name: &str) -> String {
    let mut plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect();
    if !plain.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        plain.insert(0, '_');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_name_is_kept_and_invalid_name_is_changed_once() {
        let mut names = Names::new(Dialect::Anthropic).reserve(["a_b"]);
        assert_eq!(names.assign("read_file"), "read_file");
        assert_eq!(names.assign("a_b"), "a_b");
        let changed = names.assign("a.b");
        assert!(changed.starts_with("a_b_") && changed.len() == 12, "{changed}");
        assert_eq!(names.assign("1st"), "1st");
        assert_eq!(Names::new(Dialect::Gemini).assign("1st"), "_1st");
        assert_eq!(Names::new(Dialect::Gemini).assign("a.b"), "a.b");
    }

    #[test]
    fn exported_names_are_unique_and_valid() {
        for dialect in Dialect::ALL {
            let originals: Vec<String> = ["", "é", "è", "a b", "a.b", "a/b", "a", "a"]
                .iter()
                .map(|name| (*name).to_owned())
                .chain((0..3).map(|n| format!("{}{n}", "x".repeat(200))))
                .collect();
            let mut names = Names::new(*dialect).reserve(originals.iter().map(String::as_str));
            let given: Vec<String> = originals.iter().map(|name| names.assign(name)).collect();
            let distinct: HashSet<&String> = given.iter().collect();
            assert_eq!(distinct.len(), given.len(), "{dialect}: {given:?}");
            assert!(given.iter().all(|name| is_valid(*dialect, name)), "{dialect}: {given:?}");
        }
    }
}
