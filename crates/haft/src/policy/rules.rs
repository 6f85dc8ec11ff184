//! Rules in force: compiled once, asked for every call.
//!
//! Deny, then ask, then allow; how specific a rule is does not matter. No match: the default. A rule
//! that cannot be evaluated counts as the strict answer.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use haft_core::Verdict;
use serde::Serialize;

use super::{
    DefaultPolicy, Policy,
    rule::Rule,
    world::{Disk, World},
};
use crate::{error::Error, turn::Admitted};

/// What rules stand on: the mode, the folders, and how paths are resolved.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ground {
    /// What holds where no rule matches.
    pub mode: Mode,
    /// Folders that count as the workspace, besides the working directory of the run.
    pub roots: Vec<PathBuf>,
    /// What `~` means.
    pub home: Option<PathBuf>,
    /// How paths are resolved.
    pub world: Arc<dyn World>,
    /// What the arguments of tools are about, where their schema does not say: by tool, by argument.
    pub about: BTreeMap<String, BTreeMap<String, About>>,
    /// The file that "always" writes to; nothing when it must not be offered.
    pub keep: Option<PathBuf>,
}

impl Default for Ground {
    fn default() -> Self {
        Self {
            mode: Mode::Default,
            roots: Vec::new(),
            home: None,
            world: Arc::new(Disk),
            about: BTreeMap::new(),
            keep: None,
        }
    }
}

/// What holds where no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// What only reads is allowed; everything else asks.
    #[default]
    Default,
    /// Writing files inside the workspace is allowed as well.
    AcceptEdits,
    /// What does more than read is refused.
    Plan,
    /// Nobody is asked: what would ask is refused.
    DontAsk,
    /// What no rule speaks of is allowed. Loud.
    BypassPermissions,
}

/// What an argument is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// A file that is read.
    ReadPath,
    /// A file that is written.
    WritePath,
    /// An address on the network.
    Url,
    /// A shell command.
    Command,
}

/// Rules in force.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    ground: Ground,
}

impl Rules {
    /// Compiles rules, and checks the examples they carry.
    ///
    /// # Errors
    /// Fails when an example does not hold, or a rule says what cannot be.
    pub fn new(rules: Vec<Rule>, ground: Ground) -> Result<Self, Error> {
        Ok(Self { rules, ground })
    }

    /// Returns the rules, as they were given.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns what they stand on.
    #[must_use]
    pub fn ground(&self) -> &Ground {
        &self.ground
    }
}

impl Policy for Rules {
    fn judge(&self, call: &Admitted) -> Verdict {
        DefaultPolicy.judge(call)
    }
}
