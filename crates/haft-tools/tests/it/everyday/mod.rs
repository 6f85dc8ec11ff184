//! Everyday commands of coding agents under an ordinary list of allow rules, with and without a
//! deny rule. `commands.txt` has the commands and `allow.txt` the rules.
//!
//! The sandbox answers no question here: confinement is off, so that the result is the same on
//! every machine.

#![expect(clippy::disallowed_methods, reason = "it makes the files of a project")]
#![cfg(target_os = "linux")]

mod agreement;

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use haft::{
    FailureCode, Run, Runtime, RuntimeBuilder, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    events::Event,
    policy::{
        ConfigFile, ConfigLayer, Decision, Explanation, FileFormat, LoadOptions, PolicyConfig,
        Rules,
    },
};
use haft_sandbox::{Access, Workspace};
use haft_tools::{BuiltinTools, Fetch};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::project::helper;

/// A small project.
struct Project {
    root: PathBuf,
    _directory: TempDir,
}

const FILES: [&str; 22] = [
    ".env",
    ".env.example",
    ".gitignore",
    "Cargo.toml",
    "README.md",
    "a.txt",
    "b.txt",
    "crates/core/Cargo.toml",
    "crates/core/src/lib.rs",
    "logs/server.log",
    "node_modules/react/index.js",
    "package.json",
    "requirements.txt",
    "scripts/report.py",
    "src/app.test.ts",
    "src/app.ts",
    "src/components/form.ts",
    "src/lib.rs",
    "src/lib.ts",
    "src/tmp.ts",
    "tests/test_login.py",
    "tsconfig.json",
];

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for file in FILES {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text\n").unwrap();
        }
        Self { root, _directory: directory }
    }

    /// A run with the allow rules, these deny rules, and an approver.
    fn run(&self, deny: &[&str]) -> Run {
        let allow: Vec<&str> = include_str!("allow.txt").lines().collect();
        self.run_with(&json!({"defaultMode": "acceptEdits", "allow": allow, "deny": deny}))
    }

    /// A run with these permissions of Claude Code settings, and an approver.
    fn run_with(&self, permissions: &Value) -> Run {
        self.runtime(permissions).build().unwrap().run()
    }

    fn runtime(&self, permissions: &Value) -> RuntimeBuilder {
        let settings = json!({"permissions": permissions}).to_string();
        let setting = Setting { has_approver: true, confines: false };
        self.runtime_of(FileFormat::Settings, settings, setting).unwrap()
    }

    /// A runtime with the rules of a file; `None` if the file is not valid.
    fn runtime_of(
        &self,
        form: FileFormat,
        text: String,
        setting: Setting,
    ) -> Option<RuntimeBuilder> {
        let name = match form {
            FileFormat::Toml => "haft.toml",
            FileFormat::Settings => ".claude/settings.json",
        };
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form,
            path: self.root.join(name),
            anchor: self.root.clone(),
            text,
        };
        let options = LoadOptions { trusted: true, ..LoadOptions::default() };
        let config = PolicyConfig::read(&[file], &options).ok()?;
        let rules = Rules::new(config.rules, config.context).unwrap();
        let workspace = Workspace::builder().root(&self.root, Access::Write).build().unwrap();
        let tools = BuiltinTools::new(workspace).fetch(Fetch::new());
        let tools = tools.helper(helper()).confine_unasked(setting.confines);
        let registry = ToolRegistry::builder().add(tools).build().unwrap();
        let runtime = Runtime::builder().registry(registry).policy(rules);
        Some(if setting.has_approver { runtime.approver(Unasked) } else { runtime })
    }
}

/// How the calls of a run are authorized, apart from rules.
#[derive(Debug, Clone, Copy)]
struct Setting {
    has_approver: bool,
    confines: bool,
}

/// An approver that denies.
struct Unasked;

impl Approver for Unasked {
    fn ask<'a>(
        &'a self,
        _: &'a ApprovalRequest<'a>,
    ) -> haft::BoxFuture<'a, Result<ApprovalResponse, haft::Failure>> {
        Box::pin(async { Ok(ApprovalResponse::Deny(None)) })
    }
}

fn commands() -> Vec<&'static str> {
    let all = include_str!("commands.txt").trim_end_matches('\n').split("\n---\n");
    all.collect()
}

async fn explain(run: &Run, command: &str) -> Explanation {
    let call = ToolCall::new("c", "shell", json!({"command": command}));
    run.turn().await.unwrap().explain(call).await
}

/// Returns the commands that are not allowed, each with its verdict.
async fn not_allowed(deny: &[&str]) -> Vec<(Decision, String)> {
    let project = Project::new();
    let run = project.run(deny);
    let mut found = Vec::new();
    for command in commands() {
        let explanation = explain(&run, command).await;
        let verdict = &explanation.verdict;
        if verdict.decision != Decision::Allow {
            found.push((
                verdict.decision.clone(),
                format!("{:?} {command}\n    {verdict}", verdict.decision),
            ));
        }
    }
    found
}

#[tokio::test]
async fn at_most_ten_of_a_hundred_everyday_commands_need_approval() {
    assert_eq!(commands().len(), 100);
    for deny in
        [&[][..], &["Read(./.env)"], &["Read(./.env)", "Read(./secrets/**)", "Bash(rm -rf *)"]]
    {
        let found = not_allowed(deny).await;
        let list: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        let list = list.join("\n");
        let denied = found.iter().filter(|(decision, _)| *decision == Decision::Deny).count();
        assert_eq!(denied, 0, "{deny:?}\n{list}");
        assert!(found.len() <= 10, "{deny:?}: {}\n{list}", found.len());
    }
}

/// Returns whether a reason quotes a part of a command.
fn names_a_part(reason: &str, command: &str) -> bool {
    let quoted: Vec<&str> = reason.split('`').skip(1).step_by(2).collect();
    let is_part = |text: &&str| text.split_whitespace().next().is_some_and(|w| command.contains(w));
    quoted.iter().any(is_part)
}

#[tokio::test]
async fn reason_of_every_question_names_a_part_of_the_command() {
    let project = Project::new();
    let permissions = [
        json!({}),
        json!({"deny": ["Read(./.env)"]}),
        json!({"deny": ["Read(**/*.env)", "Bash(rm *)"], "ask": ["Read(./src/**)", "Bash(git *)"]}),
    ];
    let more =
        ["cat /etc/hosts", "cd /tmp && cat x", "ls | sort > out.txt", "grep -r x .", "cat $F"];
    let mut wrong = Vec::new();
    for permissions in permissions {
        let run = project.run_with(&permissions);
        for command in commands().into_iter().chain(more) {
            let verdict = explain(&run, command).await.verdict;
            // A rule that certainly matches is the reason itself.
            let is_rule = verdict.reason.starts_with("a rule requires approval");
            if verdict.decision == Decision::Ask
                && !is_rule
                && !names_a_part(&verdict.reason, command)
            {
                wrong.push(format!("{command}\n    {verdict}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn glob_next_to_a_denied_file_is_what_it_matches() {
    let project = Project::new();
    let run = project.run_with(&json!({"deny": ["Read(./.env)", "Read(./src/lib.rs)"]}));
    for (command, expected) in [
        ("cat *.txt", Decision::Allow),
        ("cat ./*.txt README.md", Decision::Allow),
        ("for f in src/*.ts; do head -3 \"$f\"; done", Decision::Allow),
        ("wc -l *.md tests/*.py", Decision::Allow),
        ("cd src && cat *.ts", Decision::Allow),
        ("grep -r text *.md crates/*", Decision::Allow),
        ("cat .e*", Decision::Deny),
        ("cat src/*", Decision::Deny),
        ("cat *", Decision::Ask),
        ("grep -r text .", Decision::Ask),
    ] {
        let verdict = explain(&run, command).await.verdict;
        assert_eq!(verdict.decision, expected, "{command}: {verdict}");
    }
    // A name may be an option that reads another file.
    fs::write(project.root.join("-f.env"), "x").unwrap();
    let verdict = explain(&run, "grep x *.env *.txt").await.verdict;
    assert_ne!(verdict.decision, Decision::Allow, "{verdict}");
    let link = project.root.join("link.txt");
    std::os::unix::fs::symlink(".env", &link).unwrap();
    let verdict = explain(&run, "cat *.txt").await.verdict;
    assert_ne!(verdict.decision, Decision::Allow, "{verdict}");
}

#[tokio::test]
async fn directory_with_a_denied_file_is_explained_as_refused() {
    let project = Project::new();
    let permissions = json!({"defaultMode": "acceptEdits", "deny": ["Edit(./src/app.ts)"]});
    let turn = project.run_with(&permissions).turn().await.unwrap();
    for (tool, arguments) in [
        ("move_path", json!({"from": "src", "to": "lib"})),
        ("delete_path", json!({"path": "src", "recursive": true})),
    ] {
        let call = || ToolCall::new("c", tool, arguments.clone());
        let verdict = turn.explain(call()).await.verdict;
        assert_eq!(verdict.decision, Decision::Deny, "{tool}: {verdict}");
        let moved = turn.explain(ToolCall::new(
            "c",
            tool,
            match tool {
                "move_path" => json!({"from": "tests", "to": "lib"}),
                _ => json!({"path": "tests", "recursive": true}),
            },
        ));
        assert_ne!(moved.await.verdict.decision, Decision::Deny, "{tool}");
    }
}

/// A tool of Claude Code, the tool of haft, and its arguments for one text.
type Equivalent = (&'static str, &'static str, fn(&str) -> Value);

/// The tool of haft for a tool of Claude Code, and its arguments.
fn equivalent(case: &Value) -> (&'static str, Value) {
    let given = |name: &str| case.get(name).and_then(Value::as_str);
    let known: [Equivalent; 6] = [
        ("Bash", "shell", |text| json!({"command": text})),
        ("Read", "read_file", |text| json!({"file_path": text})),
        ("Write", "write_file", |text| json!({"file_path": text, "content": "x"})),
        ("WebFetch", "fetch_url", |text| json!({"url": text})),
        ("Grep", "search_files", |text| json!({"pattern": text})),
        ("Glob", "list_files", |text| json!({"pattern": text})),
    ];
    let find =
        |(name, own, arguments): &Equivalent| given(name).map(|text| (*own, arguments(text)));
    known.iter().find_map(find).unwrap_or_else(|| panic!("{case}"))
}

#[tokio::test]
async fn claude_code_rules_mean_what_its_documents_say_or_something_stricter() {
    let project = Project::new();
    let mut wrong = Vec::new();
    for line in include_str!("claude_rules.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        if case.get("tool").is_some() {
            continue; // haft has no such tool; `haft explain` is tested with it
        }
        let mut permissions =
            json!({"defaultMode": case.get("mode").cloned().unwrap_or(json!("default"))});
        for list in ["allow", "ask", "deny"] {
            permissions[list] = case.get(list).cloned().unwrap_or(json!([]));
        }
        let run = project.run_with(&permissions);
        let (tool, arguments) = equivalent(&case);
        let turn = run.turn().await.unwrap();
        let is_hidden = turn.snapshot().get(tool).is_none();
        let verdict = turn.explain(ToolCall::new("c", tool, arguments)).await.verdict;
        let ours = if is_hidden { Decision::Deny } else { verdict.decision.clone() };
        let of = |key: &str| match case.get(key).and_then(Value::as_str) {
            Some("allow") => Some(Decision::Allow),
            Some("ask") => Some(Decision::Ask),
            Some("deny") => Some(Decision::Deny),
            _ => None,
        };
        let promised = of("promised").unwrap();
        let expected = of("ours").unwrap_or(promised.clone());
        // A difference must be stricter, and have a reason.
        let is_explained = expected == promised || expected > promised && case["why"].is_string();
        if ours != expected || !is_explained {
            wrong.push(format!("{line}\n    {verdict}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rules and commands that are combined at random.
const PATTERNS: [&str; 16] = [
    "Bash",
    "Bash(*)",
    "Bash(true)",
    "Bash(true *)",
    "Bash(cat *)",
    "Bash(cd *)",
    "Bash(sleep 0 *)",
    "Bash(touch *)",
    "Read(./.env)",
    "Read(./src/**)",
    "Read(a.txt)",
    "Edit(./**)",
    "Edit(./src/**)",
    "Edit(./b.txt)",
    "shell",
    "path=./a.txt",
];
const PARTS: [&str; 20] = [
    "true",
    "true x",
    "sleep 0",
    "cat a.txt",
    "cat .env",
    "cat src/*.ts",
    "cat *.txt",
    "cat $NAME",
    "cat ~/x",
    "touch b.txt",
    "touch src/app.ts",
    "cd src",
    "cd $NAME",
    "echo x > b.txt",
    "head -1 < a.txt",
    "grep -r x src",
    "for f in *.txt; do cat \"$f\"; done",
    "ls",
    "env true",
    "echo \"$(cat a.txt)\"",
];

fn scenes() -> impl Strategy<Value = (Vec<(usize, &'static str)>, String, &'static str)> {
    let rule = (0..3_usize, prop::sample::select(PATTERNS.to_vec()));
    let joined = prop::sample::select(vec![" && ", "; ", " | "]);
    let command = (prop::collection::vec(prop::sample::select(PARTS.to_vec()), 1..4), joined)
        .prop_map(|(parts, between)| parts.join(between));
    let mode = prop::sample::select(vec!["default", "acceptEdits", "plan", "dontAsk"]);
    (prop::collection::vec(rule, 0..5), command, mode)
}

/// The explained decision, and what happened to the call.
async fn explained_and_actual(
    rules: &[(usize, &'static str)],
    command: &str,
    mode: &str,
) -> (Decision, Decision) {
    let project = Project::new();
    let mut permissions = json!({"defaultMode": mode, "allow": [], "ask": [], "deny": []});
    for (kind, pattern) in rules {
        let list = &mut permissions[["allow", "ask", "deny"][*kind]];
        // Claude Code settings have no selectors.
        if !pattern.contains('=') {
            list.as_array_mut().unwrap().push(json!(pattern));
        }
    }
    let asked = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&asked);
    let run = project.runtime(&permissions).observer(move |event: &Event| {
        if matches!(event, Event::Asked { .. }) {
            *seen.lock().unwrap() = true;
        }
    });
    let run = run.build().unwrap().run();
    let turn = run.turn().await.unwrap();
    if turn.snapshot().get("shell").is_none() {
        return (Decision::Deny, Decision::Deny);
    }
    let call = || ToolCall::new("c", "shell", json!({"command": command}));
    let explained = turn.explain(call()).await.verdict.decision;
    let answer = turn.run([call()]).await.remove(0);
    let is_denied = answer.failure().is_some_and(|f| f.code() == FailureCode::Denied);
    let is_asked = *asked.lock().unwrap();
    let actual = match (is_asked, is_denied) {
        (true, _) => Decision::Ask,
        (false, true) => Decision::Deny,
        (false, false) => Decision::Allow,
    };
    (explained, actual)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn explanation_of_a_command_is_what_happens_to_it((rules, command, mode) in scenes()) {
        let all = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (explained, actual) = all.block_on(explained_and_actual(&rules, &command, mode));
        prop_assert_eq!(explained, actual, "{:?} {} {}", rules, command, mode);
    }
}
