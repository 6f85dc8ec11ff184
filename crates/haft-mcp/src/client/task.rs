//! Tasks of the client. Each belongs to one server and ends with it.

/// Starts a task.
#[expect(
    clippy::disallowed_methods,
    reason = "a connection outlives the call that opened it; its server owns the task"
)]
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(work);
}
