//! Limits of a run: calls, time, bytes, tokens, money, turns, depth.
//!
//! Shares are reserved in call order when a batch starts, released when unused, inherited by
//! sub-runs. So concurrent calls cannot overshoot a limit. The limits are plain data; the runtime
//! counts.

use std::{collections::BTreeMap, time::Duration};

use crate::NameGlob;

/// What a run may use. `None` means no limit. When a limit is used up, no further call runs.
///
/// ```
/// use haft_policy::Budget;
///
/// let mut budget = Budget::default();
/// budget.calls = Some(10);
/// budget.calls_of.insert("mail_send".to_owned(), 1);
/// assert_eq!(budget.clone().smaller(Budget::default()), budget);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budget {
    /// Calls whose body runs, including nested ones, however they end.
    pub calls: Option<u64>,
    /// Calls of the tools whose names match a glob ([`NameGlob`](crate::NameGlob)), together. If
    /// several match, each of them limits the call.
    pub calls_of: BTreeMap<String, u64>,
    /// Wall-clock time, from the start of the run.
    pub wall: Option<Duration>,
    /// Bytes of results that the model is shown. Results of nested calls do not count, and failure
    /// messages have their own limit.
    pub bytes: Option<u64>,
    /// Tokens of the model.
    pub tokens: Option<u64>,
    /// Money, in millionths of the currency unit.
    pub micros: Option<u64>,
    /// What one call costs, in millionths, of the tools whose names match a glob. If several match,
    /// the highest price applies.
    pub price_of: BTreeMap<String, u64>,
    /// Turns, including those of sub-runs.
    pub cycles: Option<u32>,
    /// Levels of nesting below the run; `Config::max_depth` applies as well.
    pub depth: Option<u32>,
    /// The used percentage at which a warning is emitted; 80 by default.
    pub warn_at: Option<u8>,
}

/// A key of `[budget]` that names tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetKey {
    /// `calls_of`
    CallsOf,
    /// `cost`
    Cost,
}

impl BudgetKey {
    /// Returns its name in a file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CallsOf => "calls_of",
            Self::Cost => "cost",
        }
    }
}

impl Budget {
    /// Returns how many calls of a tool the budget allows at most; `None` without a limit.
    #[must_use]
    pub fn max_calls_of(&self, tool: &str) -> Option<u64> {
        let matching = self.calls_of.iter().filter(|(glob, _)| NameGlob::new(*glob).matches(tool));
        matching.map(|(_, limit)| *limit).chain(self.calls).min()
    }

    /// Returns the globs of `calls_of` and `price_of` that match none of these tools.
    #[must_use]
    pub fn unmatched<'a>(&'a self, tools: &[&str]) -> Vec<(BudgetKey, &'a str)> {
        let missing = |glob: &&String| {
            let glob = NameGlob::new(glob.as_str());
            !tools.iter().any(|tool| glob.matches(tool))
        };
        let calls =
            self.calls_of.keys().filter(missing).map(|glob| (BudgetKey::CallsOf, glob.as_str()));
        let prices =
            self.price_of.keys().filter(missing).map(|glob| (BudgetKey::Cost, glob.as_str()));
        calls.chain(prices).collect()
    }

    /// Returns the budget that satisfies both: the smaller of each limit, the higher of each price,
    /// the earlier warning.
    #[must_use]
    pub fn smaller(mut self, other: Self) -> Self {
        for (tool, limit) in other.calls_of {
            let own = self.calls_of.entry(tool).or_insert(limit);
            *own = (*own).min(limit);
        }
        for (tool, price) in other.price_of {
            let own = self.price_of.entry(tool).or_insert(price);
            *own = (*own).max(price);
        }
        Self {
            calls: least(self.calls, other.calls),
            calls_of: self.calls_of,
            wall: least(self.wall, other.wall),
            bytes: least(self.bytes, other.bytes),
            tokens: least(self.tokens, other.tokens),
            micros: least(self.micros, other.micros),
            price_of: self.price_of,
            cycles: least(self.cycles, other.cycles),
            depth: least(self.depth, other.depth),
            warn_at: least(self.warn_at, other.warn_at),
        }
    }
}

/// Returns the smaller of two limits, where `None` is no limit.
fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}
