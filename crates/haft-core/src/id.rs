//! Ids and names as types, so that none is mistaken for another.
//!
//! All are shared text: cloning one is a counter, never a copy, because a call's id and name
//! travel through every phase, event and record.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from("")
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
    };
}

id! {
    /// The id of one call, as the model's provider gave it or as haft minted it.
    CallId
}
id! {
    /// The id of one run: one agent task, over any number of turns.
    RunId
}
id! {
    /// The name of a tool, as registered or as a model wrote it.
    ///
    /// Registered names are checked by the registry; what a model writes may be any text.
    ToolName
}

impl CallId {
    /// Stands between a call's id and the number of a call nested in it. No provider has it in its
    /// ids, so a nested id never meets one of the model's.
    const WITHIN: char = '>';

    /// Returns the id of the `n`th call nested in this one.
    #[must_use]
    pub fn nested(&self, n: u32) -> CallId {
        Self(format!("{}{}{n}", self.0, Self::WITHIN).into())
    }

    /// Returns whether this could be taken for the id of a nested call.
    #[must_use]
    pub fn looks_nested(&self) -> bool {
        self.0.contains(Self::WITHIN)
    }

    /// Returns in how many calls this one is nested, as far as its id tells.
    #[must_use]
    pub fn levels(&self) -> u32 {
        u32::try_from(self.0.matches(Self::WITHIN).count()).unwrap_or(u32::MAX)
    }

    /// Returns whether this is the id of a call nested in the other, at any depth.
    #[must_use]
    pub fn is_within(&self, outer: &CallId) -> bool {
        self.0.strip_prefix(&*outer.0).is_some_and(|rest| rest.starts_with(Self::WITHIN))
    }
}

impl ToolName {
    /// The longest name every provider takes.
    pub const MAX: usize = 64;

    /// Returns whether every provider would take this name: a letter or `_`, then letters,
    /// digits, `_` or `-`, at most 64 in all.
    #[must_use]
    pub fn is_safe(text: &str) -> bool {
        let mut bytes = text.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        first
            && text.len() <= Self::MAX
            && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_safe_name_is_what_every_provider_takes() {
        for good in ["a", "_x", "get_time", "mcp__s__t-2", &"a".repeat(64)] {
            assert!(ToolName::is_safe(good), "{good}");
        }
        for bad in ["", "1a", "-a", "a b", "a.b", "é", "a\n", &"a".repeat(65)] {
            assert!(!ToolName::is_safe(bad), "{bad}");
        }
    }
}
