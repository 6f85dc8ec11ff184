//! One rule, as data: what it matches, what it decides, and its location.
//!
//! Rules come from `haft.toml`, from settings of other programs that are read in place, from a
//! person's "always", or from code. All are the same type here.

use std::{fmt, path::PathBuf, sync::Arc};

use haft_core::Decision;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{context::ArgumentKind, network::NetworkAccess, pattern::Pattern, request::Subject};

/// One rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rule {
    /// Its id, for reports; rules without one are named by location.
    pub id: Option<String>,
    /// What it decides.
    pub decision: Decision,
    /// It matches if any of these matches.
    pub matches: Vec<Pattern>,
    /// Exceptions.
    pub except: Vec<Pattern>,
    /// The reason, for a person and for the model. Never says how to get around the rule.
    pub reason: Option<String>,
    /// Orders rules of the same decision: of two that match, the higher one is reported and
    /// rewrites.
    pub priority: i32,
    /// The kind of call it applies to.
    pub subject: Subject,
    /// An allow that applies even in a run that has read untrusted text.
    pub even_tainted: bool,
    /// Arguments that a matching call gets, overriding the model's.
    pub rewrite: Map<String, Value>,
    /// What a matching command may contact in addition.
    pub network: NetworkAccess,
    /// Calls that the rule must match or must not match; checked when it is loaded.
    pub examples: Vec<Example>,
    /// Whether it is active.
    pub enabled: bool,
    /// Its location.
    pub location: SourceLocation,
    /// The layer of its file.
    pub layer: ConfigLayer,
}

impl Rule {
    /// Makes a rule in code with this decision for calls that match.
    #[must_use]
    pub fn new(decision: Decision, matches: Pattern) -> Self {
        Self {
            id: None,
            decision,
            matches: vec![matches],
            except: Vec::new(),
            reason: None,
            priority: 100,
            subject: Subject::Any,
            even_tainted: false,
            rewrite: Map::new(),
            network: NetworkAccess::none(),
            examples: Vec::new(),
            enabled: true,
            location: SourceLocation::default(),
            layer: ConfigLayer::Code,
        }
    }

    /// Returns the kind of argument that its first pattern is about. An example of the rule may
    /// consist of such an argument alone.
    pub(crate) fn about(&self) -> Option<ArgumentKind> {
        self.matches.first()?.about()
    }
}

/// A call that a rule must match or must not match.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The call, as the author wrote it: a command, a path, a `Tool(…)`, or a tool with arguments.
    pub call: Value,
    /// Whether the rule applies to it (`test.<decision>`) or not (`test.skip`).
    pub applies: bool,
    /// Its location.
    pub location: SourceLocation,
}

/// The layer of a configuration file. Ordered: the first is the strongest where only one value
/// applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigLayer {
    /// The organisation's.
    Managed,
    /// The host program.
    Code,
    /// The command line.
    CommandLine,
    /// A person's answer in this session.
    Session,
    /// This directory, this user: `haft.local.toml`.
    Local,
    /// This directory: `haft.toml`.
    Project,
    /// This user.
    User,
}

impl ConfigLayer {
    /// Returns whether it may come from a directory that another person wrote.
    #[must_use]
    pub fn is_from_project(self) -> bool {
        matches!(self, Self::Local | Self::Project)
    }
}

/// A location in a file: path, line, column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
pub struct SourceLocation {
    /// The file; `None` for a rule from code.
    pub file: Option<Arc<PathBuf>>,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

impl SourceLocation {
    /// Returns whether it is in settings of Claude Code, which have no exceptions and examples.
    pub(crate) fn is_json(&self) -> bool {
        let file = self.file.as_deref();
        file.is_some_and(|file| file.extension().is_some_and(|extension| extension == "json"))
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}", file.display(), self.line),
            None => f.write_str("the program"),
        }
    }
}
