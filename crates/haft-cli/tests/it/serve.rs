//! `haft serve`, `haft mcp wrap` and `haft install`, as MCP clients use them.
#![cfg(unix)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use crate::TempDir;

/// `haft serve --stdio` as a child process, after `initialize` of 2025-11-25.
pub(crate) struct Served {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

impl Served {
    pub(crate) fn start(dir: &TempDir, args: &[&str]) -> Self {
        Self::run(dir.command(), args)
    }

    pub(crate) fn run(mut command: Command, args: &[&str]) -> Self {
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut served = Self { child, input, output: BufReader::new(output), next_id: 0 };
        let info = json!({"name": "test", "version": "1"});
        let capabilities = json!({"elicitation": {}});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        assert!(served.request("initialize", params)["result"].is_object());
        served.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        served
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("not a message: {line:?}: {e}"))
    }

    fn start_request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start_request(method, params);
        loop {
            let message = self.receive();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The names of the tools.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let listed = self.request("tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// Closes the pipe; the server ends by itself.
    pub(crate) fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn workspace_tools_are_served_over_stdio_under_its_rules() {
    let rules = "[[rule]]\nmatch = \"Write\"\ndecision = \"deny\"\n";
    let dir = TempDir::new("serve-stdio", &[("a.txt", "hello\n"), ("haft.toml", rules)]);
    let mut served = Served::start(&dir, &["serve", "--stdio"]);
    let listed = served.request("tools/list", json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"read_file") && names.contains(&"read_result"), "{names:?}");
    assert!(!names.contains(&"write_file"), "a denied tool is not listed: {names:?}");
    let read = served.call("read_file", json!({"file_path": "a.txt"}));
    assert_eq!(read["result"]["content"][0]["text"], "1\thello", "{read}");
    let denied = served.call("write_file", json!({"file_path": "b.txt", "content": "x"}));
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    assert!(!dir.work().join("b.txt").exists());
    served.end();
}

#[test]
fn user_of_the_client_approves_and_answers() {
    let dir = TempDir::new("serve-approve", &[]);
    let mut served = Served::start(&dir, &["serve", "--stdio"]);
    let arguments = json!({"file_path": "b.txt", "content": "approved"});
    let params = json!({"name": "write_file", "arguments": arguments});
    let id = served.start_request("tools/call", params);
    let form = served.receive();
    assert_eq!(form["method"], "elicitation/create", "{form}");
    let answer = json!({"action": "accept", "content": {"decision": "allow"}});
    served.send(&json!({"jsonrpc": "2.0", "id": form["id"], "result": answer}));
    let done = served.receive();
    assert_eq!((&done["id"], &done["result"]["isError"]), (&json!(id), &json!(false)), "{done}");
    assert!(dir.work().join("b.txt").exists());

    let question = json!({"name": "ask_user", "arguments": {"question": "Which colour?"}});
    served.start_request("tools/call", question);
    let form = served.receive();
    assert_eq!(form["params"]["message"], "Which colour?", "{form}");
    let answer = json!({"action": "accept", "content": {"answer": "teal"}});
    served.send(&json!({"jsonrpc": "2.0", "id": form["id"], "result": answer}));
    assert_eq!(served.receive()["result"]["content"][0]["text"], "teal");
    served.end();
}

#[test]
fn http_address_is_printed_and_a_signal_ends_the_server() {
    let dir = TempDir::new("serve-http", &[]);
    serve_http(&dir, &["serve", "--http", "127.0.0.1:0"]);
}

/// Serves over HTTP, until the server has answered a request.
pub(crate) fn serve_http(dir: &TempDir, args: &[&str]) {
    let mut command = dir.command();
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let address = url.trim().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /other HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}

#[test]
fn other_addresses_need_a_token() {
    let dir = TempDir::new("serve-token", &[("tokens", "alice\n")]);
    let open = dir.run(["serve", "--http", "0.0.0.0:0"]);
    assert_eq!(open.code, Some(1), "{open:?}");
    assert!(open.err.contains("loopback") && open.err.contains("token"), "{}", open.err);
    assert_eq!(open.out, "", "no URL of a server that does not run");
    let wrong = dir.run(["serve", "--http", "127.0.0.1:0", "--token-file", "tokens"]);
    assert!(wrong.err.contains("line 1"), "{}", wrong.err);
    let address = dir.run(["serve", "--http", "nowhere"]);
    assert!(address.err.contains("not an address"), "{}", address.err);
}

#[test]
fn wrapped_server_keeps_its_names_and_is_governed() {
    let rules = "[[rule]]\nmatch = \"mcp__inner__shell\"\ndecision = \"deny\"\n\
                 [[rule]]\nmatch = \"mcp__inner__read_file\"\ndecision = \"allow\"\n";
    let dir = TempDir::trusted("wrap", &[("a.txt", "hello\n"), ("haft.toml", rules)]);
    let haft = env!("CARGO_BIN_EXE_haft");
    let args = ["mcp", "wrap", "--name", "inner", "--", haft, "serve", "--stdio"];
    let mut served = Served::start(&dir, &args);
    let listed = served.request("tools/list", json!({}));
    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"read_file"), "{names:?}");
    assert!(!names.contains(&"shell"), "a denied tool is not listed: {names:?}");
    let read = served.call("read_file", json!({"file_path": "a.txt"}));
    assert!(read["result"]["content"][0]["text"].as_str().unwrap().contains("hello"), "{read}");
    served.end();
}

#[test]
fn install_changes_commands_keeps_the_old_file_and_can_be_undone() {
    let config = json!({"mcpServers": {
        "files": {"command": "files-server", "args": ["/srv"], "env": {"KEY": "s3cret"}},
        "hosted": {"url": "https://mcp.example.com"},
    }});
    let text = serde_json::to_string_pretty(&config).unwrap();
    let dir = TempDir::new("install", &[("mcp.json", &text)]);
    let read = |name: &str| std::fs::read(dir.work().join(name)).unwrap();
    let dry = dir.run(["install", "cursor", "--file", "mcp.json", "--dry-run"]);
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(!dry.out.contains("s3cret"), "no secret is printed");
    assert_eq!(read("mcp.json"), text.as_bytes());

    assert_eq!(dir.run(["install", "cursor", "--file", "mcp.json"]).code, Some(0));
    let changed: Value = serde_json::from_slice(&read("mcp.json")).unwrap();
    let files = &changed["mcpServers"]["files"];
    assert_eq!(
        files["args"].as_array().unwrap()[..4],
        ["mcp", "wrap", "--name", "files"].map(Value::from)
    );
    assert_eq!(files["env"]["KEY"], "s3cret");
    assert_eq!(changed["mcpServers"]["hosted"], config["mcpServers"]["hosted"]);
    let again = dir.run(["install", "cursor", "--file", "mcp.json", "--json"]);
    assert_eq!(again.json()["servers"][0]["unchanged"], "it is behind haft already");
    assert_eq!(read("mcp.json.before-haft"), text.as_bytes());

    assert_eq!(dir.run(["install", "cursor", "--file", "mcp.json", "--undo"]).code, Some(0));
    assert_eq!(read("mcp.json"), text.as_bytes());
    assert_eq!(dir.run(["install", "cursor", "--file", "mcp.json", "--undo"]).code, Some(1));
}

#[test]
fn install_undo_keeps_what_was_written_later_and_a_symlink_stays_one() {
    let text = r#"{"mcpServers": {"my_srv": {"command": "x", "args": ["-y"]}}}"#;
    let dir = TempDir::new("install-later", &[("mcp.json", text)]);
    let (file, link) = (dir.work().join("mcp.json"), dir.work().join("link.json"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let read = || -> Value { serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap() };
    assert_eq!(dir.run(["install", "cursor", "--file", "link.json"]).code, Some(0));
    assert!(link.is_symlink(), "the file behind it was changed");
    let mut later = read();
    assert_eq!(later["mcpServers"]["my_srv"]["args"][3], "my_srv", "the name that rules use");
    later["mcpServers"]["new"] = json!({"command": "y"});
    dir.put("mcp.json", &later.to_string());
    let undone = dir.run(["install", "cursor", "--file", "link.json", "--undo"]);
    assert!(undone.code == Some(0) && undone.out.contains("has changed since"), "{undone:?}");
    let mut expected: Value = serde_json::from_str(text).unwrap();
    expected["mcpServers"]["new"] = json!({"command": "y"});
    assert_eq!(read(), expected);
    assert!(link.is_symlink());
    let none = dir.run(["install", "cursor", "--file", "link.json", "--undo"]);
    assert!(none.code == Some(1) && none.err.contains("before-haft"), "{none:?}");
    dir.put("mcp.json", "{}");
    let nothing = dir.run(["install", "cursor", "--file", "mcp.json"]);
    assert!(nothing.out.contains("nothing to change"), "{nothing:?}");
}

#[test]
fn options_that_would_do_nothing_and_shared_tokens_are_refused() {
    let dir = TempDir::new("serve-options", &[("tokens", "ada t0ken\nbob t0ken\n")]);
    let ran = dir.run(["serve", "--stdio", "--token-file", "tokens"]);
    assert!(ran.code == Some(1) && ran.err.contains("`--token-file` is for `--http`"), "{ran:?}");
    let ran = dir.run(["serve", "--http", "127.0.0.1:0", "--token-file", "tokens"]);
    assert!(ran.code == Some(1) && ran.err.contains("line 2"), "{ran:?}");
}

#[test]
fn install_knows_codex_and_files_with_comments() {
    let codex = "# mine\nmodel = \"o5\"\n\n[mcp_servers.notes]\ncommand = \"npx\" # slow\n\
                 args = [\"-y\", \"notes\"]\n";
    let vscode =
        "{\n  // of the team\n  \"servers\": {\n    \"notes\": {\"command\": \"npx\"},\n  },\n}\n";
    let dir = TempDir::new("install-codex", &[("config.toml", codex), ("mcp.json", vscode)]);
    let read =
        |name: &str| String::from_utf8(std::fs::read(dir.work().join(name)).unwrap()).unwrap();
    for (client, file, comments) in [
        ("codex", "config.toml", ["# mine", "# slow"]),
        ("vscode", "mcp.json", ["// of the team", "\"servers\""]),
    ] {
        let before = read(file);
        let ran = dir.run(["install", client, "--file", file]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let after = read(file);
        assert!(comments.iter().all(|comment| after.contains(comment)), "{after}");
        assert!(after.contains("\"wrap\"") && after.contains("\"notes\""), "{after}");
        assert_eq!(dir.run(["install", client, "--file", file, "--undo"]).code, Some(0));
        assert_eq!(read(file), before);
    }
}

#[test]
fn wrapped_server_is_pinned_and_a_changed_tool_is_withheld() {
    let server = |text: &str| crate::mcp::server(text);
    let dir = TempDir::new("wrap-pins", &[("server.sh", &server("Returns the note of a day."))]);
    let config = json!({"mcpServers": {"notes": {"command": env!("CARGO_BIN_EXE_haft"),
        "args": ["mcp", "wrap", "--name", "notes", "--", "sh", "server.sh"]}}});
    dir.put(".mcp.json", &config.to_string());
    assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
    let listed = |dir: &TempDir| {
        let args = ["mcp", "wrap", "--name", "notes", "--", "sh", "server.sh"];
        let mut served = Served::start(dir, &args);
        let listed = served.request("tools/list", json!({}));
        served.end();
        listed["result"]["tools"].as_array().unwrap().len()
    };
    assert_eq!(listed(&dir), 1);
    assert!(dir.work().join("haft.lock").exists(), "pinned next to the file that names it");
    dir.put("server.sh", &server("Returns the note, and more."));
    assert_eq!(listed(&dir), 0, "withheld");
    // `haft mcp` knows the server behind the wrapper, with the same pins.
    let diff = dir.run(["mcp", "diff", "notes"]);
    assert_eq!(diff.code, Some(2), "{diff:?}");
    assert_eq!(dir.run(["mcp", "pin", "notes"]).code, Some(0));
    assert_eq!(listed(&dir), 1, "accepted");
}

/// Sends one request of 2026-07-28 to a new `haft serve --stdio`, and returns its answer.
fn ask_new_server(dir: &TempDir, params: Value) -> Value {
    let mut command = dir.command();
    command.args(["serve", "--stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    let mut input = child.stdin.take().unwrap();
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    writeln!(input, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(input);
    assert!(child.wait().unwrap().success());
    serde_json::from_str(&line).unwrap()
}

#[test]
fn approval_survives_the_server_and_is_used_once() {
    let dir = TempDir::new("serve-restart", &[]);
    let write = json!({"name": "write_file",
        "arguments": {"file_path": "new.txt", "content": "written\n"}});
    let asked = ask_new_server(&dir, write.clone());
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let mut retry = write;
    retry["requestState"] = asked["result"]["requestState"].clone();
    let key = asked["result"]["inputRequests"].as_object().unwrap().keys().next().unwrap();
    retry["inputResponses"] = json!({key: {"action": "accept", "content": {"decision": "allow"}}});
    assert!(!dir.work().join("new.txt").exists());
    let done = ask_new_server(&dir, retry.clone());
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert!(dir.work().join("new.txt").exists(), "another process has finished it");
    let again = ask_new_server(&dir, retry);
    assert_eq!(again["error"]["code"], -32602, "{again}");
}

#[test]
fn question_of_ask_user_survives_the_server_and_is_answered_once() {
    let dir = TempDir::new("serve-ask-restart", &[]);
    let ask = json!({"name": "ask_user",
        "arguments": {"question": "Which colour?", "choices": ["red", "teal"]}});
    let asked = ask_new_server(&dir, ask.clone());
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let (key, form) = asked["result"]["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let shown = "Which colour?\nSuggested answers: red, teal";
    assert_eq!(form["params"]["message"], shown, "{form}");
    let mut retry = ask;
    retry["requestState"] = asked["result"]["requestState"].clone();
    retry["inputResponses"] = json!({key: {"action": "accept", "content": {"answer": " teal "}}});
    let done = ask_new_server(&dir, retry.clone());
    assert_eq!(done["result"]["content"][0]["text"], "teal", "{done}");
    let again = ask_new_server(&dir, retry);
    assert_eq!(again["error"]["code"], -32602, "{again}");
    // A question that could imitate other output is refused before the user sees it.
    let spoof = json!({"name": "ask_user", "arguments": {"question": "ok?\u{1b}[2J"}});
    let refused = ask_new_server(&dir, spoof);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}

#[test]
fn read_of_a_resource_is_in_the_audit_file() {
    let dir = TempDir::trusted(
        "serve-audit",
        &[
            ("server.sh", &crate::mcp::server("Returns the note of a day.")),
            (
                "haft.toml",
                "[audit]\nfile = \"audit.jsonl\"\n\n[mcp.servers.notes]\n\
                           command = \"sh\"\nargs = [\"server.sh\"]\n",
            ),
        ],
    );
    let mut served = Served::start(&dir, &["serve", "--stdio"]);
    assert!(served.names().contains(&"notes__read_note".to_owned()));
    let read = served.request("resources/read", json!({"uri": "haft://notes/note://today"}));
    assert!(read["error"].is_object(), "this server has no resources: {read}");
    served.end();
    let text = std::fs::read(dir.work().join("audit.jsonl")).unwrap();
    let line: Value = serde_json::from_slice(text.trim_ascii()).unwrap();
    assert_eq!((&line["server"], &line["method"]), (&json!("notes"), &json!("resources/read")));
    assert_eq!(line["uri"], "haft://notes/note://today");
    assert_eq!((&line["decision"], &line["outcome"]), (&json!("allow"), &json!("error -32601")));
    let tail = dir.run(["audit", "tail"]);
    assert!(tail.out.contains("haft://notes/note://today"), "{tail:?}");
}
