//! Exports the tools of a snapshot to a provider, and caches the latest exports.
//!
//! Deferred tools are left out, and the list of their names is part of the description of
//! `tool_search`. Where the provider has a tool search of its own and the options ask for it, they
//! are marked as deferred instead, and `tool_search` is left out.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use haft_core::{Exposure, ToolName, sync};
use haft_dialect::{
    Dialect, ExportOptions, ToolAnnotations, ToolChoice, ToolDefinition, ToolExport, ToolSearch,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{RegisteredTool, TOOL_SEARCH, ToolSnapshot, deferral::DeferredSet};

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
        let lock = || sync::lock(&self.0);
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

/// How deferred tools are kept out of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deferral {
    /// By haft: they are left out, and `tool_search` finds them.
    Own,
    /// By the provider: they are marked, and the provider's search finds them.
    Provider,
    /// Not at all: clients of MCP list every tool.
    Off,
}

impl Deferral {
    fn of(dialect: Dialect, options: &ExportOptions) -> Self {
        let is_native = matches!(options.search, Some(ToolSearch::Regex | ToolSearch::Ranked));
        match dialect {
            Dialect::Mcp => Self::Off,
            Dialect::Anthropic | Dialect::OpenAiResponses if is_native => Self::Provider,
            _ => Self::Own,
        }
    }
}

fn export_of<'a>(
    tools: impl Iterator<Item = &'a Arc<RegisteredTool>>,
    dialect: Dialect,
    options: &ExportOptions,
) -> ToolExport {
    let definitions: Vec<ToolDefinition<'_>> =
        tools.map(|entry| ToolDefinition::from(&**entry)).collect();
    ToolExport::of(dialect, &definitions, options)
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
        let way = Deferral::of(dialect, options);
        let key = (self.export_fingerprint(way), dialect, options.clone());
        let export = self.exports().get(key, || match (self.deferral(), way) {
            (Some((set, loaded)), Deferral::Own) => self.leave_out(set, loaded, dialect, options),
            (Some((set, _)), Deferral::Provider) => self.mark(set, dialect, options),
            (None, Deferral::Own | Deferral::Provider) => {
                let tools = self.entries().filter(|entry| *entry.registered() != TOOL_SEARCH);
                export_of(tools, dialect, options)
            }
            (_, Deferral::Off) => export_of(self.entries(), dialect, options),
        });
        self.remember(Arc::clone(&export));
        export
    }

    /// Exports what is not deferred, then what the run has loaded. The beginning stays the same
    /// when a tool is loaded, so that the provider's prompt cache stays valid.
    fn leave_out(
        &self,
        set: &DeferredSet,
        loaded: &[ToolName],
        dialect: Dialect,
        options: &ExportOptions,
    ) -> ToolExport {
        let is_chosen = |entry: &RegisteredTool| match &options.choice {
            Some(ToolChoice::Tool(name)) => *entry.name() == *name.as_str(),
            _ => false,
        };
        let (deferred, shown): (Vec<_>, Vec<_>) =
            self.entries_at().partition(|(at, _)| set.has(*at));
        let loaded = loaded.iter().filter_map(|name| self.get(name.as_str()));
        let mut late: Vec<&Arc<RegisteredTool>> =
            loaded.filter(|entry| self.is_in(set, entry)).collect();
        for (_, entry) in &deferred {
            if is_chosen(entry) && !late.iter().any(|own| own.name() == entry.name()) {
                late.push(entry);
            }
        }
        let mut text = String::new();
        let mut definitions = Vec::with_capacity(shown.len() + late.len());
        if let Some((_, search)) = shown.iter().find(|(_, e)| *e.registered() == TOOL_SEARCH) {
            text = format!(
                "{}\n\nTools that are not loaded, by name:\n{}",
                search.spec().description,
                set.listing()
            );
        }
        for entry in shown.iter().map(|(_, entry)| *entry).chain(late) {
            let mut definition = ToolDefinition::from(&**entry);
            definition.deferred = false;
            if *entry.registered() == TOOL_SEARCH {
                definition.description = &text;
            }
            definitions.push(definition);
        }
        // The provider's own search is not asked for.
        let mut options = options.clone();
        options.search = None;
        ToolExport::of(dialect, &definitions, &options)
    }

    /// Exports everything, and marks deferred tools for the provider's own search.
    fn mark(&self, set: &DeferredSet, dialect: Dialect, options: &ExportOptions) -> ToolExport {
        let tools = self.entries_at().filter(|(_, entry)| *entry.registered() != TOOL_SEARCH);
        let definitions = tools.map(|(at, entry)| {
            let mut definition = ToolDefinition::from(&**entry);
            definition.deferred = set.has(at);
            definition
        });
        ToolExport::of(dialect, &definitions.collect::<Vec<_>>(), options)
    }

    /// Hashes what decides about an export besides the offered tools.
    fn export_fingerprint(&self, way: Deferral) -> [u8; 32] {
        let own = *self.raw_fingerprint();
        let Some((set, loaded)) = self.deferral() else { return own };
        let mut hasher = Sha256::new();
        hasher.update(own);
        hasher.update(set.budget.unwrap_or(u64::MAX).to_le_bytes());
        if way == Deferral::Own {
            for name in loaded {
                hasher.update(name.as_str());
                hasher.update([0]);
            }
        }
        hasher.finalize().into()
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
