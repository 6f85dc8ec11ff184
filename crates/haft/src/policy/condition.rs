//! One pattern as a condition: whether a hook has to do with a call.
//!
//! A pattern has three answers, and so has a condition. Whoever asks takes the strict side: a hook
//! whose condition cannot be told is called.

use serde_json::Value;

use super::{
    facts::{Facts, Sample},
    pattern::{Hits, Pattern, Side, Ternary},
    rules::PolicyContext,
};
use crate::turn::ValidatedCall;

impl Pattern {
    /// Returns whether it is about this call, or about any part of it.
    #[must_use]
    pub fn is_about(&self, call: &ValidatedCall, ground: &PolicyContext) -> Ternary {
        told(self.hits(&Facts::of(call, ground), Side::Restrict))
    }

    /// Returns whether it is about a call that is only described.
    #[must_use]
    pub fn is_about_example(
        &self,
        tool: &str,
        arguments: &Value,
        ground: &PolicyContext,
    ) -> Ternary {
        let sample = Sample::new(tool, arguments.clone());
        let hits = self.hits(&sample.facts(ground), Side::Restrict);
        told(hits)
    }
}

fn told(hits: Hits) -> Ternary {
    if !hits.yes.is_empty() {
        Ternary::Yes
    } else if !hits.unknown.is_empty() {
        Ternary::Unknown(hits.why.unwrap_or_else(|| "it cannot be told".to_owned()))
    } else {
        Ternary::No
    }
}
