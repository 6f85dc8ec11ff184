//! Why a call was judged as it was: every check in order, the rule that decided, what nearly did,
//! and the smallest change that would flip it.
//!
//! For people and records. The model is told the reason and a next step, never the way round.

use std::fmt;

use haft_core::Verdict;
use serde::Serialize;

use super::rule::Place;

/// Why a call was judged as it was.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// What came out.
    pub verdict: Verdict,
    /// The rule that decided, if one did.
    pub deciding: Option<Cited>,
    /// Every check, in the order it was made.
    pub checks: Vec<Check>,
    /// Rules that nearly decided, and what was missing.
    pub near: Vec<Near>,
    /// The smallest change that would flip the verdict; for people only.
    pub flip: Option<String>,
    /// What the call would touch, in a few words each: `write ./a`, `network api.x.org`, `destructive`.
    pub risk: Vec<String>,
    /// What the run has read that a judge held against the call.
    pub tainted_by: Vec<String>,
}

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// Who checked: `schema`, `guard …`, `deny rules`, `labels`, `the default`.
    pub what: String,
    /// What it said: `passed`, `no match`, `allow`, `ask`, `deny`, …
    pub said: String,
    /// Why.
    pub why: String,
    /// Where that is written.
    pub place: Option<Place>,
}

/// A rule that is referred to.
#[derive(Debug, Clone, Serialize)]
pub struct Cited {
    /// Its name, or nothing.
    pub id: Option<String>,
    /// What it decides.
    pub decision: String,
    /// The pattern that matched, as written.
    pub pattern: String,
    /// Where it is written.
    pub place: Place,
}

/// A rule that nearly decided.
#[derive(Debug, Clone, Serialize)]
pub struct Near {
    /// The rule.
    pub rule: Cited,
    /// What was missing.
    pub missing: String,
}

impl Explanation {
    /// Makes an explanation of a verdict that has nothing more to say.
    #[must_use]
    pub fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            deciding: None,
            checks: Vec::new(),
            near: Vec::new(),
            flip: None,
            risk: Vec::new(),
            tainted_by: Vec::new(),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.verdict)
    }
}
