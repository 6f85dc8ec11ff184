//! Contents of resources and prompts that come from other servers: bounded, sanitized, redacted,
//! labelled and recorded, as results of tools are. What a run has read taints what it may do
//! (prompt injection).
//!
//! INVARIANT: every read that starts has one record, and a read that cannot be recorded fails.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use haft::{
    host::{Clock as _, RuntimeClock},
    taint::Label,
    tool::{BoxError, CallId, ToolName},
};
use haft_sanitize::{Redactor, escape_markers};
use serde_json::{Value, json};

use super::{
    call::META_LABEL,
    call_peer::CallPeer,
    conversation::Conversation,
    core::ServerCore,
    provider::{ContentProvider, ProviderError, ProviderRequest},
};

/// How much text one read returns, in bytes. The rest is cut, and the text says so.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// The largest image, audio or other file that one read returns, as base64.
const MAX_BLOB_CHARS: usize = 12 << 20;
/// Fields that a client must get as they are.
const KEPT: [&str; 5] = ["uri", "mimeType", "type", "role", "resultType"];

/// One read of a resource or a prompt, for records.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ContentRead {
    /// When it started.
    pub at: SystemTime,
    /// Who read it: the name of the caller's token, or `local`.
    pub user: String,
    /// The run of the caller.
    pub run: String,
    /// What was read.
    pub kind: ContentKind,
    /// Its URI or its name, as the caller has it.
    pub name: String,
    /// The server that it belongs to, if it is known.
    pub server: Option<String>,
    /// Whether a rule denies this server.
    pub is_denied: bool,
    /// `ok`, `denied`, `cancelled`, or `error` with the code of JSON-RPC.
    pub outcome: String,
    /// How much was returned, in bytes.
    pub bytes: usize,
    /// How long it took.
    pub elapsed: Duration,
}

/// What a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContentKind {
    /// A resource.
    Resource,
    /// A prompt.
    Prompt,
}

type WriteRead = dyn Fn(&ContentRead) -> Result<(), BoxError> + Send + Sync;

/// Writes down reads.
#[derive(Clone)]
pub(super) struct ContentLog(pub(super) Arc<WriteRead>);

impl fmt::Debug for ContentLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentLog")
    }
}

/// A read that has no record yet. Dropping it records that it was cancelled.
struct OpenRead {
    log: Option<ContentLog>,
    read: Option<ContentRead>,
    began: Instant,
}

impl OpenRead {
    /// Records the end.
    fn end(&mut self, outcome: String, bytes: usize) -> Result<(), BoxError> {
        let Some(mut read) = self.read.take() else { return Ok(()) };
        read.elapsed = RuntimeClock.now().saturating_duration_since(self.began);
        (read.outcome, read.bytes) = (outcome, bytes);
        self.log.as_ref().map_or(Ok(()), |log| (log.0)(&read))
    }
}

impl Drop for OpenRead {
    fn drop(&mut self) {
        let _ = self.end("cancelled".to_owned(), 0);
    }
}

impl ServerCore {
    /// Reads a resource or a prompt of the provider.
    pub(super) async fn read_content(
        &self,
        conversation: &Conversation,
        provider: &dyn ContentProvider,
        request: ProviderRequest,
        peer: &CallPeer,
    ) -> Result<Value, ProviderError> {
        let (kind, name) = match &request {
            ProviderRequest::ReadResource { uri } => (ContentKind::Resource, uri.clone()),
            ProviderRequest::GetPrompt { name, .. } => (ContentKind::Prompt, name.clone()),
            _ => return provider.handle(request, peer).await,
        };
        let origin = provider.origin(&request);
        let redactor = self.runtime.redactor();
        let read = ContentRead {
            at: RuntimeClock.wall(),
            user: conversation.principal.as_str().to_owned(),
            run: conversation.run.id().to_string(),
            kind,
            name: redactor.text(&name).into_owned(),
            server: origin.server.clone(),
            is_denied: origin.is_denied,
            outcome: String::new(),
            bytes: 0,
            elapsed: Duration::ZERO,
        };
        let log = self.settings.content_log.clone();
        let mut open = OpenRead { log, read: Some(read), began: RuntimeClock.now() };
        let mut answer = provider.handle(request, peer).await;
        let mut bytes = 0;
        if let Ok(content) = &mut answer {
            match review(content, redactor) {
                Ok(text) => {
                    bytes = text.len();
                    if let Some(server) = &origin.server {
                        mark(content, conversation, (kind, &name, server), &text);
                    }
                }
                Err(why) => answer = Err(ProviderError::internal(why)),
            }
        }
        let outcome = match &answer {
            Ok(_) => "ok".to_owned(),
            Err(_) if origin.is_denied => "denied".to_owned(),
            Err(error) => format!("error {}", error.code()),
        };
        // FAIL CLOSED: what cannot be recorded is not read.
        open.end(outcome, bytes)
            .map_err(|_| ProviderError::internal("the read could not be recorded"))?;
        answer
    }
}

/// Labels a content, and notes that the run has read it.
fn mark(
    content: &mut Value,
    conversation: &Conversation,
    (kind, name, server): (ContentKind, &str, &str),
    text: &str,
) {
    let label = Label::default();
    if let Some(fields) = content.as_object_mut() {
        let meta = fields.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert(META_LABEL.to_owned(), json!(label));
        }
    }
    let method = match kind {
        ContentKind::Resource => "resources/read",
        ContentKind::Prompt => "prompts/get",
    };
    let (call, tool) = (CallId::from(name), ToolName::from(method));
    conversation.run.taint().record(&call, &tool, Some(server), label, text);
}

/// Bounds, sanitizes and redacts every text. Returns all of them, or why the content cannot be
/// passed on.
fn review(content: &mut Value, redactor: &Redactor) -> Result<String, String> {
    let mut all = String::new();
    let mut open = vec![content];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(list) => open.extend(list.iter_mut().rev()),
            Value::Object(map) => {
                for (key, value) in map.iter_mut().rev() {
                    match value {
                        Value::String(_) if KEPT.contains(&key.as_str()) => {}
                        Value::String(data) if matches!(key.as_str(), "blob" | "data") => {
                            check_blob(data, redactor)?;
                        }
                        value => open.push(value),
                    }
                }
            }
            Value::String(text) => {
                review_text(text, MAX_TEXT_BYTES.saturating_sub(all.len()), redactor);
                all.push_str(text);
                all.push('\n');
            }
            _ => {}
        }
    }
    Ok(all)
}

fn check_blob(data: &str, redactor: &Redactor) -> Result<(), String> {
    if data.len() > MAX_BLOB_CHARS {
        return Err(format!("the content is larger than {MAX_BLOB_CHARS} characters of base64"));
    }
    // FAIL CLOSED: a secret in a file cannot be redacted.
    if redactor.holds_known_secret(data) {
        return Err("the content has a secret in it".to_owned());
    }
    Ok(())
}

fn review_text(text: &mut String, most: usize, redactor: &Redactor) {
    let whole = text.len();
    // A cut before the redaction could leave a part of a secret.
    if let (Some(changed), _) = redactor.sanitize_and_redact(text) {
        *text = changed;
    }
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(end);
        text.push_str(&format!("\n[cut by haft: {whole} bytes in all]"));
    }
    let escaped = escape_markers(text);
    if escaped != text.as_str() {
        *text = escaped.into_owned();
    }
}

#[cfg(test)]
mod tests {
    use haft_sanitize::KnownSecrets;

    use super::*;

    fn redactor() -> Redactor {
        let secrets = KnownSecrets::new();
        secrets.add("key", "hunter2-hunter2").unwrap();
        Redactor::new(secrets)
    }

    #[test]
    fn texts_are_sanitized_redacted_and_bounded_and_uris_are_kept() {
        let redactor = redactor();
        let long = "é".repeat(MAX_TEXT_BYTES);
        let mut content = json!({"contents": [
            {"uri": "note://hunter2-hunter2", "text": "a\u{1b}[2J hunter2-hunter2 \u{202e}b"},
            {"uri": "note://long", "text": long},
            {"uri": "note://more", "text": "dropped"},
        ]});
        let read = review(&mut content, &redactor).unwrap();
        let text = |n: usize| content["contents"][n]["text"].as_str().unwrap();
        assert_eq!(content["contents"][0]["uri"], "note://hunter2-hunter2");
        assert!(!text(0).contains("hunter2") && !text(0).contains('\u{1b}'), "{}", text(0));
        assert!(!text(0).contains('\u{202e}'));
        assert!(text(1).len() < MAX_TEXT_BYTES + 100 && text(1).contains("[cut by haft"));
        assert!(text(2).starts_with("\n[cut by haft"), "{}", text(2));
        assert!(read.len() < MAX_TEXT_BYTES + 1_000);
    }

    #[test]
    fn file_that_is_too_large_or_has_a_secret_is_refused() {
        let redactor = redactor();
        let secret = data_encoding::BASE64.encode(b"x hunter2-hunter2 y");
        for blob in [secret, "A".repeat(MAX_BLOB_CHARS + 1)] {
            let mut content = json!({"contents": [{"uri": "a:b", "blob": blob}]});
            assert!(review(&mut content, &redactor).is_err());
        }
        let mut content = json!({"contents": [{"uri": "a:b", "blob": "AAAA"}]});
        assert!(review(&mut content, &redactor).is_ok());
    }
}
