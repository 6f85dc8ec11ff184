//! Runs calls for a command: the threads they run on, who is asked, and what Ctrl-C does.
//!
//! Somebody is asked only where both ends are a terminal. `--yes` says yes to a question; it is an
//! approver like any other, so it cannot lift a deny.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Read, Write as _},
    process::ExitCode,
};

use haft::{
    Answer, Approver, BoxFuture, Call, Control, Decision, Dialect, Envelope, Failure, Heard,
    Question, RuntimeBuilder, Stop, Turn,
};
use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use crate::{
    problem::Problem,
    schema,
    style::{self, BOLD, DIM, NAME, WARN},
};

/// The name of every thread that may run a tool's code: the runtime's own, and ours.
pub(crate) use haft::THREAD_NAME as THREAD;

/// What Ctrl-C ends in.
pub(crate) const CANCELLED: u8 = 130;

/// Runs async work on threads of its own, and waits for it. Bodies that cannot be stopped are left
/// behind; the end of the program ends them.
pub(crate) fn work<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(THREAD)
        .enable_all()
        .build()
        .map_err(|e| Problem::new(format!("cannot start threads: {e}")))?;
    let done = runtime.block_on(runtime.spawn(work));
    runtime.shutdown_background();
    done.map_err(|_| Problem::new("the command itself broke; please report it"))
}

/// Runs the calls of a turn. Ctrl-C stops them all; a second one does not wait for their end.
pub(crate) async fn run(turn: Turn, calls: Vec<Call>, stop: Stop) -> (Vec<Envelope>, bool) {
    let control = turn.control();
    finish(turn.run_stopped(calls, stop), &control, false).await
}

/// Runs the calls of a response while it is still coming. Ctrl-C ends it where it is.
pub(crate) async fn listen(
    turn: Turn,
    dialect: Dialect,
    body: Box<dyn Read + Send>,
) -> (Heard, bool) {
    let control = turn.control();
    let mut listening = turn.listen(dialect);
    let mut pieces = pieces(body);
    let mut is_interrupted = false;
    loop {
        tokio::select! {
            biased;
            Ok(()) = tokio::signal::ctrl_c() => {
                is_interrupted = true;
                interrupt(&control);
                break;
            }
            piece = pieces.recv() => match piece {
                Some(Ok(piece)) => listening.feed(&piece),
                // What came so far is a stream that was cut off, and is answered as such.
                Some(Err(e)) => {
                    let problem = Problem::new(format!("cannot read the stream to its end: {e}"));
                    let _ = problem.tell();
                    break;
                }
                None => break,
            },
        }
    }
    finish(listening.finish(), &control, is_interrupted).await
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

/// Waits for the end of a turn, and listens for Ctrl-C meanwhile.
async fn finish<T>(
    end: impl Future<Output = T>,
    control: &Control,
    mut is_interrupted: bool,
) -> (T, bool) {
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            biased;
            Ok(()) = tokio::signal::ctrl_c() => {
                if is_interrupted {
                    std::process::exit(CANCELLED.into());
                }
                is_interrupted = true;
                interrupt(control);
            }
            end = &mut end => return (end, is_interrupted),
        }
    }
}

fn interrupt(control: &Control) {
    if io::stderr().is_terminal() {
        style::talk(""); // after the terminal's own `^C`
    }
    control.force();
}

/// The exit code of a command that answered.
pub(crate) fn exit(is_interrupted: bool) -> ExitCode {
    if is_interrupted { ExitCode::from(CANCELLED) } else { ExitCode::SUCCESS }
}

/// Adds whoever can be asked here; nobody where nobody is there.
pub(crate) fn seat(runtime: RuntimeBuilder, yes: bool) -> RuntimeBuilder {
    if yes {
        runtime.approver(Yes)
    } else if io::stdin().is_terminal() && io::stderr().is_terminal() {
        runtime.approver(Terminal::default())
    } else {
        runtime
    }
}

/// Says yes to every question, as `--yes` asks for.
struct Yes;

impl Approver for Yes {
    fn ask<'a>(&'a self, question: &'a Question<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        let answer = match &question.verdict.decision {
            Decision::NeedInput(name) => {
                Answer::Deny(Some(format!("`{name}` must be given, and `--yes` cannot know it")))
            }
            _ => Answer::allow(),
        };
        Box::pin(async { Ok(answer) })
    }
}

/// Asks at the terminal, one question at a time.
#[derive(Default)]
struct Terminal(Mutex<()>);

impl Approver for Terminal {
    fn ask<'a>(&'a self, question: &'a Question<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async {
            let _one = self.0.lock().await;
            pose(question);
            let line = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                io::stdin().lock().read_line(&mut line).map(|_| line)
            });
            let line = line.await??;
            let line = line.trim();
            Ok(match &question.verdict.decision {
                Decision::NeedInput(_) if line.is_empty() => Answer::Deny(None),
                Decision::NeedInput(name) => {
                    let entry = question.call.tool();
                    let known = schema::parameters(entry.input_schema());
                    let text = || Value::String(line.to_owned());
                    let argument = known.iter().find(|p| p.name == name);
                    Answer::Input(argument.map_or_else(text, |p| p.read(line)))
                }
                _ if matches!(line, "y" | "Y" | "yes") => Answer::allow(),
                _ => Answer::Deny(None),
            })
        })
    }
}

/// Writes a question to stderr: what wants to run, with what, and why that is asked.
fn pose(question: &Question<'_>) {
    let entry = question.call.tool();
    let (name, verdict) = (entry.name(), question.verdict);
    style::talk(format_args!(
        "{} wants to run. {} {}",
        style::paint(NAME, name),
        style::paint(WARN, style::visible(&verdict.reason)),
        style::paint(DIM, format_args!("({})", style::visible(&verdict.source))),
    ));
    let known = schema::parameters(entry.input_schema());
    for (key, value) in question.call.arguments().as_object().into_iter().flatten() {
        let shown = match known.iter().any(|p| p.name == key && p.is_secret()) {
            true => "(hidden)".to_owned(),
            false => value.to_string(),
        };
        style::talk(format_args!("  {}", style::visible(&format!("{key}: {shown}"))));
    }
    let prompt = match &verdict.decision {
        Decision::NeedInput(name) => format!("{name}: "),
        _ => "Allow it? [y/N] ".to_owned(),
    };
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "{}", style::paint(BOLD, prompt)).and_then(|()| err.flush());
}
