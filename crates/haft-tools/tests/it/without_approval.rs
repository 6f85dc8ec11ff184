//! Which calls run without anybody being asked, under the default and with rules: reads inside the
//! workspace, in a sandbox that shows no more than they name.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use haft::{
    ApprovalRequest, ApprovalResponse, Approver, BoxFuture, CallProfile, Capabilities, Capability,
    ConcurrencyClass, ConfigFile, ConfigLayer, DynTool, Effect, Failure, FailureCode, FileFormat,
    FsPathResolver, LoadOptions, PathGuard, PolicyConfig, Rules, Run, Runtime, ToolCall,
    ToolRegistry, ToolResult, ToolSpec,
};
use haft_sandbox::{Access, Helper, Workspace};
use haft_tools::BuiltinTools;
use serde_json::{Value, json};
use tempfile::TempDir;

fn helper() -> Helper {
    let beside = std::env::current_exe().unwrap().with_file_name("haft-tools-test-helper");
    let built = PathBuf::from(env!("CARGO_BIN_EXE_haft-tools-test-helper"));
    Helper::At(if beside.is_file() { beside } else { built })
}

/// A file that everybody may read, outside of what programs need to start, and in no temporary folder:
/// those are the command's own.
const ELSEWHERE: &str = "/sys/devices/system/cpu/online";

/// Two roots with files, a secret beside them, and links that lead out.
struct Room {
    base: PathBuf,
    _folder: TempDir,
}

impl Room {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["one/src", "one/keys", "two", "out"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        for (name, text) in [
            ("one/a.txt", "alpha\n"),
            ("one/src/b.txt", "beta\n"),
            ("one/keys/k.txt", "the key\n"),
            ("two/c.txt", "gamma\n"),
            ("out/secret.txt", "nobody's business\n"),
        ] {
            put(&base.join(name), text);
        }
        symlink("../out/secret.txt", base.join("one/link")).unwrap();
        symlink("../out", base.join("one/away")).unwrap();
        symlink(ELSEWHERE, base.join("one/cpus")).unwrap();
        Self { base, _folder: folder }
    }

    fn hands(&self) -> BuiltinTools {
        let workspace = Workspace::builder()
            .root(self.base.join("one"), Access::Write)
            .root(self.base.join("two"), Access::Write)
            .build()
            .unwrap();
        // Here it is about what is proven to only read; `confined` is about the rest.
        BuiltinTools::new(workspace).helper(helper()).confine_unasked(false)
    }

    /// Nobody is there to be asked, and nobody says where the run works.
    fn run(&self) -> Run {
        runtime(self.hands()).build().unwrap().run()
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
        let place = LoadOptions { trusted: true, ..LoadOptions::default() };
        let setup = PolicyConfig::read(&[file], &place).unwrap();
        let rules = Rules::new(setup.rules, setup.ground).unwrap();
        runtime(self.hands()).policy(rules).build().unwrap().run()
    }
}

fn runtime(hands: BuiltinTools) -> haft::RuntimeBuilder {
    Runtime::builder().registry(ToolRegistry::builder().add(hands).build().unwrap())
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
async fn a_run_that_says_nothing_works_in_the_workspace_of_its_hands() {
    let room = Room::new();
    let run = room.run();
    let here = format!("{}\n", room.base.join("one").display());
    assert_eq!(shell(&run, "pwd").await.text(), here);
    let listed = call(&run, "list_files", json!({})).await;
    assert!(listed.text().contains("a.txt"), "{}", listed.text());
    let read = call(&run, "read_file", json!({"file_path": "src/b.txt"})).await;
    assert_eq!(read.text(), "1\tbeta");
    let second = room.base.join("two/c.txt");
    let read = call(&run, "read_file", json!({"file_path": second})).await;
    assert_eq!(read.text(), "1\tgamma", "every root is inside");
    let searched = call(&run, "search_files", json!({"pattern": "alpha"})).await;
    assert!(searched.text().contains("a.txt"), "{}", searched.text());
}

#[tokio::test]
async fn a_run_that_works_elsewhere_still_reads_what_its_hands_hold() {
    let room = Room::new();
    let runtime = runtime(room.hands()).build().unwrap();
    let run = runtime.run_builder().working_directory(room.base.join("out")).start();
    let read = call(&run, "read_file", json!({"file_path": "a.txt"})).await;
    assert_eq!(read.text(), "1\talpha", "relative paths start in the first root");
    assert_eq!(shell(&run, "cat a.txt").await.text(), "alpha\n", "and so do commands");
    // Here the run's own folder is inside as well, but the hands do not reach it.
    let outside = room.base.join("out/secret.txt");
    let read = call(&run, "read_file", json!({"file_path": outside})).await;
    assert_eq!(code(&read), Some(FailureCode::OutsideWorkspace));
}

#[tokio::test]
async fn commands_that_read_inside_run_unasked_and_others_do_not() {
    let room = Room::new();
    let run = room.run();
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
    let second = format!("cat {}", room.base.join("two/c.txt").display());
    assert_eq!(shell(&run, &second).await.text(), "gamma\n", "every root is inside");
    let words = call(&run, "shell", json!({"argv": ["cat", "b.txt"], "cwd": "src"})).await;
    assert_eq!(words.text(), "beta\n");
    let outside = format!("cat {}", room.base.join("out/secret.txt").display());
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
    assert!(!room.base.join("one/made").exists() && room.base.join("one/a.txt").exists());
}

#[tokio::test]
async fn what_runs_unasked_is_shown_nothing_that_it_did_not_name() {
    let room = Room::new();
    let run = room.run();
    let what = fs::read(ELSEWHERE).unwrap();
    let what = String::from_utf8(what).unwrap();
    // A pattern over names reaches a link that nobody named.
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
    // Commands that only read have no network, also where others do.
    let networked = runtime(room.hands().network()).build().unwrap().run();
    assert_eq!(shell(&networked, "cat a.txt").await.text(), "alpha\n");
}

#[tokio::test]
async fn what_a_rule_keeps_is_not_read_through_a_command_either() {
    let room = Room::new();
    for decision in ["deny", "ask"] {
        let rule = format!("[[rule]]\nmatch = \"Read(./keys/**)\"\ndecision = \"{decision}\"\n");
        let run = room.ruled(&rule);
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
    // Whoever allows a command allows what it reads, as before.
    let run = room.ruled("[[rule]]\nmatch = \"Bash(cat *)\"\ndecision = \"allow\"\n");
    let command = format!("cat {ELSEWHERE}");
    assert!(code(&shell(&run, &command).await).is_none());
}

#[tokio::test]
async fn relative_deny_keeps_nested_directories_and_leaves_other_commands_unasked() {
    let room = Room::new();
    let one = room.base.join("one");
    for name in ["vendor/x/secrets", "docs"] {
        fs::create_dir_all(one.join(name)).unwrap();
    }
    put(&one.join("vendor/x/secrets/s.txt"), "hidden\n");
    put(&one.join("docs/d.txt"), "open\n");
    for pattern in ["Read(secrets/**)", "Read(**/secrets/**)", "Read(s.txt)"] {
        let rule = format!("[[rule]]\nmatch = \"{pattern}\"\ndecision = \"deny\"\n");
        let run = room.ruled(&rule);
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
async fn a_pattern_does_not_carry_a_command_out_of_the_workspace() {
    let room = Room::new();
    let run = room.run();
    for command in [
        "grep -f /etc/host* -v a.txt",
        "grep /etc/host*",
        "grep -e /etc/host* a.txt",
        "find src -execdir cat /etc/hostname ';'",
    ] {
        assert_eq!(code(&shell(&run, command).await), Some(FailureCode::Denied), "{command}");
    }
}

/// Makes a program that prints where it is.
fn program(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    put(path, "#!/bin/sh\necho planted\n");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn unasked_command_does_not_run_a_program_of_the_workspace() {
    let room = Room::new();
    let one = room.base.join("one");
    for name in [".venv/bin/cat", ".venv/bin/lsd", "tools/sum"] {
        program(&one.join(name));
    }
    // A directory and a program outside that are symlinks into the workspace.
    fs::create_dir_all(room.base.join("home/bin")).unwrap();
    symlink(one.join(".venv/bin"), room.base.join("home/sbin")).unwrap();
    symlink(one.join("tools/sum"), room.base.join("home/bin/sum")).unwrap();
    let at = |name: &str| room.base.join(name).display().to_string();
    let path = format!(
        "{}:{}:{}:.venv/bin::/usr/bin:/bin",
        at("one/.venv/bin"),
        at("home/sbin"),
        at("home/bin")
    );
    let hands = || room.hands().variables([("PATH", path.clone())]);
    let run = runtime(hands()).build().unwrap().run();
    for command in ["cat a.txt", "timeout 5 cat a.txt", "bash -c 'cat a.txt'", "cat a.txt | cat"] {
        assert_eq!(shell(&run, command).await.text(), "alpha\n", "{command}");
    }
    let words = call(&run, "shell", json!({"argv": ["cat", "a.txt"]})).await;
    assert_eq!(words.text(), "alpha\n");
    for command in ["lsd a.txt", "sum a.txt", "cat a.txt | sum", "find . -exec sum {} +"] {
        let answer = shell(&run, command).await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{command}: {}", answer.text());
    }
    // Once a person has looked, it is the program that was meant.
    let run = runtime(hands()).approver(Person).build().unwrap().run();
    assert_eq!(shell(&run, "lsd a.txt").await.text(), "planted\n");
    // A rule that allows the command does not make it another program.
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
    let rules = Rules::new(setup.rules, setup.ground).unwrap();
    let run = runtime(hands()).policy(rules).build().unwrap().run();
    assert_eq!(shell(&run, "cat a.txt").await.text(), "alpha\n");
}

#[tokio::test]
async fn the_environment_is_not_told_unasked() {
    let room = Room::new();
    let hands = room.hands().variables([("LC_TOKEN", "t0ken")]);
    let run = runtime(hands).build().unwrap().run();
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
async fn a_path_is_inside_only_if_its_letters_say_so_too() {
    let room = Room::new();
    let deep = "deep/".repeat(room.base.components().count() + 2);
    fs::create_dir_all(room.base.join("one").join(&deep)).unwrap();
    symlink(&deep, room.base.join("one/down")).unwrap();
    let run = room.run();
    // Seen from where the link leads this is still inside; by its letters it is not, and a shell goes
    // by the letters.
    let up = "../".repeat(room.base.components().count() + 1);
    let what = String::from_utf8(fs::read(ELSEWHERE).unwrap()).unwrap();
    let elsewhere = ELSEWHERE.trim_start_matches('/');
    for command in
        [format!("cat down/{up}{elsewhere} cpu*"), format!("cd down/{up} && cat {elsewhere}")]
    {
        let answer = shell(&run, &command).await;
        assert!(!answer.text().contains(&what), "{command}: {}", answer.text());
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{command}");
    }
}

#[tokio::test]
async fn a_run_that_works_elsewhere_does_not_take_a_command_there() {
    let room = Room::new();
    let runtime = runtime(room.hands()).build().unwrap();
    let run = runtime.run_builder().working_directory("/sys/devices").start();
    let answer = shell(&run, &format!("cat {ELSEWHERE}")).await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
}

#[tokio::test]
async fn a_link_does_not_carry_a_command_to_what_a_rule_keeps() {
    let room = Room::new();
    let one = room.base.join("one");
    for name in ["docs", "far", "plain", "wide"] {
        fs::create_dir_all(one.join(name)).unwrap();
    }
    symlink("../keys/k.txt", one.join("docs/k")).unwrap();
    symlink("../keys", one.join("far/sub")).unwrap();
    symlink("far", one.join("farther")).unwrap();
    symlink("../a.txt", one.join("plain/a")).unwrap();
    let run = room.ruled("[[rule]]\nmatch = \"Read(./keys/**)\"\ndecision = \"deny\"\n");
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
    // What is too much to look through is asked about.
    for n in 0..5_000 {
        fs::File::create(one.join(format!("wide/{n}"))).unwrap();
    }
    assert_eq!(code(&shell(&run, "cat wide/1*").await), Some(FailureCode::Denied));
    assert_eq!(shell(&room.run(), "cat wide/1*").await.text(), "done; nothing was printed");
}

#[tokio::test]
async fn what_a_guard_keeps_is_not_read_through_a_command_either() {
    let room = Room::new();
    let one = room.base.join("one");
    fs::create_dir_all(one.join("docs")).unwrap();
    symlink("../keys/k.txt", one.join("docs/k")).unwrap();
    let guard = PathGuard::new(FsPathResolver).root(&one).deny(one.join("keys"));
    let runtime = runtime(room.hands()).guard(guard).build().unwrap();
    let elsewhere = runtime.run_builder().working_directory(room.base.join("out")).start();
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
async fn a_sandboxed_tool_without_a_command_is_judged_by_what_it_reads() {
    let room = Room::new();
    let key = room.base.join("one/keys/k.txt");
    let spec = ToolSpec::new("peek", "Looks at the key.")
        .capabilities(Capabilities::from([Capability::Filesystem]));
    let schema = json!({"type": "object", "properties": {}});
    let says = Effect::read(key.to_str().unwrap());
    let peek = DynTool::new(spec, schema, |_, _| async { Ok("the key") })
        .with_profile(move |claim, _, _| CallProfile {
            class: ConcurrencyClass::ReadOnly,
            read_only: true,
            destructive: Some(false),
            effects: vec![says.clone()].into(),
            ..claim
        })
        .in_sandbox()
        .within([room.base.join("one")]);
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form: FileFormat::Toml,
        path: "haft.toml".into(),
        anchor: room.base.join("one"),
        text: "[[rule]]\nmatch = \"path=./keys/**\"\ndecision = \"deny\"\n".to_owned(),
    };
    let place = LoadOptions { trusted: true, ..LoadOptions::default() };
    let setup = PolicyConfig::read(&[file], &place).unwrap();
    let rules = Rules::new(setup.rules, setup.ground).unwrap();
    let registry = ToolRegistry::builder().add(peek).build().unwrap();
    let run = Runtime::builder().registry(registry).policy(rules).build().unwrap().run();
    let answer = call(&run, "peek", json!({})).await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
}

/// A person who says yes to everything.
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
async fn a_read_outside_works_once_a_person_has_allowed_it() {
    let room = Room::new();
    let run = runtime(room.hands()).approver(Person).build().unwrap().run();
    let what = String::from_utf8(fs::read(ELSEWHERE).unwrap()).unwrap();
    for command in [
        format!("cat {ELSEWHERE}"),
        format!("cat a.txt {ELSEWHERE} | tail -n +2"),
        format!("x={ELSEWHERE}; cat $x"),
    ] {
        assert_eq!(shell(&run, &command).await.text(), what, "{command}");
    }
    // A link is judged by where it leads, and not shown: who swaps it gains nothing.
    let answer = shell(&run, "cat cpus").await;
    assert!(!answer.text().contains(&what), "{}", answer.text());
}

#[tokio::test]
async fn what_a_command_printed_does_not_make_the_next_read_ask() {
    let room = Room::new();
    let run = room.run();
    assert_eq!(shell(&run, "cat a.txt").await.text(), "alpha\n");
    assert_eq!(shell(&run, "cat src/b.txt").await.text(), "beta\n");
    let ruled = room.ruled("[[rule]]\nmatch = \"Bash(rm *)\"\ndecision = \"deny\"\n");
    assert_eq!(shell(&ruled, "cat a.txt").await.text(), "alpha\n");
    assert_eq!(shell(&ruled, "cat src/b.txt").await.text(), "beta\n");
}
