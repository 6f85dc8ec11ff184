//! Command hooks before a call: exit codes, JSON, timeouts, output limits, process cleanup.

use std::time::Duration;

use haft::{
    Runtime, ToolCall, ToolRegistry,
    policy::{AllowAll, Handler, HookScript, HookSpec},
    registry::ToolView,
    tool::{DynTool, ToolSpec},
};
use haft_hooks::Hooks;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::kit::*;

fn say(decision: &str) -> String {
    format!(
        r#"cat >/dev/null; echo '{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", {decision}}}}}'"#
    )
}

#[tokio::test]
async fn hook_input_has_the_fields_of_the_protocol() {
    let dir = ScriptDir::new();
    let hook = dir.script("report", "cat > input.json; env > env.txt; pwd > pwd.txt");
    let seen = call(&dir, &[closed("PreToolUse", hook)], "shell", json!({"x": "ls"})).await;
    assert_eq!(seen.text(), "ls");
    let input: Value = serde_json::from_str(&dir.read("input.json")).unwrap();
    let here = dir.path("").to_string_lossy().trim_end_matches('/').to_owned();
    assert_eq!(input["session_id"], "s1");
    assert_eq!(input["hook_event_name"], "PreToolUse");
    assert_eq!(input["tool_name"], "Bash", "our shell is known as Bash");
    assert_eq!(input["tool_input"], json!({"x": "ls"}));
    assert_eq!(input["tool_use_id"], "c1");
    assert_eq!(input["permission_mode"], "default");
    for field in ["prompt_id", "transcript_path", "cwd"] {
        assert!(input[field].is_string(), "{field}");
    }
    let env = dir.read("env.txt");
    assert!(env.contains(&format!("CLAUDE_PROJECT_DIR={here}")), "{env}");
    assert!(env.contains(&format!("HAFT_PROJECT_DIR={here}")), "{env}");
    assert!(!env.contains("hunter2"), "a variable that was not passed on: {env}");
    assert_eq!(dir.read("pwd.txt").trim(), std::fs::canonicalize(&here).unwrap().to_string_lossy());
}

#[tokio::test]
async fn every_exit_code_means_what_the_protocol_says() {
    let dir = ScriptDir::new();
    let json_allow = say(r#""permissionDecision": "allow""#);
    for (n, (body, fails_closed, code, is_reported)) in [
        ("exit 0".to_owned(), true, None, false),
        ("echo fine".to_owned(), true, None, false),
        ("echo 'not here' >&2; exit 2".to_owned(), false, Some("blocked_by_hook"), false),
        (format!("{json_allow}; echo no >&2; exit 2"), false, Some("blocked_by_hook"), false),
        ("exit 1".to_owned(), false, None, true),
        ("exit 1".to_owned(), true, Some("hook_failed"), false),
        ("no_such_program_here".to_owned(), false, None, true),
        ("no_such_program_here".to_owned(), true, Some("hook_failed"), false),
        ("echo '{broken'".to_owned(), false, None, true),
        ("echo '{broken'".to_owned(), true, Some("hook_failed"), false),
        ("kill -9 $$".to_owned(), true, Some("hook_failed"), false),
        (
            format!("{}; exit 1", say(r#""permissionDecision": "deny""#)),
            false,
            Some("denied"),
            true,
        ),
        (say(r#""permissionDecision": "deny""#), true, Some("denied"), false),
        (say(r#""permissionDecision": "ask""#), true, Some("denied"), false),
        (say(r#""permissionDecision": "defer""#), true, Some("denied"), false),
        (
            "echo '{\"decision\": \"block\", \"reason\": \"old\"}'".to_owned(),
            true,
            Some("denied"),
            false,
        ),
        ("echo '{\"decision\": \"approve\"}'".to_owned(), true, None, false),
    ]
    .into_iter()
    .enumerate()
    {
        let handler = dir.script(&format!("hook{n}"), &body);
        let mut spec = closed("PreToolUse", handler);
        spec.fails_closed = fails_closed;
        let seen = call(&dir, &[spec], "shell", json!({"x": "a"})).await;
        assert_eq!(seen.code(), code, "{body}: {}", seen.text());
        assert_eq!(!seen.open.is_empty(), is_reported, "{body}: {:?}", seen.open);
    }
}

#[tokio::test]
async fn model_gets_the_reason_of_a_block_without_the_hook_name() {
    let dir = ScriptDir::new();
    let hook = dir.script("guard", "echo 'use the staging server' >&2; exit 2");
    let seen = call(&dir, &[open("PreToolUse", hook)], "shell", json!({})).await;
    assert_eq!(seen.text(), "blocked_by_hook: use the staging server");
}

#[tokio::test]
async fn missing_program_is_a_problem_with_and_without_a_shell() {
    let dir = ScriptDir::new();
    let exec = |program: &str, script: &str| Handler::Command {
        command: program.to_owned(),
        args: Some(vec![
            dir.path(script).to_string_lossy().into_owned(),
            "a b".to_owned(),
            "$HOME".to_owned(),
        ]),
    };
    let missing = || exec("/no/such/program", "x");
    let seen = call(&dir, &[closed("PreToolUse", missing())], "shell", json!({})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    let seen = call(&dir, &[open("PreToolUse", missing())], "shell", json!({})).await;
    assert_eq!((seen.code(), seen.open.len()), (None, 1));
    // With arguments no shell is started, so they are not expanded.
    dir.script("args", r#"printf '%s\n' "$@" > args.txt"#);
    let spec = closed("PreToolUse", exec("/bin/sh", "args"));
    let seen = call(&dir, &[spec], "shell", json!({})).await;
    assert_eq!(seen.code(), None);
    assert_eq!(dir.read("args.txt"), "a b\n$HOME\n");
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat).into_owned();
    !stat.is_empty() && !stat.contains(") Z ")
}

async fn dies(pid: &str) -> bool {
    for _ in 0..100 {
        if !is_alive(pid) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn hook_that_times_out_is_killed_with_its_child_processes() {
    let dir = ScriptDir::new();
    let body = "sleep 300 & echo $! > child; echo $$ > leader; sleep 300";
    let hook = dir.script("hangs", body);
    let began = Instant::now();
    let spec = within(closed("PreToolUse", hook.clone()), 700);
    let seen = call(&dir, &[spec], "shell", json!({})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    for file in ["child", "leader"] {
        let pid = dir.read(file);
        assert!(dies(&pid).await, "{file} {pid} is still there");
    }
    let seen = call(&dir, &[within(open("PreToolUse", hook), 300)], "shell", json!({})).await;
    assert_eq!(seen.code(), None);
    assert!(seen.open[0].contains("no answer within"), "{:?}", seen.open);
}

#[tokio::test]
async fn cancelled_turn_kills_the_running_hook() {
    let dir = ScriptDir::new();
    let hook = dir.script("hangs", "sleep 300 & echo $! > child.tmp; mv child.tmp child; wait");
    let hooks = Hooks::load(&[closed("PreToolUse", hook)], dir.project()).unwrap();
    let runtime = hooks.add_to(permissive()).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let stop = async {
        while !dir.path("child").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        control.abort();
    };
    let (answers, ()) = tokio::join!(turn.run(vec![ToolCall::new("c1", "shell", json!({}))]), stop);
    assert_eq!(answers[0].failure().unwrap().code().as_str(), "cancelled");
    assert!(dies(&dir.read("child")).await);
}

#[tokio::test]
async fn output_is_bounded_and_a_background_process_is_not_waited_for() {
    let dir = ScriptDir::new();
    let loud = dir.script("loud", "echo fine; head -c 30000000 /dev/zero >&2");
    let seen = call(&dir, &[closed("PreToolUse", loud)], "shell", json!({})).await;
    assert_eq!(seen.code(), None, "standard error is not read here: {}", seen.text());
    // It leaves a background process that keeps both pipes open.
    let daemon = dir.script("daemon", "sleep 30 & echo $! > child; exit 0");
    let began = Instant::now();
    let seen = call(&dir, &[closed("PreToolUse", daemon)], "shell", json!({})).await;
    assert_eq!(seen.code(), None);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let child = dir.read("child");
    assert!(is_alive(&child), "a background process continues");
    let pid = rustix::process::Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn deny_after_a_mebibyte_of_output_is_hook_failed_and_not_ignored() {
    let dir = ScriptDir::new();
    let noise = "head -c 2000000 /dev/zero | tr '\\0' 'x'; echo;";
    let deny = r#"echo '{"decision": "block", "reason": "no"}'"#;
    let long = r#"printf '{"decision": "block", "reason": "'; head -c 2000000 /dev/zero | tr '\0' 'x'; echo '"}'"#;
    for body in [format!("{noise} {deny}"), long.to_owned(), noise.to_owned()] {
        for spec in [closed, open] {
            let spec = spec("PreToolUse", dir.script("loud", &body));
            let seen = call(&dir, &[spec], "shell", json!({"x": "a"})).await;
            assert_eq!(seen.code(), Some("hook_failed"), "{body}");
        }
    }
    // An exit code of 2 blocks, however much was printed.
    let body = format!("{noise} head -c 2000000 /dev/zero | tr '\\0' 'y' >&2; exit 2");
    let spec = open("PreToolUse", dir.script("blocks", &body));
    let seen = call(&dir, &[spec], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("blocked_by_hook"));
    // After a body the result is withheld: the rewritten output was lost.
    let spec = open("PostToolUse", dir.script("after", noise));
    let seen = call(&dir, &[spec], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
}

#[test]
fn empty_hook_command_is_an_error_at_load() {
    let dir = ScriptDir::new();
    let command = |command: &str, args: Option<&[&str]>| Handler::Command {
        command: command.to_owned(),
        args: args.map(|args| args.iter().map(|arg| (*arg).to_owned()).collect()),
    };
    let url = Handler::Http { url: " ".to_owned(), headers: vec![], allowed_variables: vec![] };
    for handler in [
        command("", None),
        command(" \t\n", None),
        command("\u{feff}", None),
        command("# deny everything", None),
        command("\n  # a\n# b\n", None),
        command("guard\0.sh", None),
        command("", Some(&[])),
        command(" ", Some(&["x"])),
        command("guard.sh", Some(&["a\0"])),
        command("sh", Some(&["-c", " "])),
        command("bash", Some(&["-lc", "# x"])),
        command("sh -c ''", None),
        command("env bash -ec ' '", None),
        command("> /dev/null", None),
        command("\\\n", None),
        url,
    ] {
        for spec in [closed("PreToolUse", handler.clone()), open("PostToolUse", handler.clone())] {
            let error = Hooks::load(&[spec], dir.project()).unwrap_err().to_string();
            assert!(error.contains("hint: name what to run"), "{handler:?}: {error}");
        }
    }
    for fine in [
        command("true", None),
        command("#!x\ntrue", None),
        command("sh", Some(&[])),
        command("grep -c '' x", None),
    ] {
        assert!(Hooks::load(&[closed("PreToolUse", fine)], dir.project()).is_ok());
    }
}

#[tokio::test]
async fn hook_that_does_not_read_its_input_does_not_deadlock() {
    let dir = ScriptDir::new();
    let hook = dir.script("deaf", "exec <&-; exit 0");
    let much = "x".repeat(2 << 20);
    let seen = call(&dir, &[closed("PreToolUse", hook)], "shell", json!({"x": much})).await;
    assert_eq!(seen.code(), None);
    let slow = dir.script("slow", "sleep 0.2; echo 'too long' >&2; exit 2");
    let seen = call(&dir, &[closed("PreToolUse", slow)], "shell", json!({"x": much})).await;
    assert_eq!(seen.code(), Some("blocked_by_hook"));
}

#[tokio::test]
async fn rewrites_compose_in_file_order() {
    let dir = ScriptDir::new();
    let add = |name: &str, letter: &str| {
        let body = format!(
            r#"x=$(sed 's/.*"tool_input":{{"x":"\([a-z]*\)".*/\1/'); echo "{{\"hookSpecificOutput\": {{\"hookEventName\": \"PreToolUse\", \"updatedInput\": {{\"x\": \"${{x}}{letter}\"}}}}}}""#
        );
        closed("PreToolUse", dir.script(name, &body))
    };
    let specs = [add("one", "b"), add("two", "c"), add("three", "d")];
    let seen = call(&dir, &specs, "shell", json!({"x": "a"})).await;
    assert_eq!(seen.text(), "abcd");
    // An invalid rewrite fails: the tool does not run.
    let bad = dir.script("bad", &say(r#""updatedInput": {"x": 7}"#));
    let seen = call(&dir, &[closed("PreToolUse", bad)], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
}

#[tokio::test]
async fn deny_beats_allow_in_either_order_and_an_allow_replaces_approval() {
    let dir = ScriptDir::new();
    let allow = || dir.script("allow", &say(r#""permissionDecision": "allow""#));
    let deny = || {
        dir.script(
            "deny",
            &say(r#""permissionDecision": "deny", "permissionDecisionReason": "no""#),
        )
    };
    for handlers in [[allow(), deny()], [deny(), allow()]] {
        let specs = handlers.map(|handler| closed("PreToolUse", handler));
        let seen = call(&dir, &specs, "shell", json!({"x": "a"})).await;
        assert_eq!(seen.text(), DENIED);
    }
    let calls = || vec![ToolCall::new("c1", "shell", json!({"x": "a"}))];
    let specs = [closed("PreToolUse", allow())];
    let seen = run_calls(&dir, &specs, strict(), calls()).await;
    assert_eq!(seen.text(), "a", "without a rule the hook's allow counts");
    let seen = run_calls(&dir, &[], strict(), calls()).await;
    assert_eq!(seen.code(), Some("denied"));
}

#[tokio::test]
async fn additional_context_is_added_to_the_result_and_continue_false_ends_the_run() {
    let dir = ScriptDir::new();
    let hook = dir.script("context", &say(r#""additionalContext": "tests live in ./t""#));
    let seen = call(&dir, &[closed("PreToolUse", hook)], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.text(), "a\n[note from the host: tests live in ./t]");
    let body = r#"echo '{"continue": false, "stopReason": "the budget is spent"}'"#;
    let hook = dir.script("halt", body);
    let seen = call(&dir, &[closed("PreToolUse", hook)], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("blocked_by_hook"));
    assert_eq!(seen.halted.as_deref(), Some("the budget is spent"));
}

#[tokio::test]
async fn matcher_accepts_both_tool_names_and_a_duplicate_handler_runs_once() {
    let dir = ScriptDir::new();
    let count = dir.script("count", "echo x >> count.txt");
    for (matcher, tool, times) in [
        ("Bash", "shell", 1),
        ("shell", "shell", 1),
        ("Bash|Edit", "other", 0),
        ("Ba.h", "shell", 1),
        ("^oth", "other", 1),
    ] {
        let _ = std::fs::remove_file(dir.path("count.txt"));
        let mut spec = closed("PreToolUse", count.clone());
        spec.matcher = Some(matcher.to_owned());
        // The same handler again, for all tools: it runs once where both match.
        let twice = [spec.clone(), spec];
        call(&dir, &twice, tool, json!({})).await;
        let runs = std::fs::read(dir.path("count.txt")).unwrap_or_default().len() / 2;
        assert_eq!(runs, times, "{matcher} {tool}");
    }
    let mut bash = closed("PreToolUse", count.clone());
    bash.matcher = Some("Bash".to_owned());
    let _ = std::fs::remove_file(dir.path("count.txt"));
    call(&dir, &[bash, closed("PreToolUse", count)], "other", json!({})).await;
    assert_eq!(dir.read("count.txt"), "x\n", "the first did not match, so the second runs");
}

#[test]
fn invalid_hooks_are_rejected_and_unsupported_events_are_noted() {
    let dir = ScriptDir::new();
    let command = || Handler::Command { command: "true".to_owned(), args: None };
    let load = |specs: &[haft::policy::HookSpec]| Hooks::load(specs, dir.project());
    let mut spec = closed("PreToolUse", command());
    spec.matcher = Some("(?=Bash)".to_owned());
    let error = load(&[spec]).unwrap_err().to_string();
    assert!(error.contains("look-around") && error.contains("hint:"), "{error}");
    assert!(load(&[closed("PreToolUze", command())]).is_err());
    assert!(load(&[within(closed("PreToolUse", command()), 0)]).is_err());
    let prompt = Handler::Other(json!({"type": "prompt"}));
    assert!(
        load(&[closed("PreToolUse", prompt.clone())]).is_err(),
        "a hook that fails closed is not skipped"
    );
    let specs = [
        open("PreToolUse", prompt),
        open("Stop", command()),
        open("Stop", command()),
        open("PostToolUse", command()),
    ];
    let hooks = load(&specs).unwrap();
    assert_eq!(hooks.notes().len(), 2, "{:?}", hooks.notes());
}

#[tokio::test]
async fn failed_hook_cannot_allow() {
    let dir = ScriptDir::new();
    let allow = r#"echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'; exit 1"#;
    let specs = [open("PreToolUse", dir.script("allow", allow))];
    let calls = || vec![ToolCall::new("c1", "shell", json!({"x": "a"}))];
    let seen = run_calls(&dir, &specs, strict(), calls()).await;
    assert_eq!(seen.code(), Some("denied"), "the default still asks, and there is no approver");
    assert_eq!(seen.open.len(), 1);
    let odd = r#"printf '{"hookSpecificOutput": {"updatedInput": {"x": "\377"}, "permissionDecision": "allow"}}'"#;
    let specs = [open("PreToolUse", dir.script("odd", odd))];
    let seen = run_calls(&dir, &specs, strict(), calls()).await;
    assert_eq!((seen.code(), seen.open.len()), (Some("denied"), 1));
    let specs = [closed("PreToolUse", dir.script("odd", odd))];
    assert_eq!(run_calls(&dir, &specs, permissive(), calls()).await.code(), Some("hook_failed"));
}

#[tokio::test]
async fn text_before_an_answer_does_not_hide_a_deny() {
    let dir = ScriptDir::new();
    let body = r#"echo 'Welcome!'; echo '{"decision": "block", "reason": "no"}'"#;
    let script = || dir.script("chatty", body);
    let seen = call(&dir, &[closed("PreToolUse", script())], "shell", json!({})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    let seen = call(&dir, &[open("PreToolUse", script())], "shell", json!({})).await;
    assert_eq!((seen.code(), seen.open.len()), (None, 1), "{:?}", seen.open);
}

#[tokio::test]
async fn fail_closed_hook_runs_even_if_a_fail_open_hook_has_the_same_command() {
    let dir = ScriptDir::new();
    let script = || dir.script("broken", "exit 1");
    let specs = [open("PreToolUse", script()), closed("PreToolUse", script())];
    assert_eq!(call(&dir, &specs, "shell", json!({})).await.code(), Some("hook_failed"));
}

#[tokio::test]
async fn hook_matches_the_same_tools_as_a_rule_of_that_name() {
    let dir = ScriptDir::new();
    let about = |matcher: &str| {
        let mut spec = closed("PreToolUse", dir.script("no", "echo no >&2; exit 2"));
        spec.matcher = Some(matcher.to_owned());
        spec
    };
    let run = async |spec: HookSpec, tool: &str, view: ToolView| {
        let terminal = DynTool::new(
            ToolSpec::new("terminal", "Runs commands."),
            json!({"properties": {"command": {"type": "string"}}}),
            |_, _| async { "ran" },
        );
        let tools = vec![terminal, echo("shell"), echo("fetch_url")];
        let registry = ToolRegistry::builder().add(tools).build().unwrap();
        let builder = Runtime::builder().registry(registry).policy(AllowAll);
        let hooks = Hooks::load(&[spec], dir.project()).unwrap();
        let runtime = hooks.add_to(builder).build().unwrap();
        let turn = runtime.run_builder().view(view).start().turn().await.unwrap();
        let answers = turn.run([ToolCall::new("c1", tool, json!({}))]).await;
        answers[0].failure().map(|failure| failure.code().as_str())
    };
    let blocked = Some("blocked_by_hook");
    assert_eq!(run(about("Bash"), "terminal", ToolView::all()).await, blocked);
    assert_eq!(run(about("WebFetch"), "fetch_url", ToolView::all()).await, blocked);
    assert_eq!(run(about("Bash"), "sh", ToolView::all().rename("shell", "sh")).await, blocked);
    assert_eq!(run(about("Bash"), "fetch_url", ToolView::all()).await, None);
}

#[tokio::test]
async fn changed_script_is_not_run_and_denies_even_if_the_hook_fails_open() {
    let body = "touch ran";
    for event in ["PreToolUse", "PostToolUse"] {
        for (change, runs) in
            [("same", true), ("edit", false), ("delete", false), ("fifo", false), ("link", false)]
        {
            let dir = ScriptDir::new();
            let handler = dir.script("guard", body);
            let path = dir.path("guard");
            let content = format!("{body}\n");
            let mut spec = open(event, handler);
            spec.scripts = vec![HookScript::new(&path, Some(content.as_bytes()))];
            match change {
                "edit" => drop(dir.script("guard", "touch ran; true")),
                "delete" => std::fs::remove_file(&path).unwrap(),
                "fifo" => {
                    std::fs::remove_file(&path).unwrap();
                    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
                    assert!(made.success());
                }
                "link" => {
                    dir.script("other", "touch ran; exit 0");
                    std::fs::remove_file(&path).unwrap();
                    std::os::unix::fs::symlink("other", &path).unwrap();
                }
                _ => {}
            }
            let seen = call(&dir, &[spec], "shell", json!({"x": "ls"})).await;
            assert_eq!(seen.code(), (!runs).then_some("hook_failed"), "{event} {change}");
            assert_eq!(dir.path("ran").exists(), runs, "{event} {change}");
            if !runs {
                let failure = seen.answers[0].failure().unwrap();
                let why = format!("{failure} {:?}", failure.source().map(ToString::to_string));
                assert!(why.contains("changed since it was trusted"), "{why}");
                assert!(why.contains("`haft trust`"), "{why}");
            }
        }
    }
}

#[tokio::test]
async fn script_that_was_missing_must_stay_missing() {
    let dir = ScriptDir::new();
    let handler = Handler::Command { command: "./late".to_owned(), args: None };
    let mut spec = open("PreToolUse", handler);
    spec.scripts = vec![HookScript::new(dir.path("late"), None)];
    let specs = [spec];
    let seen = call(&dir, &specs, "shell", json!({"x": "ls"})).await;
    assert_eq!((seen.code(), seen.open.len()), (None, 1), "it fails open, as configured");
    dir.script("late", "touch ran");
    let seen = call(&dir, &specs, "shell", json!({"x": "ls"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    assert!(!dir.path("ran").exists());
}
