//! What the layers of one tool remember between calls: its circuit and its rate limit.

mod circuit;
mod rate;

use std::sync::Arc;

use haft_core::ToolSpec;

pub(crate) use self::{
    circuit::{Circuit, Trial},
    rate::{Acquire, QueueSlot, RateLimiter, refused},
};

/// What the layers of one tool remember, across all runs and views.
#[derive(Debug)]
pub(crate) struct ToolLayers {
    pub(crate) circuit: Arc<Circuit>,
    pub(crate) rate: Option<Arc<RateLimiter>>,
}

impl ToolLayers {
    pub(crate) fn of(spec: &ToolSpec) -> Self {
        Self {
            circuit: Arc::default(),
            rate: spec.rate.map(|rate| Arc::new(RateLimiter::new(rate))),
        }
    }
}
