//! One rule, as data: what it matches, what it decides, and where it is written.
//!
//! Rules come from `haft.toml`, from settings of other programs that are read in place, from a
//! person's "always", or from code. However they came, they are the same value here.

use std::{fmt, path::PathBuf, sync::Arc};

use haft_core::Decision;
use serde::Serialize;
use serde_json::{Map, Value};

use super::pattern::Pattern;

/// One rule.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rule {
    /// Its name, for reports; rules without one are called by their place.
    pub id: Option<String>,
    /// What it decides.
    pub decision: Decision,
    /// What it is about: any of these.
    pub matches: Vec<Pattern>,
    /// What it is not about, although it matches.
    pub except: Vec<Pattern>,
    /// Why, in words for a person and for the model. Never says how to get round it.
    pub reason: Option<String>,
    /// Orders rules of the same decision: of two that match, the higher one is named and rewrites.
    pub priority: i32,
    /// Which kind of call it is about.
    pub subject: Subject,
    /// An allow that holds even in a run that has read untrusted text.
    pub even_tainted: bool,
    /// Arguments that a matching call gets, whatever the model wrote.
    pub rewrite: Map<String, Value>,
    /// Calls the rule promises to match or to leave alone; checked when it is loaded.
    pub examples: Vec<Example>,
    /// Whether it counts.
    pub enabled: bool,
    /// Where it is written.
    pub place: SourceLocation,
    /// Whose file that is.
    pub layer: ConfigLayer,
}

impl Rule {
    /// Makes a rule that decides so about calls that match, written in code.
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
            examples: Vec::new(),
            enabled: true,
            place: SourceLocation::default(),
            layer: ConfigLayer::Code,
        }
    }
}

/// A call that a rule promises something about.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The call, as the author wrote it: a command, a path, a `Tool(…)`, or a tool with arguments.
    pub call: Value,
    /// Whether the rule applies to it (`test.<decision>`) or not (`test.skip`).
    pub applies: bool,
    /// Where it is written.
    pub place: SourceLocation,
}

/// Which kind of call a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Every kind.
    #[default]
    Any,
    /// An ordinary tool.
    ToolCall,
    /// A tool that hands work to another agent.
    SubagentCall,
    /// A tool that cannot work without a person.
    Interaction,
    /// A request to the model itself.
    ModelCall,
}

/// Whose file a rule is from. Ordered: the first is the strongest where only one value can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfigLayer {
    /// The organisation's.
    Managed,
    /// The host program's own.
    Code,
    /// The command line.
    CommandLine,
    /// A person's answer in this session.
    Session,
    /// This folder, this person: `haft.local.toml`.
    Local,
    /// This folder: `haft.toml`.
    Project,
    /// This person.
    User,
}

impl ConfigLayer {
    /// Returns whether a folder that somebody else wrote could have brought it along.
    #[must_use]
    pub fn comes_with_the_folder(self) -> bool {
        matches!(self, Self::Local | Self::Project)
    }
}

/// Where something is written: a file, a line, a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
pub struct SourceLocation {
    /// The file; nothing for what was written in code.
    pub file: Option<Arc<PathBuf>>,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}", file.display(), self.line),
            None => f.write_str("the program"),
        }
    }
}
