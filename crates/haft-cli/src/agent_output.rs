//! Drives a run of an agent and shows it: events as JSON, or progress at a terminal.
//!
//! In: a stream of events, and signals. Out: lines on stdout or on the terminal, and the result.
//! Ctrl-C interrupts the run, a second one cancels it, a third one ends the process.
//!
//! A thread of its own writes to the terminal, because such writes block.

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use haft::{
    ErrorKind,
    agent::{AgentEvent, EndReason, RunHandle, RunResult, RunStatus, RunStream},
};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    error::Problem,
    progress::{Progress, RunAbout},
    screen,
    session::CANCELLED,
    signals::{SignalKind, Signals},
    style,
};

/// How many events may wait for the terminal. Then the run waits too.
const QUEUED_EVENTS: usize = 1_024;
/// How often the status line is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How much text is put together for one write.
const WRITE_BYTES: usize = 64 << 10;

/// The exit code of a run that was denied.
const DENIED: u8 = 2;
/// The exit code of a run that failed, or whose answer is not whole.
const FAILED: u8 = 5;
/// The exit code of a run whose model did not accept the key.
const AUTHENTICATION: u8 = 3;
/// The exit code of a run whose model could not be reached.
const UNREACHABLE: u8 = 4;
/// The exit code of a run that waits for an approval.
const WAITING: u8 = 6;
/// The exit code of a run whose model did not answer in time.
const TIMED_OUT: u8 = 7;

/// Where the events of a run go.
pub(crate) enum Display {
    /// Each event is a line of JSON on stdout.
    Json,
    /// A page for a person.
    Page(PageThread),
    /// Only the answer is printed.
    Nothing,
}

/// A page for a person, written by a thread of its own.
pub(crate) struct PageThread {
    events: mpsc::Sender<AgentEvent>,
    thread: JoinHandle<()>,
}

/// Where a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageTarget {
    /// The terminal, with a status line.
    Terminal,
    /// Stdout, without a status line and without wrapping.
    Stdout,
}

impl Display {
    /// Starts to show. Needs the async runtime.
    pub(crate) fn page(about: RunAbout, target: PageTarget) -> Self {
        let (events, receiver) = mpsc::channel(QUEUED_EVENTS);
        let handle = tokio::runtime::Handle::current();
        let thread = tokio::task::spawn_blocking(move || {
            handle.block_on(show(receiver, about, target));
        });
        Self::Page(PageThread { events, thread })
    }

    /// Whether the text of the model is on the terminal already.
    pub(crate) fn shows_text(&self) -> bool {
        matches!(self, Self::Page(_)) && std::io::stdout().is_terminal()
    }

    /// Shows the rest.
    pub(crate) async fn finish(self) {
        if let Self::Page(page) = self {
            drop(page.events);
            let _ = page.thread.await;
        }
    }
}

/// Runs to the end. Signals interrupt and cancel the run.
pub(crate) async fn drive(
    mut stream: RunStream<'_>,
    signals: &mut Signals,
    display: &Display,
) -> Result<RunResult, Problem> {
    let handle = stream.handle();
    let mut stops = 0;
    let mut is_closed = false;
    loop {
        let event = tokio::select! {
            biased;
            kind = signals.next() => {
                stop(&handle, kind, &mut stops);
                continue;
            }
            event = stream.next() => event,
        };
        let Some(event) = event else { break };
        match display {
            Display::Nothing => {}
            Display::Json if is_closed => {}
            Display::Json => {
                let line = serde_json::to_string(&event).unwrap_or_default();
                if style::print_or_stop(format_args!("{line}\n")).is_err() {
                    // The reader has closed the pipe: there is no use in going on.
                    is_closed = true;
                    handle.cancel();
                }
            }
            Display::Page(page) => {
                let permit = loop {
                    tokio::select! {
                        biased;
                        kind = signals.next() => stop(&handle, kind, &mut stops),
                        permit = page.events.reserve() => break permit,
                    }
                };
                if let Ok(permit) = permit {
                    permit.send(event);
                }
            }
        }
    }
    if is_closed {
        return Err(Problem::ClosedPipe);
    }
    stream.finish().await.map_err(Problem::from)
}

/// Stops a run on a signal: the first Ctrl-C interrupts it, the second cancels it.
fn stop(handle: &RunHandle, kind: SignalKind, stops: &mut u32) {
    *stops += 1;
    match (kind, *stops) {
        (_, 3..) => {
            screen::leave();
            std::process::exit(CANCELLED.into());
        }
        (SignalKind::Interrupt, 1) => handle.interrupt(),
        _ => handle.cancel(),
    }
    if std::io::stderr().is_terminal() {
        screen::end_echo(); // after the terminal's own `^C`
    }
}

/// The exit code of a run.
pub(crate) fn exit(result: &RunResult) -> ExitCode {
    let is_denied = matches!(result.reason, EndReason::Denied { .. } | EndReason::Halted { .. });
    ExitCode::from(match result.state {
        RunStatus::Completed => 0,
        RunStatus::Degraded => FAILED,
        RunStatus::Failed if is_denied => DENIED,
        RunStatus::Failed => match &result.reason {
            EndReason::ModelFailed { kind: ErrorKind::Authentication, .. } => AUTHENTICATION,
            EndReason::ModelFailed { kind: ErrorKind::Unreachable, .. } => UNREACHABLE,
            EndReason::ModelFailed { kind: ErrorKind::TimedOut, .. } => TIMED_OUT,
            _ => FAILED,
        },
        RunStatus::Waiting => WAITING,
        RunStatus::Cancelled => CANCELLED,
    })
}

/// Shows events until the run has ended. Runs on a blocking thread.
async fn show(mut events: mpsc::Receiver<AgentEvent>, about: RunAbout, target: PageTarget) {
    let width = (target == PageTarget::Terminal).then(screen::line_width);
    let mut progress = Progress::new(about, width, Instant::now());
    let mut is_over = false;
    while !is_over {
        tokio::select! {
            biased;
            event = events.recv() => match event {
                Some(event) => take(&mut progress, &event, target),
                None => is_over = true,
            },
            () = sleep(TICK) => {}
        }
        while progress.text().len() < WRITE_BYTES
            && let Ok(event) = events.try_recv()
        {
            take(&mut progress, &event, target);
        }
        write(&mut progress, target);
    }
    progress.advance(Instant::now());
    write(&mut progress, target);
    if target == PageTarget::Terminal {
        screen::show("", "");
    }
}

fn take(progress: &mut Progress, event: &AgentEvent, target: PageTarget) {
    if target == PageTarget::Terminal {
        progress.set_width(screen::line_width());
    }
    progress.advance(Instant::now());
    progress.take(event);
}

/// Writes what there is to write. Text waits while a question is open.
fn write(progress: &mut Progress, target: PageTarget) {
    progress.advance(Instant::now());
    let is_written = match target {
        PageTarget::Terminal => screen::show(progress.text(), &progress.status()),
        // A closed pipe must not stop the run.
        PageTarget::Stdout => {
            let _ = style::print(progress.text());
            true
        }
    };
    if is_written {
        progress.clear_text();
    }
}
