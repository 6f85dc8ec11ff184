//! Hard links: a hard link to a denied file is denied too, for file tools and for commands without
//! approval.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

use std::{fs, io::Write as _, path::PathBuf};

use haft::{
    BoxFuture, Failure, FailureCode, Run, Runtime, RuntimeBuilder, ToolCall, ToolRegistry,
    ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    policy::{
        ConfigFile, ConfigLayer, FileFormat, FsPathResolver, LoadOptions, PathGuard, PolicyConfig,
        Rules,
    },
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::helper;

/// A workspace with a secret, a public file, and a package store next to it.
struct Project {
    base: PathBuf,
    _directory: TempDir,
}

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for name in ["w/secrets", "w/docs", "w/vendor/secrets", "store"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        let project = Self { base, _directory: directory };
        project.put("w/secrets/key", "the key\n");
        project.put("w/vendor/secrets/key", "the other key\n");
        project.put("w/docs/a.txt", "alpha\n");
        project
    }

    fn put(&self, name: &str, text: &str) {
        let mut file = fs::File::create(self.base.join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn link(&self, from: &str, to: &str) {
        fs::hard_link(self.base.join(from), self.base.join(to)).unwrap();
    }

    /// Without rules.
    fn plain(&self) -> RuntimeBuilder {
        let root = self.base.join("w");
        let workspace = Workspace::builder().root(&root, Access::Write).build().unwrap();
        let builtin = BuiltinTools::new(workspace).helper(helper());
        Runtime::builder().registry(ToolRegistry::builder().add(builtin).build().unwrap())
    }

    fn ruled(&self, pattern: &str, decision: &str) -> RuntimeBuilder {
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: self.base.join("w"),
            text: format!("[[rule]]\nmatch = \"{pattern}\"\ndecision = \"{decision}\"\n"),
        };
        let setup =
            PolicyConfig::read(&[file], &LoadOptions { trusted: true, ..LoadOptions::default() })
                .unwrap();
        self.plain().policy(Rules::new(setup.rules, setup.context).unwrap())
    }

    fn run(&self, pattern: &str, decision: &str) -> Run {
        self.ruled(pattern, decision).build().unwrap().run()
    }
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

async fn call(run: &Run, tool: &str, arguments: Value) -> ToolResult {
    let mut answers = run.turn().await.unwrap().run([ToolCall::new("c", tool, arguments)]).await;
    answers.remove(0)
}

async fn read(run: &Run, path: &str) -> ToolResult {
    call(run, "read_file", json!({"file_path": path})).await
}

async fn shell(run: &Run, command: &str) -> ToolResult {
    call(run, "shell", json!({"command": command})).await
}

fn code(answer: &ToolResult) -> Option<FailureCode> {
    answer.failure().map(Failure::code)
}

#[tokio::test]
async fn hard_link_to_a_denied_file_is_not_read_searched_or_printed() {
    let project = Project::new();
    project.link("w/secrets/key", "w/docs/pub");
    for (pattern, decision) in [
        ("Read(./secrets/**)", "deny"),
        ("Read(secrets/**)", "deny"),
        ("Read(./secrets/key)", "deny"),
        ("path=./secrets/*", "deny"),
        ("Read(./secrets/**)", "ask"),
    ] {
        let run = project.run(pattern, decision);
        let answer = read(&run, "docs/pub").await;
        assert_eq!(code(&answer), Some(FailureCode::Denied), "{pattern} {decision}");
        assert!(answer.text().contains("hard link"), "{}", answer.text());
        for path in [".", "docs", "docs/pub"] {
            let found = call(&run, "search_files", json!({"pattern": "key", "path": path})).await;
            assert!(!found.text().contains("the key"), "{pattern} {path}: {}", found.text());
        }
        let listed = call(&run, "list_files", json!({"path": "docs"})).await;
        assert!(!listed.text().contains("pub"), "{pattern}: {}", listed.text());
        for command in ["cat docs/pub", "cat docs/*", "grep -r key docs", "head -1 < docs/pub"] {
            let answer = shell(&run, command).await;
            assert_eq!(code(&answer), Some(FailureCode::Denied), "{pattern} {command}");
        }
        // Other files are read as before.
        assert_eq!(read(&run, "docs/a.txt").await.text(), "1\talpha");
        assert_eq!(shell(&run, "cat docs/a.txt").await.text(), "alpha\n");
    }
}

#[tokio::test]
async fn hard_link_to_a_denied_file_is_not_edited_or_moved() {
    let project = Project::new();
    project.link("w/secrets/key", "w/docs/pub");
    let run = project.ruled("Read(./secrets/**)", "deny").approver(Person).build().unwrap().run();
    let edit = json!({"file_path": "docs/pub", "old_text": "x", "new_text": "y"});
    let answer = call(&run, "edit_file", edit).await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
    assert!(!answer.text().contains("the key"), "{}", answer.text());
    let answer = call(&run, "move_path", json!({"from": "docs/pub", "to": "docs/moved"})).await;
    assert_eq!(code(&answer), Some(FailureCode::Denied), "{}", answer.text());
}

#[tokio::test]
async fn hard_link_created_after_the_first_check_is_denied() {
    let project = Project::new();
    project.link("w/docs/a.txt", "w/docs/b.txt");
    let run = project.run("Read(secrets/**)", "deny");
    assert_eq!(read(&run, "docs/b.txt").await.text(), "1\talpha");
    project.link("w/vendor/secrets/key", "w/docs/pub");
    assert_eq!(code(&read(&run, "docs/pub").await), Some(FailureCode::Denied));
    // A denied file that did not exist before.
    project.put("w/secrets/new", "fresh\n");
    project.link("w/secrets/new", "w/docs/new");
    assert_eq!(code(&read(&run, "docs/new").await), Some(FailureCode::Denied));
    // A file that gets a second name where a rule applies.
    project.link("w/docs/a.txt", "w/secrets/a.txt");
    assert_eq!(code(&read(&run, "docs/b.txt").await), Some(FailureCode::Denied));
}

#[tokio::test]
async fn hard_linked_package_tree_is_read_without_approval() {
    let project = Project::new();
    for n in 0..300 {
        project.put(&format!("store/{n}"), "module\n");
        fs::create_dir_all(project.base.join(format!("w/node_modules/p{n}"))).unwrap();
        project.link(&format!("store/{n}"), &format!("w/node_modules/p{n}/i.js"));
    }
    let run = project.run("Read(.env)", "deny");
    assert_eq!(read(&run, "node_modules/p7/i.js").await.text(), "1\tmodule");
    let found = call(&run, "search_files", json!({"pattern": "module", "mode": "count"})).await;
    assert!(!found.text().contains("could not be read"), "{}", found.text());
    assert_eq!(shell(&run, "cat node_modules/p9/i.js").await.text(), "module\n");
    assert_eq!(
        shell(&run, "grep -rl module node_modules/p1").await.text(),
        "node_modules/p1/i.js\n"
    );
}

#[tokio::test]
async fn approved_file_with_two_names_is_read() {
    let project = Project::new();
    project.link("w/secrets/key", "w/docs/pub");
    project.link("w/secrets/key", "w/secrets/copy");
    let run = project.ruled("Read(./secrets/**)", "ask").approver(Person).build().unwrap().run();
    assert_eq!(read(&run, "secrets/key").await.text(), "1\tthe key");
    // The name without an ask rule raises no request, so it is refused.
    assert_eq!(code(&read(&run, "docs/pub").await), Some(FailureCode::Denied));
}

#[tokio::test]
async fn path_guard_denies_a_hard_link_to_a_denied_file() {
    let project = Project::new();
    project.link("w/secrets/key", "w/docs/pub");
    project.link("w/docs/a.txt", "w/b.txt");
    let root = project.base.join("w");
    let guard = PathGuard::new(FsPathResolver).root(&root).deny(root.join("secrets"));
    let run = project.plain().guard(guard).build().unwrap().run();
    assert_eq!(code(&read(&run, "docs/pub").await), Some(FailureCode::Denied));
    for command in ["cat docs/pub", "grep -r key docs"] {
        assert_eq!(code(&shell(&run, command).await), Some(FailureCode::Denied), "{command}");
    }
    assert_eq!(read(&run, "b.txt").await.text(), "1\talpha");
    assert_eq!(shell(&run, "cat b.txt").await.text(), "alpha\n");
}

#[tokio::test]
async fn allowed_command_is_denied_a_hard_link_to_a_denied_file() {
    let project = Project::new();
    project.link("w/secrets/key", "w/docs/n");
    project.link("w/docs/a.txt", "w/docs/b.txt");
    let text = "[[rule]]\nmatch = \"Read(secrets/**)\"\ndecision = \"deny\"\n\n\
                [[rule]]\nmatch = \"Bash(cat *)\"\ndecision = \"allow\"\n";
    let file = ConfigFile {
        layer: ConfigLayer::User,
        form: FileFormat::Toml,
        path: "haft.toml".into(),
        anchor: project.base.join("w"),
        text: text.to_owned(),
    };
    let setup = PolicyConfig::read(&[file], &LoadOptions::default()).unwrap();
    let rules = Rules::new(setup.rules, setup.context).unwrap();
    let run = project.plain().policy(rules).build().unwrap().run();
    let cat =
        async |path: &str| call(&run, "shell", json!({"command": format!("cat {path}")})).await;
    for path in ["secrets/key", "docs/n", "docs/../docs/n", "docs/a.txt docs/n"] {
        let answer = cat(path).await;
        assert_eq!(
            answer.failure().map(Failure::code),
            Some(FailureCode::Denied),
            "{path}: {answer:?}"
        );
    }
    assert!(cat("docs/b.txt").await.text().contains("alpha"), "an ordinary hard link");
}
