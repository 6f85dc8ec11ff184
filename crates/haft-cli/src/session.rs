//! Runs calls for a command: the threads they run on, who is asked, and what a signal does.
//!
//! Somebody is asked only where both ends are a terminal, be it for a permission or because a model
//! wants to know something. `--yes` says yes to a question; it is an approver like any other, so it
//! cannot lift a deny.

use std::{
    fmt,
    io::{self, BufRead as _, IsTerminal as _, Read},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use haft::{
    ApprovalRequest, ApprovalResponse, Approver, BoxFuture, Decision, Dialect, Effects, Failure,
    FailureCode, Operation, RuntimeBuilder, StopReason, ToolCall, ToolResult, Turn, TurnHandle,
    TurnOutput, protected_names::Protected,
};
use haft_hooks::Hooks;
use haft_tools::{AskUser, Asks, UserQuestion};
use tokio::sync::mpsc;

use crate::{
    decisions::Recorded,
    error::Problem,
    prompt::{Keys, Prompt},
    screen,
    setup::Setup,
};

/// The name of every thread that may run a tool's code: the runtime's own, and ours.
pub(crate) use haft::THREAD_NAME as THREAD;

/// What Ctrl-C, SIGTERM and SIGHUP end in.
pub(crate) const CANCELLED: u8 = 130;

/// Threads that run async work.
const WORKERS: usize = 2;

/// Files that the async runtime opens when it starts, and a few more.
const RUNTIME_FILES: usize = 8;

/// Starts as many threads as are needed at least, and ends them. The async runtime panics, or waits
/// for ever, where it cannot have them.
fn check_threads() -> io::Result<()> {
    let gate = std::sync::Mutex::new(());
    std::thread::scope(|scope| {
        // No code panics while the lock is held, so it is never poisoned.
        let held = gate.lock();
        let started = (0..WORKERS + 2).try_for_each(|_| {
            std::thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())).map(drop)
        });
        drop(held);
        started
    })
}

/// Opens as many files as the async runtime needs to start, and closes them. It panics where it cannot
/// have them.
fn check_open_files() -> io::Result<()> {
    let files: io::Result<Vec<_>> =
        (0..RUNTIME_FILES).map(|_| std::fs::File::open("/dev/null")).collect();
    files.map(drop)
}

/// Runs async work on threads of its own, and waits for it. Bodies that cannot be stopped are left
/// behind; the end of the program ends them.
pub(crate) fn work<T: Send + 'static>(
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

/// The signals that ask this command to end. All of them do the same: every call is answered and
/// every process that was started is ended, as far as that can be done.
struct Signals {
    #[cfg(unix)]
    streams: Vec<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Listens from now on. A signal that the caller had ignored, as `nohup` does, stays ignored.
    #[cfg(unix)]
    fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let all = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let heard = all
            .into_iter()
            .filter(|kind| *kind == SignalKind::interrupt() || !is_ignored(kind.as_raw_value()));
        Self { streams: heard.filter_map(|kind| signal(kind).ok()).collect() }
    }

    #[cfg(not(unix))]
    fn listen() -> Self {
        Self {}
    }

    /// Waits for the next one.
    #[cfg(unix)]
    async fn next(&mut self) {
        std::future::poll_fn(|cx| {
            let is_here = self.streams.iter_mut().any(|stream| stream.poll_recv(cx).is_ready());
            if is_here { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether a signal is ignored by this process, as far as the system tells.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(signal - 1).ok().and_then(|at| 1u64.checked_shl(at)).unwrap_or(0);
    mask & bit != 0
}

/// Runs the calls of a turn. A signal stops them all; a second one does not wait for their end.
pub(crate) async fn run(
    turn: Turn,
    calls: Vec<ToolCall>,
    stop: StopReason,
) -> (Vec<ToolResult>, bool) {
    let control = turn.handle();
    finish(turn.run_with_stop_reason(calls, stop), &control, Signals::listen(), false).await
}

/// Runs the calls of a response while it is still coming. A signal ends it where it is.
pub(crate) async fn listen(
    turn: Turn,
    dialect: Dialect,
    body: Box<dyn Read + Send>,
) -> (TurnOutput, bool) {
    let control = turn.handle();
    let mut listening = turn.stream(dialect);
    let mut pieces = pieces(body);
    let mut is_interrupted = false;
    let mut signals = Signals::listen();
    loop {
        tokio::select! {
            biased;
            () = signals.next() => {
                is_interrupted = true;
                interrupt(&control);
                break;
            }
            piece = pieces.recv() => match piece {
                Some(Ok(piece)) => listening.feed(&piece),
                // What came so far is a stream that was cut off, and is answered as such.
                Some(Err(e)) => {
                    let problem = Problem::new(format!("cannot read the rest of the stream: {e}"));
                    let _ = problem.tell();
                    break;
                }
                None => break,
            },
        }
    }
    finish(listening.finish(), &control, signals, is_interrupted).await
}

/// Reads a body on a thread of its own, a few pieces ahead at most.
fn pieces(mut body: Box<dyn Read + Send>) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let piece = match body.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => Ok(buffer[..length].to_vec()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            let is_over = piece.is_err();
            if sender.blocking_send(piece).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

/// Waits for the end of a turn, and for signals meanwhile.
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
            () = signals.next() => {
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
    // Before anything is written: a terminal that is stuck must not keep the calls running.
    control.abort();
    if io::stderr().is_terminal() {
        screen::end_echo(); // after the terminal's own `^C`
    }
}

/// The exit code of a command that answered.
pub(crate) fn exit(is_interrupted: bool) -> ExitCode {
    if is_interrupted { ExitCode::from(CANCELLED) } else { ExitCode::SUCCESS }
}

/// Whoever sits at this terminal; nobody, where there is none.
#[derive(Clone, Default)]
pub(crate) struct Person {
    prompt: Option<Arc<Prompt<Keyboard, anstream::Stderr>>>,
    /// Whether the person has said yes to every question beforehand, with `--yes`.
    pub(crate) says_yes: bool,
}

impl Person {
    /// Finds out who is there.
    pub(crate) fn here(setup: &Setup, says_yes: bool) -> Self {
        let is_there = io::stdin().is_terminal() && io::stderr().is_terminal();
        let prompt = || {
            Prompt::new(Keyboard::default(), anstream::stderr(), setup.here())
                .with_columns(screen::columns)
        };
        Self { prompt: is_there.then(|| Arc::new(prompt())), says_yes }
    }

    /// The way in which a model asks something.
    pub(crate) fn ask_user(&self) -> AskUser {
        AskUser::new(self.clone())
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.prompt.is_some() { "Person at a terminal" } else { "Person nowhere" })
    }
}

impl Asks for Person {
    fn ask<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Result<String, Failure>> {
        Box::pin(async move {
            match &self.prompt {
                Some(prompt) => prompt.ask_words(question).await,
                None => Err(Failure::new(
                    FailureCode::NeedsInteraction,
                    "`ask_user` needs a person at a terminal, and there is no terminal",
                )
                .with_next("go on without it, or say in your answer what you would have asked")),
            }
        })
    }
}

impl Approver for Person {
    fn name(&self) -> &str {
        self.prompt.as_ref().map_or("nobody", |prompt| prompt.name())
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
            Some(prompt) => Approver::ask(&**prompt, question),
            // FAIL CLOSED: nobody says yes.
            None => Box::pin(async { Ok(ApprovalResponse::Deny(None)) }),
        }
    }
}

/// Adds the hooks, and whoever can be asked here; nobody where nobody is there.
pub(crate) fn seat(
    runtime: RuntimeBuilder,
    setup: &Setup,
    person: Person,
    decisions: Option<&Path>,
) -> Result<RuntimeBuilder, Problem> {
    let hooks = setup.hooks()?;
    if person.says_yes {
        Ok(seated(runtime, hooks, Yes, decisions)?.approver(ProtectedNames))
    } else if person.prompt.is_some() {
        seated(runtime, hooks, person, decisions)
    } else {
        // Nobody decides anything; a name that cannot be written to is told all the same.
        decisions.map(|path| Recorded::new(Yes, path)).transpose()?;
        Ok(hooks.add_to(runtime))
    }
}

fn seated(
    runtime: RuntimeBuilder,
    hooks: Hooks,
    approver: impl Approver,
    decisions: Option<&Path>,
) -> Result<RuntimeBuilder, Problem> {
    Ok(match decisions {
        Some(path) => hooks.add_with(runtime, Recorded::new(approver, path)?),
        None => hooks.add_with(runtime, approver),
    })
}

/// Says yes to every question, as `--yes` asks for.
struct Yes;

impl Approver for Yes {
    fn name(&self) -> &str {
        "--yes"
    }

    fn is_person(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        let answer = match &question.verdict.decision {
            Decision::NeedInput(name) => ApprovalResponse::Deny(Some(format!(
                "`{name}` needs a value, and `--yes` cannot give one"
            ))),
            // It was given before the file was named, so it is no answer to this.
            _ if protected_file(question).is_some() => return Box::pin(std::future::pending()),
            _ => ApprovalResponse::allow(),
        };
        Box::pin(async { Ok(answer) })
    }
}

/// Says no where `--yes` does not count: a protected file needs an answer to the question itself.
struct ProtectedNames;

impl Approver for ProtectedNames {
    fn name(&self) -> &str {
        "protected names"
    }

    fn is_person(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        match protected_file(question) {
            Some(why) => Box::pin(async { Ok(ApprovalResponse::Deny(Some(why))) }),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// Says that a call would change a protected file.
fn protected_file(question: &ApprovalRequest<'_>) -> Option<String> {
    let names = Protected::standard();
    let Effects::Declared(effects) = &question.call.profile().effects else { return None };
    effects.iter().filter(|effect| effect.operation == Operation::Write).find_map(|effect| {
        let path = Path::new(effect.target.as_deref()?);
        let reason = names.reason(path)?;
        let here = &question.call.context().scope().working_directory;
        let shown = path.strip_prefix(here).unwrap_or(path).display();
        Some(format!(
            "`{shown}` is protected: {reason}; an approval in advance does not cover protected \
             files. Approve the call at a terminal, or allow the file with the rule `Edit({shown})`"
        ))
    })
}

/// The keyboard of this terminal. A thread reads all the time, so that what is typed while nobody
/// asks is known to be meant for nothing, and so that a question can be dropped while it waits.
#[derive(Default)]
struct Keyboard(Option<mpsc::Receiver<io::Result<String>>>);

/// Lines that nobody waits for, at most; more are dropped.
const TYPED_AHEAD: usize = 256;
/// The longest line that is read as one.
const LONGEST: u64 = 1 << 20;
/// So long the first question waits for what was typed before the command was ready.
const SETTLE: Duration = Duration::from_millis(50);

impl Keys for Keyboard {
    fn forget(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if self.0.is_none() {
                self.0 = Some(typed());
                tokio::time::sleep(SETTLE).await;
            }
            while self.0.as_mut().is_some_and(|typed| typed.try_recv().is_ok()) {}
        })
    }

    fn line(&mut self) -> BoxFuture<'_, io::Result<Option<String>>> {
        Box::pin(async { self.0.get_or_insert_with(typed).recv().await.transpose() })
    }
}

/// Reads lines on a thread of its own, for as long as the program lives.
fn typed() -> mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel(TYPED_AHEAD);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut line = Vec::new();
            let read = io::stdin().lock().take(LONGEST).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                Ok(_) => Ok(String::from_utf8_lossy(&line).into_owned()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            let is_over = line.is_err();
            match sender.try_send(line) {
                Ok(()) | Err(mpsc::error::TrySendError::Full(_)) if !is_over => {}
                _ => return,
            }
        }
    });
    receiver
}
