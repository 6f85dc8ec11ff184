//! Commands cannot access paths that rules deny: real commands and real git, through the runtime.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft::{
    BoxFuture, Failure, FailureCode, Run, Runtime, ToolCall, ToolRegistry, ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    host::{Clock as _, MaskedPaths},
    policy::{
        ConfigFile, ConfigLayer, FileFormat, FileRules as _, LoadOptions, PolicyConfig, Rules,
    },
    testing::ManualClock,
    tool::{Operation, Scope},
};
use haft_sandbox::{Access, Level, Sandbox, Workspace};
use haft_tools::BuiltinTools;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    host_git::{commit_all, host_git},
    project::helper,
};

const RULES: &str = r#"
[[rule]]
match = ["Read(./secrets/**)", "Read(**/.env)", "Read(./conf/prod/key)", "Edit(./tests/**)"]
decision = "deny"

[[rule]]
match = "Read(*.pem)"
decision = "deny"
except = "Read(public.pem)"

[[rule]]
match = "Bash(sh *)"
decision = "allow"

[tool.show]
description = "Runs the script."
command = ["sh", "run.sh", "{file}"]
read_only = true
capabilities = ["filesystem"]
[tool.show.parameters.file]
about = "read_path"

[[rule]]
match = "show"
decision = "allow"
"#;

struct Project {
    root: PathBuf,
    _directory: TempDir,
}

impl Project {
    fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    fn of(directory: TempDir) -> Self {
        let root = directory.path().canonicalize().unwrap().join("w");
        let project = Self { root, _directory: directory };
        for (name, text) in [
            ("secrets/key", "SECRET-key"),
            ("app/.env", "SECRET-env"),
            ("conf/prod/key", "SECRET-prod"),
            ("conf/dev/key", "dev"),
            ("tests/a.rs", "test"),
            ("private.pem", "SECRET-pem"),
            ("public.pem", "public"),
            ("notes.txt", "notes"),
        ] {
            project.put(name, text);
        }
        project
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn get(&self, name: &str) -> String {
        let mut text = String::new();
        fs::File::open(self.root.join(name)).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn setup(&self) -> PolicyConfig {
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: self.root.clone(),
            text: RULES.to_owned(),
        };
        PolicyConfig::read(&[file], &LoadOptions { trusted: true, ..LoadOptions::default() })
            .unwrap()
    }

    fn rules(&self) -> Rules {
        let setup = self.setup();
        Rules::new(setup.rules, setup.context).unwrap()
    }

    fn run(&self, sandbox: Sandbox, approver: Option<Person>) -> Run {
        let workspace = Workspace::builder().root(&self.root, Access::Write).build().unwrap();
        let builtin = BuiltinTools::new(workspace).sandbox(sandbox).declared(self.setup().tools);
        let registry = ToolRegistry::builder().add(builtin).build().unwrap();
        let runtime = Runtime::builder().registry(registry).policy(self.rules());
        let runtime = match approver {
            Some(person) => runtime.approver(person),
            None => runtime,
        };
        let runtime = runtime.build().unwrap();
        runtime.run_builder().working_directory(&self.root).start()
    }

    /// Runs a script that the classifier cannot inspect.
    async fn script(&self, run: &Run, script: &str) -> ToolResult {
        self.put("run.sh", script);
        call(run, "shell", json!({"command": "sh run.sh"})).await
    }
}

/// A person who approves and records the reasons.
#[derive(Clone, Default)]
struct Person(Arc<std::sync::Mutex<Vec<String>>>);

impl Approver for Person {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        self.0.lock().unwrap().push(question.verdict.reason.to_string());
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

async fn call(run: &Run, tool: &str, arguments: Value) -> ToolResult {
    let mut answers = run.turn().await.unwrap().run([ToolCall::new("c", tool, arguments)]).await;
    answers.remove(0)
}

async fn at(level: Level) -> Option<Sandbox> {
    Sandbox::at(helper(), level).await.ok()
}

fn data(answer: &ToolResult) -> &Value {
    answer.output().unwrap().structured.as_ref().unwrap()
}

#[tokio::test]
async fn denied_paths_are_masked_and_recorded() {
    let Some(sandbox) = at(Level::Namespaces).await else { return };
    let project = Project::new();
    let run = project.run(sandbox, None);
    let script = "cat secrets/key app/.env conf/prod/key private.pem
        cat public.pem conf/dev/key tests/a.rs
        echo changed > tests/a.rs; echo new > tests/new; rm -rf tests; exit 0";
    let answer = project.script(&run, script).await;
    let text = answer.text();
    assert!(!text.contains("SECRET"), "{text}");
    assert!(text.contains("publicdevtest"), "{text}");
    assert!(text.contains("Permission denied") && text.contains("note: rules deny"), "{text}");
    assert_eq!(project.get("tests/a.rs"), "test");
    let masked = &data(&answer)["masked"];
    // `except` is about reading: `public.pem` can be read but not changed, as with file tools.
    assert_eq!((&masked["read"], &masked["edit"]), (&json!(4), &json!(2)), "{masked}");
    assert!(masked["paths"].as_array().unwrap().contains(&json!("app/.env")), "{masked}");
    assert_eq!(answer.tier().unwrap()["masked"], *masked);
    let answer = call(&run, "show", json!({"file": "notes.txt"})).await;
    assert!(!answer.text().contains("SECRET"), "{}", answer.text());
    assert_eq!(data(&answer)["masked"]["read"], 4);
}

#[tokio::test]
async fn command_in_a_denied_directory_reads_nothing_there() {
    let Some(sandbox) = at(Level::Namespaces).await else { return };
    let project = Project::new();
    project.put("secrets/sub/other", "SECRET-other");
    let script = "cat *; cat ../key sub/other; echo x > new; exit 0";
    project.put("run.sh", script);
    let run = project.run(sandbox, None);
    for cwd in ["secrets", "secrets/sub"] {
        let command = format!("sh {}/run.sh", project.root.display());
        let answer = call(&run, "shell", json!({"command": command, "cwd": cwd})).await;
        // The policy denies the directory itself; a declared tool may start there.
        assert!(!answer.text().contains("SECRET"), "{}", answer.text());
    }
    assert!(!project.root.join("secrets/new").exists());
}

#[tokio::test]
async fn hard_link_and_symlink_to_a_denied_file_are_denied() {
    let Some(sandbox) = at(Level::Namespaces).await else { return };
    let project = Project::new();
    let root = &project.root;
    fs::hard_link(root.join("secrets/key"), root.join("same-key")).unwrap();
    fs::hard_link(root.join("app/.env"), root.join("same-env")).unwrap();
    fs::hard_link(root.join("notes.txt"), root.join("same-notes")).unwrap();
    symlink("secrets/key", root.join("link")).unwrap();
    let run = project.run(sandbox, None);
    let script = "cat same-key same-env link; cat same-notes; exit 0";
    let answer = project.script(&run, script).await;
    assert!(!answer.text().contains("SECRET"), "{}", answer.text());
    assert!(answer.text().contains("notes"), "{}", answer.text());
    assert_eq!(data(&answer)["masked"]["read"], 6);
}

#[tokio::test]
async fn renaming_a_parent_does_not_unmask_for_the_next_command() {
    let Some(sandbox) = at(Level::Namespaces).await else { return };
    let project = Project::new();
    let run = project.run(sandbox, None);
    project.script(&run, "mv conf conf2; mv conf/prod p; mv secrets s; mv app app2; exit 0").await;
    let script = "find . -type f | xargs cat; exit 0";
    let answer = project.script(&run, script).await;
    assert!(!answer.text().contains("SECRET"), "{}", answer.text());
    assert_eq!(project.get("conf/prod/key"), "SECRET-prod");
}

#[tokio::test]
async fn git_through_the_shell_never_commits_a_denied_file_as_deleted_or_empty() {
    let Some(sandbox) = at(Level::Namespaces).await else { return };
    let project = Project::new();
    if commit_all(&project.root).is_none() {
        return;
    }
    let git = |args: &[&str]| host_git(&project.root, args);
    let run = project.run(sandbox, None);
    let script =
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x
        echo more > notes.txt; git add -A; git commit -q -m all; git commit -q -a -m tracked
        git add notes.txt && git commit -q -m named; exit 0";
    let answer = project.script(&run, script).await;
    for (name, text) in [("secrets/key", "SECRET-key"), ("app/.env", "SECRET-env")] {
        assert_eq!(git(&["show", &format!("HEAD:{name}")]).unwrap(), text, "{}", answer.text());
    }
    assert_eq!(git(&["log", "-1", "--format=%s"]).unwrap(), "named\n", "{}", answer.text());
}

#[tokio::test]
async fn without_namespaces_approval_is_needed_and_no_mask_is_recorded() {
    let Some(sandbox) = at(Level::Landlock).await else { return };
    let project = Project::new();
    let run = project.run(sandbox.clone(), None);
    let answer = project.script(&run, "echo ran > ran").await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied), "{}", answer.text());
    assert!(!project.root.join("ran").exists());
    // A command that names all its files is authorized by them and needs no approval.
    let answer = call(&run, "shell", json!({"command": "cat notes.txt"})).await;
    assert_eq!(answer.text(), "notes");
    let person = Person::default();
    let run = project.run(sandbox, Some(person.clone()));
    let answer = project.script(&run, "cat notes.txt").await;
    assert!(answer.text().contains("notes"), "{}", answer.text());
    assert!(person.0.lock().unwrap()[0].contains("cannot mask"), "{:?}", person.0);
    let nothing = answer.tier().unwrap()["masked"]["missing"].to_string();
    assert!(nothing.contains("can mask none"), "{nothing}");
}

#[tokio::test]
async fn workspace_too_deep_to_search_needs_approval() {
    let Some(sandbox) = at(Level::Namespaces).await else { return };
    let project = Project::new();
    // Deeper than the walk goes: short names, so that the path stays valid.
    let mut deep = project.root.join("deep");
    for _ in 0..250 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    let run = project.run(sandbox.clone(), None);
    let answer = project.script(&run, "echo ran > ran").await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied));
    assert!(answer.text().contains("could not find every file"), "{}", answer.text());
    assert!(!project.root.join("ran").exists());
    let person = Person::default();
    let run = project.run(sandbox, Some(person.clone()));
    let answer = project.script(&run, "echo ran > ran").await;
    assert!(!answer.is_error(), "{}", answer.text());
    assert_eq!(person.0.lock().unwrap().len(), 1, "one question for one command");
    assert!(data(&answer)["masked"]["missing"].to_string().contains("levels deep"));
}

/// Returns what `explain` says about denied paths, and the text of what the call masked.
async fn explained_and_masked(project: &Project, sandbox: Sandbox) -> (String, String) {
    let run = project.run(sandbox, Some(Person::default()));
    project.put("run.sh", "exit 0");
    let arguments = json!({"command": "sh run.sh"});
    let turn = run.turn().await.unwrap();
    let explanation = turn.explain(ToolCall::new("e", "shell", arguments.clone())).await;
    let check = explanation.checks.iter().find(|check| check.check == "denied paths").unwrap();
    let explained = check.why.to_string();
    let answer = call(&run, "shell", arguments).await;
    assert!(!answer.is_error(), "{}", answer.text());
    let masked = data(&answer)["masked"].clone();
    let count = |name: &str| usize::try_from(masked[name].as_u64().unwrap()).unwrap();
    let missing = masked["missing"].as_str().map(str::to_owned);
    let masked = MaskedPaths { read: count("read"), edit: count("edit"), missing };
    (explained, masked.to_string())
}

#[tokio::test]
async fn explain_and_call_count_the_same_masks() {
    for level in [Level::Namespaces, Level::Landlock] {
        let Some(sandbox) = at(level).await else { continue };
        let project = Project::new();
        let (explained, masked) = explained_and_masked(&project, sandbox.clone()).await;
        assert_eq!(explained, masked, "{level}");
        let wanted = match level {
            Level::Namespaces => "6 files would be masked: 4 cannot be read, 2 cannot be changed",
            _ => "Landlock without namespaces can mask none",
        };
        assert!(explained.contains(wanted), "{level}: {explained}");
        // The search does not finish: both count what was found before its bound.
        let deep = (0..250).fold(project.root.join("deep"), |path, _| path.join("d"));
        fs::create_dir_all(deep).unwrap();
        let (explained, masked) = explained_and_masked(&project, sandbox).await;
        assert_eq!(explained, masked, "{level}");
        assert!(explained.contains("could not find every file"), "{level}: {explained}");
    }
}

#[tokio::test]
async fn workspace_with_too_many_files_needs_approval() {
    let Some(sandbox) = at(Level::Namespaces).await else { return };
    let is_long = std::env::var_os("HAFT_LONG_TESTS").is_some();
    // Just above the limit, or a million.
    let directories = if is_long { 1_000 } else { 201 };
    // Files in memory are created and removed in a second.
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("NOT TESTED: /dev/shm takes no files here");
        return;
    };
    let project = Project::of(directory);
    for directory in 0..directories {
        let directory = project.root.join(format!("many/{directory}"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..1_000 {
            fs::File::create(directory.join(file.to_string())).unwrap();
        }
    }
    let run = project.run(sandbox.clone(), None);
    let answer = project.script(&run, "echo ran > ran").await;
    assert_eq!(answer.failure().map(Failure::code), Some(FailureCode::Denied), "{}", answer.text());
    assert!(answer.text().contains("could not find every file"), "{}", answer.text());
    assert!(!project.root.join("ran").exists());
    let person = Person::default();
    let run = project.run(sandbox, Some(person.clone()));
    let answer = project.script(&run, "echo ran > ran").await;
    assert!(!answer.is_error(), "{}", answer.text());
    assert!(project.root.join("ran").exists());
    assert_eq!(person.0.lock().unwrap().len(), 1, "one question for one command");
    // Which limit is reached first depends on the machine.
    let missing = data(&answer)["masked"]["missing"].to_string();
    let is_bound = missing.contains("more than 200000 files") || missing.contains("150 ms");
    assert!(is_bound, "{missing}");
}

/// Everything below a directory, without itself.
fn tree(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            all.extend(tree(&entry.path()));
        }
        all.push(entry.path());
    }
    all
}

#[test]
fn denied_paths_match_what_file_tools_are_denied() {
    let project = Project::new();
    for name in ["a/b/secrets/x", "a/.env/in", "vendor/tests/b.rs", "x/y.pem", "conf/prod/key2"] {
        project.put(name, "");
    }
    let rules = project.rules();
    let scope = Scope::from(haft::tool::RunScope {
        working_directory: project.root.as_path().into(),
        ..haft::tool::RunScope::default()
    });
    let roots = [project.root.clone()];
    let clock = ManualClock::default();
    let denied = rules.denied_paths(&roots, &scope, &|| clock.now()).unwrap();
    let covers = |list: &[PathBuf], path: &Path| list.iter().any(|own| path.starts_with(own));
    for path in tree(&project.root) {
        let is_read = covers(&denied.read, &path);
        let is_edit = is_read || covers(&denied.edit, &path);
        assert_eq!(is_read, rules.is_path_denied(Operation::Read, &path, &scope), "{path:?}");
        assert_eq!(is_edit, rules.is_path_denied(Operation::Write, &path, &scope), "{path:?}");
    }
    let names = haft_sandbox::DeniedNames::new(&denied.new).unwrap();
    for path in tree(&project.root) {
        if rules.is_path_denied(Operation::Write, &path, &scope) {
            assert!(names.matches(&path), "{path:?} {:?}", denied.new);
        }
    }
}
