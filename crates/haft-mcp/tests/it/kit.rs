//! Helpers of the tests: the test server in its forms, a runtime with its tools, and its log.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{BoxFuture, Runtime, ToolCall, ToolRegistry, ToolResult, policy::AllowAll};
use haft_mcp::client::{
    ClientHost, ElicitationAnswer, ElicitationRequest, Elicitor, HttpEndpoint, RemoteServer,
    ServerConfig, ServerTransport, StdioCommand,
};
use serde_json::Value;

/// The program of the test server.
pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_haft-mcp-test-server");

/// How long the first turn may wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The configuration of a test server with these arguments.
pub(crate) fn stdio(args: &[&str]) -> ServerConfig {
    let command = StdioCommand::new(SERVER).args(args.iter().copied());
    let command = command.variable("PATH", "/usr/local/bin:/usr/bin:/bin");
    patient(ServerConfig::new("fix", ServerTransport::Stdio(command)))
}

/// The same with a first turn that waits long enough for any machine.
pub(crate) fn patient(mut config: ServerConfig) -> ServerConfig {
    config.start_wait = PATIENCE;
    config
}

/// A server of a configuration.
pub(crate) fn server(config: ServerConfig) -> RemoteServer {
    RemoteServer::new(config).unwrap()
}

/// A server that may ask a person, who says her name.
pub(crate) fn asking(config: ServerConfig) -> RemoteServer {
    let mut host = ClientHost::default();
    host.elicitor = Some(Arc::new(Person));
    RemoteServer::with(config, host).unwrap()
}

struct Person;

impl Elicitor for Person {
    fn ask(&self, request: ElicitationRequest) -> BoxFuture<'_, ElicitationAnswer> {
        assert_eq!((&*request.server, &*request.message), ("fix", "Your name?"));
        Box::pin(async { ElicitationAnswer::Accept(Some(serde_json::json!({"name": "Ada"}))) })
    }
}

/// A runtime with the tools of servers that allows everything.
pub(crate) fn runtime(servers: &[&RemoteServer]) -> Runtime {
    let registry = servers
        .iter()
        .fold(ToolRegistry::builder(), |registry, server| registry.source((*server).clone()));
    Runtime::builder().registry(registry.build().unwrap()).policy(AllowAll).build().unwrap()
}

/// The names of the tools of the next turn.
pub(crate) async fn names(runtime: &Runtime) -> Vec<String> {
    let turn = runtime.run().turn().await.unwrap();
    turn.snapshot().entries().map(|tool| tool.name().to_string()).collect()
}

/// Calls one tool in a run of its own.
pub(crate) async fn call(runtime: &Runtime, tool: &str, arguments: Value) -> ToolResult {
    let turn = runtime.run().turn().await.unwrap();
    turn.run(vec![ToolCall::new("c1", tool, arguments)]).await.pop().unwrap()
}

/// The code of a failed call.
pub(crate) fn code(result: &ToolResult) -> &'static str {
    result.failure().map_or("", |failure| failure.code().as_str())
}

/// A test server over HTTP. It is stopped when dropped.
pub(crate) struct HttpServer {
    child: Child,
    pub(crate) url: String,
}

impl HttpServer {
    pub(crate) fn start(args: &[&str]) -> Self {
        use std::io::BufRead as _;
        let mut child =
            Command::new(SERVER).arg("--http").args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, url: format!("http://127.0.0.1:{}/mcp", line.trim()) }
    }

    pub(crate) fn config(&self) -> ServerConfig {
        let endpoint = HttpEndpoint::new(&self.url);
        patient(ServerConfig::new("fix", ServerTransport::Http(endpoint)))
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file in a directory of its own.
pub(crate) struct TempFile(tempfile::TempDir);

impl TempFile {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("file")
    }

    pub(crate) fn arg(&self) -> String {
        self.path().display().to_string()
    }

    /// Replaces the content at once, so that no reader sees half of it.
    pub(crate) fn write(&self, text: &str) {
        use std::io::Write as _;
        let next = self.0.path().join("next");
        std::fs::File::create(&next).unwrap().write_all(text.as_bytes()).unwrap();
        std::fs::rename(next, self.path()).unwrap();
    }

    /// The messages of a log.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let text = std::fs::read(self.path()).unwrap_or_default();
        let text = String::from_utf8(text).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// How many messages of a log have this method.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.messages().iter().filter(|message| message["method"] == method).count()
    }
}

/// Writes a file.
pub(crate) fn put(path: &std::path::Path, text: &str) {
    use std::io::Write as _;
    std::fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Waits until something is true.
pub(crate) async fn eventually(what: &str, is_true: impl Fn() -> bool) {
    for _ in 0..1_500 {
        if is_true() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within 30 s: {what}");
}

/// Runs a test that measures memory in a process of its own, because other tests of this one use
/// memory too. Returns `true` in that process; the caller returns otherwise.
pub(crate) fn is_alone(test: &str) -> bool {
    const VARIABLE: &str = "HAFT_TEST_ALONE";
    if std::env::var_os(VARIABLE).is_some_and(|running| running == test) {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([test, "--exact", "--nocapture"]).env(VARIABLE, test);
    let ran = child.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("1 passed"), "{out}\n{err}");
    eprintln!("{err}");
    false
}

/// The resident memory of this process, in KiB.
pub(crate) fn resident_kib() -> u64 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status).into_owned();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Whether a process exists and is no zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat).into_owned();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim().starts_with('Z'))
}

/// Collects what is reported.
#[derive(Clone, Default)]
pub(crate) struct Collected(Arc<Mutex<Vec<String>>>);

impl Collected {
    pub(crate) fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}
