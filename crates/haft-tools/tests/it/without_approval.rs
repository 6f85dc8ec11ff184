//! Which calls run without approval, by default and with rules: reads inside the workspace, in a
//! sandbox that shows only what they name.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use haft::{
    BoxFuture, Failure, FailureCode, Run, Runtime, ToolCall, ToolRegistry, ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    policy::{
        ConfigFile, ConfigLayer, FileFormat, FsPathResolver, LoadOptions, PathGuard, PolicyConfig,
        Rules,
    },
    tool::{CallProfile, Capabilities, Capability, ConcurrencyClass, DynTool, Effect, ToolSpec},
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::helper;

/// A file that every user may read, that programs do not need to start, and outside of temporary
/// directories: those are private to the command.
const OUTSIDE_FILE: &str = "/sys/devices/system/cpu/online";

/// Two roots with files, a secret next to them, and symlinks that point out.
struct TestWorkspace {
    base: PathBuf,
    _directory: TempDir,
}

impl TestWorkspace {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for name in ["one/src", "one/keys", "two", "out"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        for (name, text) in [
            ("one/a.txt", "alpha\n"),
            ("one/src/b.txt", "beta\n"),
            ("one/keys/k.txt", "the key\n"),
            ("two/c.txt", "gamma\n"),
            ("out/secret.txt", "private business\n"),
        ] {
            put(&base.join(name), text);
        }
        symlink("../out/secret.txt", base.join("one/link")).unwrap();
        symlink("../out", base.join("one/away")).unwrap();
        symlink(OUTSIDE_FILE, base.join("one/cpus")).unwrap();
        Self { base, _directory: directory }
    }

    fn builtin(&self) -> BuiltinTools {
        let workspace = Workspace::builder()
            .root(self.base.join("one"), Access::Write)
            .root(self.base.join("two"), Access::Write)
            .build()
            .unwrap();
        // This tests proven read-only commands; `confined` tests the rest.
        BuiltinTools::new(workspace).helper(helper()).confine_unasked(false)
    }

    /// No approver and no working directory.
    fn run(&self) -> Run {
        runtime(self.builtin()).build().unwrap().run()
    }

    /// The same with rules.
    fn ruled(&self, rules: &str) -> Run {
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: self.base.join("one"),
            text: rules.to_owned(),
        };
        let options = LoadOptions { trusted: true, ..LoadOptions::default() };
        let setup = PolicyConfig::read(&[file], &options).unwrap();
        let rules = Rules::new(setup.rules, setup.context).unwrap();
        runtime(self.builtin()).policy(rules).build().unwrap().run()
    }
}

fn runtime(builtin: BuiltinTools) -> haft::RuntimeBuilder {
    Runtime::builder().registry(ToolRegistry::builder().add(builtin).build().unwrap())
}

fn put(path: &Path, text: &str) {
    fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

async fn call(run: &Run, tool: &str, arguments: Value) -> ToolResult {
    let mut answers = run.turn().await.unwrap().run([ToolCall::new("c", tool, arguments)]).await;
    answers.remove(0)
}

async fn shell(run: &Run, command: &str) -> ToolResult {
    call(run, "shell", json!({"command": command})).await
}

fn code(answer: &ToolResult) -> Option<FailureCode> {
    answer.failure().map(Failure::code)
}

#[tokio::test]
async fn run_without_a_working_directory_uses_the_first_root() {
    let fixture = TestWorkspace::new();
    let run = fixture.run();
    let here = format!("{}\n", fixture.base.join("one").display());
    assert_eq!(shell(&run, "pwd").await.text(), here);
    let listed = call(&run, "list_files", json!({})).await;
    assert!(listed.text().contains("a.txt"), "{}", listed.text());
    let read = call(&run, "read_file", json!({"file_path": "src/b.txt"})).await;
    assert_eq!(read.text(), "1\tbeta");
    let second = fixture.base.join("two/c.txt");
    let read = call(&run, "read_file", json!({"file_path": second})).await;
    assert_eq!(read.text(), "1\tgamma", "every root is inside");
    let searched = call(&run, "search_files", json!({"pattern": "alpha"})).await;
    assert!(searched.text().contains("a.txt"), "{}", searched.text());
}

#[tokio::test]
async fn run_outside_the_workspace_reads_from_the_first_root() {
    let fixture = TestWorkspace::new();
    let runtime = runtime(fixture.builtin()).build().unwrap();
    let run = runtime.run_builder().working_directory(fixture.base.join("out")).start();
    let read = call(&run, "read_file", json!({"file_path": "a.txt"})).await;
    assert_eq!(read.text(), "1\talpha", "relative paths start in the first root");
    assert_eq!(shell(&run, "cat a.txt").await.text(), "alpha\n", "and so do commands");
    // The run's own directory counts as inside for the policy, but the tools cannot reach it.
    let outside = fixture.base.join("out/secret.txt");
    let read = call(&run, "read_file", json!({"file_path": outside})).await;
    assert_eq!(code(&read), Some(FailureCode::OutsideWorkspace));
}

#[tokio::test]
async fn only_commands_that_read_inside_run_without_approval() {
    let fixture = TestWorkspace::new();
    let run = fixture.run();
    for (command, says) in [
        ("cat a.txt", "alpha\n"),
        ("cd src && cat b.txt", "beta\n"),
        ("grep -rh a src a.txt | sort", "alpha\nbeta\n"),
        ("find . -name b.txt", "./src/b.txt\n"),
        ("cat src/*.txt", "beta\n"),
        ("head -1 < a.txt | tr a-z A-Z", "ALPHA\n"),
        ("wc -l a.txt 2>/dev/null", "1 a.txt\n"),
        ("echo hello", "hello\n"),
    ] {
        assert_eq!(shell(&run, command).await.text(), says, "{command}");
    }
    let second = format!("cat {}", fixture.base.join("two/c.txt").display());
    assert_eq!(shell(&run, &second).await.text(), "gamma\n", "every root is inside");
    let words = call(&run, "shell", json!({"argv": ["cat", "b.txt"], "cwd": "src"})).await;
    assert_eq!(words.text(), "beta\n");
    let outside = format!("cat {}", fixture.base.join("out/secret.txt").display());
    for command in [
        &*outside,
        "cat ../out/secret.txt",
        "cat link",
        "cat cpus",
        "cat away/secret.txt",
        "cd away && cat secret.txt",
        "cat < link",
        "ls ..",
        "ls /",
        "cat /etc/passwd",
        "cat /proc/self/environ",
        "cat ~/.ssh/id_rsa",
        "cat $HOME/x",
        "cat $(echo a.txt)",
        "echo ~/*",
        "find -L . -name secret.txt",
        "grep -R business .",
        "ls | xargs cat",
        "env",
        "printenv",
        "ps aux",
        "id",
        "touch made",
        "rm a.txt",
    ] {
        assert_eq!(code(&shell(&run, command).await), Some(FailureCode::Denied), "{command}");
    }
    assert!(!fixture.base.join("one/made").exists() && fixture.base.join("one/a.txt").exists());
}

#[tokio::test]
async fn command_without_approval_sees_only_files_it_names() {
    let fixture = TestWorkspace::new();
    let run = fixture.run();
    let what = fs::read(OUTSIDE_FILE).unwrap();
    let what = String::from_utf8(what).unwrap();
    // A glob matches a symlink that the command did not name.
    let answer = shell(&run, "cat cpu*").await;
    let data = answer.output().unwrap().structured.as_ref().unwrap();
    assert_eq!(
        (&data["kind"], &data["exit"]),
        (&json!("read_only"), &json!({"code": 1})),
        "{data}"
    );
    assert!(
        !answer.text().contains(&what) && answer.text().contains("denied"),
        "{}",
        answer.text()
    );
    // Read-only commands have no network, even if others do.
    let networked = runtime(fixture.builtin().network()).build().unwrap().run();
    assert_eq!(shell(&networked, "cat a.txt").await.text(), "alpha\n");
}

#[tokio::test]
async fn denied_files_are_not_read_through_commands() {
    let fixture = TestWorkspace::new();
    for decision in ["deny", "ask"] {
        let rule = format!("[[rule]]\nmatch = \"Read(./keys/**)\"\ndecision = \"{decision}\"\n");
        let run = fixture.ruled(&rule);
        for kept in ["cat keys/k.txt", "grep -r key .", "grep -r key", "cat keys/*", "cat */k.txt"]
        {
            assert_eq!(
                code(&shell(&run, kept).await),
                Some(FailureCode::Denied),
                "{decision} {kept}"
            );
        }
        assert_eq!(shell(&run, "cat a.txt").await.text(), "alpha\n", "{decision}");
        assert_eq!(shell(&run, "grep -rh e src").await.text(), "beta\n", "{decision}");
    }
    // An allow rule for a command allows what it reads.
    let run = fixture.ruled("[[rule]]\nmatch = \"Bash(cat *)\"\ndecision = \"allow\"\n");
    let command = format!("cat {OUTSIDE_FILE}");
    assert!(code(&shell(&run, &command).await).is_none());
}

#[tokio::test]
async fn relative_deny_rule_covers_nested_directories_only() {
    let fixture = TestWorkspace::new();
    let one = fixture.base.join("one");
    for name in ["vendor/x/secrets", "docs"] {
        fs::create_dir_all(one.join(name)).unwrap();
    }
    put(&one.join("vendor/x/secrets/s.txt"), "hidden\n");
    put(&one.join("docs/d.txt"), "open\n");
    for pattern in ["Read(secrets/**)", "Read(**/secrets/**)", "Read(s.txt)"] {
        let rule = format!("[[rule]]\nmatch = \"{pattern}\"\ndecision = \"deny\"\n");
        let run = fixture.ruled(&rule);
        for kept in [
            "cat vendor/x/secrets/s.txt",
            "grep -r hidden vendor",
            "grep -r hidden .",
            "cat vendor/x/sec*/s.txt",
        ] {
            assert_eq!(
                code(&shell(&run, kept).await),
                Some(FailureCode::Denied),
                "{pattern} {kept}"
            );
        }
        let file = json!({"file_path": "vendor/x/secrets/s.txt"});
        assert_eq!(
            code(&call(&run, "read_file", file).await),
            Some(FailureCode::Denied),
            "{pattern}"
        );
        for (free, says) in [
            ("cat a.txt", "alpha\n"),
            ("cat docs/*.txt", "open\n"),
            ("grep -rh e docs src", "open\nbeta\n"),
        ] {
            assert_eq!(shell(&run, free).await.text(), says, "{pattern} {free}");
        }
    }
}

#[tokio::test]
async fn glob_cannot_escape_the_workspace() {
    let fixture = TestWorkspace::new();
    let run = fixture.run();
    for command in [
        "grep -f /etc/host* -v a.txt",
        "grep /etc/host*",
        "grep -e /etc/host* a.txt",
        "find src -execdir cat /etc/hostname ';'",
    ] {
        assert_eq!(code(&shell(&run, command).await), Some(FailureCode::Denied), "{command}");
    }
}

/// Creates a program that prints a marker.
fn program(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    put(path, "#!/bin/sh\necho planted\n");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn command_without_approval_runs_no_program_of_the_workspace() {
    let fixture = TestWorkspace::new();
    let one = fixture.base.join("one");
    for name in [".venv/bin/cat", ".venv/bin/lsd", "tools/sum"] {
        program(&one.join(name));
    }
    // A directory and a program outside that are symlinks into the workspace.
    fs::create_dir_all(fixture.base.join("home/bin")).unwrap();
    symlink(one.join(".venv/bin"), fixture.base.join("home/sbin")).unwrap();
    symlink(one.join("tools/sum"), fixture.base.join("home/bin/sum")).unwrap();
    let at = |name: &str| fixture.base.join(name).display().to_string();
    let path = format!(
        "{}:{}:{}:.venv/bin::/usr/bin:/bin",
        at("one/.venv/bin"),
        at("home/sbin"),
        at("home/bin")
    );
    let builtin = || fixture.builtin().variables([("PATH", path.clone())]);
    let run = runtime(builtin()).build().unwrap().run();
    for command in ["cat a.txt", "timeout 5 cat a.txt", "bash -c 'cat a.txt'", "cat a.txt | cat"] {
        assert_eq!(shell(&run, command).await.text(), "alpha\n", "{command}");
    }
    let words = call(&run, "shell", json!({"argv": ["cat", "a.txt"]})).await;
    assert_eq!(words.text(), "alpha\n");
    for command in ["lsd a.txt", "sum a.txt", "cat a.txt | sum", "find . -exec sum {} +"] {
        let answer = shell(&run, command).await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{command}: {}", answer.text());
    }
    // After approval it is the requested program.
    let run = runtime(builtin()).approver(Person).build().unwrap().run();
    assert_eq!(shell(&run, "lsd a.txt").await.text(), "planted\n");
    // An allow rule does not change which program runs.
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form: FileFormat::Toml,
        path: "haft.toml".into(),
        anchor: one.clone(),
        text: "[[rule]]\nmatch = \"Bash(cat *)\"\ndecision = \"allow\"\n".to_owned(),
    };
    let setup =
        PolicyConfig::read(&[file], &LoadOptions { trusted: true, ..LoadOptions::default() })
            .unwrap();
    let rules = Rules::new(setup.rules, setup.context).unwrap();
    let run = runtime(builtin()).policy(rules).build().unwrap().run();
    assert_eq!(shell(&run, "cat a.txt").await.text(), "alpha\n");
}

#[tokio::test]
async fn environment_is_not_printed_without_approval() {
    let fixture = TestWorkspace::new();
    let builtin = fixture.builtin().variables([("LC_TOKEN", "t0ken")]);
    let run = runtime(builtin).build().unwrap().run();
    for command in [
        "echo $LC_TOKEN",
        "echo \"$LC_TOKEN\"",
        "printf '%s' \"${LC_TOKEN}\"",
        "cat <<< $LC_TOKEN",
        "cat <<E\n$LC_TOKEN\nE",
        "case $LC_TOKEN in t*) echo y;; esac",
        "for x in $LC_TOKEN; do echo y; done",
        "awk 'BEGIN{print ENVIRON[\"LC_TOKEN\"]}'",
        "jq -n env",
        "jq -n '$ENV'",
        "jq -n -f a.txt",
        "export -p",
        "declare -p",
        "set",
    ] {
        let answer = shell(&run, command).await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{command}: {}", answer.text());
    }
    assert_eq!(shell(&run, "cat a.txt; echo $?").await.text(), "alpha\n0\n");
}

#[tokio::test]
async fn path_must_be_inside_lexically_too() {
    let fixture = TestWorkspace::new();
    let deep = "deep/".repeat(fixture.base.components().count() + 2);
    fs::create_dir_all(fixture.base.join("one").join(&deep)).unwrap();
    symlink(&deep, fixture.base.join("one/down")).unwrap();
    let run = fixture.run();
    // Resolved through the symlink this is inside; lexically it is not, and a shell resolves
    // lexically.
    let up = "../".repeat(fixture.base.components().count() + 1);
    let what = String::from_utf8(fs::read(OUTSIDE_FILE).unwrap()).unwrap();
    let elsewhere = OUTSIDE_FILE.trim_start_matches('/');
    for command in
        [format!("cat down/{up}{elsewhere} cpu*"), format!("cd down/{up} && cat {elsewhere}")]
    {
        let answer = shell(&run, &command).await;
        assert!(!answer.text().contains(&what), "{command}: {}", answer.text());
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{command}");
    }
}

#[tokio::test]
async fn working_directory_outside_gives_commands_no_access() {
    let fixture = TestWorkspace::new();
    let runtime = runtime(fixture.builtin()).build().unwrap();
    let run = runtime.run_builder().working_directory("/sys/devices").start();
    let answer = shell(&run, &format!("cat {OUTSIDE_FILE}")).await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
}

#[tokio::test]
async fn symlink_to_a_denied_file_is_denied_to_commands() {
    let fixture = TestWorkspace::new();
    let one = fixture.base.join("one");
    for name in ["docs", "far", "plain", "wide"] {
        fs::create_dir_all(one.join(name)).unwrap();
    }
    symlink("../keys/k.txt", one.join("docs/k")).unwrap();
    symlink("../keys", one.join("far/sub")).unwrap();
    symlink("far", one.join("farther")).unwrap();
    symlink("../a.txt", one.join("plain/a")).unwrap();
    let run = fixture.ruled("[[rule]]\nmatch = \"Read(./keys/**)\"\ndecision = \"deny\"\n");
    for command in [
        "cat docs/*",
        "cat docs/k",
        "timeout 5 cat docs/k*",
        "cat far/s*/k.txt",
        "cat farther/*/*",
        "find docs -exec sum {} +",
        "diff docs plain",
        "bash -c 'cat docs/*'",
        "cd docs && cat *",
        "grep -d recurse key",
        "jq -n -f src/b.txt",
    ] {
        let answer = shell(&run, command).await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{command}: {}", answer.text());
    }
    assert_eq!(shell(&run, "cat plain/*").await.text(), "alpha\n");
    // A directory that is too large to check needs approval.
    for n in 0..5_000 {
        fs::File::create(one.join(format!("wide/{n}"))).unwrap();
    }
    assert_eq!(code(&shell(&run, "cat wide/1*").await), Some(FailureCode::Denied));
    assert_eq!(shell(&fixture.run(), "cat wide/1*").await.text(), "done; nothing was printed");
}

#[tokio::test]
async fn guard_denied_files_are_not_read_through_commands() {
    let fixture = TestWorkspace::new();
    let one = fixture.base.join("one");
    fs::create_dir_all(one.join("docs")).unwrap();
    symlink("../keys/k.txt", one.join("docs/k")).unwrap();
    let guard = PathGuard::new(FsPathResolver).root(&one).deny(one.join("keys"));
    let runtime = runtime(fixture.builtin()).guard(guard).build().unwrap();
    let elsewhere = runtime.run_builder().working_directory(fixture.base.join("out")).start();
    for run in [runtime.run(), elsewhere] {
        for command in ["grep -r key .", "cat keys/k.txt", "cat */k.txt", "cat docs/*"] {
            let answer = shell(&run, command).await;
            assert_eq!(code(&answer), Some(FailureCode::Denied), "{command}: {}", answer.text());
        }
        assert_eq!(shell(&run, "cat a.txt src/*").await.text(), "alpha\nbeta\n");
        let read = call(&run, "read_file", json!({"file_path": "keys/k.txt"})).await;
        assert_eq!(code(&read), Some(FailureCode::Denied), "judged where the body reads");
        let read = call(&run, "read_file", json!({"file_path": "a.txt"})).await;
        assert_eq!(read.text(), "1\talpha");
    }
}

#[tokio::test]
async fn sandboxed_tool_without_a_command_is_authorized_by_its_effects() {
    let fixture = TestWorkspace::new();
    let key = fixture.base.join("one/keys/k.txt");
    let spec = ToolSpec::new("peek", "Looks at the key.")
        .capabilities(Capabilities::from([Capability::Filesystem]));
    let schema = json!({"type": "object", "properties": {}});
    let says = Effect::read(key.to_str().unwrap());
    let peek = DynTool::new(spec, schema, |_, _| async { "the key" })
        .with_profile(move |profile, _, _| CallProfile {
            class: ConcurrencyClass::ReadOnly,
            read_only: true,
            destructive: Some(false),
            effects: vec![says.clone()].into(),
            ..profile
        })
        .in_sandbox()
        .within([fixture.base.join("one")]);
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form: FileFormat::Toml,
        path: "haft.toml".into(),
        anchor: fixture.base.join("one"),
        text: "[[rule]]\nmatch = \"path=./keys/**\"\ndecision = \"deny\"\n".to_owned(),
    };
    let options = LoadOptions { trusted: true, ..LoadOptions::default() };
    let setup = PolicyConfig::read(&[file], &options).unwrap();
    let rules = Rules::new(setup.rules, setup.context).unwrap();
    let registry = ToolRegistry::builder().add(peek).build().unwrap();
    let run = Runtime::builder().registry(registry).policy(rules).build().unwrap().run();
    let answer = call(&run, "peek", json!({})).await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
}

/// A person who approves everything.
struct Person;

impl Approver for Person {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

#[tokio::test]
async fn read_outside_works_after_approval() {
    let fixture = TestWorkspace::new();
    let run = runtime(fixture.builtin()).approver(Person).build().unwrap().run();
    let what = String::from_utf8(fs::read(OUTSIDE_FILE).unwrap()).unwrap();
    for command in [
        format!("cat {OUTSIDE_FILE}"),
        format!("cat a.txt {OUTSIDE_FILE} | tail -n +2"),
        format!("x={OUTSIDE_FILE}; cat $x"),
    ] {
        assert_eq!(shell(&run, &command).await.text(), what, "{command}");
    }
    // A symlink is authorized by its target and not shown: swapping it gains nothing.
    let answer = shell(&run, "cat cpus").await;
    assert!(!answer.text().contains(&what), "{}", answer.text());
}

#[tokio::test]
async fn command_output_does_not_make_the_next_read_need_approval() {
    let fixture = TestWorkspace::new();
    let run = fixture.run();
    assert_eq!(shell(&run, "cat a.txt").await.text(), "alpha\n");
    assert_eq!(shell(&run, "cat src/b.txt").await.text(), "beta\n");
    let ruled = fixture.ruled("[[rule]]\nmatch = \"Bash(rm *)\"\ndecision = \"deny\"\n");
    assert_eq!(shell(&ruled, "cat a.txt").await.text(), "alpha\n");
    assert_eq!(shell(&ruled, "cat src/b.txt").await.text(), "beta\n");
}
