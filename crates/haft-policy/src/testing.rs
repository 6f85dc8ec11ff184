//! Shared test helpers: requests without a runtime, and a directory on a real file system.

use std::{path::PathBuf, sync::Arc};

use haft_core::{CallProfile, RunScope, Scope, ToolName, ToolSpec};
use serde_json::Value;

use super::{LexicalResolver, PolicyContext, PolicyRequest, PolicyTool, ToolTraits};

/// A call of a tool, with everything that a request borrows.
#[derive(Debug)]
pub(crate) struct TestCall {
    name: ToolName,
    source: Option<String>,
    spec: ToolSpec,
    schema: Value,
    traits: ToolTraits,
    arguments: Value,
    profile: CallProfile,
    scope: Scope,
}

impl TestCall {
    pub(crate) fn tool(&self) -> PolicyTool<'_> {
        let mut tool = PolicyTool::new(&self.name, &self.spec, &self.schema, &self.traits);
        tool.remote = self.source.as_deref().map(|source| (source, self.spec.name.as_str()));
        tool
    }

    pub(crate) fn request(&self) -> PolicyRequest<'_> {
        PolicyRequest::new(self.tool(), &self.arguments, &self.profile, &self.scope)
    }
}

/// Returns a call of a tool, in the directory `/w`.
pub(crate) fn call(spec: ToolSpec, schema: Value, arguments: Value) -> TestCall {
    call_in(at("/w"), None, spec, schema, arguments)
}

/// Returns a scope with this working directory.
pub(crate) fn at(directory: impl Into<PathBuf>) -> Scope {
    Scope::from(RunScope { working_directory: directory.into().into(), ..RunScope::default() })
}

/// Returns a call in any scope, of a tool that may come from an external source.
pub(crate) fn call_in(
    scope: Scope,
    source: Option<&str>,
    spec: ToolSpec,
    mut schema: Value,
    arguments: Value,
) -> TestCall {
    // As a registry does: unknown arguments are refused unless the schema allows them.
    if let Some(root) = schema.as_object_mut() {
        root.entry("type").or_insert("object".into());
        root.entry("additionalProperties").or_insert(false.into());
    }
    let name = match source {
        Some(source) => ToolName::from(format!("{source}__{}", spec.name)),
        None => ToolName::from(spec.name.as_str()),
    };
    TestCall {
        name,
        source: source.map(str::to_owned),
        profile: spec.profile(),
        spec,
        schema,
        traits: ToolTraits::default(),
        arguments,
        scope,
    }
}

/// Returns a context without a file system.
pub(crate) fn context() -> PolicyContext {
    PolicyContext {
        resolver: Arc::new(LexicalResolver),
        home: Some("/home/u".into()),
        ..PolicyContext::default()
    }
}

/// Returns the time, for searches that have a time limit.
#[expect(clippy::disallowed_methods, reason = "a test may look at the clock")]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
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
