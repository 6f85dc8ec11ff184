//! Instructions that bring tools: the model sees a catalogue of ids and summaries, and loads the
//! text and the tools of an entry when it needs them.
//!
//! Both take effect together, on the next turn of the run. Loading runs alone. The calls after it
//! in the same response were written without the text: if something was loaded, they are answered
//! with "instructions changed". The state is in the run, so each run and sub-run loads for itself;
//! a saved run has it.
//!
//! INVARIANT: a tool of an entry that is not loaded is not offered, and is refused when called.

use std::{fmt, sync::Arc};

use haft_core::{
    BoxFuture, Capabilities, ConcurrencyClass, DynTool, Effects, Exposure, Failure, FailureCode,
    IntoTools, Label, Permission, ResultLimit, Scope, SharedMap, ToolContext, ToolSpec,
};
use serde_json::{Value, json};

use crate::{
    hooks::{Hook, HookAnswer},
    turn::ValidatedCall,
};

/// The name of the tool that loads.
const LOAD: &str = "load_instructions";
/// The keys of a run's shared state: what is loaded, and in which turn it changed last.
const LOADED: &str = "haft.instructions.loaded";
const CHANGED: &str = "haft.instructions.changed";

/// One entry of the catalogue.
#[derive(Clone)]
pub struct Instructions {
    id: String,
    summary: String,
    text: String,
    tools: Vec<DynTool>,
}

impl Instructions {
    /// Makes an entry without tools. The summary is always in the catalogue; the text is read when
    /// the entry is loaded.
    pub fn new(id: impl Into<String>, summary: impl Into<String>, text: impl Into<String>) -> Self {
        let (id, summary, text) = (id.into(), summary.into(), text.into());
        Self { id, summary, text, tools: Vec::new() }
    }

    /// Adds tools that are offered while the entry is loaded.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoTools) -> Self {
        let id: Arc<str> = self.id.as_str().into();
        for tool in tools.into_tools() {
            let (id, own) = (Arc::clone(&id), tool.spec().enabled.clone());
            self.tools.push(tool.with_spec(|spec| {
                spec.enabled(move |scope| {
                    is_loaded(scope, &id) && own.as_ref().is_none_or(|own| own(scope))
                })
            }));
        }
        self
    }
}

impl fmt::Debug for Instructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instructions")
            .field("id", &self.id)
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}

/// A catalogue of instructions. Add it to a registry for its tools, add it to a runtime as a hook,
/// and add [`catalogue`](Self::catalogue) to the system prompt.
///
/// ```
/// use haft::instructions::{InstructionSet, Instructions};
/// use haft::tool::{DynTool, ToolSpec};
/// use haft::{Runtime, ToolRegistry};
/// use serde_json::json;
///
/// let refund = DynTool::new(ToolSpec::new("refund", "Pays back."), json!({}), |_, _| async {});
/// let set = InstructionSet::new()
///     .add(Instructions::new("refunds", "How to refund.", "Ask for the receipt.").tools(refund));
/// assert!(set.catalogue().contains("- refunds: How to refund."));
/// let registry = ToolRegistry::builder().add(set.clone()).build()?;
/// let runtime = Runtime::builder().registry(registry).hook(set).build()?;
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct InstructionSet(Arc<Vec<Instructions>>);

impl InstructionSet {
    /// Makes an empty catalogue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry. Of two with the same id, the first counts.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "`add` is the word people look for")]
    pub fn add(mut self, entry: Instructions) -> Self {
        if !self.0.iter().any(|own| own.id == entry.id) {
            Arc::make_mut(&mut self.0).push(entry);
        }
        self
    }

    /// Returns the text for the system prompt: the ids and summaries.
    #[must_use]
    pub fn catalogue(&self) -> String {
        let mut text = format!(
            "Instructions for special tasks. Before you work on such a task, load them with \
             `{LOAD}`; their tools are then offered as well:"
        );
        for entry in self.0.iter() {
            text.push_str(&format!("\n- {}: {}", entry.id, entry.summary));
        }
        text
    }

    /// The tool that loads an entry.
    fn load_tool(&self) -> DynTool {
        let mut spec = ToolSpec::new(LOAD, "Loads instructions of the catalogue, and their tools.")
            .read_only()
            // It changes what the calls after it mean, so none of them starts before it ends.
            .class(ConcurrencyClass::WriteExclusive)
            .effects(Effects::none())
            .capabilities(Capabilities::NONE)
            .exposure(Exposure::Always)
            .max_result(ResultLimit::Unbounded);
        spec.permission = Permission::None;
        spec.open_world = Some(false);
        // The host wrote the text.
        spec.label = Label::CLEAN;
        let ids: Vec<&str> = self.0.iter().map(|entry| entry.id.as_str()).collect();
        let schema = json!({
            "type": "object",
            "properties": {"id": {"enum": ids, "description": "Id in the catalogue."}},
            "required": ["id"],
        });
        let set = self.clone();
        DynTool::new(spec, schema, move |arguments: Arc<Value>, cx: ToolContext| {
            let loaded = set.load(arguments["id"].as_str().unwrap_or_default(), &cx);
            async move { loaded }
        })
    }

    fn load(&self, id: &str, cx: &ToolContext) -> Result<String, Failure> {
        let Some(entry) = self.0.iter().find(|entry| entry.id == id) else {
            return Err(Failure::invalid(format!("there are no instructions `{id}`"))
                .with_next("load an entry of the catalogue"));
        };
        let scope = cx.scope();
        if add_loaded(&scope.shared, id) {
            scope.shared.insert(CHANGED, scope.cycle);
        }
        let names: Vec<&str> = entry.tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        Ok(match names.is_empty() {
            true => entry.text.clone(),
            false => format!(
                "{}\n\n[from your next message on you can call: {}]",
                entry.text,
                names.join(", ")
            ),
        })
    }
}

/// Adds an id to what a run has loaded. Returns whether it is new.
fn add_loaded(shared: &SharedMap, id: &str) -> bool {
    let mut is_new = false;
    shared.update(LOADED, |old| {
        let mut ids = match old {
            Some(Value::Array(ids)) => ids,
            _ => Vec::new(),
        };
        is_new = !ids.iter().any(|own| own == id);
        if is_new {
            ids.push(json!(id));
        }
        Some(Value::Array(ids))
    });
    is_new
}

/// Whether the run of a scope has loaded an entry.
fn is_loaded(scope: &Scope, id: &str) -> bool {
    let loaded = scope.shared.get(LOADED);
    loaded.is_some_and(|ids| ids.as_array().is_some_and(|ids| ids.iter().any(|own| own == id)))
}

/// Returns the ids that a run has loaded, in that order.
pub(crate) fn loaded_ids(shared: &SharedMap) -> Vec<String> {
    let ids = shared.get(LOADED);
    let ids = ids.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    ids.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Restores what a saved run has loaded.
pub(crate) fn restore(shared: &SharedMap, ids: &[String]) {
    for id in ids {
        add_loaded(shared, id);
    }
}

impl IntoTools for InstructionSet {
    fn into_tools(self) -> Vec<DynTool> {
        let load = self.load_tool();
        self.0.iter().flat_map(|entry| entry.tools.clone()).chain([load]).collect()
    }
}

impl Hook for InstructionSet {
    fn name(&self) -> &str {
        "instructions"
    }

    fn before_batch<'a>(
        &'a self,
        calls: &'a [&'a ValidatedCall],
    ) -> BoxFuture<'a, Result<Vec<HookAnswer>, Failure>> {
        Box::pin(async move {
            let Some(first) = calls.first() else { return Ok(Vec::new()) };
            let scope = first.context().scope();
            // Set when something was loaded: a denied or a repeated load changes nothing.
            if scope.shared.get(CHANGED) != Some(json!(scope.cycle)) {
                return Ok(Vec::new());
            }
            let is_load = |call: &&&ValidatedCall| *call.tool().registered() == LOAD;
            let others = calls.iter().filter(|call| !is_load(call));
            let answer = |call: &&ValidatedCall| {
                let failure = Failure::new(
                    FailureCode::NotRun,
                    "the instructions changed with another call of this message, so this call was \
                     not run",
                )
                .with_next("read the instructions, and call the tool again if it is still right");
                HookAnswer::new(call.context().call_id().clone(), Err(failure))
            };
            Ok(others.map(answer).collect())
        })
    }
}
