//! Adapts tower layers as middleware.
//!
//! A layer wraps a service once, so that its state covers all calls; each call uses a clone, as
//! tower requires. The service behind the layers is a `Door`: when the layers call it, the inner
//! layers start here, and their outcome is returned through it. If a layer stops waiting, it drops
//! its future, and the body is cancelled.

use std::{
    fmt,
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context as Task, Poll},
    time::Duration,
};

use haft_core::{BoxError, BoxFuture, Failure, FailureCode, Output, ToolContext, Verdict};
use serde_json::Value;
use tokio::sync::oneshot;
use tower_layer::Layer;
use tower_service::Service;

use super::{Middleware, Next, Outcome};
use crate::{lifecycle::AuthorizedCall, registry::RegisteredTool};

/// An authorized call, as layers see it. It is immutable.
pub struct Request {
    tool: Arc<RegisteredTool>,
    arguments: Arc<Value>,
    cx: ToolContext,
    verdict: Verdict,
    door: oneshot::Sender<oneshot::Sender<Outcome>>,
}

impl Request {
    /// Returns the tool.
    #[must_use]
    pub fn tool(&self) -> &RegisteredTool {
        &self.tool
    }

    /// Returns the frozen arguments.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Returns the call: its run, its ids, its names.
    #[must_use]
    pub fn context(&self) -> &ToolContext {
        &self.cx
    }

    /// Returns who allowed it, and why.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("call", &self.cx).finish_non_exhaustive()
    }
}

/// The service that layers wrap: the inner layers, up to the body.
#[derive(Debug, Clone, Copy)]
pub struct Door(());

impl Service<Request> for Door {
    type Response = Output;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Output, BoxError>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Box::pin(async move {
            let (tell, told) = oneshot::channel();
            let sent = request.door.send(tell);
            match (sent, told.await) {
                (Ok(()), Ok(outcome)) => outcome.map_err(|failure| Failed(failure).into()),
                _ => Err("the call is no longer waited for".into()),
            }
        })
    }
}

/// A failure of the call, as an error that layers can pass on. If it comes back, it is the call's
/// result unchanged.
#[derive(Debug)]
pub struct Failed(pub Failure);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Failed {}

/// A tower layer as a middleware.
pub struct Adapted<S> {
    name: String,
    timeout: Option<Duration>,
    service: Mutex<S>,
    on_error: Box<dyn Fn(BoxError) -> Failure + Send + Sync>,
}

/// Makes a middleware from a tower layer.
///
/// Waiting until the layer is ready counts against the middleware's timeout: a layer that may delay
/// calls for longer than the runtime's `judge_timeout` needs a [`timeout`](Adapted::timeout) of its
/// own. An error of the layer itself is a failure of the call whose message only the operator sees,
/// unless [`on_error`](Adapted::on_error) maps it.
pub fn adapt<L>(name: impl Into<String>, layer: L) -> Adapted<L::Service>
where
    L: Layer<Door>,
{
    Adapted {
        name: name.into(),
        timeout: None,
        service: Mutex::new(layer.layer(Door(()))),
        on_error: Box::new(|error| {
            Failure::new(FailureCode::HookFailed, "a middleware of the host stopped the call")
                .with_source(error)
        }),
    }
}

impl<S> Adapted<S> {
    /// Sets the timeout of the layer, without the time of the body.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Maps an error of the layer to a failure for the model.
    #[must_use]
    pub fn on_error(mut self, read: impl Fn(BoxError) -> Failure + Send + Sync + 'static) -> Self {
        self.on_error = Box::new(read);
        self
    }

    fn read(&self, answered: Result<Output, impl Into<BoxError>>) -> Outcome {
        answered.map_err(|error| match error.into().downcast::<Failed>() {
            Ok(failed) => failed.0,
            Err(own) => (self.on_error)(own),
        })
    }
}

impl<S> fmt::Debug for Adapted<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapted").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S> Middleware for Adapted<S>
where
    S: Service<Request, Response = Output, Error: Into<BoxError> + Send, Future: Send>
        + Clone
        + Send
        + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn call<'a>(&'a self, call: &'a AuthorizedCall, next: Next<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let mut service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Err(error) = poll_fn(|task| service.poll_ready(task)).await {
                return self.read(Err(error));
            }
            let (door, opened) = oneshot::channel();
            let mut answer = pin!(service.call(request(call, door)));
            let opened = tokio::select! {
                biased;
                answered = answer.as_mut() => return self.read(answered),
                opened = opened => opened,
            };
            // The layers let go of the call: what they say is the answer, and nothing runs.
            let Ok(tell) = opened else { return self.read(answer.await) };
            let outcome = tokio::select! {
                biased;
                answered = answer.as_mut() => return self.read(answered),
                outcome = next.run() => outcome,
            };
            // Where nobody listens any more, the layers answer on their own.
            let _ = tell.send(outcome);
            self.read(answer.await)
        })
    }
}

fn request(call: &AuthorizedCall, door: oneshot::Sender<oneshot::Sender<Outcome>>) -> Request {
    let admitted = call.admitted();
    Request {
        tool: Arc::clone(admitted.tool()),
        arguments: Arc::clone(admitted.arguments()),
        cx: admitted.context().clone(),
        verdict: call.verdict().clone(),
        door,
    }
}
