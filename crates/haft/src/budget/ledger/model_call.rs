//! Reserves what a model call may use, and settles what it used.

use haft_core::Failure;

use super::{Events, Ledger, add, may_spend, warn};

impl Ledger {
    /// Reserves what a model call may use, without a warning: most of it is released again.
    ///
    /// # Errors
    /// Fails and reserves nothing if that would exceed what is left.
    pub(crate) fn reserve_model_call(&self, tokens: u64, micros: u64) -> Result<(), Failure> {
        let mut chain = self.lock_all();
        self.has_time()?;
        may_spend(&chain, tokens, micros)?;
        add(&mut chain, tokens, micros);
        Ok(())
    }

    /// Replaces what was reserved for a model call by what it used, even beyond the limit.
    pub(crate) fn settle_model_call(
        &self,
        (reserved_tokens, reserved_micros): (u64, u64),
        (tokens, micros): (u64, u64),
        events: &Events,
    ) {
        let mut chain = self.lock_all();
        for (_, used) in &mut chain {
            used.tokens = used.tokens.saturating_sub(reserved_tokens);
            used.micros = used.micros.saturating_sub(reserved_micros);
        }
        add(&mut chain, tokens, micros);
        warn(chain, events);
    }
}
