//! Real commands in the real sandbox, through the whole call pipeline.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    FailureCode, Run, Runtime, RuntimeBuilder, ToolCall, ToolRegistry, ToolResult,
    events::Event,
    journal::RecordQuery,
    policy::{AllowAll, ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, Rules},
    taint::Trust,
    tool::{Execution, Progress},
};
use haft_sandbox::{Access, Helper, Sandbox, Workspace};
use haft_tools::BuiltinTools;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    host_git::{commit_all, host_git},
    project::helper,
};

/// A workspace directory, and one next to it that no command may change.
struct TestWorkspace {
    inside: PathBuf,
    outside: PathBuf,
    _directory: TempDir,
}

impl TestWorkspace {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let (inside, outside) = (base.join("inside"), base.join("outside"));
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        put(&inside.join("notes.txt"), "one\ntwo\n");
        put(&outside.join("secret.txt"), "outside");
        Self { inside, outside, _directory: directory }
    }

    fn builtin(&self) -> BuiltinTools {
        let workspace = Workspace::builder().root(&self.inside, Access::Write).build().unwrap();
        BuiltinTools::new(workspace)
    }

    fn runtime(&self) -> TestRuntime {
        self.with(self.builtin().helper(helper()))
    }

    fn with(&self, builtin: BuiltinTools) -> TestRuntime {
        let registry = ToolRegistry::builder().add(builtin).build().unwrap();
        self.build(Runtime::builder().registry(registry).policy(AllowAll))
    }

    fn build(&self, runtime: RuntimeBuilder) -> TestRuntime {
        TestRuntime { runtime: runtime.build().unwrap(), inside: self.inside.clone() }
    }

    /// Tools that a file declares.
    fn declaring(&self, text: &str) -> TestRuntime {
        let tools = self.setup(text).tools;
        self.with(self.builtin().helper(helper()).declared(tools))
    }

    /// The same, with the rules of the file as policy.
    fn with_rules(&self, text: &str) -> TestRuntime {
        let PolicyConfig { tools, rules, context, .. } = self.setup(text);
        let builtin = self.builtin().helper(helper()).declared(tools);
        let registry = ToolRegistry::builder().add(builtin).build().unwrap();
        let rules = Rules::new(rules, context).unwrap();
        self.build(Runtime::builder().registry(registry).policy(rules))
    }

    fn setup(&self, text: &str) -> PolicyConfig {
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: self.inside.clone(),
            text: text.to_owned(),
        };
        let options = LoadOptions { trusted: true, ..LoadOptions::default() };
        PolicyConfig::read(&[file], &options).unwrap()
    }
}

/// A runtime, and the working directory of its runs.
struct TestRuntime {
    runtime: Runtime,
    inside: PathBuf,
}

impl TestRuntime {
    fn run(&self) -> Run {
        self.runtime.run_builder().working_directory(&self.inside).start()
    }
}

fn put(path: &Path, text: &str) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn get(path: &Path) -> String {
    String::from_utf8(fs::read(path).unwrap()).unwrap()
}

async fn call(runtime: &TestRuntime, tool: &str, arguments: Value) -> ToolResult {
    let turn = runtime.run().turn().await.unwrap();
    let mut answers = turn.run(vec![ToolCall::new("c1", tool, arguments)]).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

async fn shell(runtime: &TestRuntime, command: &str) -> ToolResult {
    call(runtime, "shell", json!({"command": command})).await
}

fn text(answer: &ToolResult) -> String {
    match answer.failure() {
        Some(failure) => panic!("{failure} {:?}", failure.cause()),
        None => answer.output().unwrap().to_text(),
    }
}

fn data(answer: &ToolResult) -> &Value {
    answer.output().unwrap().structured.as_ref().unwrap()
}

fn code(answer: &ToolResult) -> FailureCode {
    match answer.failure() {
        Some(failure) => failure.code(),
        None => panic!("it succeeded: {}", answer.output().unwrap().to_text()),
    }
}

/// A sleep duration that no other process has in its command line.
fn marker() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!("31.{}", RandomState::new().hash_one(0) | 1 << 63)
}

fn survivors(marker: &str) -> usize {
    let lines = fs::read_dir("/proc").unwrap().flatten();
    let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(marker)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn command_and_argv_return_output_and_exit_status() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.runtime();
    assert_eq!(text(&shell(&runtime, "cat notes.txt").await), "one\ntwo\n");
    assert_eq!(text(&shell(&runtime, "cat *.txt | wc -l").await).trim(), "2");
    let odd =
        call(&runtime, "shell", json!({"argv": ["printf", "%s|", "a b", "$HOME", "*", "; ls"]}));
    assert_eq!(text(&odd.await), "a b|$HOME|*|; ls|", "no shell reads words");
    let both = shell(&runtime, "echo out; echo err >&2; exit 3").await;
    assert_eq!(text(&both), "exit code 3\nstdout:\nout\n\nstderr:\nerr\n");
    assert_eq!(data(&both)["exit"]["code"], 3);
    assert_eq!(text(&shell(&runtime, "true").await), "done; nothing was printed");
    let killed = text(&shell(&runtime, "kill -9 $$").await);
    assert!(killed.starts_with("ended by signal 9"), "{killed}");
    let fed = json!({"argv": ["cat"], "stdin": "from outside"});
    assert_eq!(text(&call(&runtime, "shell", fed).await), "from outside");
    let there = json!({"argv": ["pwd"], "cwd": "sub"});
    assert!(text(&call(&runtime, "shell", there).await).trim().ends_with("/inside/sub"));
}

#[tokio::test(flavor = "multi_thread")]
async fn result_has_the_tier_and_untrusted_output() {
    let fixture = TestWorkspace::new();
    let answer = shell(&fixture.runtime(), "wc -l notes.txt").await;
    let level = data(&answer)["tier"]["level"].as_str().unwrap().to_owned();
    assert!(["namespaces", "landlock"].contains(&&*level), "{level}");
    assert_eq!(data(&answer)["kind"], "read_only");
    assert_eq!(answer.label().trust, Trust::Untrusted);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_write_only_inside_the_workspace() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.runtime();
    text(&shell(&runtime, "echo new > made.txt").await);
    assert_eq!(get(&fixture.inside.join("made.txt")), "new\n");
    let outside = fixture.outside.join("secret.txt");
    for command in [
        format!("echo x > {}", outside.display()),
        format!("rm {}", outside.display()),
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit".to_owned(),
        "echo x > haft.toml".to_owned(),
    ] {
        let answer = shell(&runtime, &command).await;
        assert_ne!(data(&answer)["exit"]["code"], 0, "{command}: {}", text(&answer));
    }
    assert_eq!(get(&outside), "outside");
    assert!(!fixture.inside.join("haft.toml").exists());
    assert!(!fixture.inside.join(".git/hooks/pre-commit").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_have_no_network_by_default() {
    let fixture = TestWorkspace::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let knock = format!("echo hi > /dev/tcp/127.0.0.1/{port}");
    let answer = shell(&fixture.runtime(), &knock).await;
    assert_ne!(data(&answer)["exit"]["code"], 0, "{}", text(&answer));
    let open = fixture.with(fixture.builtin().helper(helper()).network());
    assert_eq!(data(&shell(&open, &knock).await)["exit"]["code"], 0);
    let warns = |there: &TestRuntime| {
        let mut entries = there.runtime.registry().own();
        let entry = entries.find(|entry| *entry.name() == "shell").unwrap();
        entry.spec().description.contains("there is no network")
    };
    assert!(warns(&fixture.runtime()) && !warns(&open), "the model knows what it has");
}

#[tokio::test(flavor = "multi_thread")]
async fn cwd_outside_the_workspace_is_refused() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.runtime();
    std::os::unix::fs::symlink(&fixture.outside, fixture.inside.join("way-out")).unwrap();
    let absolute = fixture.outside.display().to_string();
    for cwd in ["..", "../outside", &absolute, "/", "sub/../..", "way-out", "~"] {
        let answer =
            call(&runtime, "shell", json!({"command": "echo x > here.txt", "cwd": cwd})).await;
        assert_eq!(
            (code(&answer), answer.execution()),
            (FailureCode::OutsideWorkspace, Execution::NotStarted),
            "{cwd}"
        );
    }
    assert!(!fixture.outside.join("here.txt").exists());
    let file = call(&runtime, "shell", json!({"command": "ls", "cwd": "notes.txt"})).await;
    assert_eq!(code(&file), FailureCode::InvalidValue);
    let neither = call(&runtime, "shell", json!({})).await;
    assert_eq!(
        (code(&neither), neither.execution()),
        (FailureCode::BadArguments, Execution::NotStarted)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sandbox_no_process_starts_and_the_operator_gets_a_hint() {
    let fixture = TestWorkspace::new();
    let answer = shell(&fixture.with(fixture.builtin()), "touch made").await;
    assert_eq!(
        (code(&answer), answer.execution()),
        (FailureCode::SandboxUnavailable, Execution::NotStarted)
    );
    let cause = answer.failure().unwrap().cause().unwrap();
    assert!(cause.contains("haft_sandbox::init()"), "{cause}");
    assert!(!answer.text().contains("haft_sandbox"), "the model cannot do anything about it");
    // A program that never called `init` is no helper; the operator learns it.
    let answer =
        shell(&fixture.with(fixture.builtin().helper(Helper::ThisProgram)), "touch made").await;
    assert_eq!(code(&answer), FailureCode::SandboxUnavailable);
    assert!(answer.failure().unwrap().cause().unwrap().contains("haft_sandbox::init()"));
    assert!(!fixture.inside.join("made").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn timeout_kills_all_child_processes() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.runtime();
    let marker = marker();
    let command = format!("echo begun; (setsid sleep {marker} &) ; sleep {marker}");
    let slow = json!({"command": command, "timeout_ms": 400});
    let answer = call(&runtime, "shell", slow).await;
    assert_eq!((code(&answer), answer.execution()), (FailureCode::TimedOut, Execution::Completed));
    assert!(answer.failure().unwrap().message().contains("400 ms"));
    assert!(answer.interrupted_output().contains("begun"), "{}", answer.text());
    assert_eq!(survivors(&marker), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_leaves_no_process() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.runtime();
    let marker = marker();
    for how in ["interrupt", "cancel_call"] {
        let turn = runtime.run().turn().await.unwrap();
        let control = turn.handle();
        let command = format!("echo begun; (setsid sleep {marker} &) ; sleep {marker}");
        let calls = vec![ToolCall::new("c1", "shell", json!({"command": command}))];
        let (answers, ()) = tokio::join!(turn.run(calls), async {
            // Counted once: a shell between two of its children has fewer for a moment.
            let mut runs = false;
            for _ in 0..400 {
                runs = survivors(&marker) >= 2;
                if runs {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert!(runs, "it runs");
            match how {
                "interrupt" => control.interrupt(),
                _ => assert!(control.cancel_call("c1")),
            }
        });
        match code(&answers[0]) {
            FailureCode::Cancelled => assert_eq!(survivors(&marker), 0, "{how}"),
            // A busy machine may need longer than the runtime waits; then the outcome is unknown.
            code => assert_eq!(code, FailureCode::UnknownOutcome, "{how}"),
        }
        for _ in 0..400 {
            if survivors(&marker) == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(survivors(&marker), 0, "{how}");
    }
}

#[tokio::test]
async fn tier_is_recorded_however_a_command_ends() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.runtime();
    for (arguments, ends) in [
        (json!({"command": "echo hi"}), None),
        (json!({"command": "exit 3"}), None),
        (json!({"command": "sleep 30", "timeout_ms": 200}), Some(FailureCode::TimedOut)),
        (json!({"argv": ["no-such-program"]}), Some(FailureCode::InvalidValue)),
    ] {
        let answer = call(&runtime, "shell", arguments.clone()).await;
        assert_eq!(answer.failure().map(|f| f.code()), ends, "{arguments}");
        let level = answer.tier().map(|tier| tier["level"].clone());
        assert!(
            level == Some(json!("namespaces")) || level == Some(json!("landlock")),
            "{level:?}"
        );
        assert!(!answer.text().contains("net_unix"), "the model does not read it");
        let kept = runtime.runtime.records(&RecordQuery::default().limit(1)).remove(0).end.unwrap();
        assert_eq!(kept.tier.as_deref(), answer.tier(), "{arguments}");
    }
    // A cancelled command has a tier too.
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let calls = vec![ToolCall::new("c1", "shell", json!({"command": "echo begun; sleep 30"}))];
    let (answers, ()) = tokio::join!(turn.run(calls), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        control.interrupt();
    });
    assert!(answers[0].is_error() && answers[0].tier().is_some(), "{:?}", answers[0]);
    // Without a sandbox nothing runs, and the record says so.
    let bare = fixture.with(fixture.builtin());
    let answer = shell(&bare, "echo hi").await;
    assert_eq!(code(&answer), FailureCode::SandboxUnavailable);
    assert_eq!(answer.tier().unwrap()["level"], "none");
    let files = call(&bare, "list_files", json!({})).await;
    assert!(files.tier().is_none(), "no process was to be started");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_streamed_with_its_stream_name() {
    let fixture = TestWorkspace::new();
    let message: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let seen = Arc::clone(&message);
    let registry = ToolRegistry::builder().add(fixture.builtin().helper(helper())).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(AllowAll);
    let runtime = fixture.build(runtime.observer(move |event: &Event| {
        if let Event::Progress { note: Progress::Keyed(key, text), .. } = event {
            seen.lock().unwrap().push((key.clone(), text.clone()));
        }
    }));
    text(&shell(&runtime, "echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three").await);
    let message = message.lock().unwrap();
    let of = |key: &str| -> String {
        message.iter().filter(|(k, _)| k == key).map(|(_, text)| text.as_str()).collect()
    };
    assert_eq!((of("stdout"), of("stderr")), ("one\nthree\n".to_owned(), "two\n".to_owned()));
    assert!(message.len() >= 3, "{message:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_commands_run_in_parallel_and_others_alone() {
    let fixture = TestWorkspace::new();
    let turn = fixture.runtime().run().turn().await.unwrap();
    let calls = ["cat notes.txt", "ls -l | wc -l", "touch x", "rm -rf sub", "echo 'no end"];
    let calls = calls
        .iter()
        .enumerate()
        .map(|(n, command)| ToolCall::new(format!("c{n}"), "shell", json!({"command": command})));
    let planned = turn.plan(calls);
    let batches: Vec<usize> = planned.iter().map(|call| call.batch).collect();
    assert_eq!(batches, [0, 0, 1, 2, 3]);
    let classes: Vec<&str> = planned.iter().map(|call| call.class.unwrap().as_str()).collect();
    assert_eq!(classes, ["read_only", "read_only", "unsafe", "unsafe", "unsafe"]);
}

const TOOLS: &str = r#"
[tool.say]
description = "Prints its words, each in brackets."
command = ["printf", "[%s]", ["{?loud}", "LOUD"], "--", "{words}"]
read_only = true
capabilities = []

[tool.say.parameters]
words = { type = "list" }
loud = { type = "boolean", default = false }

[tool.show]
description = "Prints a file."
command = ["cat", "{file}"]
read_only = true
capabilities = ["filesystem"]
[tool.show.parameters.file]
about = "read_path"

[tool.silent]
description = "Makes a file, and says nothing of what it needs."
command = ["touch", "--", "{file}"]
[tool.silent.parameters.file]

[tool.make]
description = "Makes a file."
command = ["touch", "--", "{file}"]
capabilities = ["filesystem"]
cwd = "sub"
[tool.make.parameters.file]

[tool.upper]
description = "Writes a text in capitals."
command = ["tr", "a-z", "A-Z"]
stdin = "{text}"
[tool.upper.parameters.text]

[tool.slow]
description = "Takes its time."
command = ["sleep", "{time}"]
timeout = "300ms"
[tool.slow.parameters.time]
pattern = "^[0-9.]+$"

[tool.found]
description = "Whether a word is in the notes."
command = ["grep", "-q", "-e", "{word}", "notes.txt"]
success = [0, 1]
[tool.found.parameters.word]
pattern = "^\\w+$"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn declared_tool_arguments_are_never_shell_text() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.declaring(TOOLS);
    let odd = ["a b", "$(touch pwned)", "; touch pwned", "`touch pwned`", "", "-x", "'"];
    let answer = call(&runtime, "say", json!({"words": odd})).await;
    // `printf` takes `--` only before its format, and prints it here.
    let wanted: String = std::iter::once("--").chain(odd).map(|word| format!("[{word}]")).collect();
    assert_eq!(text(&answer), wanted);
    let loud = call(&runtime, "say", json!({"words": [], "loud": true})).await;
    assert_eq!(text(&loud), "[LOUD][--]");
    assert!(!fixture.inside.join("pwned").exists());
    assert_eq!(text(&call(&runtime, "show", json!({"file": "notes.txt"})).await), "one\ntwo\n");
    assert_eq!(text(&call(&runtime, "upper", json!({"text": "a; b"})).await), "A; B");
    let option = call(&runtime, "show", json!({"file": "--help"})).await;
    assert_eq!(
        (code(&option), option.execution()),
        (FailureCode::InvalidValue, Execution::NotStarted)
    );
    let unknown = call(&runtime, "show", json!({"file": "notes.txt", "more": 1})).await;
    assert_eq!(code(&unknown), FailureCode::BadArguments);
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_tool_gets_only_declared_capabilities() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.declaring(TOOLS);
    let silent = call(&runtime, "silent", json!({"file": "made"})).await;
    assert_eq!(code(&silent), FailureCode::ToolFailed);
    let message = silent.failure().unwrap().message();
    assert!(message.starts_with("`touch`: exit code 1\n"), "{message}");
    assert!(!fixture.inside.join("made").exists());
    text(&call(&runtime, "make", json!({"file": "made"})).await);
    assert!(fixture.inside.join("sub/made").exists(), "it starts where the file says");
    let up = fixture.outside.join("made").display().to_string();
    assert_eq!(code(&call(&runtime, "make", json!({"file": up})).await), FailureCode::ToolFailed);
    assert!(!fixture.outside.join("made").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn declared_tool_has_its_timeout_and_success_codes() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.declaring(TOOLS);
    let marker = marker();
    let slow = call(&runtime, "slow", json!({"time": marker})).await;
    // A busy machine may need longer than the runtime waits; then the outcome is unknown.
    assert!(
        matches!(code(&slow), FailureCode::TimedOut | FailureCode::UnknownOutcome),
        "{}",
        slow.text()
    );
    if code(&slow) == FailureCode::TimedOut {
        assert_eq!(survivors(&marker), 0);
    }
    let there = call(&runtime, "found", json!({"word": "two"})).await;
    assert_eq!(data(&there)["exit"]["code"], 0);
    let missing = call(&runtime, "found", json!({"word": "nine"})).await;
    assert_eq!(data(&missing)["exit"]["code"], 1);
    assert_eq!(text(&missing), "exit code 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn given_sandbox_is_used() {
    let fixture = TestWorkspace::new();
    let sandbox = Sandbox::detect(helper()).await.unwrap();
    let level = sandbox.tier().level;
    let answer = shell(&fixture.with(fixture.builtin().sandbox(sandbox)), "pwd").await;
    assert_eq!(data(&answer)["tier"]["level"], level.as_str());
}

const DENY_RULES: &str = r#"
[[rule]]
match = "Read(/private/**)"
decision = "deny"

[[rule]]
match = "shell"
decision = "allow"

[[rule]]
match = "show"
decision = "allow"

[tool.show]
description = "Prints a file."
command = ["cat", "--", "{file}"]
read_only = true
capabilities = ["filesystem"]
cwd = "private"
[tool.show.parameters.file]
about = "read_path"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_declared_tool_are_resolved_from_its_cwd() {
    let fixture = TestWorkspace::new();
    fs::create_dir(fixture.inside.join("private")).unwrap();
    put(&fixture.inside.join("private/key"), "forbidden to read this");
    let runtime = fixture.with_rules(DENY_RULES);
    for file in ["key", "./key", "../private/key", "../sub/../private/key"] {
        let answer = call(&runtime, "show", json!({"file": file})).await;
        assert_eq!(code(&answer), FailureCode::Denied, "{file}");
    }
    let fine = call(&runtime, "show", json!({"file": "../notes.txt"})).await;
    assert_eq!(text(&fine), "one\ntwo\n");
}

const SENDS: &str = r#"
[tool.send]
description = "Sends a file to another machine."
command = ["cat", "--", "{file}"]
read_only = true
capabilities = ["filesystem", "network"]
cwd = "."
[tool.send.parameters.file]
about = "read_path"

[tool.look]
description = "Looks at a file."
command = ["cat", "--", "{file}"]
read_only = true
capabilities = ["filesystem"]
cwd = "."
[tool.look.parameters.file]
about = "read_path"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn declared_tool_that_reads_and_has_network_needs_approval() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.with_rules(SENDS);
    let file = json!({"file": "notes.txt"});
    assert_eq!(text(&call(&runtime, "look", file.clone()).await), "one\ntwo\n");
    let answer = call(&runtime, "send", file).await;
    assert_eq!(code(&answer), FailureCode::Denied, "what it names is not all that it reaches");
}

#[tokio::test(flavor = "multi_thread")]
async fn command_starts_where_its_paths_were_authorized() {
    let fixture = TestWorkspace::new();
    fs::create_dir(fixture.inside.join("private")).unwrap();
    put(&fixture.inside.join("private/key"), "forbidden to read this");
    let TestRuntime { runtime, .. } = fixture.with_rules(DENY_RULES);
    let read = json!({"command": "cat private/key"});
    for directory in [&fixture.outside, &PathBuf::from("."), &PathBuf::from("/")] {
        for (tool, arguments) in [("shell", read.clone()), ("show", json!({"file": "key"}))] {
            let run = runtime.run_builder().working_directory(directory).start();
            let calls = vec![ToolCall::new("c", tool, arguments)];
            let answer = run.turn().await.unwrap().run(calls).await.remove(0);
            let message = answer.failure().unwrap_or_else(|| panic!("{}", answer.text()));
            assert_eq!(message.code(), FailureCode::Denied, "{tool} {}", directory.display());
        }
        // It starts in the first root, and is authorized there.
        let run = runtime.run_builder().working_directory(directory).start();
        let calls = vec![ToolCall::new("c", "shell", json!({"command": "cat notes.txt"}))];
        let answer = run.turn().await.unwrap().run(calls).await.remove(0);
        assert_eq!(text(&answer), "one\ntwo\n", "{}", directory.display());
    }
    let inside = TestRuntime { runtime, inside: fixture.inside.join("sub") };
    assert_eq!(text(&shell(&inside, "cat ../notes.txt").await), "one\ntwo\n");
    assert_eq!(code(&shell(&inside, "cat ../private/key").await), FailureCode::Denied);
}

#[tokio::test]
async fn git_commit_works_in_the_shell_with_the_given_identity() {
    let fixture = TestWorkspace::new();
    if commit_all(&fixture.inside).is_none() {
        return;
    }
    let builtin = fixture.builtin().helper(helper()).git_identity("A Person", "a@example.com");
    let runtime = fixture.with(builtin);
    let status = call(&runtime, "shell", json!({"command": "git status --porcelain"})).await;
    assert_eq!(status.text(), "done; nothing was printed");
    let command = "echo three >> notes.txt && git add notes.txt && git commit -q -m second && git log --format='%an <%ae> %s'";
    let answer = call(&runtime, "shell", json!({"command": command})).await;
    let is_landlock = answer.text().contains("index.lock");
    if is_landlock {
        // The tier `landlock` allows no new files in `.git`.
        return;
    }
    assert_eq!(answer.text(), "A Person <a@example.com> second\nx <x@example.com> first\n");
    let log = host_git(&fixture.inside, &["log", "--format=%s"]).unwrap();
    assert_eq!(log, "second\nfirst\n");
}

#[tokio::test]
async fn unusable_cgroup_directory_refuses_commands() {
    let fixture = TestWorkspace::new();
    let there = fixture.with(fixture.builtin().helper(helper()).cgroup(&fixture.outside));
    let answer = call(&there, "shell", json!({"command": "echo x"})).await;
    assert_eq!(
        (code(&answer), answer.execution()),
        (FailureCode::SandboxUnavailable, Execution::NotStarted)
    );
}

#[tokio::test]
async fn cgroup_memory_limit_is_reported_as_out_of_memory() {
    let name = format!("test-of-haft-tools-{}", std::process::id());
    let directory = Path::new("/sys/fs/cgroup/memory").join(name);
    if fs::create_dir(&directory).is_err() {
        eprintln!("NOT TESTED: no control group can be made here");
        return;
    }
    let fixture = TestWorkspace::new();
    let there = fixture.with(fixture.builtin().helper(helper()).cgroup(&directory));
    let script = "head -c 700000000 /dev/zero | tail -n 1";
    let answer = call(&there, "shell", json!({"command": script})).await;
    let failure = answer.failure().unwrap().to_string();
    assert!(failure.contains("more than 512 MiB of memory"), "{failure}");
    let tier = answer.tier().unwrap().to_string();
    assert!(tier.contains("the memory limit is enforced by the kernel"), "{tier}");
    let left = fs::read_dir(&directory).unwrap().flatten();
    assert_eq!(left.filter(|entry| entry.path().is_dir()).count(), 0);
    fs::remove_dir(&directory).unwrap();
}

#[tokio::test]
async fn read_only_command_over_the_memory_limit_is_killed_and_reported() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.runtime();
    // Without a line break `tail` keeps everything.
    let command = "head -c 900000000 /dev/zero | tail -n 1 | wc -c";
    let answer = call(&runtime, "shell", json!({"command": command})).await;
    let failure = answer.failure().unwrap();
    assert_eq!(failure.code(), FailureCode::ToolFailed, "{failure}");
    assert!(failure.message().contains("more than 512 MiB of memory"), "{failure}");
    assert!(failure.next().is_some());
    let small =
        call(&runtime, "shell", json!({"command": "head -c 9000 /dev/zero | tail -n 1 | wc -c"}));
    assert_eq!(small.await.text(), "9000\n");
}

#[tokio::test]
async fn full_temporary_directory_is_reported_with_a_next_step() {
    let fixture = TestWorkspace::new();
    let runtime = fixture.runtime();
    let command = "df -P /tmp | grep -q tmpfs || exit 9; head -c 600000000 /dev/zero > /tmp/large";
    let answer = call(&runtime, "shell", json!({"command": command})).await;
    if answer.text().starts_with("exit code 9") {
        return;
    }
    assert!(answer.text().contains("note: no space left on device"), "{}", answer.text());
    assert!(answer.text().contains("512 MiB"), "{}", answer.text());
}
