//! Real git commands that change protected files: the approval request names the file, and the
//! command may change exactly that one.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command as Host,
    sync::{Arc, Mutex},
};

use haft::{
    BoxFuture, Failure, FailureCode, Runtime, ToolCall, ToolRegistry, ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    policy::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, Rules},
};
use haft_sandbox::{Access, Helper, Workspace};
use haft_tools::BuiltinTools;
use serde_json::json;
use tempfile::TempDir;

fn helper() -> Helper {
    let sibling = std::env::current_exe().unwrap().with_file_name("haft-tools-test-helper");
    let built = PathBuf::from(env!("CARGO_BIN_EXE_haft-tools-test-helper"));
    Helper::At(if sibling.is_file() { sibling } else { built })
}

/// A person who approves and records the requests.
#[derive(Clone, Default)]
struct Person(Arc<Mutex<Vec<String>>>);

impl Person {
    fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().drain(..).collect()
    }
}

impl Approver for Person {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        let touches = question.explanation.risk.join(" | ");
        self.0.lock().unwrap().push(format!("{}\n{touches}", question.verdict.reason));
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

/// A repository with one commit.
struct Project {
    root: PathBuf,
    _directory: TempDir,
}

impl Project {
    /// `None` without git.
    fn new() -> Option<Self> {
        if Host::new("git").arg("--version").output().is_err() {
            eprintln!("NOT TESTED: there is no git here");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let project = Self { root, _directory: directory };
        fs::create_dir(project.root.join("sub")).unwrap();
        put(&project.root.join("a.txt"), "one\n");
        project.git(&["init", "-q", "-b", "main"]);
        project.git(&["add", "a.txt"]);
        project.git(&["commit", "-q", "-m", "first"]);
        Some(project)
    }

    /// Runs git on the host.
    fn git(&self, args: &[&str]) -> String {
        let output = Host::new("git")
            .args(["-c", "user.name=x", "-c", "user.email=x@example.com"])
            .args(["-c", "safe.directory=*"])
            .args(args)
            .current_dir(&self.root)
            .env("HOME", &self.root)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn config(&self) -> String {
        String::from_utf8(fs::read(self.root.join(".git/config")).unwrap()).unwrap()
    }

    /// Runs a command under rules, each an allow of this pattern.
    async fn shell(&self, allowed: &[&str], person: Option<&Person>, command: &str) -> ToolResult {
        self.call(allowed, person, json!({"command": command})).await
    }

    async fn call(
        &self,
        allowed: &[&str],
        person: Option<&Person>,
        arguments: serde_json::Value,
    ) -> ToolResult {
        let rule = |text: &&str| format!("[[rule]]\nmatch = \"{text}\"\ndecision = \"allow\"\n");
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: self.root.clone(),
            text: allowed.iter().map(rule).collect(),
        };
        let setup =
            PolicyConfig::read(&[file], &LoadOptions { trusted: true, ..LoadOptions::default() })
                .unwrap();
        let rules = Rules::new(setup.rules, setup.ground).unwrap();
        let workspace = Workspace::builder().root(&self.root, Access::Write).build().unwrap();
        let builtin =
            BuiltinTools::new(workspace).helper(helper()).git_identity("A Person", "a@example.com");
        let registry = ToolRegistry::builder().add(builtin).build().unwrap();
        let runtime = Runtime::builder().registry(registry).policy(rules);
        let runtime = match person {
            Some(person) => runtime.approver(person.clone()),
            None => runtime,
        };
        let run = runtime.build().unwrap().run_builder().working_directory(&self.root).start();
        let calls = vec![ToolCall::new("c", "shell", arguments)];
        run.turn().await.unwrap().run(calls).await.pop().unwrap()
    }
}

fn put(path: &Path, text: &str) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn succeeded(answer: &ToolResult) {
    assert!(!answer.is_error(), "{}", answer.text());
    let text = answer.text();
    assert!(!text.contains("exit code") || text.contains("exit code 0"), "{text}");
}

const REMOTE: &str = "git remote add origin https://host.example/a.git";

#[tokio::test]
async fn git_remote_needs_approval_for_its_configuration_even_if_git_is_allowed() {
    let Some(project) = Project::new() else { return };
    let before = project.config();
    let answer = project.shell(&["Bash(git *)"], None, REMOTE).await;
    let failure = answer.failure().unwrap();
    assert_eq!(failure.code(), FailureCode::Denied, "{failure}");
    assert!(failure.message().contains(".git/config`: git runs the programs"), "{failure}");
    assert_eq!(project.config(), before);

    let person = Person::default();
    succeeded(&project.shell(&["Bash(git *)"], Some(&person), REMOTE).await);
    assert!(project.config().contains("host.example"), "{}", project.config());
    let asked = person.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].contains("protected file") && asked[0].contains(".git/config"), "{asked:?}");

    // Without a rule for the command, the approval request for the command names the file too.
    succeeded(&project.shell(&[], Some(&person), "git config a.b c").await);
    let asked = person.asked();
    assert!(asked[0].contains(".git/config`: git runs the programs"), "{asked:?}");
}

#[tokio::test]
async fn rule_that_names_the_file_replaces_the_approval() {
    let Some(project) = Project::new() else { return };
    let rules = ["Bash(git *)", "Edit(.git/config)"];
    succeeded(&project.shell(&rules, None, REMOTE).await);
    assert!(project.config().contains("host.example"), "{}", project.config());
    let answer = project.shell(&["Bash(git *)", "Edit(./**)"], None, "git config a.b c").await;
    assert_eq!(
        answer.failure().map(Failure::code),
        Some(FailureCode::Denied),
        "a broad rule is none"
    );
}

#[tokio::test]
async fn command_with_anything_but_git_gets_no_exception() {
    let Some(project) = Project::new() else { return };
    let before = project.config();
    let person = Person::default();
    for command in [
        "git config a.b c; touch made.txt",
        "echo x > sub/y; git config a.b c",
        "printf '[a]\\n' >> .git/config",
    ] {
        let answer = project.shell(&["Bash"], Some(&person), command).await;
        assert!(answer.text().contains("exit code") || answer.is_error(), "{}", answer.text());
        assert_eq!(project.config(), before, "{command}");
    }
}

#[tokio::test]
async fn git_rebase_works_after_approval() {
    let Some(project) = Project::new() else { return };
    project.git(&["checkout", "-q", "-b", "topic"]);
    put(&project.root.join("b.txt"), "two\n");
    project.git(&["add", "b.txt"]);
    project.git(&["commit", "-q", "-m", "second"]);
    project.git(&["checkout", "-q", "main"]);
    put(&project.root.join("a.txt"), "changed\n");
    project.git(&["commit", "-q", "-a", "-m", "third"]);
    project.git(&["checkout", "-q", "topic"]);
    let person = Person::default();
    succeeded(&project.shell(&["Bash(git *)"], Some(&person), "git rebase main").await);
    assert_eq!(project.git(&["log", "--format=%s"]), "second\nthird\nfirst\n");
    assert!(person.asked()[0].contains(".git/rebase-merge"));
    assert!(!project.root.join(".git/rebase-merge").exists());
}

#[tokio::test]
async fn git_worktree_works_after_approval() {
    let Some(project) = Project::new() else { return };
    let (rules, add) = (["Bash(git *)"], "git worktree add -q -b topic wt/topic");
    let answer = project.shell(&rules, None, add).await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied), "{}", answer.text());
    let person = Person::default();
    succeeded(&project.shell(&rules, Some(&person), add).await);
    assert!(person.asked()[0].contains(".git/worktrees"));
    assert!(project.root.join("wt/topic/a.txt").exists());
    assert!(project.git(&["worktree", "list"]).contains("wt/topic"));
    succeeded(&project.shell(&rules, Some(&person), "git worktree remove wt/topic").await);
    assert!(!project.root.join("wt/topic").exists());
}

#[tokio::test]
async fn git_init_creates_a_repository_after_approval() {
    let Some(project) = Project::new() else { return };
    let answer = project.shell(&["Bash(git *)"], None, "git init -q sub/new").await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied), "{}", answer.text());
    let person = Person::default();
    let answer = project.shell(&["Bash(git *)"], Some(&person), "git init -q sub/new").await;
    succeeded(&answer);
    assert!(project.root.join("sub/new/.git/config").exists());
    assert!(person.asked()[0].contains("`sub/new/.git`"));
}

#[tokio::test]
async fn command_changes_the_named_protected_file_after_approval() {
    let Some(project) = Project::new() else { return };
    let rules = ["Bash(cp *)"];
    let call = |paths: &[&str]| json!({"command": "cp a.txt .envrc", "may_change": paths});
    let answer = project.call(&rules, None, call(&[".envrc"])).await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied), "{}", answer.text());
    let person = Person::default();
    // Another name unprotects nothing, and neither does a directory above.
    for other in [&["a.txt"][..], &["."], &[]] {
        project.call(&rules, Some(&person), call(other)).await;
        assert!(!project.root.join(".envrc").exists(), "{other:?}");
    }
    succeeded(&project.call(&rules, Some(&person), call(&[".envrc"])).await);
    assert!(project.root.join(".envrc").exists());
    assert!(person.asked().last().unwrap().contains(".envrc"));
}

#[tokio::test]
async fn redirection_changes_the_named_protected_file_after_approval() {
    let Some(project) = Project::new() else { return };
    let rules = ["Bash(echo *)"];
    let answer = project.shell(&rules, None, "echo x > .envrc").await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied), "{}", answer.text());
    let person = Person::default();
    // Known only at run time, or not in the directory in which the command starts.
    for command in ["F=.envrc; echo x > $F", "cd sub; echo x > .envrc", "echo x > .env?c"] {
        project.shell(&rules, Some(&person), command).await;
        assert!(!project.root.join(".envrc").exists(), "{command}");
        assert!(!project.root.join("sub/.envrc").exists(), "{command}");
    }
    // The approval is for the file in the request, and for no other.
    let both = "echo x > .envrc; cp a.txt .npmrc";
    project.shell(&rules, Some(&person), both).await;
    assert!(project.root.join(".envrc").exists());
    assert!(!project.root.join(".npmrc").exists());
    fs::remove_file(project.root.join(".envrc")).unwrap();
    person.asked();
    succeeded(&project.shell(&rules, Some(&person), "echo x > .envrc").await);
    assert!(project.root.join(".envrc").exists());
    let asked = person.asked();
    assert!(asked.len() == 1 && asked[0].contains("protected file `.envrc`"), "{asked:?}");
}
