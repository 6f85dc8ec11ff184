//! Shared test helpers: calls without a model, and a directory on a real file system.

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_core::{
    BoxFuture, CallId, DynTool, Failure, Host, Output, Progress, Scope, ToolContext, ToolName,
    ToolSpec,
};
use serde_json::Value;

use super::{LexicalResolver, PolicyContext, TaintTracker};
use crate::{
    clock::RuntimeClock,
    registry::RegisteredTool,
    schema::RepairPolicy,
    turn::{Terms, ToolCall, ValidatedCall, admit},
};

/// A host that does nothing.
struct Idle;

impl Host for Idle {
    #[expect(clippy::disallowed_methods, reason = "this clock is not used")]
    fn now(&self) -> std::time::Instant {
        std::time::Instant::now()
    }

    fn call(
        self: Arc<Self>,
        _: ToolContext,
        _: CallId,
        _: String,
        _: Value,
    ) -> BoxFuture<'static, Result<Output, Failure>> {
        Box::pin(async { Err(Failure::failed("nested calls are not available here")) })
    }

    fn spawn_blocking(&self, _: Box<dyn FnOnce() + Send>) -> Result<(), Failure> {
        Err(Failure::failed("no thread is available"))
    }

    fn tell(&self, _: &ToolContext, _: Progress) {}
}

/// Returns a validated call of a tool, in the directory `/w`.
pub(crate) fn call(spec: ToolSpec, schema: Value, arguments: Value) -> ValidatedCall {
    call_in(at("/w"), None, spec, schema, arguments)
}

/// Returns a scope with this working directory.
pub(crate) fn at(folder: impl Into<PathBuf>) -> Scope {
    Scope { working_directory: folder.into().into(), ..Scope::default() }
}

/// Returns a call in any scope, of a tool that may come from an external source.
pub(crate) fn call_in(
    scope: Scope,
    source: Option<&str>,
    spec: ToolSpec,
    schema: Value,
    arguments: Value,
) -> ValidatedCall {
    let tool = DynTool::new(spec, schema, |_, _| async { Ok("ok") });
    let name = match source {
        Some(source) => ToolName::from(format!("{source}__{}", tool.spec().name)),
        None => ToolName::from(tool.spec().name.as_str()),
    };
    let mut entry = RegisteredTool::freeze(name.clone(), &"a test".into(), &tool).unwrap();
    if let Some(source) = source {
        entry = entry.brought_by(source);
    }
    let cx =
        ToolContext::new(Arc::new(scope), "c1".into(), name.clone(), name.clone(), Arc::new(Idle));
    let seen = Arc::new(TaintTracker::default());
    let terms = Terms {
        seen: &seen,
        limit: 1 << 20,
        repair: RepairPolicy::Off,
        timeout: Duration::MAX,
        deadline: Duration::MAX,
        clock: &RuntimeClock,
    };
    admit(Arc::new(entry), ToolCall::new("c1", name, arguments), cx, terms).unwrap()
}

/// Returns a context without a file system.
pub(crate) fn ground() -> PolicyContext {
    PolicyContext {
        world: Arc::new(LexicalResolver),
        home: Some("/home/u".into()),
        ..PolicyContext::default()
    }
}

/// A directory that is deleted on drop.
pub(crate) struct TestDirectory(PathBuf);

impl TestDirectory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("haft-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(crate) fn dir(&self, path: &str) {
        std::fs::create_dir_all(self.at(path)).unwrap();
    }

    #[cfg(unix)]
    pub(crate) fn link(&self, path: &str, to: &str) {
        std::os::unix::fs::symlink(to, self.at(path)).unwrap();
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
