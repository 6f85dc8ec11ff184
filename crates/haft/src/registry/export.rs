//! Exports the tools of a snapshot to a provider, and caches the latest exports.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use haft_core::Exposure;
use haft_dialect::{Dialect, ExportOptions, ToolAnnotations, ToolDefinition, ToolExport};
use serde_json::Value;

use super::{RegisteredTool, ToolSnapshot};

/// The part of a registered tool that providers receive.
impl<'a> From<&'a RegisteredTool> for ToolDefinition<'a> {
    fn from(entry: &'a RegisteredTool) -> Self {
        let spec = entry.spec();
        let mut definition =
            Self::new(entry.name().as_str(), &spec.description, entry.input_schema());
        definition.title = spec.title.as_deref();
        definition.output = entry.output_schema();
        definition.examples = &spec.examples;
        definition.deferred = spec.exposure == Exposure::Deferred;
        definition.hints = Some(ToolAnnotations {
            read_only: spec.is_read_only(),
            destructive: spec.may_destroy(),
            idempotent: spec.is_idempotent(),
            open_world: spec.is_open_world(),
        });
        definition
    }
}

/// Cache of the latest exports.
#[derive(Default)]
pub(super) struct Exports(Mutex<Vec<(Key, Arc<ToolExport>)>>);

type Key = ([u8; 32], Dialect, ExportOptions);

/// The oldest export is dropped from the cache beyond this.
const MAX_CACHED_EXPORTS: usize = 32;

impl Exports {
    fn get(&self, key: Key, make: impl FnOnce() -> ToolExport) -> Arc<ToolExport> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = lock().iter().find(|(k, _)| *k == key) {
            return Arc::clone(found);
        }
        // Built outside the lock, so that other turns can export meanwhile.
        let made = Arc::new(make());
        let mut kept = lock();
        if kept.len() >= MAX_CACHED_EXPORTS {
            kept.remove(0);
        }
        kept.push((key, Arc::clone(&made)));
        made
    }
}

impl fmt::Debug for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exports")
    }
}

impl ToolSnapshot {
    /// Shows the tools of this turn to a provider. An unchanged set costs nothing the second time.
    #[must_use]
    pub fn export(&self, dialect: Dialect) -> Arc<ToolExport> {
        self.export_with(dialect, &ExportOptions::default())
    }

    /// Shows the tools of this turn to a provider, with choices of the host's.
    #[must_use]
    pub fn export_with(&self, dialect: Dialect, options: &ExportOptions) -> Arc<ToolExport> {
        let key = (*self.raw_fingerprint(), dialect, options.clone());
        let export = self.exports().get(key, || {
            let definitions: Vec<ToolDefinition<'_>> =
                self.entries().map(|entry| ToolDefinition::from(&**entry)).collect();
            ToolExport::of(dialect, &definitions, options)
        });
        self.remember(Arc::clone(&export));
        export
    }

    /// What this turn showed last in a dialect; by default, what it would show.
    pub(crate) fn last_export(&self, dialect: Dialect) -> Arc<ToolExport> {
        self.shown_last(dialect).unwrap_or_else(|| self.export(dialect))
    }

    /// Returns the `tools` of an Anthropic Messages request.
    #[must_use]
    pub fn to_anthropic(&self) -> Arc<Value> {
        Arc::clone(self.export(Dialect::Anthropic).tools())
    }

    /// Returns the `tools` of an OpenAI Responses request.
    #[must_use]
    pub fn to_openai(&self) -> Arc<Value> {
        Arc::clone(self.export(Dialect::OpenAiResponses).tools())
    }

    /// Returns the `tools` of an OpenAI Chat request.
    #[must_use]
    pub fn to_openai_chat(&self) -> Arc<Value> {
        Arc::clone(self.export(Dialect::OpenAiChat).tools())
    }
}
