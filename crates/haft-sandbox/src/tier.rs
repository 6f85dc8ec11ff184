//! How strong a sandbox is, as a value: for the execution record, for rules and for `haft doctor`.
//!
//! The level is what was requested. The strengths say what the helper really enforced, one by one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A sandbox mechanism, strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// No mechanism. Commands are refused.
    None,
    /// Tier B: Landlock, seccomp, limits, and a reaper that kills all processes at the end.
    Landlock,
    /// Tier A: all of tier B, inside new namespaces.
    Namespaces,
}

impl Level {
    /// Returns its name.
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

/// How far the system enforces one guarantee.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// The kernel enforces it.
    Enforced,
    /// It is enforced in part. The text says what is missing.
    Partial(String),
    /// It is not enforced.
    None,
}

impl Strength {
    /// Returns whether the kernel enforces the guarantee in full.
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

/// What is enforced for one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tier {
    /// The mechanism.
    pub level: Level,
    /// Files outside the writable roots, and protected names, cannot be changed.
    pub fs: Strength,
    /// No remote host and no local port is reachable, unless the profile allows network.
    pub net_ip: Strength,
    /// No Unix socket of another program is reachable, by path or by abstract name.
    pub net_unix: Strength,
    /// No process outlives the command, and it cannot signal or trace processes outside.
    pub pids: Strength,
    /// Time, memory, files and processes are limited.
    pub limits: Strength,
    /// Further facts for the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Tier {
    /// Returns the tier of a machine without a sandbox. The note says what is missing.
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

    /// Iterates over the guarantees by name.
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

    /// Returns whether every guarantee is enforced in full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.promises().all(|(_, strength)| strength.is_enforced())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_round_trips_through_json() {
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
