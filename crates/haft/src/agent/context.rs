//! Makes space in a conversation that is too long for the model.
//!
//! Old results become artifacts, and the model gets a reference to each. More space is made than is
//! needed at once: each change of old messages loses the provider's prompt cache, so it should be
//! rare.
//!
//! INVARIANT: a call keeps its result, so no pair is broken, and nothing that was not stored is
//! taken away.

use std::sync::Arc;

use haft_core::{Label, ToolName};
use haft_dialect::history::{ContentPart, Message};

use super::{
    conversation::{Conversation, message_tokens},
    definition::OnContextLimit,
    result::EndReason,
    script::result_content,
};
use crate::{
    artifact::{self, Draft, Owner, READER},
    registry::ToolSnapshot,
};

/// A result shorter than this stays: its reference would not be shorter.
const MIN_OFFLOADED_BYTES: usize = 400;

/// What was done.
pub(super) struct Shrunk {
    pub(super) results: usize,
    pub(super) from_tokens: u64,
    pub(super) to_tokens: u64,
}

/// Makes the conversation fit into `limit` tokens, of which `fixed` are taken. `None` if it already
/// does.
pub(super) async fn fit(
    conversation: &mut Conversation,
    strategy: OnContextLimit,
    tools: &ToolSnapshot,
    fixed: u64,
    limit: u64,
) -> Result<Option<Shrunk>, EndReason> {
    let from_tokens = fixed.saturating_add(conversation.history_tokens);
    if from_tokens <= limit {
        return Ok(None);
    }
    let mut results = 0;
    if let OnContextLimit::OffloadResults { keep } = strategy {
        let can_read = tools.get(READER).is_some();
        // Half of the space, so that it is not needed again in the next turn.
        let goal = fixed.saturating_add(limit.saturating_sub(fixed) / 2);
        results = offload(conversation, keep, can_read, fixed, goal).await;
    }
    let to_tokens = fixed.saturating_add(conversation.history_tokens);
    if to_tokens > limit {
        return Err(EndReason::ContextLimit {
            message: format!("it has about {to_tokens} tokens, and {limit} fit"),
        });
    }
    Ok(Some(Shrunk { results, from_tokens, to_tokens }))
}

/// Replaces the oldest results until the goal is reached; returns how many.
async fn offload(
    conversation: &mut Conversation,
    keep: usize,
    can_read: bool,
    fixed: u64,
    goal: u64,
) -> usize {
    let mut places = Vec::new();
    for (at, message) in conversation.history.messages.iter().enumerate() {
        if let Message::Results(results) = message {
            places.extend((0..results.len()).map(|n| (at, n)));
        }
    }
    places.truncate(places.len().saturating_sub(keep));
    let mut replaced = 0;
    for (at, n) in places {
        if fixed.saturating_add(conversation.history_tokens) <= goal {
            break;
        }
        let Some(reference) = store(conversation, at, n, can_read).await else { continue };
        let Some(message) = conversation.history.messages.get_mut(at) else { continue };
        let before = message_tokens(message);
        if let Message::Results(results) = &mut *message
            && let Some(result) = results.get_mut(n)
        {
            result.parts = vec![ContentPart::text(reference)];
        }
        let freed = before.saturating_sub(message_tokens(message));
        conversation.history_tokens = conversation.history_tokens.saturating_sub(freed);
        replaced += 1;
    }
    replaced
}

/// Stores one result and returns the reference to it; `None` if it is short or cannot be stored.
async fn store(conversation: &Conversation, at: usize, n: usize, can_read: bool) -> Option<String> {
    let Message::Results(results) = conversation.history.messages.get(at)? else { return None };
    let result = results.get(n)?;
    let text = result_content(result);
    if text.len() < MIN_OFFLOADED_BYTES {
        return None;
    }
    let label = conversation.labels.iter().find(|(id, _)| *id == result.id);
    let tool = result.name.clone().unwrap_or_else(|| ToolName::from("tool"));
    let inner = conversation.run.services();
    let draft = Draft {
        tool: tool.clone(),
        run: conversation.id().clone(),
        owner: Owner::of(conversation.run.scope(), &inner.artifacts.mark, conversation.run.line()),
        label: label.map_or(Label::CLEAN, |(_, label)| *label),
        media: artifact::TEXT.to_owned(),
        items: None,
        body: Arc::from(text.as_bytes()),
        is_text: true,
    };
    let store = inner.artifacts.store.clone();
    let stored = match store.is_blocking() {
        true => tokio::task::spawn_blocking(move || store.put(draft)).await.ok()?,
        false => store.put(draft),
    };
    let facts = stored.ok()?;
    let chars = text.chars().count();
    let next = match can_read {
        true => format!("; read it with `{READER}`, id `{}`", facts.id),
        false => format!("; it is stored as `{}`", facts.id),
    };
    Some(format!(
        "[note from the host: the result of `{tool}`, {chars} characters, was moved out of the \
         conversation to make space{next}]"
    ))
}
