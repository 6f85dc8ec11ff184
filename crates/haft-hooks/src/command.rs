//! Runs a command as a hook: JSON on its standard input, an exit code and two texts back.
//!
//! The command leads a process group of its own. When its time is over, or nobody waits for it any
//! more, the whole group is killed. What it leaves running after a normal end goes on, and is not
//! waited for, even if it keeps the pipes open.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};

use crate::{place::ProjectDir, ruling::Reply};

/// So much of each stream is kept; the rest is read and dropped. The rest of standard output may
/// hold the decision, so an answer that was truncated is reported as such.
const KEPT: usize = 1 << 20;
/// So long after the end its last words are waited for.
const DRAIN: Duration = Duration::from_millis(200);

/// Runs a command to its end, or to the end of its time.
pub(crate) async fn run(
    command: &str,
    args: Option<&[String]>,
    input: &[u8],
    place: &ProjectDir,
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
        .envs(place.environment())
        .current_dir(&place.path)
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
    match tokio::time::timeout(limit, talk(child, input)).await {
        Ok(reply) => reply,
        Err(_) => Reply::None(format!("no answer within {limit:?}; it was killed")),
    }
}

async fn talk(mut child: Child, input: &[u8]) -> Reply {
    let group = Group::of(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Kept::default(), Kept::default());
    let status = {
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A command that does not read closes the pipe, which is its right.
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
        group.let_go();
        if !are_closed {
            let _ = tokio::time::timeout(DRAIN, streams).await;
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
        Err(error) => Reply::None(format!("its end could not be observed: {error}")),
    }
}

/// The beginning of a stream.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    is_truncated: bool,
}

/// Reads a stream to its end and keeps the beginning of it.
async fn keep(stream: Option<impl AsyncRead + Unpin>, kept: &mut Kept) {
    let Some(mut stream) = stream else { return };
    let mut piece = vec![0; 16 << 10];
    while let Ok(n @ 1..) = stream.read(&mut piece).await {
        let room = KEPT - kept.bytes.len();
        kept.bytes.extend_from_slice(&piece[..n.min(room)]);
        kept.is_truncated |= n > room;
    }
}

/// A process group that is killed unless its leader ended by itself.
struct Group(Option<u32>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id())
    }

    /// Leaves the group alone from now on: its leader has ended, so its number may be reused.
    fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) =
            self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            // The leader has not been waited for yet, so this number is still its own.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}
