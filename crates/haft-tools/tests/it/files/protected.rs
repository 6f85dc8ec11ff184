//! Protected names through the file tools: a person approves exactly that file, or a rule names it;
//! otherwise the file is unchanged.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use haft::{
    BoxFuture, Failure, FailureCode, Runtime, ToolCall, ToolRegistry, ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    policy::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, Rules},
    serde_json::{Value, json},
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;

use super::TestWorkspace;

/// A person who gives every request the same answer and records the requests.
#[derive(Clone)]
struct Person {
    approves: bool,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Person {
    fn new(approves: bool) -> Self {
        Self { approves, asked: Arc::default() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().drain(..).collect()
    }
}

impl Approver for Person {
    fn name(&self) -> &str {
        "a person"
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        let touches = question.explanation.touches.join(" | ");
        self.asked.lock().unwrap().push(format!("{}\n{touches}", question.verdict.reason));
        let answer =
            if self.approves { ApprovalResponse::allow() } else { ApprovalResponse::Deny(None) };
        Box::pin(async { Ok(answer) })
    }
}

/// Calls a tool under rules, each an allow of this pattern.
async fn call(
    fixture: &TestWorkspace,
    allowed: &[&str],
    person: Option<&Person>,
    tool: &str,
    arguments: Value,
) -> ToolResult {
    let rule = |pattern: &&str| format!("[[rule]]\nmatch = \"{pattern}\"\ndecision = \"allow\"\n");
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form: FileFormat::Toml,
        path: "haft.toml".into(),
        anchor: fixture.inside.clone(),
        text: allowed.iter().map(rule).collect(),
    };
    let setup =
        PolicyConfig::read(&[file], &LoadOptions { trusted: true, ..LoadOptions::default() })
            .unwrap();
    let rules = Rules::new(setup.rules, setup.context).unwrap();
    let workspace = Workspace::builder()
        .root(&fixture.inside, Access::Write)
        .protect(["own.cfg"])
        .build()
        .unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(rules);
    let runtime = match person {
        Some(person) => runtime.approver(person.clone()),
        None => runtime,
    };
    let run = runtime.build().unwrap().run_builder().working_directory(&fixture.inside).start();
    let calls = vec![ToolCall::new("c", tool, arguments)];
    run.turn().await.unwrap().run(calls).await.pop().unwrap()
}

fn write(path: &str) -> Value {
    json!({"file_path": path, "content": "changed"})
}

#[tokio::test]
async fn protected_file_needs_approval_with_its_reason() {
    let fixture = TestWorkspace::new();
    fixture.put(".git/config", "[core]\n");
    let (yes, no) = (Person::new(true), Person::new(false));
    let answer =
        call(&fixture, &["Edit(./**)"], Some(&no), "write_file", write(".git/config")).await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Declined));
    assert_eq!(fixture.get(".git/config"), "[core]\n");
    let asked = no.asked().join("\n");
    let reason = "it changes the protected file `.git/config`: git runs the programs that it names";
    assert!(asked.starts_with(reason), "{asked}");
    for allowed in [&[][..], &["Edit(./**)"], &["Edit(**)"], &["write_file"]] {
        fixture.put(".git/config", "[core]\n");
        let answer = call(&fixture, allowed, Some(&yes), "write_file", write(".git/config")).await;
        assert!(!answer.is_error(), "{}", answer.text());
        assert_eq!(fixture.get(".git/config"), "changed");
        let asked = yes.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(asked[0].contains(reason), "{asked:?}");
    }
}

#[tokio::test]
async fn protected_file_is_unchanged_without_an_approver() {
    let fixture = TestWorkspace::new();
    for path in [".git/config", ".bashrc", "sub/.cargo/config.toml", ".config/systemd/x", "HEAD"] {
        let answer =
            call(&fixture, &["Edit(./**)", "write_file"], None, "write_file", write(path)).await;
        let failure = answer.failure().unwrap_or_else(|| panic!("{path}"));
        assert_eq!(failure.code(), FailureCode::Denied, "{path}");
        assert!(failure.message().contains("protected"), "{path}: {failure}");
        assert!(!fixture.inside.join(path).exists(), "{path}");
    }
    assert_eq!(fs::read_dir(&fixture.inside).unwrap().count(), 0, "no directory was made");
}

#[tokio::test]
async fn only_a_rule_that_names_the_protected_file_allows_it() {
    let named = [
        (".git/config", "Edit(.git/config)"),
        (".git/hooks/pre-commit", "Edit(./.git/hooks/**)"),
        (".github/workflows/ci.yml", "Edit(./.github/**)"),
        (".config/systemd/user/x.service", "Edit(./.config/systemd/**)"),
        ("sub/.bashrc", "Edit(./sub/.bashrc)"),
    ];
    for (path, rule) in named {
        let fixture = TestWorkspace::new();
        let answer = call(&fixture, &[rule], None, "write_file", write(path)).await;
        assert!(!answer.is_error(), "{path}: {}", answer.text());
        assert_eq!(fixture.get(path), "changed", "{path}");
    }
    let broad = [
        (".config/systemd/user/x.service", "Edit(./.config/**)"),
        (".git/hooks/pre-commit", "Edit(./*/hooks/**)"),
        ("sub/.bashrc", "Edit(./sub/**)"),
        (".git/config", "Edit(.git/config.worktree)"),
    ];
    for (path, rule) in broad {
        let fixture = TestWorkspace::new();
        let answer = call(&fixture, &[rule], None, "write_file", write(path)).await;
        assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied), "{path} {rule}");
        assert!(!fixture.inside.join(path).exists(), "{path}");
    }
}

#[tokio::test]
async fn parents_of_protected_names_are_moved_and_deleted_after_approval() {
    let fixture = TestWorkspace::new();
    let person = Person::new(true);
    fixture.put("sub/.github/workflows/ci.yml", "on: push\n");
    let away = json!({"from": "sub/.github", "to": "kept"});
    let answer = call(&fixture, &["Edit(./**)"], None, "move_path", away.clone()).await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied));
    let answer = call(&fixture, &["Edit(./**)"], Some(&person), "move_path", away).await;
    assert!(!answer.is_error(), "{}", answer.text());
    assert_eq!(fixture.get("kept/workflows/ci.yml"), "on: push\n");
    assert!(person.asked()[0].contains("which contains the protected `.github/workflows`"));
    fixture.put(".git/config", "[core]\n");
    fixture.put(".git/hooks/x", "");
    let delete = json!({"path": ".git", "recursive": true});
    let answer = call(&fixture, &["Edit(./**)"], Some(&person), "delete_path", delete).await;
    assert!(!answer.is_error(), "{}", answer.text());
    assert!(!fixture.inside.join(".git").exists());
    assert_eq!(person.asked().len(), 1);
}

#[tokio::test]
async fn protected_names_are_edited_and_created_after_approval() {
    let fixture = TestWorkspace::new();
    let person = Person::new(true);
    fixture.put("haft.toml", "old = 1\n");
    let edit = json!({"file_path": "haft.toml", "old_text": "old", "new_text": "new"});
    let answer = call(&fixture, &[], Some(&person), "edit_file", edit).await;
    assert!(!answer.is_error(), "{}", answer.text());
    assert_eq!(fixture.get("haft.toml"), "new = 1\n");
    let answer =
        call(&fixture, &[], Some(&person), "make_dir", json!({"path": ".claude/hooks"})).await;
    assert!(!answer.is_error(), "{}", answer.text());
    assert!(fixture.inside.join(".claude/hooks").is_dir());
    assert_eq!(person.asked().len(), 2);
}

#[tokio::test]
async fn names_protected_by_the_workspace_are_refused_even_with_approval() {
    let fixture = TestWorkspace::new();
    fixture.put("bare/HEAD", "ref: refs/heads/main\n");
    let person = Person::new(true);
    for path in ["own.cfg", "bare/config", "bare/hooks/pre-commit"] {
        let answer =
            call(&fixture, &["Edit(./**)"], Some(&person), "write_file", write(path)).await;
        let failure = answer.failure().unwrap_or_else(|| panic!("{path}"));
        assert!(failure.message().starts_with("protected"), "{path}: {failure}");
        assert!(!fixture.inside.join(path).exists(), "{path}");
    }
    assert_eq!(person.asked(), [""; 0], "there was nothing to ask about");
}

#[tokio::test]
async fn moves_into_or_out_of_a_git_directory_are_refused() {
    let fixture = TestWorkspace::new();
    fixture.put(".git/notes", "inside");
    fixture.put("prepared/x", "outside");
    let person = Person::new(true);
    for (from, to) in [(".git/notes", "notes"), ("prepared", ".git/refs")] {
        let arguments = json!({"from": from, "to": to});
        let answer = call(&fixture, &["Edit(./**)"], Some(&person), "move_path", arguments).await;
        let failure = answer.failure().unwrap_or_else(|| panic!("{from}"));
        assert!(failure.message().starts_with("protected"), "{from}: {failure}");
        assert!(fixture.inside.join(from).exists() && !fixture.inside.join(to).exists(), "{from}");
    }
    let arguments = json!({"from": ".git/notes", "to": ".git/other"});
    let answer = call(&fixture, &["Edit(./**)"], Some(&person), "move_path", arguments).await;
    assert!(!answer.is_error(), "{}", answer.text());
}
