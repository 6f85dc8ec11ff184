//! Takes in progress and log entries in the order in which they arrive, and before the response
//! that follows them. The SDK runs a task for each notification, which keeps no order.

use std::future::Future;

use rmcp::{
    RoleClient,
    model::JsonRpcMessage,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};

use super::handler::Handler;

/// A transport whose notifications reach the handler before the SDK.
pub(super) struct OrderedTransport<T> {
    inner: T,
    handler: Handler,
}

impl<T> OrderedTransport<T> {
    pub(super) fn new(inner: T, handler: &Handler) -> Self {
        Self { inner, handler: handler.clone() }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for OrderedTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        if let JsonRpcMessage::Notification(notification) = &message {
            self.handler.notified(&notification.notification);
        }
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
