//! Runs a command as a hook. In: JSON on its standard input. Out: exit code, stdout and stderr.
//!
//! The command has its own process group. On a timeout or cancellation the whole group is killed.
//! Processes that it leaves behind after a normal exit continue, and are not waited for, even if
//! they keep the pipes open.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};

use crate::{project_dir::ProjectDir, reply::Reply};

/// How much of each stream is kept; the rest is read and dropped. The rest of standard output may
/// contain the decision, so a truncated answer is reported as such.
const MAX_STREAM_BYTES: usize = 1 << 20;
/// How long to wait for the rest of the output after the command has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs a command until it exits or times out.
pub(crate) async fn run(
    command: &str,
    args: Option<&[String]>,
    input: &[u8],
    project_dir: &ProjectDir,
    limit: Duration,
) -> Reply {
    let mut line = match args {
        Some(args) => {
            let mut line = Command::new(command);
            line.args(args);
            line
        }
        None => {
            let mut line = Command::new("/bin/sh");
            line.arg("-c").arg(command);
            line
        }
    };
    line.env_clear()
        .envs(project_dir.environment())
        .current_dir(&project_dir.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    line.process_group(0);
    let child = match line.spawn() {
        Ok(child) => child,
        Err(error) => return Reply::None(format!("it cannot be started: {error}")),
    };
    match tokio::time::timeout(limit, communicate(child, input)).await {
        Ok(reply) => reply,
        Err(_) => Reply::None(format!("no answer within {limit:?}; it was killed")),
    }
}

async fn communicate(mut child: Child, input: &[u8]) -> Reply {
    let group = KillOnDrop::of(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (StreamPrefix::default(), StreamPrefix::default());
    let status = {
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input closes the pipe; that is no error.
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
        };
        let streams = async { tokio::join!(feed, keep(stdout, &mut out), keep(stderr, &mut err)) };
        let mut streams = std::pin::pin!(streams);
        let mut are_closed = false;
        let status = loop {
            tokio::select! {
                biased;
                _ = streams.as_mut(), if !are_closed => are_closed = true,
                status = child.wait() => break status,
            }
        };
        group.disarm();
        if !are_closed {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, streams).await;
        }
        status
    };
    match status {
        Ok(status) => Reply::Exit {
            code: status.code(),
            is_text: std::str::from_utf8(&out.bytes).is_ok(),
            is_truncated: out.is_truncated,
            stdout: String::from_utf8_lossy(&out.bytes).into_owned(),
            stderr: String::from_utf8_lossy(&err.bytes).into_owned(),
        },
        Err(error) => Reply::None(format!("waiting for it failed: {error}")),
    }
}

/// The kept prefix of a stream.
#[derive(Default)]
struct StreamPrefix {
    bytes: Vec<u8>,
    is_truncated: bool,
}

/// Reads a stream to its end and keeps a prefix of it.
async fn keep(stream: Option<impl AsyncRead + Unpin>, kept: &mut StreamPrefix) {
    let Some(mut stream) = stream else { return };
    let mut chunk = vec![0; 16 << 10];
    while let Ok(n @ 1..) = stream.read(&mut chunk).await {
        let free = MAX_STREAM_BYTES - kept.bytes.len();
        kept.bytes.extend_from_slice(&chunk[..n.min(free)]);
        kept.is_truncated |= n > free;
    }
}

/// A process group that is killed on drop unless its leader has exited.
struct KillOnDrop(Option<u32>);

impl KillOnDrop {
    fn of(child: &Child) -> Self {
        Self(child.id())
    }

    /// Does not kill the group: its leader has exited, so its pid may be reused.
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) =
            self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            // The leader has not been waited for yet, so the pid cannot be reused.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}
