//! One client's calls as a run: what they have read taints what they may do.
//!
//! A stdio connection and a session of the protocol of 2025-11-25 are a conversation each. The
//! protocol of 2026-07-28 has no sessions; there a caller is one conversation.

use std::sync::Arc;

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
}

impl Conversation {
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
        Arc::new(Self { run, peers, principal: principal.clone() })
    }
}
