//! What a model call may use: space in the context, tokens and money. They are reserved before it,
//! and settled after it.

use std::sync::Arc;

use haft_dialect::ToolExport;

use super::{
    context::{self, Shrunk},
    conversation::Conversation,
    event::AgentEvent,
    model::Price,
    reply::Reply,
    result::{EndReason, RunUsage},
    run_loop::{Loop, limit},
};
use crate::{registry::ToolSnapshot, text::estimate_tokens};

/// What was reserved for a model call.
pub(super) struct Reserved {
    tokens: u64,
    micros: u64,
    pub(super) max_tokens: u64,
    pub(super) request_tokens: u64,
}

impl Loop<'_> {
    pub(super) fn price(&self) -> Option<Price> {
        self.agent.price.or(self.info.price)
    }

    /// Shortens a conversation that is too long for the model.
    pub(super) async fn make_space(
        &self,
        conversation: &mut Conversation,
        tools: &ToolSnapshot,
        export: &ToolExport,
    ) -> Result<(), EndReason> {
        let Some(context) = self.info.context_tokens else { return Ok(()) };
        let limit = context.saturating_sub(self.max_tokens());
        let (strategy, fixed) = (self.agent.on_context_limit, self.fixed_tokens(export));
        let shrunk = context::fit(conversation, strategy, tools, fixed, limit).await?;
        if let Some(Shrunk { results, from_tokens, to_tokens }) = shrunk {
            self.events.emit(|| AgentEvent::ContextShrunk { results, from_tokens, to_tokens });
        }
        Ok(())
    }

    /// How many tokens a message of the model may have.
    fn max_tokens(&self) -> u64 {
        let own = self.agent.max_tokens;
        self.info.max_output_tokens.map_or(own, |most| own.min(most))
    }

    /// Reserves what the model call may use, and decides how long the message may be.
    pub(super) fn reserve(
        &self,
        conversation: &mut Conversation,
        export: &Arc<ToolExport>,
    ) -> Result<Reserved, EndReason> {
        let fixed = self.fixed_tokens(export);
        let request_tokens = fixed.saturating_add(conversation.history_tokens);
        let mut max_tokens = self.max_tokens();
        let left = conversation.run.remaining_budget();
        let used_up = |what: &str, left: u64| EndReason::LimitReached {
            message: format!(
                "the next model call needs more {what} than the {left} that are left for this run"
            ),
        };
        // One is left over, so that calls which start while the model writes are not refused.
        if let Some(tokens) = left.tokens {
            let space = tokens.saturating_sub(request_tokens).saturating_sub(1);
            max_tokens = max_tokens.min(space);
            if max_tokens == 0 {
                return Err(used_up("tokens", tokens));
            }
        }
        let price = self.price();
        // A limit of the runtime or of a parent run counts as well as the agent's own.
        if left.micros.is_some() && price.is_none() {
            let message = format!(
                "there is a money limit, and the price of the model `{}` is unknown",
                self.info.name
            );
            return Err(EndReason::LimitReached { message });
        }
        if let (Some(micros), Some(price)) = (left.micros, price) {
            let space = micros.saturating_sub(price.most_of(request_tokens, 0)).saturating_sub(1);
            let affordable = match price.output {
                0 if space > 0 => max_tokens,
                0 => 0,
                output => space.saturating_mul(1_000_000) / output,
            };
            max_tokens = max_tokens.min(affordable);
            if max_tokens == 0 {
                return Err(used_up("money (in millionths)", micros));
            }
        }
        let tokens = request_tokens.saturating_add(max_tokens);
        let micros = price.map_or(0, |price| price.most_of(request_tokens, max_tokens));
        if let Some(ledger) = conversation.run.ledger() {
            ledger.reserve_model_call(tokens, micros).map_err(limit)?;
        }
        Ok(Reserved { tokens, micros, max_tokens, request_tokens })
    }

    /// The tokens of the instructions and the tools.
    pub(super) fn fixed_tokens(&self, export: &ToolExport) -> u64 {
        estimate_tokens(self.instructions.len().saturating_add(export.prompt_bytes()))
    }

    /// Counts what the model call used in place of what was reserved.
    pub(super) fn settle(
        &self,
        conversation: &mut Conversation,
        reply: &Reply,
        reserved: &Reserved,
        number: u32,
    ) {
        let usage = reply.counted(reserved.request_tokens);
        let micros = self.price().map_or(0, |price| price.of_usage(&usage));
        if let Some(ledger) = conversation.run.ledger() {
            let events = &conversation.run.services().events;
            let reserved = (reserved.tokens, reserved.micros);
            ledger.settle_model_call(reserved, (usage.total(), micros), events);
        }
        let overshoot = usage.total().saturating_sub(reserved.tokens);
        if overshoot > 0 && self.is_limited() {
            self.events.emit(|| AgentEvent::Warning {
                message: format!(
                    "the model used {} tokens, {overshoot} more than were reserved",
                    usage.total()
                ),
            });
        }
        let total = &mut conversation.usage;
        total.overshoot_tokens = total.overshoot_tokens.saturating_add(overshoot);
        total.tokens += usage;
        total.micros = total.micros.saturating_add(micros);
        if reply.has_usage() {
            let fixed = reserved.request_tokens.saturating_sub(conversation.history_tokens);
            conversation.calibrate(usage, fixed);
        }
        let total = self.usage(conversation);
        self.events.emit(|| AgentEvent::ModelFinished { turn: number, usage, total });
    }

    fn is_limited(&self) -> bool {
        self.agent.limits.tokens.is_some() || self.agent.limits.micros.is_some()
    }

    /// Returns what the run has used, with the time until now.
    pub(super) fn usage(&self, conversation: &Conversation) -> RunUsage {
        RunUsage { elapsed: conversation.elapsed(self.runner.now()), ..conversation.usage }
    }
}
