//! What a run may use: calls, time, bytes, tokens, money, turns, depth.
//!
//! Reserved in call order when a batch starts, released when unused, inherited by sub-runs. So
//! nothing can be overshot, however many calls run at once.

use std::{collections::BTreeMap, time::Duration};

/// What a run may use. Nothing said means no limit.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Budget {
    /// Calls of tools.
    pub calls: Option<u64>,
    /// Calls of each tool, by name.
    pub calls_of: BTreeMap<String, u64>,
    /// Time on the wall, from the start of the run.
    pub wall: Option<Duration>,
    /// Bytes of results.
    pub bytes: Option<u64>,
    /// Tokens of the model.
    pub tokens: Option<u64>,
    /// Money, in millionths of the currency unit.
    pub micros: Option<u64>,
    /// What one call of a tool costs, in millionths, by name.
    pub price_of: BTreeMap<String, u64>,
    /// Turns.
    pub cycles: Option<u32>,
    /// Levels of nesting.
    pub depth: Option<u32>,
    /// From which share on people are warned, in hundredths.
    pub warn_at: Option<u8>,
}
