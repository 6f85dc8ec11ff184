//! A task that ends with its owner.

use std::future::Future;

/// A task that is aborted when this is dropped.
#[derive(Debug)]
pub(super) struct OwnedTask(tokio::task::JoinHandle<()>);

impl OwnedTask {
    #[expect(clippy::disallowed_methods, reason = "the owner aborts it, so it cannot be lost")]
    pub(super) fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
