//! The child process of a stdio server: started with a cleared environment, in a process group of
//! its own or in a sandbox, with its standard error kept and bounded.
//!
//! INVARIANT: dropping a [`ServerProcess`] kills its whole process group.

use std::{
    io,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    process::{Child, Command},
};

use super::{config::StdioCommand, confined::ConfinedProcess, task::spawn};

/// How much of standard error is kept: the last bytes.
const MAX_STDERR_BYTES: usize = 16 << 10;
/// How long a server may take to exit after its standard input was closed.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The last bytes of a server's standard error.
#[derive(Debug, Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    /// Returns what is kept, as text.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }

    fn add(&self, chunk: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(chunk);
        // Cut rarely, so that a flood costs no more than a copy of itself.
        if kept.len() > 2 * MAX_STDERR_BYTES {
            let excess = kept.len() - MAX_STDERR_BYTES;
            kept.drain(..excess);
        }
    }

    /// Reads a stream to its end, so that the server never blocks on a full pipe.
    pub(super) async fn read(self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8 << 10];
        while let Ok(n @ 1..) = stream.read(&mut chunk).await {
            self.add(chunk.get(..n).unwrap_or_default());
        }
    }
}

/// A running server.
pub(super) enum ServerProcess {
    Plain(PlainProcess),
    Confined(Box<ConfinedProcess>),
}

/// The streams of a server.
pub(super) struct ServerStreams {
    pub(super) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) stdout: Box<dyn AsyncRead + Send + Unpin>,
}

impl ServerProcess {
    /// Starts a server.
    pub(super) async fn start(
        command: &StdioCommand,
        helper: Option<&Path>,
        stderr: &StderrTail,
    ) -> Result<(Self, ServerStreams), String> {
        match &command.sandbox {
            Some(sandbox) => {
                let started = ConfinedProcess::start(command, sandbox, helper, stderr).await;
                started.map(|(process, streams)| (Self::Confined(Box::new(process)), streams))
            }
            None => {
                let started = PlainProcess::start(command, stderr);
                started
                    .map(|(process, streams)| (Self::Plain(process), streams))
                    .map_err(|why| why.to_string())
            }
        }
    }

    /// Waits until the server exits after its input was closed, then kills what is left.
    pub(super) async fn stop(self) {
        match self {
            Self::Plain(process) => process.stop().await,
            Self::Confined(process) => process.stop(EXIT_GRACE).await,
        }
    }
}

/// A server and its process group.
#[derive(Debug)]
pub(super) struct PlainProcess {
    child: Child,
    /// The process group; `None` once it was killed or its leader was waited for.
    group: Option<u32>,
}

impl PlainProcess {
    pub(super) fn start(
        command: &StdioCommand,
        stderr: &StderrTail,
    ) -> io::Result<(Self, ServerStreams)> {
        let mut line = Command::new(&command.program);
        line.args(&command.args)
            .env_clear()
            .envs(&command.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(directory) = &command.directory {
            line.current_dir(directory);
        }
        #[cfg(unix)]
        line.process_group(0);
        let mut child = line.spawn()?;
        let missing = || io::Error::other("a standard stream of the server is missing");
        let group = child.id();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        if let Some(stream) = child.stderr.take() {
            spawn(stderr.clone().read(stream));
        }
        let process = Self { child, group };
        let streams = ServerStreams {
            stdin: Box::new(stdin.ok_or_else(missing)?),
            stdout: Box::new(stdout.ok_or_else(missing)?),
        };
        Ok((process, streams))
    }

    async fn stop(mut self) {
        let _ = tokio::time::timeout(EXIT_GRACE, self.wait_without_reaping()).await;
        self.kill_group();
        let _ = self.child.wait().await;
    }

    /// Waits for the exit of the leader, kills what is left, and returns its status.
    pub(super) async fn exit(mut self) -> Option<std::process::ExitStatus> {
        self.wait_without_reaping().await;
        self.kill_group();
        self.child.wait().await.ok()
    }

    /// Waits for the exit of the leader. Its pid stays reserved until `stop` has killed the group:
    /// only then is it waited for.
    async fn wait_without_reaping(&mut self) {
        #[cfg(unix)]
        if let Some(pid) = self.pid() {
            use rustix::process::{WaitId, WaitIdOptions, waitid};
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            // Polled: a stop is rare, and a thread that waits would outlive the timeout.
            while matches!(waitid(WaitId::Pid(pid), options), Ok(None)) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        #[cfg(not(unix))]
        let _ = self.child.wait().await;
    }

    #[cfg(unix)]
    fn pid(&self) -> Option<rustix::process::Pid> {
        self.group.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
    }

    fn kill_group(&mut self) {
        #[cfg(unix)]
        if let Some(pid) = self.pid() {
            // The leader has not been waited for yet, so the pid cannot be reused.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        self.group = None;
    }
}

impl Drop for PlainProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_is_kept_bounded_from_its_end() {
        let tail = StderrTail::default();
        for n in 0..100_000 {
            tail.add(format!("line {n}\n").as_bytes());
        }
        assert!(tail.text().len() <= 2 * MAX_STDERR_BYTES);
        assert!(tail.text().ends_with("line 99999\n"));
    }
}
