//! Text that is safe to show: for terminals, for logs, for language models.
//!
//! Three independent parts, each linear in the text and borrowed if nothing changes:
//!
//! - **Sanitize**: [`sanitize`] removes terminal escape sequences and makes invisible characters
//!   visible. [`escape_invisible`] and [`deceptive_chars`] are for text that a person approves.
//! - **Redact**: a [`Redactor`] replaces known secrets, in all their encoded forms, and text in the
//!   format of well-known API keys.
//! - **Markers**: [`escape_markers`] escapes text that a model could take for the end of a tool
//!   result or for a control token of its chat template (prompt injection).
//!
//! Streams give the same result as the whole text: [`StreamSanitizer`], [`StreamRedactor`],
//! [`SanitizingRedactor`].
//!
#![doc = include_str!("../README.md")]

mod deceptive;
mod invisible;
mod markers;
mod plain_run;
mod redact;
mod sanitize;
mod stream_sanitizer;

pub use self::{
    deceptive::deceptive_chars,
    invisible::is_invisible,
    markers::{escape_markers, escape_markers_across, unescape_markers},
    redact::{
        AddSecretError, KnownSecrets, MAX_JSON_DEPTH, Redactor, SanitizingRedactor, StreamRedactor,
        redaction_mark,
    },
    sanitize::{SanitizedText, escape_invisible, from_bytes, sanitize},
    stream_sanitizer::StreamSanitizer,
};
