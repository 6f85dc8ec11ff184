//! What the proxy of commands costs: the same `curl` through it and directly, and a first contact
//! that is asked about. The server is on this machine and closes each connection after its answer.

use std::rc::Rc;

use haft::{
    ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse},
    policy::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, Rules},
};
use haft_core::serde_json::json;
use haft_sandbox::{Access, Helper, Workspace};
use haft_tools::BuiltinTools;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use crate::{Case, Group, files::runs, without};

/// Bytes of the large answer.
const LARGE: usize = 64 << 20;

pub(crate) fn groups() -> Result<Vec<Group>, String> {
    if !runs("curl") {
        without("the proxy", "there is no curl");
        return Ok(Vec::new());
    }
    let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tokio = Rc::new(tokio.map_err(|e| e.to_string())?);
    let port = tokio.block_on(serve(&tokio)).map_err(|e| e.to_string())?;
    let listed = format!("[sandbox]\nnetwork = [\"127.0.0.1:{port}\"]\n");
    let asked = format!("{listed}[[rule]]\nmatch = \"host=127.0.0.1\"\ndecision = \"ask\"\n");
    let all = "[sandbox]\nnetwork = \"all\"\n".to_owned();
    let url = format!("http://127.0.0.1:{port}");
    let one = format!("curl -sS {url}/small");
    let many = format!("curl -sS --parallel --parallel-max 8 {url}/small?[1-200] 2>/dev/null");
    let large = format!("curl -sS -o /dev/null {url}/large");
    let tunnel = format!("curl -sS -p -o /dev/null {url}/large");
    let mut groups = Vec::new();
    let mut group = |name: &str, cases: Vec<(&str, &String, &String)>| -> Result<(), String> {
        let made = cases.into_iter().enumerate().map(|(at, (name, config, command))| {
            let command = format!("touch x; {command}");
            let shell = Shell::new(Rc::clone(&tokio), config)?;
            let run = move || shell.run(&command);
            Ok(if at == 0 { Case::new(name, run) } else { Case::baseline(name, run) })
        });
        groups.push(Group {
            name: format!("network: {name}"),
            cases: made.collect::<Result<_, String>>()?,
            times: 1,
            rest: std::time::Duration::from_millis(20),
            has_cpu: false,
            max_rounds: usize::MAX,
        });
        Ok(())
    };
    group(
        "one request",
        vec![
            ("asked at first contact", &asked, &one),
            ("listed", &listed, &one),
            ("no proxy", &all, &one),
        ],
    )?;
    group("200 requests", vec![("listed", &listed, &many), ("no proxy", &all, &many)])?;
    group(
        "64 MiB",
        vec![
            ("through CONNECT", &listed, &tunnel),
            ("plain request", &listed, &large),
            ("no proxy", &all, &large),
        ],
    )?;
    Ok(groups)
}

/// The tool `shell` with a configuration. Its approver says yes at once.
struct Shell {
    tokio: Rc<Runtime>,
    runtime: haft::Runtime,
    home: TempDir,
}

impl Shell {
    fn new(tokio: Rc<Runtime>, config: &str) -> Result<Self, String> {
        let home = tempfile::tempdir().map_err(|e| e.to_string())?;
        let directory = home.path().canonicalize().map_err(|e| e.to_string())?;
        let text = format!("{config}[[rule]]\nmatch = \"Bash\"\ndecision = \"allow\"\n");
        let file = ConfigFile {
            layer: ConfigLayer::User,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: directory.clone(),
            text,
        };
        let config = PolicyConfig::read(&[file], &LoadOptions::default());
        let config = config.map_err(|e| e.to_string())?;
        let workspace = Workspace::builder().root(&directory, Access::Write).build();
        let workspace = workspace.map_err(|e| e.to_string())?;
        let tools = BuiltinTools::new(workspace)
            .helper(Helper::ThisProgram)
            .network_access(config.sandbox.network.clone());
        let registry = ToolRegistry::builder().add(tools).build().map_err(|e| e.to_string())?;
        let rules = Rules::new(config.rules, config.context).map_err(|e| e.to_string())?;
        let yes = |_: &ApprovalRequest<'_>| Ok(ApprovalResponse::allow());
        let runtime = haft::Runtime::builder().registry(registry).policy(rules).approver(yes);
        let runtime = runtime.build().map_err(|e| e.to_string())?;
        Ok(Self { tokio, runtime, home })
    }

    fn run(&self, command: &str) -> Result<(), String> {
        let run = self.runtime.run_builder().working_directory(self.home.path()).start();
        let answers = self.tokio.block_on(async {
            let turn = run.turn().await.map_err(|e| e.to_string())?;
            let call = ToolCall::new("c", "shell", json!({"command": command}));
            Ok::<_, String>(turn.run(vec![call]).await)
        })?;
        let is_success = answers.iter().any(|answer| {
            answer.output().is_some_and(|output| !output.to_text().starts_with("exit code"))
        });
        if is_success { Ok(()) } else { Err(format!("`{command}` failed: {answers:?}")) }
    }
}

/// Answers `/large` with many bytes and everything else with few.
async fn serve(tokio: &Runtime) -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let handle = tokio.handle().clone();
    tokio.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            handle.spawn(async move {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap_or(0);
                let is_large = String::from_utf8_lossy(&request[..read]).contains(" /large");
                let length = if is_large { LARGE } else { 2 };
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let chunk = vec![b'x'; length.min(1 << 20)];
                for _ in 0..length.div_ceil(chunk.len()) {
                    if stream.write_all(&chunk).await.is_err() {
                        return;
                    }
                }
                let _ = stream.shutdown().await;
            });
        }
    });
    Ok(port)
}
