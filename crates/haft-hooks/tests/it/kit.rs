//! What the tests share: a folder for scripts, specs, a tool that echoes, and what observers heard.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    AllowAll, DynTool, Event, Handler, HookSpec, Runtime, RuntimeBuilder, ToolCall, ToolRegistry,
    ToolResult, ToolSpec,
};
use haft_hooks::{Hooks, ProjectDir};
use serde_json::{Value, json};

/// What the model reads when a hook says `no`.
pub(crate) const DENIED: &str =
    "denied: no\nNext: continue without it, or tell the user what you would have done";

/// A folder with scripts.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn place(&self) -> ProjectDir {
        let mut place = ProjectDir::new(self.0.path());
        place.variables.insert("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
        place.variables.insert("API_KEY".to_owned(), "hunter2".to_owned());
        place
    }

    /// Writes a script and returns how it is called.
    pub(crate) fn script(&self, name: &str, body: &str) -> Handler {
        use std::io::Write as _;
        let path = self.path(name);
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(format!("{body}\n").as_bytes()).unwrap();
        drop(file);
        // Read by a shell rather than executed: a file that another thread's fork still holds open
        // for writing cannot be executed.
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

/// The same hook with less time.
pub(crate) fn within(mut spec: HookSpec, millis: u64) -> HookSpec {
    spec.timeout = Duration::from_millis(millis);
    spec
}

/// A tool that says what it was called with.
pub(crate) fn echo(name: &str) -> DynTool {
    DynTool::new(
        ToolSpec::new(name, "Echoes."),
        json!({"properties": {"x": {"type": "string"}}}),
        |args, _| async move { Ok(args["x"].as_str().unwrap_or_default().to_owned()) },
    )
}

/// A tool that fails.
pub(crate) fn fails() -> DynTool {
    DynTool::new(ToolSpec::new("fails", "Fails."), json!({}), |_, _| async {
        Err::<(), _>(haft::Failure::failed("no luck"))
    })
}

/// What came of calling tools with hooks around them.
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

/// A builder over the tools of these tests that allows everything.
pub(crate) fn permissive() -> RuntimeBuilder {
    strict().policy(AllowAll)
}

/// The same with the rules there are without rules.
pub(crate) fn strict() -> RuntimeBuilder {
    let tools = vec![echo("shell"), echo("other"), fails()];
    Runtime::builder().registry(ToolRegistry::builder().add(tools).build().unwrap())
}

/// Calls one tool with hooks around it.
pub(crate) async fn call(folder: &Folder, specs: &[HookSpec], tool: &str, args: Value) -> Seen {
    walk(folder, specs, permissive(), vec![ToolCall::new("c1", tool, args)]).await
}

/// Runs calls with hooks around them.
pub(crate) async fn walk(
    folder: &Folder,
    specs: &[HookSpec],
    builder: RuntimeBuilder,
    calls: Vec<ToolCall>,
) -> Seen {
    let hooks = Hooks::load(specs, folder.place()).unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let write_down = Arc::clone(&told);
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
    let open = told.lock().unwrap().clone();
    Seen { answers, open, halted: run.halted().map(str::to_owned) }
}
