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
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;
use serde_json::json;

use crate::project::{GitProject, helper};

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
        let touches = question.explanation.touches.join(" | ");
        self.0.lock().unwrap().push(format!("{}\n{touches}", question.verdict.reason));
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

/// A repository, and commands in it.
struct Project {
    root: PathBuf,
    git: GitProject,
}

impl Project {
    /// `None` without git.
    fn new() -> Option<Self> {
        let git = GitProject::new()?;
        Some(Self { root: git.root.clone(), git })
    }

    /// Runs git on the host.
    fn git(&self, words: &str) -> String {
        self.git.host(&self.root, &format!("git {words}"))
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
        run(&self.root, allowed, person, arguments, |builtin| builtin).await
    }
}

/// Runs a command under rules, each an allow of a pattern.
async fn run(
    root: &Path,
    allowed: &[&str],
    person: Option<&Person>,
    arguments: serde_json::Value,
    change: impl FnOnce(BuiltinTools) -> BuiltinTools,
) -> ToolResult {
    let rule = |text: &&str| format!("[[rule]]\nmatch = \"{text}\"\ndecision = \"allow\"\n");
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form: FileFormat::Toml,
        path: "haft.toml".into(),
        anchor: root.to_owned(),
        text: allowed.iter().map(rule).collect(),
    };
    let setup =
        PolicyConfig::read(&[file], &LoadOptions { trusted: true, ..LoadOptions::default() })
            .unwrap();
    let rules = Rules::new(setup.rules, setup.context).unwrap();
    let workspace = Workspace::builder().root(root, Access::Write).build().unwrap();
    let builtin =
        BuiltinTools::new(workspace).helper(helper()).git_identity("A Person", "a@example.com");
    let registry = ToolRegistry::builder().add(change(builtin)).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(rules);
    let runtime = match person {
        Some(person) => runtime.approver(person.clone()),
        None => runtime,
    };
    let run = runtime.build().unwrap().run_builder().working_directory(root).start();
    let calls = vec![ToolCall::new("c", "shell", arguments)];
    run.turn().await.unwrap().run(calls).await.pop().unwrap()
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
    project.git("checkout -q -b topic");
    put(&project.root.join("b.txt"), "two\n");
    project.git("add b.txt");
    project.git("commit -q -m second");
    project.git("checkout -q main");
    put(&project.root.join("a.txt"), "changed\n");
    project.git("commit -q -a -m third");
    project.git("checkout -q topic");
    let person = Person::default();
    succeeded(&project.shell(&["Bash(git *)"], Some(&person), "git rebase main").await);
    assert_eq!(project.git("log --format=%s"), "second\nthird\nfirst\n");
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
    assert!(project.git("worktree list").contains("wt/topic"));
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
async fn git_am_and_sparse_checkout_work_after_approval() {
    let Some(project) = Project::new() else { return };
    project.git.host(
        &project.root,
        "mkdir in out; echo x > in/x; echo y > out/y; git add .; git commit -q -m second
         git format-patch -q -1 --stdout > ../fix.patch; git reset -q --hard HEAD~1; mv ../fix.patch .",
    );
    let person = Person::default();
    let rules = ["Bash(git *)"];
    let answer = project.shell(&rules, None, "git am -q fix.patch").await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied), "{}", answer.text());
    succeeded(&project.shell(&rules, Some(&person), "git am -q fix.patch").await);
    assert!(person.asked()[0].contains(".git/rebase-apply"));
    assert_eq!(project.git("log --format=%s"), "second\nfirst\n");
    // The index has the owner of files on the host. `git status` refreshes it.
    let command = "git status --porcelain && git sparse-checkout set in";
    let answer = project.shell(&rules, Some(&person), command).await;
    succeeded(&answer);
    assert!(person.asked()[0].contains(".git/config"));
    assert!(project.root.join("in/x").exists(), "{}", answer.text());
    assert!(!project.root.join("out").exists(), "{}", answer.text());
    succeeded(&project.shell(&rules, Some(&person), "git sparse-checkout disable").await);
    assert!(project.root.join("out/y").exists());
}

/// Returns the directory of the real cargo. The one of rustup looks for its settings at home.
fn toolchain() -> Option<PathBuf> {
    let output = Host::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    root.join("bin/cargo").is_file().then(|| root.join("bin"))
}

#[tokio::test]
async fn cargo_new_creates_a_repository_after_approval() {
    let Some(bin) = toolchain() else {
        eprintln!("NOT TESTED: there is no cargo here");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let person = Person::default();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let shell = async |command: &str| {
        let builtin = |builtin: BuiltinTools| {
            builtin.variable("PATH", path.clone()).read_only_root(bin.parent().unwrap())
        };
        let arguments = json!({"command": command});
        run(&root, &["Bash(cargo *)"], Some(&person), arguments, builtin).await
    };
    succeeded(&shell("cargo new --vcs none -q plain").await);
    assert_eq!(person.asked(), [""; 0], "it changes no protected file");
    assert!(root.join("plain/src/main.rs").exists() && !root.join("plain/.git").exists());
    succeeded(&shell("cargo new -q app").await);
    let asked = person.asked();
    assert!(asked.len() == 1 && asked[0].contains("`app/.git`"), "{asked:?}");
    assert!(root.join("app/.git/config").exists() && root.join("app/src/main.rs").exists());
    // In a repository cargo creates no other one.
    succeeded(&shell("cargo new -q app/inner").await);
    assert_eq!(person.asked(), [""; 0]);
    assert!(!root.join("app/inner/.git").exists());
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
