//! A host that collects progress notes, and helpers to call a tool once.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use haft_core::{
    BoxFuture, CallId, CallProfile, DynTool, Failure, IntoTools, Output, Progress, Scope,
    ToolContext, ToolName, Verdict,
    host::{Host, HostContext},
};
use serde_json::Value;

#[derive(Default)]
pub(crate) struct Quiet {
    pub(crate) scope: Scope,
    pub(crate) notes: Mutex<Vec<Progress>>,
}

impl Host for Quiet {
    #[expect(clippy::disallowed_methods, reason = "no test depends on the time")]
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn call(
        self: Arc<Self>,
        _: ToolContext,
        _: CallId,
        name: String,
        _: Value,
    ) -> BoxFuture<'static, Result<Output, Failure>> {
        Box::pin(async move { Ok(Output::text(format!("called {name}"))) })
    }

    #[expect(clippy::disallowed_methods, reason = "the test needs another thread, and only one")]
    fn spawn_blocking(&self, job: Box<dyn FnOnce() + Send>) -> Result<(), Failure> {
        std::thread::spawn(job);
        Ok(())
    }

    fn report(&self, _: &ToolContext, note: Progress) {
        self.notes.lock().unwrap().push(note);
    }
}

/// Makes the context of a call.
pub(crate) fn cx() -> ToolContext {
    cx_of(Scope::default(), Arc::default())
}

/// Makes the context of a call in this scope.
pub(crate) fn cx_of(scope: Scope, host: Arc<Quiet>) -> ToolContext {
    ToolContext::new(CallId::from("call"), ToolName::from("tool"), ToolName::from("tool"), host)
        .with_scope(scope)
}

/// Returns the only tool.
pub(crate) fn only(tools: impl IntoTools) -> DynTool {
    let mut all = tools.into_tools();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// Decodes and runs one call, the way the runtime does.
pub(crate) async fn call(tool: &DynTool, arguments: Value) -> Result<Output, Failure> {
    call_in(tool, arguments, &cx()).await
}

pub(crate) async fn call_in(
    tool: &DynTool,
    arguments: Value,
    cx: &ToolContext,
) -> Result<Output, Failure> {
    let args = tool.body().decode(&Arc::new(arguments))?;
    Arc::clone(tool.body()).call(args, cx.clone()).await
}

/// Returns the profile of a call.
pub(crate) fn profile(tool: &DynTool, arguments: Value) -> CallProfile {
    let args = tool.body().decode(&Arc::new(arguments)).unwrap();
    tool.body().profile(tool.spec().profile(), &args, &cx())
}

/// Returns the verdict of the tool's guard.
pub(crate) async fn guard(tool: &DynTool, arguments: Value) -> Result<Option<Verdict>, Failure> {
    let args = tool.body().decode(&Arc::new(arguments)).unwrap();
    let cx = cx();
    if !tool.body().guards() {
        return Ok(None);
    }
    tool.body().guard(&args, &cx).await
}
