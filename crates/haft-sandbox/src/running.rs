//! A confined command that runs: its output, its end, and ways to bring the end about.
//!
//! The helper is told to end everything by the end of a connection, so dropping this value, a panic
//! and a killed runtime all have the same effect. What counts as the end is the word or the end of the
//! helper, which outlives everything it started; pipes that somebody holds open do not matter.
//!
//! INVARIANT: output is always read, whether it is kept or not, so nobody hangs on a full pipe.

use std::{io, time::Duration};

use haft_core::BoundedBuffer;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    process::{Child, ChildStderr, ChildStdout},
};

use crate::{
    Level, Refused, Tier,
    orders::{PLEASE, Report},
};

/// How a command's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Nobody saw it.
    Unknown,
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// By itself, or by a limit that the kernel keeps.
    Itself,
    /// Its time was over.
    TimedOut,
    /// Somebody stopped it.
    Stopped,
    /// It wrote without end.
    Flooded,
    /// All its processes together held more memory than they may.
    OutOfMemory,
    /// The helper died, and everything that the command had started was ended.
    Lost,
    /// The helper and its second process both died without a report. Processes of the command may
    /// still run. Only possible without a pid namespace.
    Abandoned,
}

/// What is known when everything is over.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessResult {
    /// How its process ended.
    pub exit: Exit,
    /// Why.
    pub how: ExitReason,
    /// What was in force around it.
    pub tier: Tier,
    /// What it wrote on standard output: what was kept, and how much there was.
    pub stdout: BoundedBuffer,
    /// What it wrote on standard error.
    pub stderr: BoundedBuffer,
    /// Processor time it used, with everything it waited for.
    pub cpu: Duration,
    /// Time on the wall.
    pub wall: Duration,
    /// The most memory one of its processes held, in bytes.
    pub memory: u64,
    /// Names that it wanted to create, change or remove and was refused: the first ones.
    pub refused: Vec<Refused>,
}

impl ProcessResult {
    /// Returns whether it ended by itself and said that all was well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.how == ExitReason::Itself && self.exit == Exit::Code(0)
    }

    /// Returns what a record keeps of it.
    #[must_use]
    pub fn facts(&self) -> ProcessFacts {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        ProcessFacts {
            exit: self.exit,
            how: self.how,
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

/// What a record keeps of a command: everything but its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names are those of `DecodedResponse`")]
#[non_exhaustive]
pub struct ProcessFacts {
    pub exit: Exit,
    pub how: ExitReason,
    pub tier: Tier,
    pub stdout_seen: u64,
    pub stdout_kept: u64,
    pub stderr_seen: u64,
    pub stderr_kept: u64,
    pub cpu_us: u64,
    pub wall_us: u64,
    pub memory: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
}

/// Where a piece of output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A piece of output as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessChunk {
    /// Where it came from.
    pub stream: ProcessStream,
    /// What it is. Empty when there is no room for more: then it is only a sign of life.
    pub bytes: Vec<u8>,
}

/// A confined command that runs. Dropping it ends everything.
#[derive(Debug)]
pub struct Running {
    pub(crate) helper: Child,
    pub(crate) control: UnixStream,
    pub(crate) heard: Vec<u8>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    pub(crate) kept: [BoundedBuffer; 2],
    pub(crate) tier: Tier,
    pub(crate) flood: u64,
    pub(crate) is_told: bool,
    pub(crate) is_flooded: bool,
    pub(crate) is_gone: bool,
    pub(crate) is_over: bool,
    pub(crate) last: Option<(Exit, ExitReason, Duration, Duration, u64)>,
    pub(crate) refused: Vec<Refused>,
}

/// So long after the helper's end the last words are waited for. All writers are gone by then, so
/// this is a belt for kernels that are slow to say so.
const DRAIN: Duration = Duration::from_millis(500);
/// So long after the helper's death its second process is waited for, which ends the command.
const SECOND: Duration = Duration::from_secs(20);
/// No piece is larger.
const PIECE: usize = 64 << 10;

enum Moment {
    Out(Vec<u8>),
    Err(Vec<u8>),
    OutEnded,
    ErrEnded,
    Heard,
    Silent,
    Gone,
    Done,
}

impl Running {
    /// Returns what is in force around the command.
    #[must_use]
    pub fn tier(&self) -> &Tier {
        &self.tier
    }

    /// Waits for the next piece of output. Nothing comes after the end. A future that is dropped
    /// loses nothing.
    pub async fn next(&mut self) -> Option<ProcessChunk> {
        while !self.is_over {
            match self.moment().await {
                Moment::Out(bytes) => return Some(self.took(ProcessStream::Out, bytes)),
                Moment::Err(bytes) => return Some(self.took(ProcessStream::Err, bytes)),
                Moment::OutEnded => self.stdout = None,
                Moment::ErrEnded => self.stderr = None,
                Moment::Heard => {}
                Moment::Silent => self.is_told = true,
                Moment::Gone => self.is_gone = true,
                Moment::Done => self.is_over = true,
            }
        }
        None
    }

    /// Waits for the end. A future that is dropped loses nothing; ask again.
    pub async fn wait(&mut self) -> ProcessResult {
        while self.next().await.is_some() {}
        self.ended()
    }

    /// Ends everything at once, and waits until that is so.
    pub async fn stop(&mut self) -> ProcessResult {
        self.end_everything().await;
        self.wait().await
    }

    /// Asks the command to end by itself (`SIGTERM`), gives it some time, then ends everything.
    pub async fn stop_gently(&mut self, grace: Duration) -> ProcessResult {
        let _ = self.control.write_all(&[PLEASE]).await;
        if tokio::time::timeout(grace, self.wait()).await.is_err() {
            self.end_everything().await;
        }
        self.wait().await
    }

    /// The signal that killed the helper, if one did.
    pub(crate) fn helper_signal(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt as _;
        self.helper.try_wait().ok().flatten().and_then(|status| status.signal())
    }

    /// The process number of the helper: for tests of what happens when it is killed.
    #[doc(hidden)]
    #[must_use]
    pub fn helper_id(&self) -> Option<u32> {
        self.helper.id()
    }

    /// Kills the helper itself, as nobody should: for tests of what happens then.
    #[doc(hidden)]
    pub fn kill_helper(&mut self) {
        let _ = self.helper.start_kill();
    }

    async fn end_everything(&mut self) {
        // The helper takes the end of the connection for the end of the runtime. It still answers.
        let _ = self.control.shutdown().await;
    }

    async fn moment(&mut self) -> Moment {
        if self.is_gone && !self.is_told {
            let last = tokio::time::timeout(SECOND, self.output_or_word()).await;
            return last.unwrap_or(Moment::Silent);
        }
        if self.is_gone {
            let rest = tokio::time::timeout(DRAIN, self.rest()).await;
            return rest.unwrap_or(Moment::Done);
        }
        let mut words = [0; 4096];
        tokio::select! {
            piece = read(self.stdout.as_mut()) => piece.map_or(Moment::OutEnded, Moment::Out),
            piece = read(self.stderr.as_mut()) => piece.map_or(Moment::ErrEnded, Moment::Err),
            heard = self.control.read(&mut words), if !self.is_told => match heard {
                Ok(n @ 1..) => {
                    self.heard.extend_from_slice(&words[..n]);
                    self.listen();
                    Moment::Heard
                }
                _ => Moment::Silent,
            },
            _ = self.helper.wait() => Moment::Gone,
        }
    }

    fn took(&mut self, stream: ProcessStream, mut bytes: Vec<u8>) -> ProcessChunk {
        let [out, err] = &mut self.kept;
        let kept = if stream == ProcessStream::Out { out } else { err };
        let before = kept.bytes().len();
        kept.push(&bytes);
        bytes.truncate(kept.bytes().len() - before);
        if kept.seen() > self.flood && !self.is_flooded {
            self.is_flooded = true;
            // Not awaited: this is the way out, and the socket has nothing to wait for.
            let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Write);
        }
        ProcessChunk { stream, bytes }
    }

    /// Takes in what the helper has said so far.
    pub(crate) fn listen(&mut self) {
        while let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.heard.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(Report::Ended { exit, how, cpu_us, wall_us, memory, refused }) => {
                    let (cpu, wall) =
                        (Duration::from_micros(cpu_us), Duration::from_micros(wall_us));
                    self.last = Some((exit, how, cpu, wall, memory));
                    self.refused = refused;
                }
                Ok(Report::Gone) => (self.is_gone, self.is_told) = (true, true),
                _ => {}
            }
        }
    }

    /// The helper is gone and so is everything else. What is left is in the pipes.
    async fn rest(&mut self) -> Moment {
        if let Some(stdout) = &mut self.stdout {
            return piece(stdout).await.map_or(Moment::OutEnded, Moment::Out);
        }
        if let Some(stderr) = &mut self.stderr {
            return piece(stderr).await.map_or(Moment::ErrEnded, Moment::Err);
        }
        Moment::Done
    }

    /// The helper is gone without having said so. The end of the connection is the end of its second
    /// process; survivors of the command may hold the pipes open for longer.
    async fn output_or_word(&mut self) -> Moment {
        let mut words = [0; 4096];
        tokio::select! {
            piece = read(self.stdout.as_mut()) => piece.map_or(Moment::OutEnded, Moment::Out),
            piece = read(self.stderr.as_mut()) => piece.map_or(Moment::ErrEnded, Moment::Err),
            heard = self.control.read(&mut words) => match heard {
                Ok(n @ 1..) => {
                    self.heard.extend_from_slice(&words[..n]);
                    self.listen();
                    Moment::Heard
                }
                _ => Moment::Silent,
            },
        }
    }

    /// How it ended when no report of the end came.
    fn unseen(&self) -> ExitReason {
        match self.tier.level {
            // The kernel ends everything with the first process of the pid namespace.
            Level::Namespaces => ExitReason::Lost,
            Level::Landlock | Level::None => ExitReason::Abandoned,
        }
    }

    fn ended(&self) -> ProcessResult {
        let (exit, how, cpu, wall, memory) =
            self.last.unwrap_or((Exit::Unknown, self.unseen(), Duration::ZERO, Duration::ZERO, 0));
        let [stdout, stderr] = self.kept.clone();
        let how = if self.is_flooded { ExitReason::Flooded } else { how };
        let (tier, refused) = (self.tier.clone(), self.refused.clone());
        ProcessResult { exit, how, tier, stdout, stderr, cpu, wall, memory, refused }
    }
}

async fn read(from: Option<&mut (impl AsyncRead + Unpin)>) -> Option<Vec<u8>> {
    match from {
        Some(from) => piece(from).await,
        None => std::future::pending().await,
    }
}

async fn piece(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PIECE);
    loop {
        match from.read_buf(&mut bytes).await {
            Ok(0) => return None,
            Ok(_) => return Some(bytes),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}
