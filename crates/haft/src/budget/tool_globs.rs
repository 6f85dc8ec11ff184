//! The globs over tool names in a budget, compiled: limits on calls, and prices.

use haft_core::ToolName;
use haft_policy::NameGlob;

use super::Budget;

/// The globs of `calls_of` and `price_of`.
#[derive(Debug)]
pub(super) struct ToolGlobs {
    /// In the order of `calls_of`.
    limits: Vec<(NameGlob, u64)>,
    prices: Vec<(NameGlob, u64)>,
}

impl ToolGlobs {
    pub(super) fn of(budget: &Budget) -> Self {
        let compiled = |(glob, value): (&String, &u64)| (NameGlob::new(glob), *value);
        Self {
            limits: budget.calls_of.iter().map(compiled).collect(),
            prices: budget.price_of.iter().map(compiled).collect(),
        }
    }

    /// Returns the limits that apply to a tool, with their indexes in `calls_of`. The search is
    /// linear: the list is written by hand and short.
    pub(super) fn limits_of(&self, tool: &ToolName) -> impl Iterator<Item = (usize, u64)> {
        let limits = self.limits.iter().enumerate();
        limits.filter(|(_, (glob, _))| glob.matches(tool.as_str())).map(|(at, (_, n))| (at, *n))
    }

    /// Returns the highest price that applies to a tool; 0 without one.
    pub(super) fn price_of(&self, tool: &ToolName) -> u64 {
        let prices = self.prices.iter().filter(|(glob, _)| glob.matches(tool.as_str()));
        prices.map(|(_, price)| *price).max().unwrap_or(0)
    }
}
