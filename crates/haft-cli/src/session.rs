//! Runs calls for a command: threads and approvers.
//!
//! A person is asked, for approval or by `ask_user`, only if stdin and stderr are a terminal.
//! `--yes` is an approver like any other, so it cannot override a deny.
//! FAIL CLOSED: without a terminal and without `--yes`, approvals are denied.

use std::{
    fmt,
    io::{self, IsTerminal as _, Read},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use haft::{
    BoxFuture, Dialect, Failure, FailureCode, RuntimeBuilder, ToolCall, ToolContext, ToolResult,
    Turn,
    agent::DeferredApprovals,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    turn::{StopReason, TurnHandle, TurnOutput},
};
use haft_hooks::Hooks;
#[cfg(feature = "mcp")]
use haft_mcp::server::CallPeer;
use haft_tools::{AskHandler, AskUser, UserQuestion};
use tokio::sync::mpsc;

#[cfg(feature = "mcp")]
use crate::client_question;
use crate::{
    audit,
    decisions::RecordingApprover,
    error::Problem,
    keyboard::Keyboard,
    prompt::Prompt,
    screen,
    setup::Setup,
    signals::Signals,
    yes_approver::{ProtectedFilesApprover, YesApprover},
};

/// The name of every thread that may run a tool's code.
pub(crate) use haft::host::THREAD_NAME as THREAD;

/// The exit code after Ctrl-C, SIGTERM or SIGHUP.
pub(crate) const CANCELLED: u8 = 130;

/// Threads that run async work.
const WORKERS: usize = 2;

/// How many file descriptors the async runtime needs to start, with a margin.
const RUNTIME_FILES: usize = 8;

/// Starts and ends the minimum number of threads. Without them the async runtime panics or hangs.
fn check_threads() -> io::Result<()> {
    let gate = std::sync::Mutex::new(());
    std::thread::scope(|scope| {
        // No code panics while the lock is held, so the lock is never poisoned.
        let held = gate.lock();
        let started = (0..WORKERS + 2).try_for_each(|_| {
            std::thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())).map(drop)
        });
        drop(held);
        started
    })
}

/// Opens and closes the minimum number of file descriptors. Without them the async runtime panics.
fn check_open_files() -> io::Result<()> {
    let files: io::Result<Vec<_>> =
        (0..RUNTIME_FILES).map(|_| std::fs::File::open("/dev/null")).collect();
    files.map(drop)
}

/// Runs a future on a new async runtime and waits for it. Tool bodies that cannot be cancelled end
/// with the process.
pub(crate) fn block_on<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    check_threads().map_err(|e| {
        Problem::new(format!("cannot start more threads: {e}"))
            .hint("raise the limit on processes and threads (`ulimit -u`), or close other programs")
    })?;
    check_open_files().map_err(|e| {
        Problem::new(format!("cannot open more files: {e}"))
            .hint("raise the limit on open files (`ulimit -n`)")
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name(THREAD)
        .enable_all()
        .build()
        .map_err(|e| {
            Problem::new(format!("cannot start threads: {e}"))
                .hint("raise the limit on open files (`ulimit -n`)")
        })?;
    let done = runtime.block_on(runtime.spawn(work));
    runtime.shutdown_background();
    done.map_err(|_| Problem::new("internal error; please report this bug"))
}

/// Runs the calls of a turn. A signal cancels all of them; a second signal exits at once.
pub(crate) async fn run(
    turn: Turn,
    calls: Vec<ToolCall>,
    stop: StopReason,
) -> (Vec<ToolResult>, bool) {
    let control = turn.handle();
    finish(turn.run_with_stop_reason(calls, stop), &control, Signals::listen(), false).await
}

/// Runs the calls of a streamed response while it arrives. A signal ends the stream.
pub(crate) async fn run_stream(
    turn: Turn,
    dialect: Dialect,
    body: Box<dyn Read + Send>,
) -> (TurnOutput, bool) {
    let control = turn.handle();
    let mut listening = turn.stream(dialect);
    let mut chunks = chunks(body);
    let mut is_interrupted = false;
    let mut signals = Signals::listen();
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => {
                is_interrupted = true;
                interrupt(&control);
                break;
            }
            chunk = chunks.recv() => match chunk {
                Some(Ok(chunk)) => listening.feed(&chunk),
                // The part that arrived is handled as a truncated stream.
                Some(Err(e)) => {
                    let problem = Problem::new(format!("cannot read the rest of the stream: {e}"));
                    problem.warn();
                    break;
                }
                None => break,
            },
        }
    }
    finish(listening.finish(), &control, signals, is_interrupted).await
}

/// Reads a body on its own thread. The channel is bounded, so a slow consumer causes backpressure.
fn chunks(mut body: Box<dyn Read + Send>) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let chunk = match body.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => Ok(buffer[..length].to_vec()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            let is_over = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

/// Waits for the end of a turn or for signals.
async fn finish<T>(
    end: impl Future<Output = T>,
    control: &TurnHandle,
    mut signals: Signals,
    mut is_interrupted: bool,
) -> (T, bool) {
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => {
                if is_interrupted {
                    screen::leave();
                    std::process::exit(CANCELLED.into());
                }
                is_interrupted = true;
                interrupt(control);
            }
            end = &mut end => return (end, is_interrupted),
        }
    }
}

fn interrupt(control: &TurnHandle) {
    // Before any write: a blocked terminal must not keep the calls running.
    control.abort();
    if io::stderr().is_terminal() {
        screen::end_echo(); // after the terminal's own `^C`
    }
}

/// The exit code of a command whose calls have results.
pub(crate) fn exit(is_interrupted: bool) -> ExitCode {
    if is_interrupted { ExitCode::from(CANCELLED) } else { ExitCode::SUCCESS }
}

/// The person at the terminal, if there is a terminal.
#[derive(Clone, Default)]
pub(crate) struct Person {
    prompt: Option<Arc<Prompt<Keyboard, anstream::Stderr>>>,
    /// Whether `--yes` approves every call in advance.
    pub(crate) approves_all: bool,
    /// How long a question waits, so that what happened before it is on the screen first.
    delay: Duration,
}

/// How long the progress of a run needs to reach the screen.
const PROGRESS_DELAY: Duration = Duration::from_millis(80);

impl Person {
    /// Detects the terminal.
    pub(crate) fn at_terminal(setup: &Setup, approves_all: bool) -> Self {
        let is_there = io::stdin().is_terminal() && io::stderr().is_terminal();
        let prompt = || {
            Prompt::new(Keyboard::default(), anstream::stderr(), setup.here())
                .with_columns(screen::columns)
        };
        let prompt = is_there.then(|| Arc::new(prompt()));
        Self { prompt, approves_all, delay: Duration::ZERO }
    }

    /// Lets the progress of a run reach the screen before a question.
    pub(crate) fn after_progress(mut self) -> Self {
        self.delay = PROGRESS_DELAY;
        self
    }

    /// Whether there is a terminal.
    pub(crate) fn is_there(&self) -> bool {
        self.prompt.is_some()
    }

    /// Reads a message of the person; `None` at the end of the input, or without a terminal.
    pub(crate) async fn message(&self) -> Result<Option<String>, Failure> {
        match &self.prompt {
            Some(prompt) => prompt.message().await,
            None => Ok(None),
        }
    }

    /// Asks a question under a heading that says who asks.
    #[cfg(feature = "mcp")]
    pub(crate) async fn ask_under(
        &self,
        heading: &str,
        question: &str,
        choices: &[String],
    ) -> Result<String, Failure> {
        match &self.prompt {
            Some(prompt) => {
                tokio::time::sleep(self.delay).await;
                prompt.ask_under(heading, question, choices).await
            }
            None => Err(Failure::new(FailureCode::NeedsInteraction, "there is no terminal")),
        }
    }

    /// The tool with which a model asks the person.
    pub(crate) fn ask_user(&self) -> AskUser {
        AskUser::new(self.clone())
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.prompt.is_some() { "Person at a terminal" } else { "No person" })
    }
}

impl AskHandler for Person {
    #[cfg(feature = "mcp")]
    fn is_asked_by_approver(&self, cx: &ToolContext) -> bool {
        CallPeer::of(cx).is_some()
    }

    fn ask<'a>(
        &'a self,
        question: &'a UserQuestion,
        #[cfg_attr(
            not(feature = "mcp"),
            expect(unused_variables, reason = "the client of a call")
        )]
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<String, Failure>> {
        #[cfg(feature = "mcp")]
        if let Some(peer) = CallPeer::of(cx) {
            return Box::pin(client_question::ask(peer, question));
        }
        Box::pin(async move {
            match &self.prompt {
                Some(prompt) => {
                    tokio::time::sleep(self.delay).await;
                    prompt.ask_text(question).await
                }
                None => Err(Failure::new(
                    FailureCode::NeedsInteraction,
                    "`ask_user` needs a person at a terminal, and there is no terminal",
                )
                .with_next("continue without an answer, or put the question into your reply")),
            }
        })
    }
}

impl Approver for Person {
    fn name(&self) -> &str {
        self.prompt.as_ref().map_or("no person", |prompt| prompt.name())
    }

    fn closed(&self, question: &ApprovalRequest<'_>, by: &str) {
        if let Some(prompt) = &self.prompt {
            prompt.closed(question, by);
        }
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        match &self.prompt {
            Some(prompt) => Box::pin(async {
                tokio::time::sleep(self.delay).await;
                Approver::ask(&**prompt, question).await
            }),
            // FAIL CLOSED: no person, no approval.
            None => Box::pin(async { Ok(ApprovalResponse::Deny(None)) }),
        }
    }
}

/// Adds the hooks, and the approver: `--yes`, the person at the terminal, or none.
pub(crate) fn add_approver(
    runtime: RuntimeBuilder,
    setup: &Setup,
    person: Person,
    decisions: Option<&Path>,
) -> Result<RuntimeBuilder, Problem> {
    let (runtime, hooks) = (audit::add(runtime, setup)?, setup.hooks()?);
    if person.approves_all {
        Ok(add_hooks_and_approver(runtime, hooks, YesApprover, decisions)?
            .approver(ProtectedFilesApprover))
    } else if person.prompt.is_some() {
        add_hooks_and_approver(runtime, hooks, person, decisions)
    } else {
        // There is no decision to record, but an unwritable file is still an error.
        decisions.map(|path| RecordingApprover::new(YesApprover, path)).transpose()?;
        Ok(hooks.add_to(runtime))
    }
}

/// Adds the hooks, and an approver whose answers come later.
pub(crate) fn defer_approvals(
    runtime: RuntimeBuilder,
    setup: &Setup,
    approvals: DeferredApprovals,
    decisions: Option<&Path>,
) -> Result<RuntimeBuilder, Problem> {
    // There is no decision to record, but an unwritable file is still an error.
    decisions.map(|path| RecordingApprover::new(YesApprover, path)).transpose()?;
    Ok(setup.hooks()?.add_with(audit::add(runtime, setup)?, approvals))
}

fn add_hooks_and_approver(
    runtime: RuntimeBuilder,
    hooks: Hooks,
    approver: impl Approver,
    decisions: Option<&Path>,
) -> Result<RuntimeBuilder, Problem> {
    Ok(match decisions {
        Some(path) => hooks.add_with(runtime, RecordingApprover::new(approver, path)?),
        None => hooks.add_with(runtime, approver),
    })
}
