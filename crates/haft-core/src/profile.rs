//! `CallProfile`: what one call would do, and which calls it may run concurrently with.
//!
//! A profile is made once per call from its frozen arguments. It starts from what the spec
//! declares, with the strictest default, and the tool may refine it by the arguments.

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
    /// Runs alone, or concurrently with calls whose resource keys are disjoint from its own.
    WriteExclusive,
    /// Always runs alone; sandboxed if its body can be.
    #[default]
    Unsafe,
}

impl ConcurrencyClass {
    /// Returns its name.
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
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Starts a process.
    Execute,
    /// Accesses another machine.
    External,
    /// Not declared.
    Unknown,
}

/// One effect of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Effect {
    /// What it does.
    pub operation: Operation,
    /// The target: a path, a host, a table.
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

    /// Starts a process.
    #[must_use]
    pub fn execute(target: impl Into<String>) -> Self {
        Self { operation: Operation::Execute, target: Some(target.into()) }
    }

    /// Accesses another machine.
    #[must_use]
    pub fn external(target: impl Into<String>) -> Self {
        Self { operation: Operation::External, target: Some(target.into()) }
    }
}

/// The effects of a call, if declared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(untagged)]
pub enum Effects {
    /// Not declared: counts as every effect.
    #[default]
    Undeclared,
    /// Exactly these; an empty list means none.
    Declared(Arc<[Effect]>),
}

impl Effects {
    /// Declares that the call has no effects.
    #[must_use]
    pub fn none() -> Self {
        Self::Declared([].into())
    }

    /// Returns whether some effect may change something or access another machine.
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
/// A key conflicts with itself, everything above it and everything below it:
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
    /// Makes a key. `.`, `..` and repeated slashes are normalized, so that two spellings of one
    /// resource give the same key.
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

    /// Returns whether the two name the same resource or one contains the other.
    #[must_use]
    pub fn meets(&self, other: &ResourceKey) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Returns whether this key names the other's resource or one that contains it.
    #[must_use]
    pub fn covers(&self, other: &ResourceKey) -> bool {
        other
            .0
            .strip_prefix(&*self.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.0.ends_with('/'))
    }
}

impl std::borrow::Borrow<str> for ResourceKey {
    fn borrow(&self) -> &str {
        &self.0
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

/// What one call would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallProfile {
    /// How it may run concurrently.
    pub class: ConcurrencyClass,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it destroys something, if known. `None` counts as yes unless it is read-only.
    pub destructive: Option<bool>,
    /// Its effects.
    pub effects: Effects,
    /// The resources that it locks exclusively. Empty means not declared.
    pub keys: Vec<ResourceKey>,
    /// Whether its body can run it in a sandbox without writes and without network. A policy may
    /// then allow it without approval, see [`Verdict::confined`](crate::Verdict::confined). The
    /// body must check [`ToolContext::is_confined`](crate::ToolContext::is_confined).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub confinable: bool,
}

impl CallProfile {
    /// Returns the profile of a call that declares nothing.
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

    /// Returns whether the policy must treat this call as destructive.
    #[must_use]
    pub fn may_destroy(&self) -> bool {
        self.destructive.unwrap_or(!self.read_only)
    }

    /// Resolves contradictions to the strict side: a call that is destructive or has a write effect
    /// is not read-only, and does not run concurrently as a reader.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        let writes = matches!(&self.effects, Effects::Declared(list)
            if list.iter().any(|e| matches!(e.operation, Operation::Write | Operation::Execute)));
        if writes || self.destructive == Some(true) {
            self.read_only = false;
            self.class = self.class.max(ConcurrencyClass::WriteExclusive);
            // A known write would fail in the read-only sandbox.
            self.confinable = false;
        }
        self
    }

    /// Returns whether the two calls may run at the same time.
    ///
    /// Readers run concurrently. A writer runs concurrently only with calls whose keys are disjoint
    /// from its own, and both must declare keys. `Unsafe` runs alone.
    #[must_use]
    pub fn can_run_concurrently_with(&self, other: &CallProfile) -> bool {
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

    fn profile(class: ConcurrencyClass, keys: &[&str]) -> CallProfile {
        CallProfile {
            class,
            keys: keys.iter().map(ResourceKey::new).collect(),
            ..CallProfile::strictest()
        }
    }

    #[test]
    fn a_writer_without_keys_conflicts_with_every_call() {
        let writer = profile(ConcurrencyClass::WriteExclusive, &[]);
        assert!(
            !writer.can_run_concurrently_with(&profile(ConcurrencyClass::ReadOnly, &["file:/a"]))
        );
        assert!(
            !writer.can_run_concurrently_with(&profile(
                ConcurrencyClass::WriteExclusive,
                &["file:/a"]
            ))
        );
    }

    #[test]
    fn writers_of_different_files_run_concurrently_and_of_one_file_do_not() {
        let a = profile(ConcurrencyClass::WriteExclusive, &["file:/a"]);
        assert!(
            a.can_run_concurrently_with(&profile(ConcurrencyClass::WriteExclusive, &["file:/b"]))
        );
        assert!(!a.can_run_concurrently_with(&profile(
            ConcurrencyClass::WriteExclusive,
            &["file:/x/../a"]
        )));
        assert!(!a.can_run_concurrently_with(&profile(ConcurrencyClass::ReadOnly, &["file:/a/b"])));
        assert!(!a.can_run_concurrently_with(&profile(ConcurrencyClass::ReadOnly, &[])));
    }

    #[test]
    fn unsafe_runs_alone_even_with_disjoint_keys() {
        let a = profile(ConcurrencyClass::Unsafe, &["file:/a"]);
        assert!(!a.can_run_concurrently_with(&profile(ConcurrencyClass::ReadOnly, &["file:/b"])));
    }

    #[test]
    fn the_root_key_covers_every_key_of_its_kind() {
        assert!(ResourceKey::new("file:/").covers(&ResourceKey::new("file:/a/b")));
        assert!(!ResourceKey::new("file:/a/b").covers(&ResourceKey::new("file:/")));
    }

    #[test]
    fn contradictions_resolve_to_the_strict_side() {
        let profile =
            CallProfile { read_only: true, destructive: Some(true), ..CallProfile::strictest() };
        assert!(!profile.normalized().read_only);
        let profile =
            CallProfile { confinable: true, destructive: Some(true), ..CallProfile::strictest() };
        assert!(!profile.normalized().confinable);
        let profile = CallProfile {
            read_only: true,
            effects: [Effect::write("/a")].into(),
            ..CallProfile::strictest()
        };
        let normalized = CallProfile { class: ConcurrencyClass::ReadOnly, ..profile }.normalized();
        assert!(!normalized.read_only);
        assert_eq!(
            normalized.class,
            ConcurrencyClass::WriteExclusive,
            "nor does it run concurrently as a reader"
        );
    }
}
