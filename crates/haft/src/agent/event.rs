//! What happens in a run, as it happens, for a terminal, a log or another program.
//!
//! Events of the loop and of the runtime's calls come in one order. They are built only if they are
//! read.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use futures_util::Stream as _;
use haft_core::{CallId, RunId, ToolName, sync::lock};
use serde::Serialize;

use super::{
    model::Usage,
    result::{CallSummary, EndReason, PendingCall, RunStatus, RunUsage},
};
use crate::event::{EventRecord, EventStream, StreamItem};

/// Something that happened in a run of an agent.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The run begins, or goes on with another message or after an approval.
    RunStarted {
        /// The run.
        run: RunId,
        /// The agent.
        agent: String,
        /// The model.
        model: String,
    },
    /// The model is asked for its next message.
    ModelCalled {
        /// Which message of the model, from 1.
        turn: u32,
        /// How many tools it is offered.
        tools: usize,
        /// How many tokens the request has, estimated.
        input_tokens: u64,
        /// How many tokens the response may have.
        max_tokens: u64,
    },
    /// The model wrote more text.
    Text {
        /// The text.
        text: String,
    },
    /// The model began to write a call.
    CallStarted {
        /// The call.
        call: CallId,
        /// The name the model wrote.
        tool: ToolName,
    },
    /// The model wrote more of the arguments of a call.
    Arguments {
        /// The call.
        call: CallId,
        /// The next part of the JSON text.
        text: String,
    },
    /// A call is complete and was accepted. From here on the runtime's events are about it.
    CallRequested {
        /// The call.
        call: CallId,
        /// The name the model wrote.
        tool: ToolName,
    },
    /// An event of the runtime about a call of this run: started, asked, running, progress,
    /// finished.
    Call(Arc<EventRecord>),
    /// The model's message has ended.
    ModelFinished {
        /// Which message of the model, from 1.
        turn: u32,
        /// Its tokens.
        usage: Usage,
        /// What the run has used so far.
        total: RunUsage,
    },
    /// A call has its result, and the model will read it.
    CallFinished {
        /// The call.
        #[serde(flatten)]
        summary: CallSummary,
        /// What the tool returned, or why it failed, for people.
        text: String,
    },
    /// A message of the user was added to the conversation while the run was at work.
    MessageAdded {
        /// The message.
        text: String,
    },
    /// Old results were replaced by references, because the conversation was too long.
    ContextShrunk {
        /// How many results.
        results: usize,
        /// The estimated tokens before.
        from_tokens: u64,
        /// The estimated tokens after.
        to_tokens: u64,
    },
    /// Something that the operator should know, such as a limit that a provider overshot.
    Warning {
        /// What.
        message: String,
    },
    /// Some events of the runtime are missing here, because the reader was too slow.
    Lagged {
        /// How many.
        count: u64,
    },
    /// The run has ended, or waits. Always the last event.
    RunFinished {
        /// The run.
        run: RunId,
        /// Its state.
        state: RunStatus,
        /// Why it ended.
        reason: EndReason,
        /// The final text.
        text: String,
        /// What it used.
        usage: RunUsage,
        /// The calls that wait for an approval.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending: Vec<PendingCall>,
    },
}

/// Where the loop puts its events; nothing is built without a reader.
#[derive(Clone, Default)]
pub(super) struct EventSink(Option<Arc<Mutex<Merged>>>);

/// The events of the loop, and those of the runtime about its calls, in one order.
struct Merged {
    run: RunId,
    queue: VecDeque<AgentEvent>,
    calls: EventStream,
}

impl EventSink {
    /// Makes a sink that is read.
    pub(super) fn open(run: RunId, calls: EventStream) -> Self {
        Self(Some(Arc::new(Mutex::new(Merged { run, queue: VecDeque::new(), calls }))))
    }

    /// Returns whether events are read.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn emit(&self, event: impl FnOnce() -> AgentEvent) {
        if let Some(merged) = &self.0 {
            let event = event();
            let mut merged = lock(merged);
            // What the runtime did before comes before.
            merged.collect();
            merged.queue.push_back(event);
        }
    }

    /// Lets the reader have what has happened, so that it can react before the run goes on. A model
    /// that never waits would otherwise finish the run before the first event is read.
    pub(super) async fn pause(&self) {
        if self.is_open() {
            tokio::task::yield_now().await;
        }
    }

    /// Takes the oldest event, or waits for one of the runtime's.
    pub(super) fn poll_next(&self, task: &mut Context<'_>) -> Poll<AgentEvent> {
        let Some(merged) = &self.0 else { return Poll::Pending };
        let mut merged = lock(merged);
        loop {
            if let Some(event) = merged.queue.pop_front() {
                return Poll::Ready(event);
            }
            match Pin::new(&mut merged.calls).poll_next(task) {
                Poll::Ready(Some(item)) => merged.keep(item),
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes the oldest event.
    pub(super) fn take(&self) -> Option<AgentEvent> {
        let mut merged = lock(self.0.as_ref()?);
        merged.collect();
        merged.queue.pop_front()
    }
}

impl Merged {
    fn collect(&mut self) {
        while let Some(item) = self.calls.try_next() {
            self.keep(item);
        }
    }

    /// Keeps an event of the runtime, if it is about this run or one of its sub-runs.
    fn keep(&mut self, item: StreamItem) {
        let event = match item {
            StreamItem::Event(record) => {
                let rest = record.at.run().as_str().strip_prefix(self.run.as_str());
                if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
                    return;
                }
                AgentEvent::Call(record)
            }
            StreamItem::Lagged(gap) => AgentEvent::Lagged { count: gap.count },
        };
        self.queue.push_back(event);
    }
}
