//! `network` in `haft.toml` and `--network`: what is asked, what is reached, what is written down.
#![cfg(target_os = "linux")]

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::TempDir;

const RULES: &str = "[audit]\nfile = \".haft/audit.jsonl\"\n\n[[rule]]\nmatch = \"Bash(curl *)\"\n\
    decision = \"allow\"\n";

/// Runs a test with a server that answers every request with `hello`.
fn with_server(test: impl FnOnce(u16)) {
    struct End<'a>(&'a AtomicBool, u16);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
            let _ = std::net::TcpStream::connect(("127.0.0.1", self.1));
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&is_ended, port);
        scope.spawn(|| {
            while let Ok((mut stream, _)) = listener.accept() {
                if is_ended.load(Ordering::SeqCst) {
                    return;
                }
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n");
            }
        });
        test(port);
    });
}

/// Whether this machine can run the tests. Prints the reason if not.
fn is_possible(dir: &TempDir) -> bool {
    let has_curl = std::process::Command::new("curl").arg("--version").output().is_ok();
    let by_host = dir.run(["doctor", "--json"]).json()["network_by_host"] == true;
    if !has_curl || !by_host {
        eprintln!("NOT TESTED: curl: {has_curl}, network by host: {by_host}");
    }
    has_curl && by_host
}

#[test]
fn network_of_one_call_is_asked_about_and_audited() {
    let dir = TempDir::trusted("network-option", &[("haft.toml", RULES)]);
    if !is_possible(&dir) {
        return;
    }
    with_server(|port| {
        let (command, host) =
            (format!("command=curl -sS http://127.0.0.1:{port}/"), format!("127.0.0.1:{port}"));
        let refused = dir.run(["call", "shell", &command, "--network", &host]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let asks = format!("it requests network access to `{host}`");
        assert!(refused.err.contains(&asks), "{}", refused.err);
        let reached = dir.run(["call", "shell", &command, "--network", &host, "--yes", "--quiet"]);
        assert_eq!((reached.code, reached.out.as_str()), (Some(0), "hello\n"), "{reached:?}");
        let audit = dir.run(["audit", "tail", "--json"]);
        let line: serde_json::Value =
            serde_json::from_str(audit.out.lines().last().unwrap()).unwrap();
        let hosts = &line["hosts"][0];
        assert_eq!(
            (&hosts["host"], &hosts["port"], &hosts["verdict"]),
            (&"127.0.0.1".into(), &port.into(), &"allowed".into()),
            "{line}"
        );
        assert!(hosts["received"].as_u64().unwrap() > 6, "{line}");
    });
    let other = dir.run(["call", "read_file", "file_path=haft.toml", "--network", "x.org"]);
    assert!(other.err.contains("`read_file` has no argument for hosts"), "{}", other.err);
}

#[test]
fn yes_covers_no_host_that_was_not_named() {
    let rules = format!("{RULES}[sandbox]\nnetwork = \"ask\"\n");
    let dir = TempDir::trusted("network-yes", &[("haft.toml", &rules)]);
    if !is_possible(&dir) {
        return;
    }
    let ran = dir.run(["call", "shell", "command=curl -sS http://unlisted.example/", "--yes"]);
    assert!(ran.out.contains("`--yes` does not cover a host that was not named"), "{ran:?}");
    let shown = dir.run(["call", "shell", "command=curl -sS http://unlisted.example/", "--json"]);
    assert_eq!(shown.json()["tier"]["hosts"][0]["verdict"], "refused", "{shown:?}");
}

#[test]
fn untrusted_directory_opens_no_host() {
    let rules = format!("{RULES}[sandbox]\nnetwork = [\"packages.example\"]\n");
    let dir = TempDir::new("network-untrusted", &[("haft.toml", &rules)]);
    let shown = dir.run(["call", "shell", "command=env", "--json", "--yes"]);
    let text = shown.json().to_string();
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(!text.contains("HTTP_PROXY"), "{text}");
    let trusted = dir.run(["trust"]);
    assert!(trusted.out.contains("contacts packages.example"), "{trusted:?}");
}
