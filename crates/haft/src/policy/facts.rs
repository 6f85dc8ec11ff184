//! What is known about a call when it is judged, in words that rules can be about.
//!
//! In: an admitted call, or an example that a rule carries. Out: its parts. A shell command has one
//! part for each simple command and each redirection; a call that names paths or hosts has one for
//! each; what nobody declared is a part of its own. So a deny can hold for any part, and an allow
//! must cover them all.
//!
//! INVARIANT: there is at least one part, and what a call may do beyond its named parts is a part.

use std::{path::PathBuf, sync::Arc};

use haft_core::{Capability, Operation, Scope};
use serde_json::Value;
use smallvec::SmallVec;

use super::{rule::Subject, rules::Ground, seen::Seen};
use crate::{catalog::Entry, turn::Admitted};

/// What is known about a call.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// The names it answers to in rules.
    pub(crate) names: Names<'a>,
    /// Its arguments.
    pub(crate) arguments: &'a Value,
    /// What kind of call it is.
    pub(crate) subject: Subject,
    /// What it may reach, judged: silence is everything.
    pub(crate) capabilities: haft_core::Capabilities,
    /// What it does to its targets; silence is `Unknown`.
    pub(crate) operations: SmallVec<[Operation; 2]>,
    /// Whether it leaves everything as it was.
    pub(crate) read_only: bool,
    /// Whether judges must take it for destructive.
    pub(crate) destructive: bool,
    /// Whose run it is, and where it works.
    pub(crate) scope: &'a Arc<Scope>,
    /// What the run has read.
    pub(crate) seen: &'a Arc<Seen>,
    /// Its parts, at most [`Parts::MOST`]; `overflow` says that there were more.
    pub(crate) parts: SmallVec<[Part; 2]>,
    /// There are more parts than can be judged: whoever asks takes the strict side.
    pub(crate) overflow: bool,
}

/// The names a call answers to in rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names<'a> {
    /// The tool's own name.
    pub(crate) own: &'a str,
    /// The source it comes from and its name there, for tools that somebody else brought.
    pub(crate) remote: Option<(&'a str, &'a str)>,
    /// The names that other programs know such a tool by: `Bash`, `Read`, `Edit`, `WebFetch`, ….
    pub(crate) known_as: SmallVec<[&'static str; 1]>,
}

/// One part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// The call as such: what it does beyond its other parts, or all there is to say about it.
    Call,
    /// One simple command.
    Command(haft_shell::Command),
    /// A command that cannot be read, and why.
    Unreadable(String),
    /// A file or folder.
    Path {
        /// Reads or writes; anything else is judged as writing.
        operation: Operation,
        /// The absolute path as it was written, tidied; relative only where no folder is known.
        spelled: PathBuf,
        /// Where it leads, or why that cannot be told.
        resolved: Result<PathBuf, String>,
    },
    /// An address that is reached: the typed host in lower case, or why it cannot be told.
    Host(Result<String, String>),
    /// Something it may reach without saying what.
    Reach(Capability),
}

/// A set of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Parts(pub(crate) u64);

impl Parts {
    /// So many parts are told apart.
    pub(crate) const MOST: usize = 64;
    /// No part.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the set of the first `n` parts.
    pub(crate) fn first(n: usize) -> Self {
        Self(if n >= Self::MOST { u64::MAX } else { (1 << n) - 1 })
    }

    /// Returns this set with one more part.
    pub(crate) fn with(self, part: usize) -> Self {
        Self(self.0 | 1 << (part % Self::MOST))
    }

    /// Returns the parts of either.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the parts of this that are not in the other.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl<'a> Names<'a> {
    /// Returns the names that calls of a tool answer to.
    pub(crate) fn of(tool: &'a Entry) -> Self {
        Self { own: tool.name().as_str(), remote: None, known_as: SmallVec::new() }
    }
}

impl<'a> Facts<'a> {
    /// Gathers what is known about a call.
    pub(crate) fn of(call: &'a Admitted, ground: &Ground) -> Self {
        let _ = ground;
        let spec = call.tool().spec();
        Self {
            names: Names {
                own: call.tool().name().as_str(),
                remote: None,
                known_as: SmallVec::new(),
            },
            arguments: call.arguments(),
            subject: Subject::ToolCall,
            capabilities: spec.judged_capabilities(),
            operations: SmallVec::new(),
            read_only: call.claim().read_only,
            destructive: call.claim().may_destroy(),
            scope: call.context().scope(),
            seen: call.seen(),
            parts: SmallVec::from_iter([Part::Call]),
            overflow: false,
        }
    }

    /// Returns the set of all its parts.
    pub(crate) fn all(&self) -> Parts {
        Parts::first(self.parts.len())
    }
}

/// A call that stands in a rule file as an example: owns what [`Facts`] borrows.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) scope: Arc<Scope>,
    pub(crate) seen: Arc<Seen>,
}

impl Sample {
    /// Makes a call of a tool that nobody needs to have.
    pub(crate) fn new(tool: &str, arguments: Value) -> Self {
        Self { tool: tool.to_owned(), arguments, scope: Arc::default(), seen: Arc::default() }
    }

    /// Reads an example as its author wrote it: `Tool(…)`, a table with `tool` and `args`, or, for a
    /// rule about commands, paths or hosts, just the command, the path or the address.
    pub(crate) fn read(example: &Value, rule: &super::rule::Rule) -> Result<Self, String> {
        let _ = (example, rule);
        Err("examples are not understood yet".to_owned())
    }

    /// Gathers what is known about it.
    pub(crate) fn facts(&self, ground: &Ground) -> Facts<'_> {
        let _ = ground;
        Facts {
            names: Names { own: &self.tool, remote: None, known_as: SmallVec::new() },
            arguments: &self.arguments,
            subject: Subject::ToolCall,
            capabilities: haft_core::Capabilities::ALL,
            operations: SmallVec::new(),
            read_only: false,
            destructive: true,
            scope: &self.scope,
            seen: &self.seen,
            parts: SmallVec::from_iter([Part::Call]),
            overflow: false,
        }
    }
}
