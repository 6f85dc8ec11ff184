//! Files of other programs that name MCP servers, read in place: where they are, what they may ask
//! for, and what happens to a broken one.
#![cfg(unix)]

use serde_json::{Value, json};

use crate::{TempDir, mcp::server};

/// A server that a file starts.
fn entry() -> Value {
    json!({"command": "sh", "args": ["server.sh"]})
}

fn names_of(dir: &TempDir) -> Vec<String> {
    let list = dir.run(["mcp", "list", "--no-start", "--json"]).json();
    let mut names: Vec<String> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn files_of_every_client_are_read_in_place() {
    let servers = |key: &str, name: &str| json!({key: {name: entry()}}).to_string();
    let codex = |name: &str| format!("[mcp_servers.{name}]\ncommand = \"sh\"\n");
    let dir = TempDir::new(
        "mcp-clients",
        &[
            (".mcp.json", &servers("mcpServers", "portable")),
            (".cursor/mcp.json", &servers("mcpServers", "cursor")),
            (".vscode/mcp.json", &servers("servers", "vscode")),
            (".codex/config.toml", &codex("codex")),
        ],
    );
    let here = dir.work().display().to_string();
    let claude = json!({
        "mcpServers": {"claude-user": entry()},
        "projects": {
            here: {"mcpServers": {"claude-local": entry()}},
            "/elsewhere": {"mcpServers": {"foreign": entry()}},
        },
    });
    dir.put_in_sibling("home", ".claude.json", &claude.to_string());
    dir.put_in_sibling("home/.cursor", "mcp.json", &servers("mcpServers", "cursor-user"));
    dir.put_in_sibling("home/.codex", "config.toml", &codex("codex-user"));
    let applications =
        if cfg!(target_os = "macos") { "home/Library/Application Support" } else { "home/.config" };
    let below = |name: &str| format!("{applications}/{name}");
    dir.put_in_sibling(&below("Code/User"), "mcp.json", &servers("servers", "vscode-user"));
    let desktop = servers("mcpServers", "desktop");
    dir.put_in_sibling(&below("Claude"), "claude_desktop_config.json", &desktop);
    let expected = [
        "claude-local",
        "claude-user",
        "codex",
        "codex-user",
        "cursor",
        "cursor-user",
        "desktop",
        "portable",
        "vscode",
        "vscode-user",
    ];
    assert_eq!(names_of(&dir), expected);
    // The servers of the project wait; a server of the same name elsewhere is no help.
    let list = dir.run(["mcp", "list", "--no-start", "--json"]).json();
    for server in list.as_array().unwrap() {
        let name = server["name"].as_str().unwrap();
        let is_from_project = ["portable", "cursor", "vscode", "codex"].contains(&name);
        assert_eq!(server["waits_for_trust"], is_from_project, "{name}");
    }
    let trust = dir.run(["trust", "--yes"]);
    assert!(trust.out.contains("codex: stdio"), "{trust:?}");
}

#[test]
fn a_broken_file_of_a_cloned_directory_is_a_note_and_stops_nothing() {
    let dir = TempDir::new("mcp-broken", &[(".mcp.json", "{\"mcpServers\": [}")]);
    let list = dir.run(["mcp", "list"]);
    assert_eq!(list.code, Some(0), "{list:?}");
    assert!(list.err.contains("`.mcp.json` are not used: invalid JSON"), "{list:?}");
    assert_eq!(dir.run(["tools", "list"]).code, Some(0));
}

#[test]
fn trust_shows_variables_as_they_are_written() {
    let entry = json!({"command": "sh", "args": ["${workspaceFolder}/a", "${KEY}", "${input:id}"]});
    let inputs = json!([{"type": "promptString", "id": "id"}]);
    let file = json!({"inputs": inputs, "servers": {"s": entry}}).to_string();
    let dir = TempDir::new("mcp-trust-page", &[(".vscode/mcp.json", &file)]);
    let shown = dir.run(["trust", "--yes"]);
    let line = r#"s: stdio "sh" "${workspaceFolder}/a" "${KEY}" "${input:id}""#;
    assert!(shown.out.contains(line), "{shown:?}");
}

/// A file of VS Code whose server gets an input, and writes it down.
fn with_input(name: &str) -> TempDir {
    let script = server("Returns the note of a day.");
    let entry = json!({"command": "sh", "args": ["-c", "echo $KEY >key; exec sh server.sh"],
                       "env": {"KEY": "${input:api-key}"}});
    let inputs = json!([{"type": "promptString", "id": "api-key", "description": "The key",
                         "password": true}]);
    let file = json!({"inputs": inputs, "servers": {"s": entry}}).to_string();
    TempDir::trusted(name, &[(".vscode/mcp.json", &file), ("server.sh", &script)])
}

fn key(dir: &TempDir) -> String {
    let read = std::fs::read(dir.work().join("key")).unwrap_or_default();
    String::from_utf8(read).unwrap().trim().to_owned()
}

#[test]
fn an_input_comes_from_a_variable_and_without_it_the_server_waits() {
    let dir = with_input("mcp-input");
    let list = dir.run(["mcp", "list"]);
    assert!(list.out.contains("it needs the input `api-key`"), "{list:?}");
    assert!(list.err.contains("set `HAFT_INPUT_API_KEY`"), "{list:?}");
    assert_eq!(key(&dir), "", "it was not started");
    let quiet = dir.run(["mcp", "list", "--no-start"]);
    assert!(!quiet.err.contains("HAFT_INPUT"), "nothing starts: {quiet:?}");
    let mut command = dir.command();
    let ran = command.args(["mcp", "list"]).env("HAFT_INPUT_API_KEY", "s3cret").output().unwrap();
    assert!(ran.status.success());
    assert!(!String::from_utf8_lossy(&ran.stdout).contains("s3cret"));
    assert_eq!(key(&dir), "s3cret");
}

#[cfg(target_os = "linux")]
#[test]
fn an_input_is_asked_for_once_at_the_terminal_and_a_secret_is_not_shown() {
    let dir = with_input("mcp-input-tty");
    let mut typed = false;
    let keys = |seen: &str| {
        let is_due = !typed && seen.contains("The key");
        typed |= is_due;
        is_due.then_some("hunter2\r")
    };
    let terminal = crate::terminal::Terminal::like(&dir.command());
    let Some(screen) = terminal.run("haft mcp get s", keys) else { return };
    // The line is folded at the width of the terminal.
    let page = screen.page().replace('\n', " ");
    assert_eq!(page.matches("needs the input").count(), 1, "{page}");
    assert!(!page.contains("hunter2") && page.contains("1 tool"), "{page}");
    assert_eq!(key(&dir), "hunter2");
}

#[test]
fn a_server_that_no_command_could_use_is_not_added() {
    let dir = TempDir::new("mcp-add-wrong", &[]);
    for url in ["notaurl", "ftp://host/x", "http://user:pw@127.0.0.1/mcp"] {
        let added = dir.run(["mcp", "add", "hub", "--url", url]);
        assert!(added.code == Some(1) && added.err.contains("cannot be added"), "{added:?}");
        assert!(!added.err.contains("pw@"), "{added:?}");
    }
    assert_eq!(dir.run(["mcp", "list", "--json"]).json(), json!([]));
    dir.put("haft.toml", "[mcp.servers.a]\ncommand = \"x\"\nconcurrency = 0\n");
    dir.run(["trust", "--yes"]);
    let list = dir.run(["mcp", "list"]);
    assert_eq!(list.err.matches("MCP server `a`").count(), 1, "{list:?}");
}

#[test]
fn a_server_that_does_not_start_is_noted_by_the_gateway() {
    let dir = TempDir::new("mcp-serve-dead", &[]);
    dir.run(["mcp", "add", "dead", "--", "/nonexistent/server"]);
    for words in [&["serve", "--stdio"][..], &["mcp", "wrap", "--", "/nonexistent/server"]] {
        let mut command = dir.command();
        command.args(words).stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let stderr = child.stderr.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).unwrap();
        assert!(line.contains("failed: `/nonexistent/server` cannot be started"), "{line}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

#[test]
fn variables_of_a_file_reach_the_server_after_trust_and_only_from_the_project() {
    let script = server("Returns the note of a day.");
    let entry = |file: &str| {
        json!({"command": "sh", "args": ["-c", "echo $KEY >key; exec sh server.sh"],
               "envFile": file})
    };
    let servers = json!({"servers": {"s": entry("${workspaceFolder}/.env"),
                                     "out": entry("../home/keys")}});
    let files = [
        (".vscode/mcp.json", servers.to_string()),
        ("server.sh", script),
        (".env", "# keys\nKEY='from the file'\n".to_owned()),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let dir = TempDir::new("mcp-env-file", &files);
    dir.put_in_sibling("home", "keys", "KEY=outside\n");
    dir.run(["mcp", "list"]);
    assert_eq!(key(&dir), "", "nothing is started without trust");
    let trust = dir.run(["trust", "--yes"]);
    assert!(trust.out.contains(".env"), "the file is shown: {trust:?}");
    let list = dir.run(["mcp", "list"]);
    assert!(list.out.contains("outside of the project"), "{list:?}");
    assert_eq!(key(&dir), "from the file", "{list:?}");
}

#[test]
fn command_that_makes_headers_runs_at_a_connection_after_trust() {
    let helper = "touch ran; echo '{\"Authorization\": \"Bearer s3cret\"}'";
    let entry = json!({"type": "http", "url": "http://127.0.0.1:9/mcp", "headersHelper": helper});
    let file = json!({"mcpServers": {"hub": entry}}).to_string();
    let dir = TempDir::new("mcp-headers", &[(".mcp.json", &file)]);
    dir.run(["mcp", "list"]);
    let ran = dir.work().join("ran");
    assert!(!ran.exists(), "not without trust");
    let trust = dir.run(["trust", "--yes"]);
    assert!(trust.out.contains("with headers of the command \"touch ran;"), "{trust:?}");
    let list = dir.run(["mcp", "list"]);
    assert!(ran.exists(), "{list:?}");
    assert!(!list.out.contains("s3cret") && !list.err.contains("s3cret"), "{list:?}");
}
