//! Takes in progress and log entries in the order in which they arrive, and before the response
//! that follows them. The SDK runs a task for each notification, which keeps no order.
//!
//! It also leaves out a late answer to the probe of the protocol. A server that takes long to start
//! (`npx` installs it first) answers the probe after the SDK has gone on with `initialize`, which
//! would fail on it.

use std::future::Future;

use rmcp::{
    RoleClient,
    model::{ClientRequest, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};

use super::handler::Handler;

/// A transport whose notifications reach the handler before the SDK.
pub(super) struct OrderedTransport<T> {
    inner: T,
    handler: Handler,
    /// The probe, and whether `initialize` was sent after it.
    probe: Option<RequestId>,
    has_given_up_probe: bool,
}

impl<T> OrderedTransport<T> {
    pub(super) fn new(inner: T, handler: &Handler) -> Self {
        Self { inner, handler: handler.clone(), probe: None, has_given_up_probe: false }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for OrderedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item {
            match &request.request {
                ClientRequest::DiscoverRequest(_) => self.probe = Some(request.id.clone()),
                ClientRequest::InitializeRequest(_) => self.has_given_up_probe = true,
                _ => {}
            }
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            let answered = match &message {
                JsonRpcMessage::Notification(notification) => {
                    self.handler.notified(&notification.notification);
                    None
                }
                JsonRpcMessage::Response(response) => Some(&response.id),
                JsonRpcMessage::Error(error) => error.id.as_ref(),
                JsonRpcMessage::Request(_) => None,
            };
            if self.has_given_up_probe && answered.is_some() && answered == self.probe.as_ref() {
                continue;
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
