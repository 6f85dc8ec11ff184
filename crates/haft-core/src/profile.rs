//! What one call would do and what it may run concurrently with.
//!
//! A claim is made once per call, from the very arguments that will run. It starts from what the
//! spec declares (strictest where it is silent) and the tool may change what its arguments decide.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How a call may run concurrently. Ordered: later is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum ConcurrencyClass {
    /// Can run concurrently with other calls that only read.
    ReadOnly,
    /// Runs alone, or beside calls whose resource keys are disjoint from its own.
    WriteExclusive,
    /// Runs alone, always; isolated where its body can be.
    #[default]
    Unsafe,
}

impl ConcurrencyClass {
    /// Returns its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::WriteExclusive => "write_exclusive",
            Self::Unsafe => "unsafe",
        }
    }
}

/// What an effect does to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Looks.
    Read,
    /// Changes.
    Write,
    /// Starts a program.
    Execute,
    /// Leaves this machine.
    External,
    /// Nobody said.
    Unknown,
}

/// One thing a call would touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Effect {
    /// What is done.
    pub operation: Operation,
    /// To what: a path, a host, a table; whatever the operation is about.
    pub target: Option<String>,
}

impl Effect {
    /// Reads a target.
    #[must_use]
    pub fn read(target: impl Into<String>) -> Self {
        Self { operation: Operation::Read, target: Some(target.into()) }
    }

    /// Writes a target.
    #[must_use]
    pub fn write(target: impl Into<String>) -> Self {
        Self { operation: Operation::Write, target: Some(target.into()) }
    }

    /// Starts a program.
    #[must_use]
    pub fn execute(target: impl Into<String>) -> Self {
        Self { operation: Operation::Execute, target: Some(target.into()) }
    }

    /// Leaves this machine.
    #[must_use]
    pub fn external(target: impl Into<String>) -> Self {
        Self { operation: Operation::External, target: Some(target.into()) }
    }
}

/// What a call would touch, if it says so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(untagged)]
pub enum Effects {
    /// Not declared: judged as every effect there is.
    #[default]
    Undeclared,
    /// Exactly these; an empty list means none.
    Declared(Arc<[Effect]>),
}

impl Effects {
    /// Declares that nothing outside the call is touched.
    #[must_use]
    pub fn none() -> Self {
        Self::Declared([].into())
    }

    /// Returns whether some effect may change something or leave the machine.
    #[must_use]
    pub fn may_change(&self) -> bool {
        match self {
            Self::Undeclared => true,
            Self::Declared(list) => list.iter().any(|e| e.operation != Operation::Read),
        }
    }
}

impl<const N: usize> From<[Effect; N]> for Effects {
    fn from(list: [Effect; N]) -> Self {
        Self::Declared(list.into())
    }
}

impl From<Vec<Effect>> for Effects {
    fn from(list: Vec<Effect>) -> Self {
        Self::Declared(list.into())
    }
}

/// The name of a resource, as `kind:/hierarchical/path`.
///
/// A key meets itself, everything above it and everything below it:
///
/// ```
/// use haft_core::ResourceKey;
///
/// assert!(ResourceKey::new("file:/a").meets(&ResourceKey::new("file:/a/b")));
/// assert!(!ResourceKey::new("file:/a").meets(&ResourceKey::new("file:/ab")));
/// assert!(!ResourceKey::new("file:/a").meets(&ResourceKey::new("table:/a")));
/// assert_eq!(ResourceKey::new("file:/a//./b/../c"), ResourceKey::new("file:/a/c"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ResourceKey(Arc<str>);

impl ResourceKey {
    /// Makes a key, with `.`, `..` and doubled slashes taken out, so that two spellings of one
    /// resource are one key.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        let (kind, path) = text.split_once(':').unwrap_or(("", text));
        let mut parts: Vec<&str> = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                other => parts.push(other),
            }
        }
        Self(format!("{kind}:/{}", parts.join("/")).into())
    }

    /// Returns its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the two name the same resource or one holds the other.
    #[must_use]
    pub fn meets(&self, other: &ResourceKey) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Returns whether this key names the other's resource or one that holds it.
    #[must_use]
    pub fn covers(&self, other: &ResourceKey) -> bool {
        other
            .0
            .strip_prefix(&*self.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.0.ends_with('/'))
    }
}

impl From<&str> for ResourceKey {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for ResourceKey {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// What one call would do. See the module comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallProfile {
    /// How it may run concurrently.
    pub class: ConcurrencyClass,
    /// Whether it leaves everything as it was.
    pub read_only: bool,
    /// Whether it destroys something, where known; unknown is judged as yes.
    pub destructive: Option<bool>,
    /// What it would touch.
    pub effects: Effects,
    /// The resources it needs for itself. Empty means: it did not say.
    pub keys: Vec<ResourceKey>,
    /// Whether its body can run it confined: nothing is writable and no other machine is reached. A
    /// policy may allow it unasked then, see [`Verdict::confined`](crate::Verdict::confined). The body
    /// must look at [`ToolContext::is_confined`](crate::ToolContext::is_confined).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub confinable: bool,
}

impl CallProfile {
    /// Returns what is assumed of a call that says nothing.
    #[must_use]
    pub fn strictest() -> Self {
        Self {
            class: ConcurrencyClass::Unsafe,
            read_only: false,
            destructive: None,
            effects: Effects::Undeclared,
            keys: Vec::new(),
            confinable: false,
        }
    }

    /// Returns whether judges must take this call for a destructive one.
    #[must_use]
    pub fn may_destroy(&self) -> bool {
        self.destructive.unwrap_or(!self.read_only)
    }

    /// Resolves contradictions to the strict side: what destroys, or writes by its own effects, is
    /// not read-only and does not run concurrently as a reader.
    #[must_use]
    pub fn settled(mut self) -> Self {
        let writes = matches!(&self.effects, Effects::Declared(list)
            if list.iter().any(|e| matches!(e.operation, Operation::Write | Operation::Execute)));
        if writes || self.destructive == Some(true) {
            self.read_only = false;
            self.class = self.class.max(ConcurrencyClass::WriteExclusive);
            // What is known to write would only fail.
            self.confinable = false;
        }
        self
    }

    /// Returns whether the two calls may run at the same time.
    ///
    /// Readers share. A writer shares only with calls whose keys are disjoint from its own, and
    /// then both must have named keys. `Unsafe` shares with nobody.
    #[must_use]
    pub fn may_share(&self, other: &CallProfile) -> bool {
        match (self.class, other.class) {
            (ConcurrencyClass::Unsafe, _) | (_, ConcurrencyClass::Unsafe) => false,
            (ConcurrencyClass::ReadOnly, ConcurrencyClass::ReadOnly) => true,
            _ => {
                !self.keys.is_empty()
                    && !other.keys.is_empty()
                    && !self.keys.iter().any(|a| other.keys.iter().any(|b| a.meets(b)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(class: ConcurrencyClass, keys: &[&str]) -> CallProfile {
        CallProfile {
            class,
            keys: keys.iter().map(ResourceKey::new).collect(),
            ..CallProfile::strictest()
        }
    }

    #[test]
    fn a_writer_without_keys_meets_everything() {
        let writer = claim(ConcurrencyClass::WriteExclusive, &[]);
        assert!(!writer.may_share(&claim(ConcurrencyClass::ReadOnly, &["file:/a"])));
        assert!(!writer.may_share(&claim(ConcurrencyClass::WriteExclusive, &["file:/a"])));
    }

    #[test]
    fn writers_of_different_files_share_and_of_one_file_do_not() {
        let a = claim(ConcurrencyClass::WriteExclusive, &["file:/a"]);
        assert!(a.may_share(&claim(ConcurrencyClass::WriteExclusive, &["file:/b"])));
        assert!(!a.may_share(&claim(ConcurrencyClass::WriteExclusive, &["file:/x/../a"])));
        assert!(!a.may_share(&claim(ConcurrencyClass::ReadOnly, &["file:/a/b"])));
        assert!(!a.may_share(&claim(ConcurrencyClass::ReadOnly, &[])));
    }

    #[test]
    fn unsafe_is_alone_whatever_its_keys() {
        let a = claim(ConcurrencyClass::Unsafe, &["file:/a"]);
        assert!(!a.may_share(&claim(ConcurrencyClass::ReadOnly, &["file:/b"])));
    }

    #[test]
    fn the_root_key_covers_all_of_its_kind() {
        assert!(ResourceKey::new("file:/").covers(&ResourceKey::new("file:/a/b")));
        assert!(!ResourceKey::new("file:/a/b").covers(&ResourceKey::new("file:/")));
    }

    #[test]
    fn contradictions_settle_to_the_strict_side() {
        let claim =
            CallProfile { read_only: true, destructive: Some(true), ..CallProfile::strictest() };
        assert!(!claim.settled().read_only);
        let claim =
            CallProfile { confinable: true, destructive: Some(true), ..CallProfile::strictest() };
        assert!(!claim.settled().confinable);
        let claim = CallProfile {
            read_only: true,
            effects: [Effect::write("/a")].into(),
            ..CallProfile::strictest()
        };
        let settled = CallProfile { class: ConcurrencyClass::ReadOnly, ..claim }.settled();
        assert!(!settled.read_only);
        assert_eq!(
            settled.class,
            ConcurrencyClass::WriteExclusive,
            "nor does it share as a reader"
        );
    }
}
