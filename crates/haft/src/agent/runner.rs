//! Starts, continues and resumes runs of agents.

use std::{collections::HashMap, fmt, sync::Arc, time::Instant};

use haft_core::{CallId, Error, ErrorKind, RunId};

use super::{
    approvals::DeferredApprovals,
    control::RunHandle,
    conversation::Conversation,
    definition::Agent,
    event::EventSink,
    result::{ApprovalQuestion, RunResult, RunUsage},
    run_loop::Loop,
    run_stream::RunStream,
    saved::{RunStore, SavedRun},
    script::Recorder,
};
use crate::{
    approval::ApprovalResponse,
    budget::Budget,
    host_code::{NO_TOKIO_RUNTIME, in_tokio_runtime},
    run::RunBuilder,
    runtime::Runtime,
};

/// Sets up the run of the runtime that an agent works in: its session, user and working directory.
type Setup = Arc<dyn Fn(RunBuilder) -> RunBuilder + Send + Sync>;

/// Runs agents on a runtime. Clones share everything.
///
/// ```
/// use haft::agent::{Agent, RunStatus, Runner, ScriptedModel};
/// use haft::Runtime;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), haft::Error> {
/// let model = ScriptedModel::parse(r#"{"text": "Hello."}"#)?;
/// let runner = Runner::new(Runtime::builder().build()?);
/// let result = runner.run(&Agent::new("greeter", model), "Say hello.").await?;
/// assert_eq!((result.state, result.text.as_str()), (RunStatus::Completed, "Hello."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runner {
    runtime: Runtime,
    deferred: Option<DeferredApprovals>,
    store: Option<Arc<dyn RunStore>>,
    setup: Option<Setup>,
    recorder: Option<Recorder>,
}

impl Runner {
    /// Makes a runner.
    #[must_use]
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, deferred: None, store: None, setup: None, recorder: None }
    }

    /// Ends a run as waiting where a call needs an approval, instead of waiting for the answer. The
    /// same approver must have been added to the runtime.
    #[must_use]
    pub fn deferred_approvals(mut self, approvals: DeferredApprovals) -> Self {
        self.deferred = Some(approvals);
        self
    }

    /// Stores the state of each run after every turn, and at its end.
    #[must_use]
    pub fn store(mut self, store: impl RunStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Configures every run before it starts: its id, session, user, working directory.
    #[must_use]
    pub fn configure_run(
        mut self,
        setup: impl Fn(RunBuilder) -> RunBuilder + Send + Sync + 'static,
    ) -> Self {
        self.setup = Some(Arc::new(setup));
        self
    }

    /// Records the messages of the model as a script, secrets redacted.
    #[must_use]
    pub fn record(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Returns the runtime.
    #[must_use]
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Runs an agent on a message until it has answered, or cannot go on. Dropping the future
    /// cancels the run.
    ///
    /// # Errors
    /// Fails if the run cannot start: outside of a tokio runtime, or if a money limit is set and
    /// the price of the model is unknown. Everything later is in the result.
    pub async fn run(&self, agent: &Agent, message: &str) -> Result<RunResult, Error> {
        self.chat(agent)?.send(message).await
    }

    /// Does the same on a thread of the caller that is not part of a tokio runtime.
    ///
    /// # Errors
    /// Fails if the run cannot start, and inside of a tokio runtime.
    pub fn run_blocking(&self, agent: &Agent, message: &str) -> Result<RunResult, Error> {
        if in_tokio_runtime() {
            let why = "`run_blocking` would block a thread of the tokio runtime that it runs on";
            return Err(Error::new(ErrorKind::BadConfig, why).hint("use `run` and await it"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| {
            let why = format!("no tokio runtime could be started: {error}");
            Error::new(ErrorKind::BadConfig, why).because(error)
        })?;
        runtime.block_on(self.run(agent, message))
    }

    /// Runs an agent and streams what happens.
    ///
    /// # Errors
    /// Fails if the run cannot start.
    pub fn run_stream<'a>(
        &'a self,
        agent: &'a Agent,
        message: &str,
    ) -> Result<RunStream<'a>, Error> {
        let mut chat = self.chat(agent)?;
        chat.conversation.add_user(message);
        chat.into_stream()
    }

    /// Starts a conversation of several messages. It is one run: what it has read, its approvals
    /// for a session and its limits last until it is dropped.
    ///
    /// # Errors
    /// Fails if the run cannot start.
    pub fn chat<'a>(&'a self, agent: &'a Agent) -> Result<Chat<'a>, Error> {
        let builder = self.builder(agent, agent.limits.clone())?;
        let run = builder.start();
        self.open_deferred(&run, HashMap::new());
        let conversation = Conversation::new(run, self.now());
        Ok(Chat { runner: self, agent, conversation, handle: RunHandle::default() })
    }

    /// Continues a saved run, here or in another process. Calls that wait are validated and
    /// authorized again; an answer counts for the call with its id. A call without an answer that
    /// still needs one makes the run wait again.
    ///
    /// # Errors
    /// Fails if the run cannot start, or belongs to another agent.
    pub async fn resume(
        &self,
        agent: &Agent,
        saved: SavedRun,
        answers: impl IntoIterator<Item = (CallId, ApprovalResponse)>,
    ) -> Result<RunResult, Error> {
        let mut chat = self.reopen(agent, saved, answers)?;
        chat.go_on(chat.handle(), EventSink::default()).await
    }

    /// Continues a saved run and streams what happens.
    ///
    /// # Errors
    /// Fails if the run cannot start, or belongs to another agent.
    pub fn resume_stream<'a>(
        &'a self,
        agent: &'a Agent,
        saved: SavedRun,
        answers: impl IntoIterator<Item = (CallId, ApprovalResponse)>,
    ) -> Result<RunStream<'a>, Error> {
        self.reopen(agent, saved, answers)?.into_stream()
    }

    /// Makes a conversation of a saved run, so that it can be continued with further messages.
    ///
    /// # Errors
    /// Fails if the run cannot start, or belongs to another agent.
    pub fn reopen<'a>(
        &'a self,
        agent: &'a Agent,
        saved: SavedRun,
        answers: impl IntoIterator<Item = (CallId, ApprovalResponse)>,
    ) -> Result<Chat<'a>, Error> {
        if saved.agent != agent.name {
            let why = format!("the run belongs to the agent `{}`", saved.agent);
            return Err(Error::new(ErrorKind::BadConfig, why)
                .hint(format!("`{}` cannot continue it", agent.name)));
        }
        let limits = what_is_left(agent.limits.clone(), &saved.usage, saved.open.is_some());
        let run = self.builder(agent, limits)?.id(saved.run.clone()).start();
        self.open_deferred(&run, answers.into_iter().collect());
        let conversation = Conversation::restore(run, saved, self.now());
        Ok(Chat { runner: self, agent, conversation, handle: RunHandle::default() })
    }

    fn builder(&self, agent: &Agent, limits: Budget) -> Result<RunBuilder, Error> {
        if !in_tokio_runtime() {
            return Err(Error::new(ErrorKind::BadConfig, NO_TOKIO_RUNTIME));
        }
        let builder = self.runtime.run_builder().agent(agent.name.clone());
        let builder = builder.view(agent.tools.clone());
        let builder = match &self.setup {
            Some(setup) => setup(builder),
            None => builder,
        };
        Ok(builder.budget(limits))
    }

    fn open_deferred(&self, run: &crate::Run, answers: HashMap<CallId, ApprovalResponse>) {
        if let Some(deferred) = &self.deferred {
            deferred.open(run, answers);
        }
    }

    pub(super) fn deferred(&self) -> Option<&DeferredApprovals> {
        self.deferred.as_ref()
    }

    pub(super) fn close_deferred(&self, run: &RunId) {
        if let Some(deferred) = &self.deferred {
            deferred.close(run);
        }
    }

    pub(super) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Returns the store of runs.
    pub(super) fn saved_runs(&self) -> Option<&dyn RunStore> {
        self.store.as_deref()
    }

    pub(super) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// Redacts secrets from a text that is shown.
    pub(super) fn redact(&self, text: &str) -> String {
        self.runtime.redactor().text(text).into_owned()
    }

    pub(super) fn redact_question(&self, mut question: ApprovalQuestion) -> ApprovalQuestion {
        question.reason = self.redact(&question.reason);
        if let Some(shown) = self.runtime.redactor().json(&question.arguments) {
            question.arguments = shown;
        }
        question
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

/// A conversation with an agent. Made by [`Runner::chat`] and [`Runner::reopen`].
pub struct Chat<'a> {
    runner: &'a Runner,
    agent: &'a Agent,
    conversation: Conversation,
    handle: RunHandle,
}

impl<'a> Chat<'a> {
    /// Sends a message and waits for the answer.
    ///
    /// # Errors
    /// Fails if the run cannot start; everything later is in the result.
    pub async fn send(&mut self, message: &str) -> Result<RunResult, Error> {
        self.add_message(message)?;
        let handle = self.renew_handle();
        self.go_on(handle, EventSink::default()).await
    }

    /// Sends a message and streams what happens. The chat goes on when the stream is dropped.
    ///
    /// # Errors
    /// Fails if the run cannot start.
    pub fn send_stream<'c>(&'c mut self, message: &str) -> Result<RunStream<'c>, Error> {
        self.add_message(message)?;
        let (run, handle) = (self.conversation.id().clone(), self.renew_handle());
        let calls = self.runner.runtime.events(MAX_BUFFERED_EVENTS);
        let events = EventSink::open(run.clone(), calls);
        let (sink, control) = (events.clone(), handle.clone());
        let work = Box::pin(async move { self.go_on(control, sink).await });
        Ok(RunStream::new(run, work, events, handle))
    }

    /// Streams what happens until the run ends, and then ends the conversation.
    fn into_stream(mut self) -> Result<RunStream<'a>, Error> {
        let (run, handle) = (self.conversation.id().clone(), self.handle.clone());
        let calls = self.runner.runtime.events(MAX_BUFFERED_EVENTS);
        let events = EventSink::open(run.clone(), calls);
        let (sink, control) = (events.clone(), handle.clone());
        let work = Box::pin(async move { self.go_on(control, sink).await });
        Ok(RunStream::new(run, work, events, handle))
    }

    /// Returns a handle that reaches into the message that is being worked on.
    #[must_use]
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// Returns the id of the run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        self.conversation.id()
    }

    /// Returns the joined taint label of everything the run has read so far.
    #[must_use]
    pub fn label(&self) -> haft_core::Label {
        self.conversation.run.label()
    }

    /// Returns the conversation so far.
    #[must_use]
    pub fn history(&self) -> &haft_dialect::history::Transcript {
        &self.conversation.history
    }

    /// Adds a message of the user, after the calls that still wait.
    fn add_message(&mut self, message: &str) -> Result<(), Error> {
        if self.conversation.open.is_none() {
            self.conversation.add_user(message);
            return Ok(());
        }
        if self.conversation.run.halted().is_some() {
            let why = "the run waits for an approval, so it takes no further message";
            return Err(Error::new(ErrorKind::BadConfig, why)
                .hint("continue it from `RunResult::saved` with `Runner::reopen`"));
        }
        self.renew_handle().steer(message);
        Ok(())
    }

    /// An interrupt is about one message; the next one starts without it.
    fn renew_handle(&mut self) -> RunHandle {
        if self.handle.stop().is_some() {
            self.handle = RunHandle::default();
        }
        self.handle.clone()
    }

    /// Adds a note of the host.
    pub(super) fn add_note(&mut self, note: &str) {
        self.conversation.add_host_text(&format!("[note from the host: {note}]"));
    }

    /// Goes on until there is an answer that should match a schema.
    pub(super) async fn ask_typed(
        &mut self,
        message: Option<&str>,
        schema: &serde_json::Value,
        events: EventSink,
    ) -> Result<RunResult, Error> {
        if let Some(message) = message {
            self.conversation.add_user(message);
        }
        let handle = self.renew_handle();
        let work = Loop::new(self.runner, self.agent, handle, events)?.with_output(schema);
        Ok(work.drive(&mut self.conversation).await)
    }

    /// Goes on until there is an answer. A handle that is stopped already stops it at once.
    async fn go_on(&mut self, handle: RunHandle, events: EventSink) -> Result<RunResult, Error> {
        let work = Loop::new(self.runner, self.agent, handle, events)?;
        Ok(work.drive(&mut self.conversation).await)
    }
}

impl Drop for Chat<'_> {
    fn drop(&mut self) {
        self.runner.close_deferred(self.conversation.id());
    }
}

impl fmt::Debug for Chat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chat").field("run", self.run()).finish_non_exhaustive()
    }
}

/// How many events of the runtime a stream buffers.
const MAX_BUFFERED_EVENTS: usize = 1_024;

/// The limits of a run without what it has already used.
fn what_is_left(mut limits: Budget, used: &RunUsage, is_open: bool) -> Budget {
    // The turn of the open calls is counted already, and begins again.
    let turns = used.turns.saturating_sub(u32::from(is_open));
    limits.cycles = limits.cycles.map(|all| all.saturating_sub(turns));
    limits.calls = limits.calls.map(|all| all.saturating_sub(used.calls));
    limits.wall = limits.wall.map(|all| all.saturating_sub(used.elapsed));
    limits.tokens = limits.tokens.map(|all| all.saturating_sub(used.tokens.total()));
    limits.micros = limits.micros.map(|all| all.saturating_sub(used.micros));
    limits
}
