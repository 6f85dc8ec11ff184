//! A running sandboxed command: reads its output, waits for its exit, stops it.
//!
//! Closing the control socket makes the helper kill all processes. So a drop of this value, a panic
//! and a killed runtime have the same effect. The command has ended when the helper reports it or
//! exits; the helper outlives everything it started. Pipes that are still open do not matter.
//!
//! INVARIANT: output is always read, kept or not, so no process blocks on a full pipe.

use std::{io, os::fd::OwnedFd, time::Duration};

use haft_core::BoundedBuffer;
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixStream, unix::pipe},
    process::{Child, ChildStderr, ChildStdout},
};

use crate::{
    Exit, ExitReason, Level, RefusedChange, Tier,
    protocol::{Report, TERMINATE},
};

/// The result of a command that has ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessResult {
    /// How its process ended.
    pub exit: Exit,
    /// Why.
    pub exit_reason: ExitReason,
    /// What was enforced.
    pub tier: Tier,
    /// Standard output: the kept bytes and the total count.
    pub stdout: BoundedBuffer,
    /// Standard error.
    pub stderr: BoundedBuffer,
    /// CPU time of the process and the children it waited for.
    pub cpu: Duration,
    /// Wall-clock time.
    pub wall: Duration,
    /// Peak memory of the largest of its processes, in bytes.
    pub memory: u64,
    /// The first names that it tried to create, change or remove and that were refused.
    pub refused: Vec<RefusedChange>,
}

impl ProcessResult {
    /// Returns whether it ended by itself with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit_reason == ExitReason::Exited && self.exit == Exit::Code(0)
    }

    /// Returns what an execution record keeps of it.
    #[must_use]
    pub fn facts(&self) -> ProcessFacts {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        ProcessFacts {
            exit: self.exit,
            exit_reason: self.exit_reason,
            tier: self.tier.clone(),
            stdout_seen: self.stdout.seen(),
            stdout_kept: self.stdout.bytes().len() as u64,
            stderr_seen: self.stderr.seen(),
            stderr_kept: self.stderr.bytes().len() as u64,
            cpu_us: micros(self.cpu),
            wall_us: micros(self.wall),
            memory: self.memory,
            refused: self.refused.clone(),
        }
    }
}

/// What an execution record keeps of a command: everything except its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are those of `DecodedResponse`")]
#[non_exhaustive]
pub struct ProcessFacts {
    pub exit: Exit,
    pub exit_reason: ExitReason,
    pub tier: Tier,
    pub stdout_seen: u64,
    pub stdout_kept: u64,
    pub stderr_seen: u64,
    pub stderr_kept: u64,
    pub cpu_us: u64,
    pub wall_us: u64,
    pub memory: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedChange>,
}

/// Which stream a chunk of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A chunk of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessChunk {
    /// Its stream.
    pub stream: ProcessStream,
    /// Its bytes. Empty once the buffer is full: then it only shows that there was output.
    pub bytes: Vec<u8>,
}

/// The standard streams of a command that was started with them open.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProcessPipes {
    /// Its standard input.
    pub stdin: pipe::Sender,
    /// Its standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
}

/// A running sandboxed command. Dropping it kills all its processes.
#[derive(Debug)]
pub struct RunningProcess {
    pub(crate) helper: Child,
    pub(crate) control: UnixStream,
    pub(crate) received: Vec<u8>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    pub(crate) kept: [BoundedBuffer; 2],
    pub(crate) tier: Tier,
    pub(crate) kill_above: u64,
    pub(crate) is_control_closed: bool,
    pub(crate) is_flooded: bool,
    pub(crate) is_helper_gone: bool,
    pub(crate) is_finished: bool,
    pub(crate) last: Option<(Exit, ExitReason, Duration, Duration, u64)>,
    pub(crate) refused: Vec<RefusedChange>,
    pub(crate) listener: Option<OwnedFd>,
}

/// Time to drain the pipes after the helper has exited. All writers are gone by then, so this only
/// guards against a slow kernel.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Time to wait for the helper's second process after the helper died. It kills the command.
const SECOND_PROCESS_TIMEOUT: Duration = Duration::from_secs(20);
/// Size limit of one chunk of output.
const MAX_CHUNK_BYTES: usize = 64 << 10;

enum Event {
    Out(Vec<u8>),
    Err(Vec<u8>),
    OutEnded,
    ErrEnded,
    Report,
    ControlClosed,
    HelperExited,
    Done,
}

impl RunningProcess {
    /// Returns what is enforced for this command.
    #[must_use]
    pub fn tier(&self) -> &Tier {
        &self.tier
    }

    /// Takes the socket that listens inside the network namespace of the command, if its profile
    /// has [`Network::Proxy`](crate::Network::Proxy). It does not block.
    ///
    /// # Errors
    /// Fails if the socket cannot be set to nonblocking mode.
    pub fn take_listener(&mut self) -> io::Result<Option<std::net::TcpListener>> {
        let Some(listener) = self.listener.take() else { return Ok(None) };
        let listener = std::net::TcpListener::from(listener);
        listener.set_nonblocking(true)?;
        Ok(Some(listener))
    }

    /// Waits for the next chunk of output. Returns `None` after the end. Cancel safe.
    pub async fn next(&mut self) -> Option<ProcessChunk> {
        while !self.is_finished {
            match self.next_event().await {
                Event::Out(bytes) => return Some(self.record_output(ProcessStream::Stdout, bytes)),
                Event::Err(bytes) => return Some(self.record_output(ProcessStream::Stderr, bytes)),
                Event::OutEnded => self.stdout = None,
                Event::ErrEnded => self.stderr = None,
                Event::Report => {}
                Event::ControlClosed => self.is_control_closed = true,
                Event::HelperExited => self.is_helper_gone = true,
                Event::Done => self.is_finished = true,
            }
        }
        None
    }

    /// Waits until the command has ended. Cancel safe.
    pub async fn wait(&mut self) -> ProcessResult {
        while self.next().await.is_some() {}
        self.ended()
    }

    /// Kills all processes (`SIGKILL`) and waits until they are gone.
    pub async fn stop(&mut self) -> ProcessResult {
        self.end_everything().await;
        self.wait().await
    }

    /// Sends `SIGTERM`, waits for the grace period, then kills all processes.
    pub async fn terminate(&mut self, grace: Duration) -> ProcessResult {
        let _ = self.control.write_all(&[TERMINATE]).await;
        if tokio::time::timeout(grace, self.wait()).await.is_err() {
            self.end_everything().await;
        }
        self.wait().await
    }

    /// Returns the signal that killed the helper, if one did.
    pub(crate) fn helper_signal(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt as _;
        self.helper.try_wait().ok().flatten().and_then(|status| status.signal())
    }

    /// Returns the pid of the helper: for tests that kill it.
    #[doc(hidden)]
    #[must_use]
    pub fn helper_id(&self) -> Option<u32> {
        self.helper.id()
    }

    /// Kills the helper: only for tests.
    #[doc(hidden)]
    pub fn kill_helper(&mut self) {
        let _ = self.helper.start_kill();
    }

    async fn end_everything(&mut self) {
        // The helper takes the closed socket for the end of the runtime. It can still report.
        let _ = self.control.shutdown().await;
    }

    async fn next_event(&mut self) -> Event {
        if self.is_helper_gone && !self.is_control_closed {
            let last = tokio::time::timeout(SECOND_PROCESS_TIMEOUT, self.output_or_report()).await;
            return last.unwrap_or(Event::ControlClosed);
        }
        if self.is_helper_gone {
            let event = tokio::time::timeout(DRAIN_TIMEOUT, self.drain()).await;
            return event.unwrap_or(Event::Done);
        }
        let mut buffer = [0; 4096];
        tokio::select! {
            chunk = read(self.stdout.as_mut()) => chunk.map_or(Event::OutEnded, Event::Out),
            chunk = read(self.stderr.as_mut()) => chunk.map_or(Event::ErrEnded, Event::Err),
            received = self.control.read(&mut buffer), if !self.is_control_closed => match received {
                Ok(n @ 1..) => {
                    self.received.extend_from_slice(&buffer[..n]);
                    self.read_reports();
                    Event::Report
                }
                _ => Event::ControlClosed,
            },
            _ = self.helper.wait() => Event::HelperExited,
        }
    }

    fn record_output(&mut self, stream: ProcessStream, mut bytes: Vec<u8>) -> ProcessChunk {
        let [out, err] = &mut self.kept;
        let kept = if stream == ProcessStream::Stdout { out } else { err };
        let before = kept.bytes().len();
        kept.push(&bytes);
        bytes.truncate(kept.bytes().len() - before);
        if kept.seen() > self.kill_above && !self.is_flooded {
            self.is_flooded = true;
            // A synchronous shutdown: this function is not async, and it does not block.
            let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Write);
        }
        ProcessChunk { stream, bytes }
    }

    /// Parses the complete reports that were received so far.
    pub(crate) fn read_reports(&mut self) {
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(Report::Ended { exit, exit_reason, cpu_us, wall_us, memory, refused }) => {
                    let (cpu, wall) =
                        (Duration::from_micros(cpu_us), Duration::from_micros(wall_us));
                    self.last = Some((exit, exit_reason, cpu, wall, memory));
                    self.refused = refused;
                }
                Ok(Report::Gone) => (self.is_helper_gone, self.is_control_closed) = (true, true),
                _ => {}
            }
        }
    }

    /// Reads what is left in the pipes after the helper and all processes are gone.
    async fn drain(&mut self) -> Event {
        if let Some(stdout) = &mut self.stdout {
            return read_chunk(stdout).await.map_or(Event::OutEnded, Event::Out);
        }
        if let Some(stderr) = &mut self.stderr {
            return read_chunk(stderr).await.map_or(Event::ErrEnded, Event::Err);
        }
        Event::Done
    }

    /// Reads on after the helper died without a report. The socket closes when its second process
    /// ends. Surviving processes of the command may keep the pipes open for longer.
    async fn output_or_report(&mut self) -> Event {
        let mut buffer = [0; 4096];
        tokio::select! {
            chunk = read(self.stdout.as_mut()) => chunk.map_or(Event::OutEnded, Event::Out),
            chunk = read(self.stderr.as_mut()) => chunk.map_or(Event::ErrEnded, Event::Err),
            received = self.control.read(&mut buffer) => match received {
                Ok(n @ 1..) => {
                    self.received.extend_from_slice(&buffer[..n]);
                    self.read_reports();
                    Event::Report
                }
                _ => Event::ControlClosed,
            },
        }
    }

    /// Returns why it ended if no final report arrived.
    fn reason_without_report(&self) -> ExitReason {
        match self.tier.level {
            // The kernel kills a pid namespace together with its first process.
            Level::Namespaces => ExitReason::HelperDied,
            Level::Landlock | Level::None => ExitReason::Abandoned,
        }
    }

    fn ended(&self) -> ProcessResult {
        let (exit, exit_reason, cpu, wall, memory) = self.last.unwrap_or((
            Exit::Unknown,
            self.reason_without_report(),
            Duration::ZERO,
            Duration::ZERO,
            0,
        ));
        let [stdout, stderr] = self.kept.clone();
        let exit_reason = if self.is_flooded { ExitReason::OutputLimit } else { exit_reason };
        let (tier, refused) = (self.tier.clone(), self.refused.clone());
        ProcessResult { exit, exit_reason, tier, stdout, stderr, cpu, wall, memory, refused }
    }
}

async fn read(from: Option<&mut (impl AsyncRead + Unpin)>) -> Option<Vec<u8>> {
    match from {
        Some(from) => read_chunk(from).await,
        None => std::future::pending().await,
    }
}

async fn read_chunk(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(MAX_CHUNK_BYTES);
    loop {
        match from.read_buf(&mut bytes).await {
            Ok(0) => return None,
            Ok(_) => return Some(bytes),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}
