//! Commands that run without approval because the sandbox prevents all effects.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use haft::{
    BoxFuture, Failure, FailureCode, Run, Runtime, RuntimeBuilder, ToolCall, ToolRegistry,
    ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    journal::RecordQuery,
    policy::{
        ConfigFile, ConfigLayer, FileFormat, LoadOptions, Policy, PolicyConfig, PolicyRequest,
        Rules, Verdict,
    },
};
use haft_sandbox::{Access, Level, Sandbox, Workspace};
use haft_tools::BuiltinTools;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{host_git::host_git, project::helper};

/// A file that every user may read, in no directory that a confined command sees.
const NOT_SHOWN: &str = "/sys/devices/system/cpu/online";

/// A workspace with a git repository, and a directory next to it.
struct TestWorkspace {
    work: PathBuf,
    sibling: PathBuf,
    _directory: TempDir,
}

impl TestWorkspace {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let (work, sibling) = (base.join("work"), base.join("sibling"));
        fs::create_dir_all(work.join("keys")).unwrap();
        fs::create_dir(&sibling).unwrap();
        put(&work.join("a.txt"), "alpha\n");
        put(&work.join("keys/k.txt"), "the key\n");
        put(&work.join("check.sh"), "#!/bin/sh\necho checked\n");
        for words in
            [&["init", "-q", "-b", "main"][..], &["add", "a.txt"], &["commit", "-qm", "first"]]
        {
            host_git(&work, words).unwrap();
        }
        Self { work, sibling, _directory: directory }
    }

    fn builtin(&self) -> BuiltinTools {
        let workspace = Workspace::builder().root(&self.work, Access::Write).build().unwrap();
        BuiltinTools::new(workspace).helper(helper())
    }

    /// No approver is configured.
    fn run(&self) -> Run {
        runtime(self.builtin()).build().unwrap().run()
    }

    fn rules(&self, text: &str) -> Rules {
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: self.work.clone(),
            text: text.to_owned(),
        };
        let options = LoadOptions { trusted: true, ..LoadOptions::default() };
        let setup = PolicyConfig::read(&[file], &options).unwrap();
        Rules::new(setup.rules, setup.context).unwrap()
    }

    fn ruled(&self, text: &str) -> Run {
        runtime(self.builtin()).policy(self.rules(text)).build().unwrap().run()
    }
}

fn runtime(builtin: BuiltinTools) -> RuntimeBuilder {
    Runtime::builder().registry(ToolRegistry::builder().add(builtin).build().unwrap())
}

fn put(path: &Path, text: &str) {
    fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

async fn call(run: &Run, arguments: Value) -> ToolResult {
    let mut answers = run.turn().await.unwrap().run([ToolCall::new("c", "shell", arguments)]).await;
    answers.remove(0)
}

async fn shell(run: &Run, command: &str) -> ToolResult {
    call(run, json!({"command": command})).await
}

fn code(answer: &ToolResult) -> Option<FailureCode> {
    answer.failure().map(Failure::code)
}

#[tokio::test]
async fn commands_not_known_to_write_run_without_approval() {
    let fixture = TestWorkspace::new();
    put(&fixture.work.join("a.txt"), "alpha and more\n");
    let index = fs::read(fixture.work.join(".git/index")).unwrap();
    let run = fixture.run();
    for (command, printed) in [
        ("git status --short", " M a.txt"),
        ("git diff", "alpha and more"),
        ("git log --oneline", "first"),
        ("git show HEAD:a.txt", "alpha"),
        ("git branch", "* main"),
        ("git blame a.txt | head -1", "alpha"),
        ("ls | xargs -n1 basename", "a.txt"),
        ("sh check.sh", "checked"),
        ("X=a.txt; cat $X", "alpha and more"),
        ("echo x | awk '{print $1; system(\"echo inner\")}'", "inner"),
        ("make -n -f /dev/null 2>&1 || true", ""),
    ] {
        let answer = shell(&run, command).await;
        assert_eq!(code(&answer), None, "{command}: {}", answer.text());
        assert!(answer.text().contains(printed), "{command}: {}", answer.text());
    }
    let now = fs::read(fixture.work.join(".git/index")).unwrap();
    assert!(index == now, "`git status` did not refresh the index");
    assert!(!fixture.work.join(".git/index.lock").exists());
}

#[tokio::test]
async fn interpreters_run_confined_where_they_are_installed() {
    let fixture = TestWorkspace::new();
    let run = fixture.run();
    for (program, command, printed) in [
        ("/usr/bin/python3", "/usr/bin/python3 -c 'print(1 + 1)'", "2"),
        ("/usr/bin/node", "/usr/bin/node -e 'console.log(1 + 1)'", "2"),
        ("/usr/bin/perl", "/usr/bin/perl -e 'print 1 + 1'", "2"),
    ] {
        if !Path::new(program).exists() {
            eprintln!("SKIPPED: `{program}` is not installed");
            continue;
        }
        let answer = shell(&run, command).await;
        assert_eq!((code(&answer), answer.text().trim()), (None, printed), "{command}");
    }
}

#[tokio::test]
async fn confined_command_changes_nothing_and_the_note_names_access_write() {
    let fixture = TestWorkspace::new();
    let run = fixture.run();
    // Redirections inside a script file are not known to write.
    put(&fixture.work.join("write.sh"), "echo x > made.txt\n");
    put(&fixture.work.join("temporary.sh"), "echo x > /tmp/t && cat /tmp/t\n");
    let answer = shell(&run, "sh write.sh").await;
    assert_eq!(code(&answer), None);
    let text = answer.text();
    assert!(text.contains("Read-only file system"), "{text}");
    assert!(text.contains("ran confined") && text.contains("`access: \"write\"`"), "{text}");
    assert!(text.contains("tried to write"), "{text}");
    assert!(!fixture.work.join("made.txt").exists());
    let answer = shell(&run, "sh temporary.sh").await;
    assert_eq!(answer.text(), "x\n", "temporary files are its own: {}", answer.text());
    // An exit code alone is not a sign.
    let answer = shell(&run, "git grep nothing-like-this").await;
    assert!(!answer.text().contains("ran confined"), "{}", answer.text());
}

#[tokio::test]
async fn confined_command_sees_no_other_files_and_no_environment_secrets() {
    let fixture = TestWorkspace::new();
    put(&fixture.sibling.join("secret.txt"), "sibling content");
    put(&fixture.work.join("look.sh"), "cat \"$1\"\n");
    let builtin = fixture.builtin().variables([("PATH", "/usr/bin:/bin"), ("API_TOKEN", "s3cret")]);
    let run = runtime(builtin).build().unwrap().run();
    for hidden in [NOT_SHOWN.to_owned(), fixture.sibling.join("secret.txt").display().to_string()] {
        assert!(Path::new(&hidden).exists());
        let answer = shell(&run, &format!("sh look.sh {hidden}")).await;
        assert_eq!(code(&answer), None, "{}", answer.text());
        assert!(answer.text().starts_with("exit code 1"), "{hidden}: {}", answer.text());
    }
    put(&fixture.work.join("env.sh"), "env; ls -A \"$HOME\"\n");
    let answer = shell(&run, "sh env.sh").await;
    assert!(!answer.text().contains("s3cret"), "{}", answer.text());
    assert!(answer.text().contains("GIT_OPTIONAL_LOCKS=0"), "{}", answer.text());
    assert!(answer.text().contains("PYTHONDONTWRITEBYTECODE=1"), "{}", answer.text());
}

#[tokio::test]
async fn confined_command_has_no_network_even_if_commands_may() {
    let fixture = TestWorkspace::new();
    if !Path::new("/usr/bin/perl").exists() {
        eprintln!("SKIPPED: perl is not installed");
        return;
    }
    let program =
        "use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0) or die \"socket: $!\"; print 1";
    put(&fixture.work.join("net.pl"), program);
    let run = runtime(fixture.builtin().network()).build().unwrap().run();
    let answer = shell(&run, "perl net.pl").await;
    let text = answer.text();
    assert!(text.contains("socket: Operation not permitted"), "{text}");
    assert!(text.contains("tried to connect"), "{text}");
}

#[tokio::test]
async fn known_writers_and_network_programs_need_approval() {
    let fixture = TestWorkspace::new();
    let run = fixture.run();
    for command in [
        "touch x",
        "echo x > x",
        "rm a.txt",
        "git commit -am x",
        "git add .",
        "cargo build",
        "npm install",
        "curl http://127.0.0.1:1/",
        "git push",
        "git fetch",
        "bash -c 'touch x'",
        "some-tool ~/x",
        "cat $HOME/x",
        "echo 'no end",
    ] {
        let answer = shell(&run, command).await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{command}: {}", answer.text());
    }
    assert!(!fixture.work.join("x").exists());
}

/// Approves everything.
struct Yes;

impl Approver for Yes {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

#[tokio::test]
async fn access_write_needs_approval_instead_of_confinement() {
    let fixture = TestWorkspace::new();
    put(&fixture.work.join("write.sh"), "echo x > made.txt\n");
    let arguments = || json!({"command": "sh write.sh", "access": "write"});
    let answer = call(&fixture.run(), arguments()).await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
    assert!(!fixture.work.join("made.txt").exists());
    let run = runtime(fixture.builtin()).approver(Yes).build().unwrap().run();
    let answer = call(&run, arguments()).await;
    assert_eq!(code(&answer), None, "{}", answer.text());
    assert!(fixture.work.join("made.txt").exists(), "a person's answer gives the writable profile");
    let answer = call(&run, json!({"command": "sh write.sh", "access": "all"})).await;
    assert_eq!(code(&answer), Some(FailureCode::BadArguments));
}

#[tokio::test]
async fn rules_take_precedence_over_confinement() {
    let fixture = TestWorkspace::new();
    put(&fixture.work.join("write.sh"), "echo x > made.txt; echo done\n");
    let rule = |pattern: &str, decision: &str| {
        format!("[[rule]]\nmatch = \"{pattern}\"\ndecision = \"{decision}\"\n")
    };
    for decision in ["ask", "deny"] {
        let run = fixture.ruled(&rule("Bash(git status *)", decision));
        let answer = shell(&run, "git status --short").await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{decision}: {}", answer.text());
        assert_eq!(code(&shell(&run, "git log").await), None, "other commands run");
    }
    let run = fixture.ruled(&rule("Bash(sh write.sh)", "allow"));
    let answer = shell(&run, "sh write.sh").await;
    assert_eq!(answer.text(), "done\n");
    assert!(fixture.work.join("made.txt").exists(), "an allow rule gives the writable profile");
}

#[tokio::test]
async fn denied_files_are_hidden_from_a_confined_command() {
    let fixture = TestWorkspace::new();
    let ruled = |pattern: &str, decision: &str| {
        fixture.ruled(&format!("[[rule]]\nmatch = \"{pattern}\"\ndecision = \"{decision}\"\n"))
    };
    put(&fixture.work.join("read.sh"), "cat keys/k.txt; echo end\n");
    let answer = shell(&fixture.run(), "sh read.sh").await;
    assert!(answer.text().contains("the key"), "{}", answer.text());
    for denied in ["Read(./keys/**)", "Read(k.txt)", "Read(./keys/k.txt)"] {
        let answer = shell(&ruled(denied, "deny"), "sh read.sh").await;
        let text = answer.text();
        assert!(text.contains("Permission denied") && text.contains("end"), "{denied}: {text}");
        // A question cannot be masked.
        let answer = shell(&ruled(denied, "ask"), "sh read.sh").await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{denied}: {}", answer.text());
    }
    // System files are not searched, so a rule about them disables confinement.
    let answer = shell(&ruled("Read(//etc/passwd)", "deny"), "sh check.sh").await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
    for elsewhere in ["Read(//srv/private/**)", "Read(*.pem)", "Bash(rm *)"] {
        let run = ruled(elsewhere, "deny");
        let answer = shell(&run, "sh check.sh").await;
        assert_eq!(answer.text(), "checked\n", "{elsewhere}");
    }
}

#[tokio::test]
async fn command_that_reads_below_a_denied_file_runs_with_the_file_masked() {
    let fixture = TestWorkspace::new();
    let ruled = |decision: &str| {
        let text = format!("[[rule]]\nmatch = \"Read(./keys/**)\"\ndecision = \"{decision}\"\n");
        fixture.ruled(&text)
    };
    let (denied, asked) = (ruled("deny"), ruled("ask"));
    for command in ["grep -rh -e alpha -e key . --include=*.txt", "cat *.txt keys/../a.txt"] {
        let answer = shell(&denied, command).await;
        let text = answer.text();
        assert_eq!(code(&answer), None, "{command}: {text}");
        assert!(text.contains("alpha") && !text.contains("the key"), "{command}: {text}");
        // A question cannot be masked.
        assert_eq!(code(&shell(&asked, "grep -rh key .").await), Some(FailureCode::Denied));
    }
    for certain in ["cat keys/k.txt", "cat keys/*", "grep -r key keys"] {
        let answer = shell(&denied, certain).await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{certain}: {}", answer.text());
    }
    // What it names outside of the workspace is not visible, so it is asked about.
    let answer = shell(&denied, &format!("grep -rh key . {NOT_SHOWN}")).await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
    // Commits are not contents of files.
    assert_eq!(code(&shell(&denied, "git log --oneline -3").await), None);
    assert_eq!(code(&shell(&denied, "git log -p").await), Some(FailureCode::Denied));
}

#[tokio::test]
async fn confinement_can_be_switched_off_and_is_off_without_namespaces() {
    let fixture = TestWorkspace::new();
    let run = runtime(fixture.builtin().confine_unasked(false)).build().unwrap().run();
    assert_eq!(code(&shell(&run, "git status").await), Some(FailureCode::Denied));
    let Ok(sandbox) = Sandbox::at(helper(), Level::Landlock).await else {
        eprintln!("SKIPPED: this machine has no Landlock");
        return;
    };
    let run = runtime(fixture.builtin().sandbox(sandbox)).build().unwrap().run();
    assert_eq!(code(&shell(&run, "git status").await), Some(FailureCode::Denied));
}

/// Allows everything by confinement, also what the default policy would not.
struct ConfineEverything;

impl Policy for ConfineEverything {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        Verdict::allow("for the test").confine()
    }
}

#[tokio::test]
async fn confined_call_never_gets_the_writable_profile() {
    let fixture = TestWorkspace::new();
    put(&fixture.work.join("write.sh"), "echo x > made.txt\n");
    let run = runtime(fixture.builtin().network()).policy(ConfineEverything).build().unwrap().run();
    for command in ["touch made.txt", "sh write.sh", "echo x > made.txt", "rm a.txt"] {
        for access in [json!(null), json!("write")] {
            let mut arguments = json!({"command": command});
            if !access.is_null() {
                arguments["access"] = access;
            }
            let answer = call(&run, arguments).await;
            assert!(
                answer.text().contains("Read-only file system"),
                "{command}: {}",
                answer.text()
            );
        }
    }
    assert!(!fixture.work.join("made.txt").exists() && fixture.work.join("a.txt").exists());
}

#[tokio::test]
async fn records_and_explanations_report_confinement() {
    let fixture = TestWorkspace::new();
    let rules = || fixture.rules("[[rule]]\nmatch = \"mail_send\"\ndecision = \"ask\"\n");
    let runtime = runtime(fixture.builtin()).policy(rules()).build().unwrap();
    let run = runtime.run();
    let answer = shell(&run, "git status --short").await;
    assert_eq!(code(&answer), None, "{}", answer.text());
    let records = runtime.records(&RecordQuery::default());
    let record = json!(records[0]);
    assert_eq!(record["intent"]["verdict"]["source"], "confinement", "{record}");
    assert_eq!(record["intent"]["verdict"]["confined"], true, "{record}");
    let turn = run.turn().await.unwrap();
    let explain = async |command: &str| {
        let call = ToolCall::new("e", "shell", json!({"command": command}));
        json!(turn.explain(call).await).to_string()
    };
    let explanation = explain("git status").await;
    assert!(
        explanation.contains("confinement") && explanation.contains("not known to write"),
        "{explanation}"
    );
    let explanation = explain("touch x").await;
    assert!(explanation.contains("the command is known to write"), "{explanation}");
}
