//! Writes messages for providers whose roles alternate: the user begins, and blocks of one role are
//! one message.

use serde_json::{Value, json};

use super::{AssistantPart, ContentPart, Message, PastResult, write::Writer};

/// The first message, where the model began the conversation and the provider requires the user to.
const OPENING: &str = "(the conversation continues here)";

/// How a provider whose roles alternate writes messages.
pub(super) struct AlternatingFormat {
    /// The role of the model.
    pub(super) assistant_role: &'static str,
    /// The key of the blocks of a message.
    pub(super) blocks_key: &'static str,
    pub(super) text: fn(&str) -> Value,
    pub(super) part: fn(&mut Writer, &ContentPart) -> Option<Value>,
    pub(super) assistant: fn(&mut Writer, &AssistantPart) -> Option<Value>,
    pub(super) result: fn(&mut Writer, &PastResult) -> Value,
}

impl AlternatingFormat {
    /// Writes all messages, with the system's blocks next to them.
    pub(super) fn with_system(&self, writer: &mut Writer, messages: &[Message]) -> Value {
        let system = writer.system_first(messages, self.part);
        let messages = self.write(writer, messages);
        if system.is_empty() {
            json!({"messages": messages})
        } else {
            json!({"system": system, "messages": messages})
        }
    }

    /// Writes all messages but those of the system.
    pub(super) fn write(&self, writer: &mut Writer, messages: &[Message]) -> Vec<Value> {
        let mut turns = AlternatingMessages::default();
        for (index, message) in messages.iter().enumerate() {
            writer.at(index);
            let (role, blocks) = match message {
                Message::System(_) => continue,
                Message::User(parts) => {
                    let blocks = parts.iter().filter_map(|part| (self.part)(writer, part));
                    ("user", blocks.collect())
                }
                Message::Assistant(parts) => {
                    let blocks = parts.iter().filter_map(|part| (self.assistant)(writer, part));
                    (self.assistant_role, blocks.collect())
                }
                Message::Results(results) => {
                    let blocks = results.iter().map(|result| (self.result)(writer, result));
                    ("user", blocks.collect())
                }
            };
            turns.add(role, blocks);
        }
        turns.finish(writer, self.blocks_key, self.text)
    }
}

/// Messages with alternating roles.
#[derive(Debug, Default)]
struct AlternatingMessages(Vec<(&'static str, Vec<Value>)>);

impl AlternatingMessages {
    /// Adds blocks, to the last message if it has the same role.
    fn add(&mut self, role: &'static str, blocks: Vec<Value>) {
        match self.0.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, all)) if *last == role => all.extend(blocks),
            _ => self.0.push((role, blocks)),
        }
    }

    /// Returns the messages, with their blocks under `key`. The user begins.
    fn finish(mut self, writer: &mut Writer, key: &str, text: fn(&str) -> Value) -> Vec<Value> {
        if self.0.first().is_some_and(|(role, _)| *role != "user") {
            writer.at(0);
            writer.added(OPENING);
            self.0.insert(0, ("user", vec![text(OPENING)]));
        }
        self.0.into_iter().map(|(role, blocks)| json!({"role": role, key: blocks})).collect()
    }
}
