//! A run whose events are read while it works.
//!
//! The reader drives the run: `next` polls it until there is an event. Events of the runtime about
//! calls of the run and its sub-runs are merged in.

use std::{fmt, future::poll_fn};

use haft_core::{BoxFuture, Error, RunId};

use super::{
    control::RunHandle,
    event::{AgentEvent, EventSink},
    result::RunResult,
};

/// A run whose events are read while it works. Dropping it cancels the run.
///
/// ```
/// use haft::agent::{Agent, AgentEvent, Runner, ScriptedModel};
/// use haft::Runtime;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), haft::Error> {
/// let runner = Runner::new(Runtime::builder().build()?);
/// let agent = Agent::new("greeter", ScriptedModel::parse(r#"{"text": "Hello."}"#)?);
/// let mut stream = runner.run_stream(&agent, "Say hello.")?;
/// let mut text = String::new();
/// while let Some(event) = stream.next().await {
///     if let AgentEvent::Text { text: more } = event {
///         text.push_str(&more);
///     }
/// }
/// assert_eq!(stream.finish().await?.text, text);
/// # Ok(())
/// # }
/// ```
#[must_use = "the run makes progress only while it is read"]
pub struct RunStream<'a> {
    run: RunId,
    work: Option<BoxFuture<'a, Result<RunResult, Error>>>,
    done: Option<Result<RunResult, Error>>,
    events: EventSink,
    handle: RunHandle,
    is_ended: bool,
}

impl<'a> RunStream<'a> {
    pub(super) fn new(
        run: RunId,
        work: BoxFuture<'a, Result<RunResult, Error>>,
        events: EventSink,
        handle: RunHandle,
    ) -> Self {
        Self { run, work: Some(work), done: None, events, handle, is_ended: false }
    }

    /// Returns the id of the run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns a handle that reaches into the run: messages, interrupts, cancellation.
    #[must_use]
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// Works until there is an event; `None` after the last one.
    pub async fn next(&mut self) -> Option<AgentEvent> {
        loop {
            if let Some(event) = self.events.take() {
                return Some(event);
            }
            let Some(work) = &mut self.work else { return self.last_event() };
            let events = &self.events;
            tokio::select! {
                biased;
                done = work => {
                    self.done = Some(done);
                    self.work = None;
                }
                event = poll_fn(|task| events.poll_next(task)) => return Some(event),
            }
        }
    }

    /// Works until the run ends, without its events, and returns the result.
    ///
    /// # Errors
    /// Fails if the run could not start.
    pub async fn finish(mut self) -> Result<RunResult, Error> {
        if let Some(work) = self.work.take() {
            self.done = Some(work.await);
        }
        match self.done.take() {
            Some(done) => done,
            None => Err(Error::new(haft_core::ErrorKind::BadConfig, "the run has no result")),
        }
    }

    fn last_event(&mut self) -> Option<AgentEvent> {
        if std::mem::replace(&mut self.is_ended, true) {
            return None;
        }
        let result = self.done.as_ref()?.as_ref().ok()?;
        Some(AgentEvent::RunFinished {
            run: result.run.clone(),
            state: result.state,
            reason: result.reason.clone(),
            text: result.text.clone(),
            usage: result.usage,
            pending: result.pending.clone(),
        })
    }
}

impl fmt::Debug for RunStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").field("run", &self.run).finish_non_exhaustive()
    }
}
