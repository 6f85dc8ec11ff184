//! The signals that end a command: Ctrl-C, SIGTERM and SIGHUP.
//!
//! On each of them all calls are cancelled and get a result, and child processes are killed, as far
//! as possible.

/// The signals that end this command.
pub(crate) struct Signals {
    #[cfg(unix)]
    streams: Vec<tokio::signal::unix::Signal>,
}

/// Which signal came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalKind {
    /// Ctrl-C: a person wants to stop what happens now.
    Interrupt,
    /// SIGTERM or SIGHUP: the process has to end.
    End,
}

impl Signals {
    /// Installs the handlers. A signal that the parent process ignored, as `nohup` does, stays
    /// ignored.
    #[cfg(unix)]
    pub(crate) fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let all = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let kinds = all
            .into_iter()
            .filter(|kind| *kind == SignalKind::interrupt() || !is_ignored(kind.as_raw_value()));
        Self { streams: kinds.filter_map(|kind| signal(kind).ok()).collect() }
    }

    #[cfg(not(unix))]
    pub(crate) fn listen() -> Self {
        Self {}
    }

    /// Waits for the next one.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> SignalKind {
        use std::task::Poll;
        std::future::poll_fn(|cx| {
            let here = self.streams.iter_mut().position(|stream| stream.poll_recv(cx).is_ready());
            match here {
                Some(0) => Poll::Ready(SignalKind::Interrupt),
                Some(_) => Poll::Ready(SignalKind::End),
                None => Poll::Pending,
            }
        })
        .await
    }

    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> SignalKind {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        SignalKind::Interrupt
    }
}

/// Whether this process ignores a signal, read from `/proc`.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let bit = u32::try_from(signal - 1).ok().and_then(|at| 1u64.checked_shl(at)).unwrap_or(0);
    mask & bit != 0
}
