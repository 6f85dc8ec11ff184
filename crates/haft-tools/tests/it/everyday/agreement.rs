//! For random rules and random calls, the explanation says what happens to the call.
//!
//! Rules are composed of tools, words, paths and selectors, in Claude Code settings and in
//! `haft.toml`; calls are commands and file tools. Runs differ in their mode, in whether commands
//! may run confined, and in whether there is an approver.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use haft::{
    FailureCode, ToolCall,
    events::Event,
    policy::{Decision, FileFormat},
    tool::Execution,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Project, Setting};

const PROGRAMS: [&str; 9] =
    ["true", "cat", "touch", "ls", "head", "env true", "grep -r x", "git status", "printf"];
const PATHS: [&str; 14] = [
    "a.txt",
    "b.txt",
    ".env",
    "src",
    "src/app.ts",
    "./src/lib.ts",
    "new.txt",
    "*.txt",
    "src/*.ts",
    "$NAME",
    "~/x",
    "../x",
    ".gitignore",
    ".",
];
const GLOBS: [&str; 10] = [
    "./.env", ".env", "./src/**", "src/*.ts", "a.txt", "/b.txt", "**", "./**", "//etc/**", "*.txt",
];
const TOOLS: [&str; 12] = [
    "Bash",
    "Read",
    "Edit",
    "Write",
    "WebFetch",
    "shell",
    "read_file",
    "write_file",
    "*_file",
    "search_files",
    "delete_path",
    "*",
];
const SELECTORS: [&str; 11] = [
    "effect=read",
    "effect=write",
    "effect=execute",
    "capability=filesystem",
    "path=./a.txt",
    "path=./src/**",
    "host=127.0.0.1",
    "arg.file_path=a.txt",
    "read_only",
    "destructive",
    "tool=shell|read_file",
];

#[derive(Debug, Clone)]
struct RandomRule {
    decision: &'static str,
    pattern: String,
    except: Option<String>,
}

#[derive(Debug, Clone)]
struct Scene {
    rules: Vec<RandomRule>,
    call: (&'static str, Value),
    mode: &'static str,
    is_toml: bool,
    setting: Setting,
}

fn one(of: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(of.to_vec())
}

fn pattern() -> impl Strategy<Value = String> {
    let end = prop::sample::select(vec!["", " *", ":*", "*", " a.txt", " .env"]);
    prop_oneof![
        3 => (one(&PROGRAMS), end).prop_map(|(program, end)| format!("Bash({program}{end})")),
        2 => (prop::sample::select(vec!["Read", "Edit"]), one(&GLOBS))
            .prop_map(|(tool, path)| format!("{tool}({path})")),
        1 => one(&TOOLS).prop_map(str::to_owned),
        1 => one(&SELECTORS).prop_map(str::to_owned),
        1 => (one(&TOOLS), one(&SELECTORS)).prop_map(|(tool, selector)| format!("{tool} {selector}")),
    ]
}

fn rule() -> impl Strategy<Value = RandomRule> {
    let decision = prop::sample::select(vec!["allow", "allow", "ask", "deny"]);
    (decision, pattern(), prop::option::weighted(0.2, pattern()))
        .prop_map(|(decision, pattern, except)| RandomRule { decision, pattern, except })
}

fn command() -> impl Strategy<Value = String> {
    let simple = prop_oneof![
        4 => (one(&PROGRAMS), one(&PATHS)).prop_map(|(program, path)| format!("{program} {path}")),
        1 => one(&PROGRAMS).prop_map(str::to_owned),
        1 => one(&PATHS).prop_map(|path| format!("cd {path}")),
        1 => one(&PATHS).prop_map(|path| format!("echo x > {path}")),
        1 => one(&PATHS).prop_map(|path| format!("for f in {path}; do cat \"$f\"; done")),
        1 => one(&PATHS).prop_map(|path| format!("echo \"$(cat {path})\"")),
        1 => one(&PATHS).prop_map(|path| format!("find {path} -name x -exec cat {{}} +")),
        1 => one(&PATHS).prop_map(|path| format!("printf {path} | xargs cat")),
    ];
    let between = prop::sample::select(vec![" && ", "; ", " | ", " || "]);
    (prop::collection::vec(simple, 1..4), between).prop_map(|(parts, between)| parts.join(between))
}

fn call() -> impl Strategy<Value = (&'static str, Value)> {
    let path = || one(&PATHS);
    prop_oneof![
        8 => command().prop_map(|text| ("shell", json!({"command": text}))),
        2 => path().prop_map(|path| ("read_file", json!({"file_path": path}))),
        2 => path().prop_map(|path| ("write_file", json!({"file_path": path, "content": "x"}))),
        1 => path().prop_map(|path| {
            ("edit_file", json!({"file_path": path, "old_text": "text", "new_text": "x"}))
        }),
        1 => path().prop_map(|path| ("search_files", json!({"pattern": "text", "path": path}))),
        1 => Just(("search_files", json!({"pattern": "text"}))),
        1 => path().prop_map(|path| ("list_files", json!({"path": path}))),
        1 => path().prop_map(|path| ("make_dir", json!({"path": path}))),
        1 => path().prop_map(|path| ("delete_path", json!({"path": path}))),
        1 => (path(), path()).prop_map(|(from, to)| ("move_path", json!({"from": from, "to": to}))),
        // Refused before a connection is made.
        1 => Just(("fetch_url", json!({"url": "http://127.0.0.1:9/"}))),
    ]
}

fn scene() -> impl Strategy<Value = Scene> {
    let modes = ["default", "default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"];
    let rules = prop::collection::vec(rule(), 0..5);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (rules, call(), prop::sample::select(modes.to_vec()), flags).prop_map(
        |(rules, call, mode, (is_toml, has_approver, confines))| Scene {
            rules,
            call,
            mode,
            is_toml,
            setting: Setting { has_approver, confines },
        },
    )
}

/// The file of the rules. Claude Code settings have neither selectors nor exceptions.
fn file(scene: &Scene) -> (FileFormat, String) {
    if scene.is_toml {
        let mut text = format!("[defaults]\nmode = \"{}\"\n", scene.mode);
        for rule in &scene.rules {
            let _ = write!(
                text,
                "[[rule]]\nmatch = '{}'\ndecision = \"{}\"\n",
                rule.pattern, rule.decision
            );
            if let Some(except) = &rule.except {
                let _ = writeln!(text, "except = '{except}'");
            }
        }
        return (FileFormat::Toml, text);
    }
    let mut permissions = json!({"defaultMode": scene.mode, "allow": [], "ask": [], "deny": []});
    for rule in scene
        .rules
        .iter()
        .filter(|rule| !rule.pattern.contains([' ', '=']) || rule.pattern.starts_with("Bash("))
    {
        permissions[rule.decision].as_array_mut().unwrap().push(json!(rule.pattern));
    }
    (FileFormat::Settings, json!({"permissions": permissions}).to_string())
}

/// The explained decision, and what happened to the call. `None` if the rules are not valid.
async fn explained_and_actual(scene: &Scene) -> Option<(Decision, Decision)> {
    let project = Project::new();
    let (form, text) = file(scene);
    let asked = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&asked);
    let runtime = project.runtime_of(form, text, scene.setting)?.observer(move |event: &Event| {
        if matches!(event, Event::Asked { .. }) {
            *seen.lock().unwrap() = true;
        }
    });
    let turn = runtime.build().unwrap().run().turn().await.unwrap();
    let (tool, arguments) = &scene.call;
    let call = || ToolCall::new("c", *tool, arguments.clone());
    let is_hidden = turn.snapshot().get(tool).is_none();
    let explained = turn.explain(call()).await.verdict.decision;
    let answer = turn.run([call()]).await.remove(0);
    let code = answer.failure().map(haft::Failure::code);
    if is_hidden {
        // The model does not see the tool, so it is unknown to it.
        return Some((
            Decision::Deny,
            if code.is_some() { Decision::Deny } else { Decision::Allow },
        ));
    }
    let is_asked = *asked.lock().unwrap();
    let actual = match code {
        _ if is_asked => Decision::Ask,
        Some(FailureCode::Denied) if explained == Decision::Ask && !scene.setting.has_approver => {
            Decision::Ask
        }
        Some(FailureCode::Denied) => Decision::Deny,
        // The tool's own check refused it, before it was authorized.
        Some(_) if answer.execution() == Execution::NotStarted => Decision::Deny,
        _ => Decision::Allow,
    };
    Some((explained, actual))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn explanation_is_what_happens_for_random_rules_and_calls(scene in scene()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if let Some((explained, actual)) = runtime.block_on(explained_and_actual(&scene)) {
            prop_assert_eq!(explained, actual, "{:#?}\n{}", scene, file(&scene).1);
        }
    }
}
