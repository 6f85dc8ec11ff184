//! Stdio servers in the sandbox: a real server tries to read, write and connect.

use std::path::PathBuf;

use haft_mcp::client::{
    ClientHost, RemoteServer, ServerConfig, ServerSandbox, ServerState, ServerTransport,
};
use serde_json::json;

use crate::kit::{SERVER, call, eventually, is_alive, patient, runtime, stdio};

/// A server that may access what `sandbox` lists.
fn confined(sandbox: ServerSandbox, helper: Option<PathBuf>) -> RemoteServer {
    let ServerConfig { transport: ServerTransport::Stdio(command), .. } = stdio(&[]) else {
        panic!("stdio");
    };
    let mut sandbox = sandbox;
    // The directory, because below /tmp a sandbox shows only directories that are listed.
    sandbox.read.extend(std::path::Path::new(SERVER).parent().map(PathBuf::from));
    let transport = ServerTransport::Stdio(command.sandbox(sandbox));
    let mut host = ClientHost::default();
    host.sandbox_helper = helper;
    RemoteServer::with(patient(ServerConfig::new("fix", transport)), host).unwrap()
}

#[tokio::test]
async fn confined_server_reads_and_writes_only_what_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().canonicalize().unwrap();
    let (work, notes, outside) = (base.join("work"), base.join("notes"), base.join("outside"));
    for path in [&work, &notes, &outside] {
        std::fs::create_dir(path).unwrap();
    }
    for (path, text) in [(outside.join("secret"), "hunter2"), (notes.join("note"), "a note")] {
        std::os::unix::fs::symlink(&path, work.join(text.replace(' ', "-"))).unwrap();
        crate::kit::put(&path, text);
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let sandbox = ServerSandbox {
        read: vec![notes.clone()],
        write: vec![work.clone()],
        ..ServerSandbox::default()
    };
    for network in [false, true] {
        let sandbox = ServerSandbox { network, ..sandbox.clone() };
        let remote = confined(sandbox, Some(SERVER.into()));
        let runtime = runtime(&[&remote]);
        let text = async |tool: &str, text: String| {
            call(&runtime, tool, json!({"text": text})).await.text().into_owned()
        };
        let path = |path: PathBuf| path.display().to_string();
        assert_eq!(text("fix__echo", "hello".into()).await, "hello");
        assert_eq!(text("fix__read_path", path(notes.join("note"))).await, "a note");
        assert_eq!(text("fix__write_path", path(work.join("new"))).await, "written");
        assert!(work.join("new").exists());
        for refused in [
            text("fix__read_path", path(outside.join("secret"))).await,
            text("fix__read_path", path(work.join("hunter2"))).await,
            text("fix__write_path", path(outside.join("new"))).await,
            text("fix__write_path", path(notes.join("new"))).await,
            text("fix__write_path", "/etc/haft-test".into()).await,
        ] {
            assert!(refused.starts_with("refused: "), "{refused}");
        }
        assert!(!outside.join("new").exists() && !notes.join("new").exists());
        let connected = text("fix__connect", address.clone()).await;
        assert_eq!(connected == "connected", network, "{connected}");
        let names = call(&runtime, "fix__environment", json!({})).await;
        let names = names.text();
        assert!(names.contains("HOME") && names.contains("TMPDIR"), "{names}");
        runtime.close().await;
    }
}

#[tokio::test]
async fn closing_a_confined_server_ends_what_it_started() {
    let remote = confined(ServerSandbox::default(), Some(SERVER.into()));
    let runtime = runtime(&[&remote]);
    // In its pid namespace the number is another one, so that it is found by its arguments.
    let before = sleeping();
    let child = call(&runtime, "fix__grandchild", json!({})).await;
    assert!(!child.is_error(), "{}", child.text());
    let ours = || sleeping().into_iter().filter(|pid| !before.contains(pid)).collect::<Vec<_>>();
    eventually("the child runs", || !ours().is_empty()).await;
    let started = ours();
    runtime.close().await;
    eventually("it ends", || !started.iter().any(|pid| is_alive(*pid))).await;
}

/// The processes `sleep 600` whose environment is that of a sandbox.
fn sleeping() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == b"sleep\x00600\x00"
    })
    .collect()
}

#[tokio::test]
async fn without_a_sandbox_a_confined_server_does_not_start() {
    let remote = confined(ServerSandbox::default(), Some("/nonexistent/helper".into()));
    let status = remote.wait(std::time::Duration::from_secs(30)).await;
    assert_eq!(status.state, ServerState::Failed);
    let error = status.error.unwrap();
    assert!(error.contains("cannot be started"), "{error}");
    remote.shut_down().await;
}
