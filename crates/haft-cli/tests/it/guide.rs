//! Runs every `$ haft …` of the guide and the README, and compares the output.

#[cfg(unix)]
use std::path::Path;
use std::process::Command;

#[cfg(unix)]
use crate::TempDir;
use crate::{Ran, file, isolated, workspace};

#[cfg(unix)]
const AGENTS: &str = include_str!("../../../../docs/guide/agents.md");
#[cfg(target_os = "linux")]
const EXISTING_RULES: &str = include_str!("../../../../docs/guide/existing-rules.md");
const GUIDE: &str = include_str!("../../../../docs/guide/command.md");
#[cfg(target_os = "linux")]
const BUILTIN_TOOLS: &str = include_str!("../../../../docs/guide/builtin-tools.md");
#[cfg(target_os = "linux")]
const PROTECTED: &str = include_str!("../../../../docs/guide/protected-files.md");
const LARGE_RESULTS: &str = include_str!("../../../../docs/guide/large-results.md");
#[cfg(unix)]
const MCP_TOOLS: &str = include_str!("../../../../docs/guide/mcp-tools.md");
#[cfg(unix)]
const MODELS: &str = include_str!("../../../../docs/guide/models.md");
#[cfg(target_os = "linux")]
const NETWORK: &str = include_str!("../../../../docs/guide/network.md");
const OBSERVABILITY: &str = include_str!("../../../../docs/guide/observability.md");
#[cfg(unix)]
const MCP_GATEWAY: &str = include_str!("../../../../docs/guide/mcp-gateway.md");
const README: &str = include_str!("../../../../README.md");
#[cfg(unix)]
const SKILLS: &str = include_str!("../../../../docs/guide/skills.md");
#[cfg(unix)]
const TOOL_SEARCH: &str = include_str!("../../../../docs/guide/tool-search.md");
const SHELL: &str = include_str!("../../../../docs/guide/shell.md");

/// The fenced blocks of one language in a page.
fn blocks(page: &'static str, language: &str) -> Vec<&'static str> {
    let open = format!("```{language}\n");
    page.split(&open).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Matches `…` against any text within a line, and a line of `…` against any number of lines.
fn matches(wanted: &[&str], got: &[&str]) -> bool {
    match (wanted, got) {
        ([], []) => true,
        (["…", rest @ ..], _) => (0..=got.len()).any(|n| matches(rest, &got[n..])),
        ([line, wanted @ ..], [output, got @ ..]) => is_like(line, output) && matches(wanted, got),
        _ => false,
    }
}

fn is_like(line: &str, output: &str) -> bool {
    match line.split_once('…') {
        None => line == output,
        Some((before, after)) => output.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().any(|(at, _)| is_like(after, &rest[at..])) || is_like(after, "")
        }),
    }
}

#[cfg(unix)]
#[test]
fn examples_of_the_command_guide_match_the_output() {
    file("response.json", blocks(GUIDE, "json")[0]);
    let saved = ["tools.jsonl", "calls.jsonl", "stream.jsonl"];
    for (name, lines) in saved.into_iter().zip(blocks(GUIDE, "jsonl")) {
        file(name, lines);
    }
    file("notes.toml", blocks(GUIDE, "toml")[0]);
    let _ = std::fs::remove_file(workspace().join("decided.jsonl"));
    let _ = std::fs::remove_file(workspace().join("today.txt"));
    let _ = std::fs::remove_file(workspace().join("log.txt"));
    let _ = std::fs::remove_dir_all(workspace().join("kept"));
    assert!(run_examples(GUIDE) >= 8, "the guide has examples");
}

#[cfg(unix)]
#[test]
fn examples_of_the_agents_guide_match_the_output() {
    let dir = TempDir::new("agents-guide", &[("agent.jsonl", blocks(AGENTS, "jsonl")[0])]);
    assert!(run_examples_in(AGENTS, &dir.work()) >= 7, "the guide has examples");
    assert!(dir.work().join("today.txt").exists(), "the approved call ran");
}

#[cfg(target_os = "linux")]
#[test]
fn examples_of_the_existing_rules_guide_match_the_output() {
    let files = [
        (".claude/settings.json", blocks(EXISTING_RULES, "json")[0]),
        ("calls.jsonl", blocks(EXISTING_RULES, "jsonl")[0]),
        (".env", "KEY=1"),
        ("src/app.ts", "start();"),
    ];
    let dir = TempDir::new("existing-rules-guide", &files);
    // The file of the third section does not exist before it.
    let (before, after) = EXISTING_RULES.split_once("## Fix them").unwrap();
    assert!(run_examples_in(before, &dir.work()) >= 3, "the guide has examples");
    dir.put("haft.toml", blocks(EXISTING_RULES, "toml")[0]);
    assert!(run_examples_in(after, &dir.work()) >= 5, "the guide has examples");
}

#[cfg(unix)]
#[test]
fn examples_of_the_mcp_gateway_guide_match_the_output() {
    // The first two blocks are files of a client, and the last is that of the example.
    let files = blocks(MCP_GATEWAY, "json");
    assert_eq!(files.len(), 3);
    let client = |file: &str, name: &str| -> Vec<String> {
        let file: serde_json::Value = serde_json::from_str(file).unwrap();
        let entry = &file["mcpServers"][name];
        assert_eq!(entry["command"], "haft");
        let args = entry["args"].as_array().unwrap().iter();
        args.map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let served = |dir: &TempDir, line: &[String], path: &Path| -> Vec<String> {
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let mut command = dir.command();
        command.env("PATH", format!("{}:/usr/bin:/bin", path.display()));
        let mut served = crate::serve::Served::run(command, &line);
        let names = served.names();
        served.end();
        names
    };
    let dir = TempDir::new("mcp-gateway-stdio", &[]);
    let names = served(&dir, &client(files[0], "haft"), &dir.work());
    assert!(names.contains(&"read_file".to_owned()), "{names:?}");

    // The line without a prompt goes on until it is stopped; any free port will do.
    let line = blocks(MCP_GATEWAY, "console")[0].trim().replace(":8765", ":0");
    let line: Vec<&str> = line.split(' ').skip(1).collect();
    crate::serve::serve_http(&dir, &line);

    // `npx` is a script here that starts a small server; `scripts/mcp-peers` starts real ones.
    let server = crate::mcp::server("Adds.").replace(
        r#"{"name":"read_note""#,
        r#"{"name":"delete_entities","inputSchema":{"type":"object"}},{"name":"create_entities""#,
    );
    let npx = "#!/bin/sh\n[ \"$*\" = '-y @modelcontextprotocol/server-memory' ] && \
               exec sh \"${0%/*}/../server.sh\"\n";
    let dir = TempDir::new(
        "mcp-gateway-wrap",
        &[("server.sh", &server), ("bin/npx", npx), ("haft.toml", blocks(MCP_GATEWAY, "toml")[0])],
    );
    make_executable(&dir.work().join("bin/npx"));
    let names = served(&dir, &client(files[1], "memory"), &dir.work().join("bin"));
    assert_eq!(names, ["create_entities"], "the rule of the page hides the other");

    let dir = TempDir::new("mcp-gateway-guide", &[("clients.json", files[2])]);
    assert!(run_examples_in(MCP_GATEWAY, &dir.work()) >= 1, "the guide has examples");
    let rules = TempDir::new("mcp-gateway-rules", &[("haft.toml", blocks(MCP_GATEWAY, "toml")[0])]);
    let explained = rules.run(["explain", "mcp__memory__delete_entities", "--json"]);
    assert_eq!(explained.json()["verdict"]["decision"], "deny", "{explained:?}");
}

#[cfg(unix)]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[test]
fn examples_of_the_models_guide_match_the_output() {
    let dir = TempDir::new("models-guide", &[]);
    assert!(run_examples_in(MODELS, &dir.work()) >= 2, "the guide has examples");
}

#[cfg(unix)]
#[test]
fn examples_of_the_shell_guide_match_the_output() {
    file("commands.jsonl", blocks(SHELL, "jsonl")[0]);
    assert!(run_examples(SHELL) >= 3, "the guide has examples");
}

#[cfg(unix)]
#[test]
fn examples_of_the_readme_match_the_output() {
    file("README.md", README);
    assert!(run_examples(README) >= 2, "the README has examples");
}

#[cfg(target_os = "linux")]
#[test]
fn examples_of_the_builtin_tools_guide_match_the_output() {
    let garden = workspace().join("garden");
    let _ = std::fs::remove_dir_all(&garden);
    std::fs::create_dir(&garden).unwrap();
    file("tools.toml", blocks(BUILTIN_TOOLS, "toml")[0]);
    assert!(run_examples(BUILTIN_TOOLS) >= 5, "the guide has examples");
    let left: Vec<_> = std::fs::read_dir(&garden).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "what was refused left nothing behind: {left:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn examples_of_the_protected_files_guide_match_the_output() {
    let fence = workspace().join("fence");
    let _ = std::fs::remove_dir_all(&fence);
    assert!(run_examples(PROTECTED) >= 3, "the guide has examples");
    assert!(!fence.join(".envrc").exists(), "nothing was written");
}

#[cfg(unix)]
#[test]
fn examples_of_the_large_results_guide_match_the_output() {
    let _ = std::fs::remove_dir_all(workspace().join("results"));
    let rows: Vec<String> =
        (1..=5_000).map(|n| format!("{{\"n\":{n},\"square\":{}}}", n * n)).collect();
    file("rows.json", format!("[\n{}\n]", rows.join(",\n")));
    assert!(run_examples(LARGE_RESULTS) >= 5, "the guide has examples");
}

#[cfg(unix)]
#[test]
fn examples_of_the_mcp_tools_guide_match_the_output() {
    let server = blocks(MCP_TOOLS, "sh")[0];
    let dir = TempDir::new("mcp-tools-guide", &[("notes-server.sh", server)]);
    assert!(run_examples_in(MCP_TOOLS, &dir.work()) >= 6, "the guide has examples");
    let tables = blocks(MCP_TOOLS, "toml");
    for table in &tables {
        let dir = TempDir::trusted("mcp-tools-tables", &[("haft.toml", table)]);
        let listed = dir.run(["mcp", "list", "--no-start"]);
        assert_eq!(listed.code, Some(0), "{table}\n{listed:?}");
    }
    // The confined server of the guide works, in the sandbox.
    let confined = tables.iter().find(|table| table.contains("notes.sandbox")).unwrap();
    let files = [("haft.toml", *confined), ("notes-server.sh", server)];
    let dir = TempDir::trusted("mcp-tools-confined", &files);
    let called = dir.run(["call", "notes__read_note", "day=today", "--yes"]);
    assert_eq!(called.out, "Water the beans.\n", "{called:?}");
}

#[cfg(unix)]
#[test]
fn examples_of_the_skills_guide_match_the_output() {
    let skill = blocks(SKILLS, "markdown")[0];
    let dir = TempDir::new(
        "skills-guide",
        &[
            (".haft/skills/greeting/SKILL.md", skill),
            (".haft/skills/greeting/names.txt", "Kari"),
            ("greet.jsonl", blocks(SKILLS, "jsonl")[0]),
        ],
    );
    assert!(run_examples_in(SKILLS, &dir.work()) >= 2, "the guide has examples");
}

#[cfg(unix)]
#[test]
fn examples_of_the_tool_search_guide_match_the_output() {
    let dir = TempDir::new("tool-search-guide", &[]);
    assert!(run_examples_in(TOOL_SEARCH, &dir.work()) >= 1, "the guide has examples");
}

/// A server on this machine takes the place of the registry in the guide.
#[cfg(target_os = "linux")]
#[test]
fn examples_of_the_network_guide_match_the_output() {
    use std::io::{Read as _, Write as _};
    if Command::new("curl").arg("--version").output().is_err() {
        return eprintln!("NOT TESTED: there is no curl here");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let page: &'static str = Box::leak(NETWORK.replace("4873", &port).into_boxed_str());
    let dir = TempDir::trusted("network-guide", &[("haft.toml", blocks(page, "toml")[0])]);
    if dir.run(["doctor", "--json"]).json()["network_by_host"] != true {
        return eprintln!("NOT TESTED: this machine has no network namespaces");
    }
    /// Ends the server when the examples have ended, also after a panic.
    struct End<'a>(&'a std::sync::atomic::AtomicBool, std::net::SocketAddr);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, std::sync::atomic::Ordering::SeqCst);
            let _ = std::net::TcpStream::connect(self.1);
        }
    }
    let is_ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = End(&is_ended, listener.local_addr().unwrap());
        scope.spawn(|| {
            while let Ok((mut stream, _)) = listener.accept() {
                if is_ended.load(std::sync::atomic::Ordering::SeqCst) {
                    return;
                }
                let _ = stream.read(&mut [0; 4096]);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";
                let _ = stream.write_all(answer);
            }
        });
        assert!(run_examples_in(page, &dir.work()) >= 5, "the guide has examples");
    });
}

#[cfg(unix)]
#[test]
fn examples_of_the_observability_guide_match_the_output() {
    assert!(run_examples(OBSERVABILITY) >= 1, "the guide has examples");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the project's own pages")]
fn every_page_with_console_examples_has_a_test() {
    const TESTED: [&str; 15] = [
        "README.md",
        "agents.md",
        "builtin-tools.md",
        "command.md",
        "existing-rules.md",
        "large-results.md",
        "mcp-gateway.md",
        "mcp-tools.md",
        "models.md",
        "network.md",
        "observability.md",
        "protected-files.md",
        "shell.md",
        "skills.md",
        "tool-search.md",
    ];
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let pages =
        std::fs::read_dir(root.join("docs/guide")).unwrap().map(|page| page.unwrap().path());
    let mut found: Vec<String> = pages
        .chain([root.join("README.md")])
        .filter(|page| std::fs::read_to_string(page).unwrap().contains("```console"))
        .map(|page| page.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, TESTED);
}

/// Replaces `ID` in a command by the id of the only result below `results`.
#[cfg(unix)]
fn with_result_id(line: &str) -> String {
    if !line.contains(" ID ") {
        return line.to_owned();
    }
    let tmp = workspace();
    let list = Command::new(env!("CARGO_BIN_EXE_haft"))
        .args(["result", "list", "--artifacts", "results", "--json"])
        .current_dir(&tmp)
        .env("HOME", &tmp)
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("HAFT_MANAGED_FILE")
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 1, "{list}");
    line.replace(" ID ", &format!(" {} ", list[0]["id"].as_str().unwrap()))
}

/// Replaces `RUN` in a command by the id of the newest run of a directory.
#[cfg(unix)]
fn with_run_id(line: &str, directory: &Path) -> String {
    if !line.contains(" RUN ") {
        return line.to_owned();
    }
    let mut list = Command::new(env!("CARGO_BIN_EXE_haft"));
    list.args(["runs", "list", "--json"]).current_dir(directory);
    let list = isolated(&mut list).output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    line.replace(" RUN ", &format!(" {} ", list[0]["run"].as_str().unwrap()))
}

/// Runs the examples of a page in the workspace of the tests, and counts them.
#[cfg(unix)]
fn run_examples(page: &'static str) -> usize {
    run_examples_in(page, &workspace())
}

/// Runs the examples of a page, and counts them.
#[cfg(unix)]
fn run_examples_in(page: &'static str, directory: &Path) -> usize {
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap();
    let mut count = 0;
    for block in blocks(page, "console") {
        for example in block.split("$ ").skip(1) {
            let (line, wanted) = example.split_once('\n').unwrap();
            let line = with_run_id(&with_result_id(line), directory);
            let mut sh = Command::new("sh");
            isolated(&mut sh);
            // A directory with a home of its own keeps its settings there.
            let home = directory.parent().map(|above| above.join("home"));
            if let Some(home) = home.filter(|home| home.is_dir()) {
                sh.env("XDG_CONFIG_HOME", home.join("config")).env("HOME", home);
            }
            let ran = sh
                .args(["-c", &format!("{{ {line}\n}} 2>&1")])
                .current_dir(directory)
                .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap();
            let output = Ran::of(ran).out;
            let lines = |text: &'static str| text.trim_end().lines().collect::<Vec<_>>();
            let got: Vec<&str> = output.trim_end().lines().collect();
            assert!(matches(&lines(wanted), &got), "$ {line}\nthe guide: {wanted}\nhaft: {output}");
            count += 1;
        }
    }
    count
}
