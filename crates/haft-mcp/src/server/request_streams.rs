//! Log entries of a request on the stream of that request, in sessions of 2025-11-25.
//!
//! The SDK sends them on the client's standalone stream. A client that opens it after its first
//! request, or never, does not get them.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures_util::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_server::session::ServerSseMessage,
};
use tokio::sync::mpsc;

/// The header with the id of a session.
pub(super) const SESSION_HEADER: &str = "mcp-session-id";
/// How many entries of one request wait for its client. Further ones are dropped.
const MAX_ENTRIES: usize = 64;

/// The open streams, by session and request.
#[derive(Default)]
pub(super) struct RequestStreams(Mutex<HashMap<StreamKey, Entries>>);

type StreamKey = (String, RequestId);
type Entries = mpsc::Sender<ServerSseMessage>;

/// The entries of one request, until they are merged with its stream.
pub(super) struct OpenStream {
    entries: mpsc::Receiver<ServerSseMessage>,
    streams: Arc<RequestStreams>,
    key: Option<StreamKey>,
}

impl RequestStreams {
    /// Opens the stream of a request. It is opened before the request is handled, so that no entry
    /// is missed.
    pub(super) fn open(
        self: &Arc<Self>,
        session: &str,
        message: &ClientJsonRpcMessage,
    ) -> OpenStream {
        let (sender, entries) = mpsc::channel(MAX_ENTRIES);
        let key = match message {
            JsonRpcMessage::Request(request) => Some((session.to_owned(), request.id.clone())),
            _ => None,
        };
        if let Some(key) = &key {
            self.lock().insert(key.clone(), sender);
        }
        OpenStream { entries, streams: Arc::clone(self), key }
    }

    /// Sends a message on the stream of a request; `false` if it has none.
    pub(super) fn send(
        &self,
        session: &str,
        request: &RequestId,
        message: ServerJsonRpcMessage,
    ) -> bool {
        match self.lock().get(&(session.to_owned(), request.clone())) {
            Some(entries) => {
                // A client that does not read loses entries.
                let _ = entries.try_send(ServerSseMessage::from_message(message));
                true
            }
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamKey, Entries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenStream {
    /// Adds the entries to the stream of the SDK. They come before the response, because they were
    /// sent before it.
    pub(super) fn merge<S>(self, inner: S) -> impl Stream<Item = ServerSseMessage> + Send + Sync
    where
        S: Stream<Item = ServerSseMessage> + Send + Sync + 'static,
    {
        Merged { inner: Box::pin(inner), open: self }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.streams.lock().remove(&key);
        }
    }
}

struct Merged<S> {
    inner: Pin<Box<S>>,
    open: OpenStream,
}

impl<S: Stream<Item = ServerSseMessage>> Stream for Merged<S> {
    type Item = ServerSseMessage;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let merged = self.get_mut();
        if let Poll::Ready(Some(entry)) = merged.open.entries.poll_recv(cx) {
            return Poll::Ready(Some(entry));
        }
        merged.inner.as_mut().poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn entries_come_before_what_was_sent_after_them_and_end_with_the_stream() {
        let streams = Arc::<RequestStreams>::default();
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
        let request: ClientJsonRpcMessage = serde_json::from_value(request).unwrap();
        let entry = || -> ServerJsonRpcMessage {
            let entry = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "a"}});
            serde_json::from_value(entry).unwrap()
        };
        let id = RequestId::Number(7);
        assert!(!streams.send("s", &id, entry()), "not open");
        let open = streams.open("s", &request);
        assert!(streams.send("s", &id, entry()), "before the request is handled");
        assert!(!streams.send("other", &id, entry()), "of another session");
        let inner = futures_util::stream::iter([ServerSseMessage::default()]);
        let mut merged = open.merge(inner);
        assert!(merged.next().await.unwrap().message.is_some(), "the entry");
        assert!(merged.next().await.unwrap().message.is_none(), "what the SDK sent");
        assert!(merged.next().await.is_none());
        drop(merged);
        assert!(!streams.send("s", &id, entry()), "closed");
        assert!(streams.lock().is_empty());
    }
}
