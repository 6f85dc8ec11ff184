//! What the tests of judgement share: calls that nobody made, and a folder on a real disk.

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
    #[expect(clippy::disallowed_methods, reason = "nobody looks at this clock")]
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
        Box::pin(async { Err(Failure::failed("there is nobody to call")) })
    }

    fn spawn_blocking(&self, _: Box<dyn FnOnce() + Send>) -> Result<(), Failure> {
        Err(Failure::failed("there is no thread"))
    }

    fn tell(&self, _: &ToolContext, _: Progress) {}
}

/// Returns a call of a tool, admitted, in the folder `/w`.
pub(crate) fn call(spec: ToolSpec, schema: Value, arguments: Value) -> ValidatedCall {
    call_in(at("/w"), None, spec, schema, arguments)
}

/// Returns a scope that works in this folder.
pub(crate) fn at(folder: impl Into<PathBuf>) -> Scope {
    Scope { working_directory: folder.into().into(), ..Scope::default() }
}

/// Returns a call in any scope, of a tool that a source may have brought.
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

/// Returns a ground without a disk.
pub(crate) fn ground() -> PolicyContext {
    PolicyContext {
        world: Arc::new(LexicalResolver),
        home: Some("/home/u".into()),
        ..PolicyContext::default()
    }
}

/// A folder that goes away with its value.
pub(crate) struct Folder(PathBuf);

impl Folder {
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

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
