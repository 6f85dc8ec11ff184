//! One client's calls as a run: what they have read taints what they may do.
//!
//! A stdio connection and a session of the protocol of 2025-11-25 are a conversation each. The
//! protocol of 2026-07-28 has no sessions; there a caller is one conversation.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft::{Run, host::RunBuilder, registry::ToolView};

use super::call_peer::CallPeers;

/// Who makes a request. The default is the local user, of a connection without authentication.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Principal(Arc<str>);

impl Principal {
    pub(super) fn new(name: &str) -> Self {
        Self(name.into())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Principal {
    fn default() -> Self {
        Self("local".into())
    }
}

/// The run of one client, and the clients of its open calls.
pub(super) struct Conversation {
    pub(super) run: Run,
    pub(super) peers: Arc<CallPeers>,
    pub(super) principal: Principal,
    /// The start of the ids of its calls. Ids of two processes differ, because a call may be
    /// finished by another one.
    pub(super) call_prefix: String,
    /// How many calls are running in `run` itself.
    running: AtomicUsize,
}

/// Counts a running call until it is dropped.
pub(super) struct RunningCall(Arc<Conversation>);

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Conversation {
    /// Returns the run of a call of another server's tool. Such a call does not wait for other
    /// calls of the client, because that server orders its calls: while one is running, the next is
    /// a sub-run, which has the same taint.
    pub(super) fn run_of_remote_call(self: &Arc<Self>) -> (Option<Run>, RunningCall) {
        let is_busy = self.running.fetch_add(1, Ordering::Relaxed) > 0;
        let sub_run = is_busy.then(|| self.run.sub_run().start());
        (sub_run, RunningCall(Arc::clone(self)))
    }

    pub(super) fn open(
        run: RunBuilder,
        principal: &Principal,
        view: ToolView,
        id: &str,
    ) -> Arc<Self> {
        let peers = Arc::<CallPeers>::default();
        let run = run
            .user(principal.as_str())
            .session(format!("mcp-{id}"))
            .view(view)
            .run_state(Arc::clone(&peers))
            .start();
        let running = AtomicUsize::new(0);
        let call_prefix = format!("mcp-{}", id.get(..8).unwrap_or(id));
        Arc::new(Self { run, peers, principal: principal.clone(), call_prefix, running })
    }
}
