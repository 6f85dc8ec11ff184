//! What one call would do and what it may share the floor with.
//!
//! A claim is made once per call, from the very arguments that will run. It starts from what the
//! spec declares (strictest where it is silent) and the tool may change what its arguments decide.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How a call may share the floor. Ordered: later is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Shares the floor with other calls that only read.
    ReadOnly,
    /// Runs alone, or beside calls whose resource keys are disjoint from its own.
    WriteExclusive,
    /// Runs alone, always; isolated where its body can be.
    #[default]
    Unsafe,
}

impl Class {
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
/// use haft_core::Key;
///
/// assert!(Key::new("file:/a").meets(&Key::new("file:/a/b")));
/// assert!(!Key::new("file:/a").meets(&Key::new("file:/ab")));
/// assert!(!Key::new("file:/a").meets(&Key::new("table:/a")));
/// assert_eq!(Key::new("file:/a//./b/../c"), Key::new("file:/a/c"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Key(Arc<str>);

impl Key {
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
    pub fn meets(&self, other: &Key) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Returns whether this key names the other's resource or one that holds it.
    #[must_use]
    pub fn covers(&self, other: &Key) -> bool {
        other
            .0
            .strip_prefix(&*self.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.0.ends_with('/'))
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

/// What one call would do. See the module comment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// How it may share the floor.
    pub class: Class,
    /// Whether it leaves everything as it was.
    pub read_only: bool,
    /// Whether it destroys something, where known; unknown is judged as yes.
    pub destructive: Option<bool>,
    /// What it would touch.
    pub effects: Effects,
    /// The resources it needs for itself. Empty means: it did not say.
    pub keys: Vec<Key>,
    /// Whether its body can run it confined: nothing is writable and no other machine is reached. A
    /// policy may allow it unasked then, see [`Verdict::confined`](crate::Verdict::confined). The body
    /// must look at [`Context::is_confined`](crate::Context::is_confined).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub confinable: bool,
}

impl Claim {
    /// Returns what is assumed of a call that says nothing.
    #[must_use]
    pub fn strictest() -> Self {
        Self {
            class: Class::Unsafe,
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
    /// not read-only and does not share the floor as a reader.
    #[must_use]
    pub fn settled(mut self) -> Self {
        let writes = matches!(&self.effects, Effects::Declared(list)
            if list.iter().any(|e| matches!(e.operation, Operation::Write | Operation::Execute)));
        if writes || self.destructive == Some(true) {
            self.read_only = false;
            self.class = self.class.max(Class::WriteExclusive);
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
    pub fn may_share(&self, other: &Claim) -> bool {
        match (self.class, other.class) {
            (Class::Unsafe, _) | (_, Class::Unsafe) => false,
            (Class::ReadOnly, Class::ReadOnly) => true,
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

    fn claim(class: Class, keys: &[&str]) -> Claim {
        Claim { class, keys: keys.iter().map(Key::new).collect(), ..Claim::strictest() }
    }

    #[test]
    fn a_writer_without_keys_meets_everything() {
        let writer = claim(Class::WriteExclusive, &[]);
        assert!(!writer.may_share(&claim(Class::ReadOnly, &["file:/a"])));
        assert!(!writer.may_share(&claim(Class::WriteExclusive, &["file:/a"])));
    }

    #[test]
    fn writers_of_different_files_share_and_of_one_file_do_not() {
        let a = claim(Class::WriteExclusive, &["file:/a"]);
        assert!(a.may_share(&claim(Class::WriteExclusive, &["file:/b"])));
        assert!(!a.may_share(&claim(Class::WriteExclusive, &["file:/x/../a"])));
        assert!(!a.may_share(&claim(Class::ReadOnly, &["file:/a/b"])));
        assert!(!a.may_share(&claim(Class::ReadOnly, &[])));
    }

    #[test]
    fn unsafe_is_alone_whatever_its_keys() {
        let a = claim(Class::Unsafe, &["file:/a"]);
        assert!(!a.may_share(&claim(Class::ReadOnly, &["file:/b"])));
    }

    #[test]
    fn the_root_key_covers_all_of_its_kind() {
        assert!(Key::new("file:/").covers(&Key::new("file:/a/b")));
        assert!(!Key::new("file:/a/b").covers(&Key::new("file:/")));
    }

    #[test]
    fn contradictions_settle_to_the_strict_side() {
        let claim = Claim { read_only: true, destructive: Some(true), ..Claim::strictest() };
        assert!(!claim.settled().read_only);
        let claim = Claim { confinable: true, destructive: Some(true), ..Claim::strictest() };
        assert!(!claim.settled().confinable);
        let claim =
            Claim { read_only: true, effects: [Effect::write("/a")].into(), ..Claim::strictest() };
        let settled = Claim { class: Class::ReadOnly, ..claim }.settled();
        assert!(!settled.read_only);
        assert_eq!(settled.class, Class::WriteExclusive, "nor does it share as a reader");
    }
}
