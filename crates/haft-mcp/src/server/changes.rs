//! News for clients: lists that changed, resources that were updated.
//!
//! A change is announced after a short while, so that many changes are one announcement.

use std::time::Duration;

use rmcp::{
    Peer, RoleServer,
    model::{ResourceUpdatedNotificationParam, SubscriptionFilter},
    service::SubscriptionSink,
};
use tokio::sync::broadcast;

/// How long changes of a list are collected.
const COLLECT_TIME: Duration = Duration::from_millis(100);
/// How many changes a client may be behind. One that is further behind gets every list changed.
const MAX_BEHIND: usize = 256;

/// Something that clients may want to know.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ListChange {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// The content of the resource with this URI.
    Resource(String),
}

/// Announces changes to all clients. A clone announces to the same ones.
#[derive(Debug, Clone)]
pub struct Changes(broadcast::Sender<ListChange>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_BEHIND))
    }
}

impl Changes {
    /// Announces a change.
    pub fn announce(&self, change: ListChange) {
        // No client listens: nothing to announce.
        let _ = self.0.send(change);
    }

    pub(super) fn follow(&self) -> ChangeReader {
        ChangeReader(self.0.subscribe())
    }
}

/// Reads changes in groups.
pub(super) struct ChangeReader(broadcast::Receiver<ListChange>);

impl ChangeReader {
    /// Waits for changes and returns those of a short while, each once; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Vec<ListChange>> {
        let mut changes = Vec::new();
        self.receive(&mut changes).await?;
        let collected = tokio::time::sleep(COLLECT_TIME);
        tokio::pin!(collected);
        loop {
            tokio::select! {
                () = &mut collected => break,
                more = self.receive(&mut changes) => if more.is_none() { break },
            }
        }
        changes.sort();
        changes.dedup();
        Some(changes)
    }

    async fn receive(&mut self, into: &mut Vec<ListChange>) -> Option<()> {
        match self.0.recv().await {
            Ok(change) => into.push(change),
            Err(broadcast::error::RecvError::Lagged(_)) => {
                into.extend([ListChange::Tools, ListChange::Prompts, ListChange::Resources]);
            }
            Err(broadcast::error::RecvError::Closed) => return None,
        }
        Some(())
    }
}

/// Sends a change to a subscription. Returns `false` if it has ended.
pub(super) async fn send_to_subscription(sink: &SubscriptionSink, change: &ListChange) -> bool {
    let wanted = sink.accepted();
    if !is_wanted(wanted, change) {
        return true;
    }
    let sent = match change {
        ListChange::Tools => sink.notify_tool_list_changed().await,
        ListChange::Prompts => sink.notify_prompt_list_changed().await,
        ListChange::Resources => sink.notify_resource_list_changed().await,
        ListChange::Resource(uri) => sink.notify_resource_updated(uri).await,
    };
    sent.is_ok()
}

fn is_wanted(wanted: &SubscriptionFilter, change: &ListChange) -> bool {
    match change {
        ListChange::Tools => wanted.tools_list_changed == Some(true),
        ListChange::Prompts => wanted.prompts_list_changed == Some(true),
        ListChange::Resources => wanted.resources_list_changed == Some(true),
        ListChange::Resource(uri) => {
            wanted.resource_subscriptions.as_ref().is_some_and(|uris| uris.contains(uri))
        }
    }
}

/// Sends a change to a client of the protocol of 2025-11-25. Returns `false` if it has gone.
pub(super) async fn send_to_session(
    peer: &Peer<RoleServer>,
    change: &ListChange,
    is_subscribed: impl Fn(&str) -> bool,
) -> bool {
    let sent = match change {
        ListChange::Tools => peer.notify_tool_list_changed().await,
        ListChange::Prompts => peer.notify_prompt_list_changed().await,
        ListChange::Resources => peer.notify_resource_list_changed().await,
        ListChange::Resource(uri) if !is_subscribed(uri) => return true,
        ListChange::Resource(uri) => {
            peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri.clone())).await
        }
    };
    sent.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_changes_are_one_announcement() {
        let changes = Changes::default();
        let mut reader = changes.follow();
        for _ in 0..50 {
            changes.announce(ListChange::Tools);
            changes.announce(ListChange::Resource("a".into()));
        }
        let first = reader.next().await.unwrap();
        assert_eq!(first, [ListChange::Tools, ListChange::Resource("a".into())]);
        for _ in 0..1_000 {
            changes.announce(ListChange::Prompts);
        }
        let lagged = reader.next().await.unwrap();
        assert_eq!(lagged, [ListChange::Tools, ListChange::Prompts, ListChange::Resources]);
        drop(changes);
        assert_eq!(reader.next().await, None);
    }
}
