//! Runs one sandboxed command: streams its output, handles cancellation and waits for its end.
//!
//! INVARIANT: no process is orphaned. If the call future is dropped, a task stops the command and
//! keeps the call marked as busy until it has ended.
//!
//! INVARIANT: `cancelled` and `timed_out` are reported only after the command has ended.

use std::time::Duration;

use haft_core::{
    Block, Execution, Failure, FailureCode, Output, ToolContext,
    host::{HostContext, RunningWork},
};
use haft_sandbox::{
    Command, Exit, ExitReason, ProcessLimits, ProcessResult, ProcessStream, Profile,
    RunningProcess, Sandbox,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{
    masks::Masked,
    network::{CommandNetwork, tier_with},
};
use crate::network::Contacts;

/// Time for cleanup when a command is cancelled. Shorter than the runtime waits.
const CANCEL_GRACE: Duration = Duration::from_millis(100);

/// Message of programs when a device is full, in the default locale.
const NO_SPACE_MESSAGE: &str = "No space left on device";

/// A command and its settings.
pub(super) struct Job {
    pub(super) sandbox: Sandbox,
    pub(super) command: Command,
    pub(super) profile: Profile,
    /// The paths masked in it.
    pub(super) masked: Masked,
    /// What it may contact.
    pub(super) network: CommandNetwork,
    /// Its timeout.
    pub(super) time: Duration,
}

/// A command that has ended.
pub(super) struct Finished {
    pub(super) ended: ProcessResult,
    pub(super) masked: Masked,
    /// What it contacted.
    pub(super) contacts: Contacts,
}

impl Finished {
    /// Returns its result, with what it contacted and what was masked.
    pub(super) fn output(self, about: Value) -> Output {
        let mut output = output(self.ended, about);
        let fields = output.structured.as_deref_mut().and_then(Value::as_object_mut);
        if let (Some(fields), Some(hosts)) = (fields, self.contacts.value()) {
            fields.insert("hosts".to_owned(), hosts);
        }
        output.blocks.extend(self.contacts.note().map(Block::text));
        self.masked.add_to(&mut output);
        output
    }
}

/// Runs a command until it ends or is stopped.
pub(super) async fn run(job: Job, cx: &ToolContext) -> Result<Finished, Failure> {
    let time = cx.time_left().map_or(job.time, |left| left.min(job.time));
    let command = job.command.deadline(time).keep_bytes(cx.max_result_bytes());
    let Some(busy) = cx.begin_work() else {
        return Err(Failure::new(
            FailureCode::NotRun,
            "the call had ended before the command started",
        ));
    };
    // The expected tier, until the effective one is known.
    cx.set_tier(job.masked.tier(job.sandbox.tier()));
    let resident = job.profile.limits.resident;
    let running = job.sandbox.start(command, job.profile).await;
    let mut running = running.map_err(|error| error.into_failure())?;
    let tier = job.masked.tier(running.tier());
    cx.set_tier(tier.clone());
    let (proxy, contacts) = job.network.serve(&mut running, tier.clone(), cx)?;
    let mut watched = Watched { running: Some((running, busy)), proxy };
    let (ended, is_stopped) = watched.finished(cx).await;
    drop(watched);
    cx.set_tier(tier_with(tier, &contacts));
    match ended.exit_reason {
        // The cancellation reason is reported elsewhere; this confirms that the command has ended.
        _ if is_stopped => Err(Failure::new(FailureCode::Cancelled, "the command was stopped")),
        ExitReason::Exited => Ok(Finished { ended, masked: job.masked, contacts }),
        ExitReason::TimedOut => Err(Failure::new(
            FailureCode::TimedOut,
            format!("the command took longer than {} ms and was stopped", time.as_millis()),
        )
        .with_next("do less at once, or raise the timeout")),
        ExitReason::OutputLimit => {
            Err(Failure::failed("the command wrote too much output and was stopped")
                .with_next("write to a file, or filter the output, as with `head`"))
        }
        ExitReason::Stopped => Err(Failure::new(FailureCode::Cancelled, "the command was stopped")),
        ExitReason::OutOfMemory => Err(Failure::failed(format!(
            "the command and its processes used more than {} MiB of memory and were stopped",
            resident >> 20
        ))
        .with_next("process less data at once, as with `head` or by reading in parts")),
        ExitReason::HelperDied => Err(Failure::new(
            FailureCode::UnknownOutcome,
            "the supervisor process of the sandbox died, and the command with it",
        )
        .with_execution(Execution::Unknown)
        .with_next("check what happened before you run it again")),
        ExitReason::Abandoned => Err(Failure::new(
            FailureCode::UnknownOutcome,
            "the supervisor processes of the sandbox were killed; processes of the command may \
             still be running",
        )
        .with_execution(Execution::Unknown)
        .with_next(
            "ask the user to find and end the processes of the command; check what \
             happened before you run it again",
        )),
    }
}

/// A running command, and the busy mark of its call.
struct Watched {
    running: Option<(RunningProcess, RunningWork)>,
    /// The proxy of the command, which ends with it.
    proxy: JoinSet<std::io::Result<()>>,
}

impl Watched {
    /// Streams output until the end. Returns whether the call was cancelled.
    async fn finished(&mut self, cx: &ToolContext) -> (ProcessResult, bool) {
        let mut texts = [StreamDecoder::new("stdout"), StreamDecoder::new("stderr")];
        let mut is_stopped = false;
        let ended = loop {
            // `running` is set until the end below.
            let Some((running, _)) = &mut self.running else { std::future::pending().await };
            tokio::select! {
                biased;
                () = cx.cancelled() => {
                    is_stopped = true;
                    break running.terminate(CANCEL_GRACE).await;
                }
                piece = running.next() => match piece {
                    Some(piece) => {
                        let [out, err] = &mut texts;
                        let text = if piece.stream == ProcessStream::Stdout { out } else { err };
                        text.stream(&piece.bytes, cx);
                    }
                    None => break running.wait().await,
                },
            }
        };
        for text in &mut texts {
            text.finish(cx);
        }
        self.running = None;
        self.proxy.abort_all();
        (ended, is_stopped)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let Some((mut running, busy)) = self.running.take() else { return };
        // Without a runtime handle, dropping `running` still ends the command, but without waiting.
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.spawn(async move {
                running.stop().await;
                drop(busy);
            });
        }
    }
}

/// Decodes one stream. A UTF-8 character split across chunks is decoded as one.
struct StreamDecoder {
    name: &'static str,
    rest: Vec<u8>,
}

impl StreamDecoder {
    fn new(name: &'static str) -> Self {
        Self { name, rest: Vec::new() }
    }

    fn stream(&mut self, bytes: &[u8], cx: &ToolContext) {
        let text = self.take(bytes);
        if !text.is_empty() {
            cx.partial_of(self.name, text);
        }
    }

    fn finish(&mut self, cx: &ToolContext) {
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            cx.partial_of(self.name, String::from_utf8_lossy(&rest).into_owned());
        }
    }

    fn take(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let mut text = String::new();
        let mut whole = 0;
        for chunk in self.rest.utf8_chunks() {
            text.push_str(chunk.valid());
            whole += chunk.valid().len();
            let bad = chunk.invalid();
            // An incomplete character waits for more bytes; at most three.
            let is_last = whole + bad.len() == self.rest.len();
            if is_last && is_incomplete_char(bad) {
                break;
            }
            if !bad.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            whole += bad.len();
        }
        self.rest.drain(..whole);
        text
    }
}

/// Whether invalid bytes could be the start of a character.
fn is_incomplete_char(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && std::str::from_utf8(bytes)
            .is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
}

/// Describes how a command ended.
pub(super) fn exit(ended: &ProcessResult) -> String {
    match ended.exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => match name(signal) {
            Some(name) => format!("ended by signal {signal} ({name})"),
            None => format!("ended by signal {signal}"),
        },
        Exit::Unknown => "ended with an unknown exit status".to_owned(),
    }
}

fn name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        6 => "SIGABRT",
        9 => "SIGKILL, for example by a memory limit",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU, its CPU time limit was reached",
        25 => "SIGXFSZ, a file grew too large",
        31 => "SIGSYS, it used a syscall that the sandbox forbids",
        _ => return None,
    })
}

/// Builds the result. A failure starts with the exit status, so that printed text cannot imitate
/// it.
fn output(ended: ProcessResult, about: Value) -> Output {
    let (is_success, how, facts) = (ended.is_success(), exit(&ended), ended.facts());
    let refused = super::refusals::note(&ended.refused);
    let (out, err) = (ended.stdout.into_text(), ended.stderr.into_text());
    let mut output = Output::default();
    let is_full = err.contains(NO_SPACE_MESSAGE);
    match (is_success, out.is_empty(), err.is_empty()) {
        (true, true, true) => output.blocks.push(Block::text("done; nothing was printed")),
        (true, false, true) => output.blocks.push(Block::text(out)),
        (_, no_out, no_err) => {
            output.blocks.push(Block::text(how));
            if !no_out {
                output.blocks.push(Block::text(format!("stdout:\n{out}")));
            }
            if !no_err {
                output.blocks.push(Block::text(format!("stderr:\n{err}")));
            }
        }
    }
    if is_full {
        let mib = ProcessLimits::default().scratch >> 20;
        output.blocks.push(Block::text(format!(
            "note: no space left on device. Temporary files of a command (`$TMPDIR`, `/tmp`) have \
             {mib} MiB at most; write large files into the workspace. If the workspace is full, \
             report this to the user."
        )));
    }
    output.blocks.extend(refused.map(Block::text));
    let mut whole = json!(facts);
    if let (Some(whole), Value::Object(about)) = (whole.as_object_mut(), about) {
        whole.extend(about);
    }
    output.structured = Some(Box::new(whole));
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_split_across_chunks_are_decoded() {
        let bytes = "aé漢🦀".as_bytes();
        for cut in 0..=bytes.len() {
            let mut text = StreamDecoder::new("stdout");
            let text_out = text.take(&bytes[..cut]) + &text.take(&bytes[cut..]);
            assert_eq!((text_out.as_str(), text.rest.len()), ("aé漢🦀", 0), "cut at {cut}");
        }
        let mut text = StreamDecoder::new("stdout");
        assert_eq!(text.take(b"a\xffb\xe6\xbc"), "a\u{fffd}b");
        assert_eq!(text.rest.len(), 2, "it may still become a character");
        assert_eq!(text.take(b"x"), "\u{fffd}x");
    }
}
