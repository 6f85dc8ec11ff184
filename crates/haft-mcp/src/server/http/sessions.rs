//! Sessions of the protocol of 2025-11-25: bounded in number, and each bound to its caller.
//!
//! INVARIANT: there are never more than `max` sessions. A new one beyond that ends the session that
//! was used longest ago, so abandoned sessions cost a bounded amount of memory.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_server::session::{
        ServerSseMessage, SessionId, SessionManager,
        local::{LocalSessionManager, LocalSessionManagerError},
    },
};

use crate::server::{conversation::Principal, request_streams::RequestStreams};

/// The sessions of a server.
pub(super) struct BoundedSessions {
    inner: LocalSessionManager,
    max: usize,
    pub(super) streams: Arc<RequestStreams>,
    known: Mutex<KnownSessions>,
}

#[derive(Default)]
struct KnownSessions {
    by_id: HashMap<String, KnownSession>,
    /// Rises with every use.
    uses: u64,
}

struct KnownSession {
    last_use: u64,
    owner: Option<Principal>,
}

impl BoundedSessions {
    pub(super) fn new(max: usize, idle: Duration) -> Self {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = Some(idle);
        Self { inner, max: max.max(1), streams: Arc::default(), known: Mutex::default() }
    }

    /// Binds a new session to its caller.
    pub(super) fn bind(&self, id: &str, owner: &Principal) {
        if let Some(known) = self.lock().by_id.get_mut(id) {
            known.owner.get_or_insert_with(|| owner.clone());
        }
    }

    /// Returns whether a caller may use a session.
    pub(super) fn is_owner(&self, id: &str, caller: &Principal) -> bool {
        self.lock().by_id.get(id).is_some_and(|known| known.owner.as_ref() == Some(caller))
    }

    fn touch(&self, id: &SessionId) {
        let mut known = self.lock();
        known.uses += 1;
        let uses = known.uses;
        if let Some(session) = known.by_id.get_mut(&**id) {
            session.last_use = uses;
        }
    }

    /// Returns the sessions that must end, so that there is space for one more.
    fn surplus(&self) -> Vec<String> {
        let mut known = self.lock();
        let mut ended = Vec::new();
        while known.by_id.len() >= self.max {
            let oldest = known.by_id.iter().min_by_key(|(_, session)| session.last_use);
            let Some(id) = oldest.map(|(id, _)| id.clone()) else { break };
            known.by_id.remove(&id);
            ended.push(id);
        }
        ended
    }

    fn lock(&self) -> MutexGuard<'_, KnownSessions> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionManager for BoundedSessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        for id in self.surplus() {
            self.inner.close_session(&id.into()).await?;
        }
        let (id, transport) = self.inner.create_session().await?;
        let mut known = self.lock();
        known.uses += 1;
        let session = KnownSession { last_use: known.uses, owner: None };
        known.by_id.insert(id.to_string(), session);
        drop(known);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.touch(id);
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.lock().by_id.remove(&**id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let open = self.streams.open(id, &message);
        Ok(open.merge(self.inner.create_stream(id, message).await?))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.resume(id, last_event_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sessions_are_bounded_and_the_least_recently_used_ends_first() {
        let sessions = BoundedSessions::new(2, Duration::from_secs(60));
        let (first, _one) = sessions.create_session().await.unwrap();
        let (second, _two) = sessions.create_session().await.unwrap();
        assert!(sessions.has_session(&first).await.unwrap(), "used after the second");
        let (third, _three) = sessions.create_session().await.unwrap();
        assert!(sessions.has_session(&first).await.unwrap());
        assert!(!sessions.has_session(&second).await.unwrap());
        assert!(sessions.has_session(&third).await.unwrap());
        assert_eq!(sessions.lock().by_id.len(), 2);
    }

    #[tokio::test]
    async fn session_belongs_to_the_first_caller_that_it_is_bound_to() {
        let sessions = BoundedSessions::new(2, Duration::from_secs(60));
        let (id, _transport) = sessions.create_session().await.unwrap();
        let (alice, bob) = (Principal::new("alice"), Principal::new("bob"));
        assert!(!sessions.is_owner(&id, &alice), "not bound yet");
        sessions.bind(&id, &alice);
        sessions.bind(&id, &bob);
        assert!(sessions.is_owner(&id, &alice));
        assert!(!sessions.is_owner(&id, &bob));
        assert!(!sessions.is_owner("unknown", &alice));
    }
}
