//! What an agent is: a model, instructions, tools, limits, and what to do about failures.

use std::{fmt, sync::Arc, time::Duration};

use haft_core::BoxFuture;
use haft_dialect::{ExportOptions, PromptCacheTtl, history::Transcript};

use super::model::{Model, Price};
use crate::{
    budget::Budget,
    registry::{ToolSnapshot, ToolView},
};

/// An agent: a model with instructions, tools and limits. Clones share the model.
#[derive(Clone)]
#[non_exhaustive]
pub struct Agent {
    /// Its name, for records and saved runs.
    pub name: String,
    /// The model.
    pub model: Arc<dyn Model>,
    /// The system prompt.
    pub instructions: String,
    /// The tools of the runtime that it sees.
    pub tools: ToolView,
    /// The limits of one run. The default is 50 turns, 200 calls and 30 minutes.
    pub limits: Budget,
    /// What happens after a tool has failed.
    pub on_tool_failure: OnToolFailure,
    /// What happens when the conversation is too long for the model.
    pub on_context_limit: OnContextLimit,
    /// How many tokens one message of the model may have.
    pub max_tokens: u64,
    /// The price of the model, if the model does not know it.
    pub price: Option<Price>,
    /// How tools are shown to the model. The default marks them for the provider's prompt cache,
    /// and leaves deferred tools to the provider's tool search where it has one.
    pub export: ExportOptions,
    pub(super) selector: Option<Arc<dyn ToolSelector>>,
}

/// What happens after the body of a tool has failed. Refused and invalid calls are answers that the
/// model can act on, so the run always goes on after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnToolFailure {
    /// The model reads the failure and goes on.
    #[default]
    Continue,
    /// The model reads the failure and answers with what it has; no further call runs. The run is
    /// degraded.
    Degrade,
    /// The run fails.
    Fail,
}

/// What happens when the conversation is too long for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnContextLimit {
    /// The run fails.
    Fail,
    /// The oldest results are stored as artifacts, and the model gets a reference to each. A call
    /// keeps its result, so no pair is broken.
    OffloadResults {
        /// How many of the latest results stay as they are.
        keep: usize,
    },
}

impl Default for OnContextLimit {
    fn default() -> Self {
        Self::OffloadResults { keep: 4 }
    }
}

/// Narrows the tools of one turn. It is asked before each model call.
pub trait ToolSelector: Send + Sync + 'static {
    /// Returns the names of the tools to offer. Names that the snapshot does not have are ignored;
    /// an error or a panic offers nothing.
    fn select<'a>(
        &'a self,
        history: &'a Transcript,
        tools: &'a ToolSnapshot,
    ) -> BoxFuture<'a, Vec<String>>;
}

impl Agent {
    /// Makes an agent without instructions that sees all tools.
    pub fn new(name: impl Into<String>, model: impl Model) -> Self {
        Self {
            name: name.into(),
            model: Arc::new(model),
            instructions: String::new(),
            tools: ToolView::all(),
            limits: default_limits(),
            on_tool_failure: OnToolFailure::default(),
            on_context_limit: OnContextLimit::default(),
            max_tokens: 4_096,
            price: None,
            export: ExportOptions::default().cache(PromptCacheTtl::FiveMinutes),
            selector: None,
        }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = text.into();
        self
    }

    /// Sets the tools that the agent sees.
    #[must_use]
    pub fn tools(mut self, tools: ToolView) -> Self {
        self.tools = tools;
        self
    }

    /// Replaces the limits of a run. A limit that is `None` does not apply.
    #[must_use]
    pub fn limits(mut self, limits: Budget) -> Self {
        self.limits = limits;
        self
    }

    /// Sets what happens after a tool has failed.
    #[must_use]
    pub fn on_tool_failure(mut self, policy: OnToolFailure) -> Self {
        self.on_tool_failure = policy;
        self
    }

    /// Sets what happens when the conversation is too long for the model.
    #[must_use]
    pub fn on_context_limit(mut self, strategy: OnContextLimit) -> Self {
        self.on_context_limit = strategy;
        self
    }

    /// Sets how many tokens one message of the model may have.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.max_tokens = tokens;
        self
    }

    /// Sets the price of the model. It counts instead of the model's own.
    #[must_use]
    pub fn price(mut self, price: Price) -> Self {
        self.price = Some(price);
        self
    }

    /// Sets how tools are shown to the model.
    #[must_use]
    pub fn export(mut self, options: ExportOptions) -> Self {
        self.export = options;
        self
    }

    /// Narrows the tools before each model call.
    #[must_use]
    pub fn selector(mut self, selector: impl ToolSelector) -> Self {
        self.selector = Some(Arc::new(selector));
        self
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .field("on_tool_failure", &self.on_tool_failure)
            .finish_non_exhaustive()
    }
}

/// The limits of an agent that sets none.
fn default_limits() -> Budget {
    Budget {
        cycles: Some(50),
        calls: Some(200),
        wall: Some(Duration::from_secs(30 * 60)),
        ..Budget::default()
    }
}
