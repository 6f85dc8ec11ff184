//! Maps call ids to ids that a provider accepts.
//!
//! A valid id is kept. Another is replaced by a hash of itself, so that every history that contains
//! it gives the same id. Colliding ids are hashed again.
//!
//! INVARIANT: within one transcript different ids stay different.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use haft_core::CallId;
use sha2::{Digest, Sha256};

use super::{Dialect, PastCall};

/// The prefix of ids that replace a missing one. They are not sent to providers that need none.
const POSITIONAL_PREFIX: &str = "haft_";

const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl Dialect {
    /// Returns the id of a call in a history of this dialect: its own if the dialect accepts it,
    /// else one derived from it.
    ///
    /// [`Transcript::write`](super::Transcript::write) uses it for every call, and resolves
    /// collisions.
    #[must_use]
    pub fn call_id(self, id: &str) -> Cow<'_, str> {
        if admits(self, id) { Cow::Borrowed(id) } else { Cow::Owned(minted(self, id, 0)) }
    }
}

/// Every id of a transcript, with the id in the target dialect.
#[derive(Debug)]
pub(super) struct Ids(HashMap<CallId, String>);

impl Ids {
    pub(super) fn new<'a>(dialect: Dialect, calls: impl Iterator<Item = &'a PastCall>) -> Self {
        let mut map = HashMap::new();
        let mut taken = HashSet::new();
        let mut strange = Vec::new();
        for PastCall { id, .. } in calls {
            if admits(dialect, id.as_str()) {
                taken.insert(id.as_str().to_owned());
                map.insert(id.clone(), id.as_str().to_owned());
            } else {
                strange.push(id);
            }
        }
        for id in strange {
            if map.contains_key(id) {
                continue;
            }
            let new = (0..u32::MAX)
                .map(|round| minted(dialect, id.as_str(), round))
                .find(|new| !taken.contains(new))
                .unwrap_or_default();
            taken.insert(new.clone());
            map.insert(id.clone(), new);
        }
        Self(map)
    }

    /// Returns the id in the target dialect.
    pub(super) fn get(&self, id: &CallId) -> String {
        // Every result of a repaired transcript has its call, so the map has it.
        self.0.get(id).cloned().unwrap_or_else(|| id.as_str().to_owned())
    }
}

/// Derives the id of a call that has none from its position.
pub(super) fn positional_id(message: usize, nth: usize) -> CallId {
    CallId::from(format!("{POSITIONAL_PREFIX}{message}_{nth}"))
}

/// Returns whether an id replaces a missing one.
pub(super) fn is_positional(id: &CallId) -> bool {
    id.as_str().starts_with(POSITIONAL_PREFIX)
}

fn admits(dialect: Dialect, id: &str) -> bool {
    let all = |more: &[u8]| {
        !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
    };
    match dialect {
        Dialect::Anthropic => all(b"_-"),
        Dialect::Bedrock => all(b"_.:-") && id.len() <= 64,
        Dialect::Mistral => all(b"") && id.len() == 9,
        // Undocumented: the service refuses the 41st character.
        Dialect::OpenAiChat => !id.is_empty() && id.chars().count() <= 40,
        Dialect::OpenAiResponses => !id.is_empty() && id.chars().count() <= 64,
        Dialect::Gemini | Dialect::GeminiJson | Dialect::Ollama | Dialect::Mcp => !id.is_empty(),
    }
}

fn minted(dialect: Dialect, id: &str, round: u32) -> String {
    let mut hasher = Sha256::new();
    hasher.update(round.to_be_bytes());
    hasher.update(id.as_bytes());
    let hash = hasher.finalize();
    let (prefix, length) = if dialect == Dialect::Mistral { ("", 9) } else { ("call_", 24) };
    let letters = hash.iter().take(length).map(|b| char::from(LETTERS[usize::from(*b) % 62]));
    prefix.chars().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn valid_call_id_is_kept() {
        for (dialect, id) in [
            (Dialect::Anthropic, "toolu_01-A"),
            (Dialect::Bedrock, "tooluse_a.b:c"),
            (Dialect::Mistral, "aB3dE5fG7"),
            (Dialect::OpenAiChat, "call_é"),
            (Dialect::OpenAiResponses, &"x".repeat(64)),
            (Dialect::Gemini, "any thing"),
        ] {
            assert_eq!(dialect.call_id(id), id, "{dialect}");
        }
    }

    #[test]
    fn invalid_call_id_is_replaced_by_a_valid_hash() {
        for dialect in Dialect::ALL.iter().copied() {
            for id in ["", "call_1", "a b", "tooluse_a.b:c", "é", &"x".repeat(65)] {
                let new = dialect.call_id(id);
                assert!(admits(dialect, &new), "{dialect}: {id} became {new}");
                assert_eq!(new, dialect.call_id(id));
            }
        }
        assert_eq!(Dialect::Mistral.call_id("call_1").len(), 9);
    }

    #[test]
    fn generated_call_id_does_not_collide() {
        let first = Dialect::Mistral.call_id("call_1").into_owned();
        let calls = [
            PastCall::new("call_1", "t", json!({})),
            PastCall::new(first.as_str(), "t", json!({})),
        ];
        let ids = Ids::new(Dialect::Mistral, calls.iter());
        assert_eq!(ids.get(&calls[1].id), first, "a valid id is kept at any position");
        assert_ne!(ids.get(&calls[0].id), first);
    }
}
