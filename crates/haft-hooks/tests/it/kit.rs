//! Helpers of the tests: a directory for scripts, hook specs, an echo tool, and collected events.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    Runtime, RuntimeBuilder, ToolCall, ToolRegistry, ToolResult,
    events::Event,
    policy::{AllowAll, Handler, HookSpec},
    tool::{DynTool, ToolSpec},
};
use haft_hooks::{Hooks, ProjectDir};
use serde_json::{Value, json};

/// What the model gets when a hook denies with `no`.
pub(crate) const DENIED: &str =
    "denied: no\nNext: continue without it, or report to the user what you would have done";

/// A temporary directory with scripts.
pub(crate) struct ScriptDir(tempfile::TempDir);

impl ScriptDir {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn project(&self) -> ProjectDir {
        let mut project_dir = ProjectDir::new(self.0.path());
        project_dir.variables.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        project_dir.variables.insert("API_KEY".to_owned(), "hunter2".to_owned());
        project_dir
    }

    /// Writes a script and returns a handler that runs it.
    pub(crate) fn script(&self, name: &str, body: &str) -> Handler {
        use std::io::Write as _;
        let path = self.path(name);
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(format!("{body}\n").as_bytes()).unwrap();
        drop(file);
        // Run by `sh` and not executed directly: exec fails with ETXTBSY while a fork of another
        // thread still holds the file open for writing.
        Handler::Command { command: format!("sh ./{name}"), args: None }
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }
}

/// A hook of this event that fails closed.
pub(crate) fn closed(event: &str, handler: Handler) -> HookSpec {
    HookSpec::new(event, handler)
}

/// A hook of this event that fails open.
pub(crate) fn open(event: &str, handler: Handler) -> HookSpec {
    let mut spec = HookSpec::new(event, handler);
    spec.fails_closed = false;
    spec
}

/// The same hook with a shorter timeout.
pub(crate) fn within(mut spec: HookSpec, millis: u64) -> HookSpec {
    spec.timeout = Duration::from_millis(millis);
    spec
}

/// A tool that returns its argument.
pub(crate) fn echo(name: &str) -> DynTool {
    DynTool::new(
        ToolSpec::new(name, "Echoes."),
        json!({"properties": {"x": {"type": "string"}}}),
        |args, _| async move { args["x"].as_str().unwrap_or_default().to_owned() },
    )
}

/// A tool that fails.
pub(crate) fn fails() -> DynTool {
    DynTool::new(ToolSpec::new("fails", "Fails."), json!({}), |_, _| async {
        Err::<(), _>(haft::Failure::failed("no luck"))
    })
}

/// The results of calls with hooks.
pub(crate) struct Seen {
    pub(crate) answers: Vec<ToolResult>,
    pub(crate) open: Vec<String>,
    pub(crate) halted: Option<String>,
}

impl Seen {
    pub(crate) fn text(&self) -> String {
        self.answers[0].text().into_owned()
    }

    pub(crate) fn code(&self) -> Option<&'static str> {
        self.answers[0].failure().map(|failure| failure.code().as_str())
    }
}

/// A builder with the test tools that allows everything.
pub(crate) fn permissive() -> RuntimeBuilder {
    strict().policy(AllowAll)
}

/// The same with the default policy.
pub(crate) fn strict() -> RuntimeBuilder {
    let tools = vec![echo("shell"), echo("other"), fails()];
    Runtime::builder().registry(ToolRegistry::builder().add(tools).build().unwrap())
}

/// Calls one tool with hooks.
pub(crate) async fn call(dir: &ScriptDir, specs: &[HookSpec], tool: &str, args: Value) -> Seen {
    run_calls(dir, specs, permissive(), vec![ToolCall::new("c1", tool, args)]).await
}

/// Runs calls with hooks.
pub(crate) async fn run_calls(
    dir: &ScriptDir,
    specs: &[HookSpec],
    builder: RuntimeBuilder,
    calls: Vec<ToolCall>,
) -> Seen {
    let hooks = Hooks::load(specs, dir.project()).unwrap();
    let input: Arc<Mutex<Vec<String>>> = Arc::default();
    let write_down = Arc::clone(&input);
    let runtime = hooks
        .add_to(builder)
        .observer(move |event: &Event| {
            if let Event::HookFailedOpen { why, .. } = event {
                write_down.lock().unwrap().push(why.clone());
            }
        })
        .build()
        .unwrap();
    let run = runtime.run_builder().session("s1").start();
    let answers = run.turn().await.unwrap().run(calls).await;
    let open = input.lock().unwrap().clone();
    Seen { answers, open, halted: run.halted().map(str::to_owned) }
}
