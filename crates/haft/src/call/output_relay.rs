//! Relays the output of running bodies to observers: sanitized, and without a secret that is split
//! over two chunks.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use haft_core::{CallId, Progress, ToolContext, sync::lock};

use super::turn_core::TurnCore;

/// The number of keyed streams of one call that are kept open; a body may invent any number.
const MAX_OPEN_KEYS: usize = 64;

/// The open output streams of a turn, with the text that is not emitted yet.
#[derive(Default)]
pub(crate) struct OutputRelay {
    streams: Mutex<Vec<OutputStream>>,
    has_output: AtomicBool,
}

/// Chunks of one call that belong together.
struct OutputStream {
    call: CallId,
    key: Option<String>,
    sanitizer: haft_sanitize::SanitizingRedactor,
}

impl OutputStream {
    fn is_of(&self, call: &CallId, key: Option<&str>) -> bool {
        self.call == *call && self.key.as_deref() == key
    }
}

impl TurnCore {
    /// Sanitizes a chunk of output and returns what can be emitted; nothing while all of it may
    /// be the beginning of a secret. Chunks with one key are one stream.
    pub(crate) fn sanitize_chunk(
        &self,
        cx: &ToolContext,
        key: Option<&str>,
        chunk: &str,
    ) -> Option<String> {
        self.output.has_output.store(true, Ordering::Release);
        let call = cx.call_id();
        let mut streams = lock(&self.output.streams);
        let at = match streams.iter().position(|s| s.is_of(call, key)) {
            Some(at) => at,
            None => {
                let (key, call) = (key.map(str::to_owned), call.clone());
                let sanitizer = self.run.inner.redactor.sanitizing_stream();
                streams.push(OutputStream { call, key, sanitizer });
                streams.len() - 1
            }
        };
        let shown = streams.get_mut(at).map(|s| s.sanitizer.feed(chunk))?;
        let of_call = streams.iter().filter(|s| s.call == *call && s.key.is_some()).count();
        if of_call > MAX_OPEN_KEYS {
            let oldest = streams.iter().position(|s| s.call == *call && s.key.is_some());
            let oldest = oldest.map(|at| streams.remove(at));
            drop(streams);
            oldest.into_iter().for_each(|oldest| self.emit_rest(oldest));
        }
        (!shown.is_empty() || chunk.is_empty()).then_some(shown)
    }

    /// Emits the rest of a call's output streams: the body has ended.
    pub(crate) fn flush_output(&self, cx: &ToolContext) {
        if !self.output.has_output.load(Ordering::Acquire) {
            return;
        }
        let rest: Vec<OutputStream> = lock(&self.output.streams)
            .extract_if(.., |stream| stream.call == *cx.call_id())
            .collect();
        rest.into_iter().for_each(|stream| self.emit_rest(stream));
    }

    fn emit_rest(&self, stream: OutputStream) {
        let OutputStream { call, key, sanitizer } = stream;
        let rest = sanitizer.finish();
        if rest.is_empty() {
            return;
        }
        let note = match key {
            Some(key) => Progress::Keyed(self.run.inner.redactor.text(&key).into_owned(), rest),
            None => Progress::Partial(rest),
        };
        self.emit_progress(call, note);
    }
}
