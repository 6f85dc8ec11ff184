//! How strongly a process is held, as a value: for the record, for rules and for `haft doctor`.
//!
//! A level is what was asked for; the strengths say what the helper really did, one by one. Nothing
//! here decides anything.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A way to confine, strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing confines. Processes are refused.
    None,
    /// Tier B: Landlock, seccomp, limits, and a reaper that is told when to end everything.
    Landlock,
    /// Tier A: all of that inside namespaces of its own.
    Namespaces,
}

impl Level {
    /// Returns its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::Landlock => "landlock",
            Level::Namespaces => "namespaces",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether one promise is kept by the system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// The kernel keeps it.
    Enforced,
    /// It is kept in part, and this is what is missing.
    Partial(String),
    /// Nothing keeps it.
    None,
}

impl Strength {
    /// Returns whether the kernel keeps the promise in full.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        *self == Strength::Enforced
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strength::Enforced => f.write_str("enforced"),
            Strength::Partial(why) => write!(f, "partial ({why})"),
            Strength::None => f.write_str("none"),
        }
    }
}

/// What is in force around one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// How it was done.
    pub level: Level,
    /// Files outside the writable roots, and protected names, stay as they are.
    pub fs: Strength,
    /// No other machine and no local port is reached, unless the profile has network.
    pub net_ip: Strength,
    /// No socket of another program is reached through the file system or by an abstract name.
    pub net_unix: Strength,
    /// Nothing outlives the command, and it cannot touch processes outside.
    pub pids: Strength,
    /// Time, memory, files and processes have bounds.
    pub limits: Strength,
    /// What people should know beyond that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Tier {
    /// The tier of a machine that confines nothing; the note says what is missing.
    #[must_use]
    pub fn none(missing: impl Into<String>) -> Self {
        Self {
            level: Level::None,
            fs: Strength::None,
            net_ip: Strength::None,
            net_unix: Strength::None,
            pids: Strength::None,
            limits: Strength::None,
            notes: vec![missing.into()],
        }
    }

    /// Goes through the promises by name.
    pub fn promises(&self) -> impl Iterator<Item = (&'static str, &Strength)> {
        [
            ("fs", &self.fs),
            ("net_ip", &self.net_ip),
            ("net_unix", &self.net_unix),
            ("pids", &self.pids),
            ("limits", &self.limits),
        ]
        .into_iter()
    }

    /// Returns whether every promise is kept in full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.promises().all(|(_, strength)| strength.is_enforced())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_plain_data_and_comes_back_as_it_went() {
        let mut tier = Tier::none("no kernel");
        assert!(!tier.is_full());
        tier.fs = Strength::Partial("old kernel".to_owned());
        let json = serde_json::to_value(&tier).unwrap();
        assert_eq!(json["level"], "none");
        assert_eq!(json["fs"]["partial"], "old kernel");
        assert_eq!(json["pids"], "none");
        assert_eq!(serde_json::from_value::<Tier>(json).unwrap(), tier);
    }

    #[test]
    fn levels_are_ordered_by_strength() {
        assert!(Level::None < Level::Landlock && Level::Landlock < Level::Namespaces);
    }
}
