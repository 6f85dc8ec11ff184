//! Commands before a call: exit codes, JSON, time, size, and what survives.

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
async fn a_hook_is_told_the_call_in_the_words_of_the_protocol() {
    let folder = Folder::new();
    let hook = folder.script("tell", "cat > told.json; env > env.txt; pwd > pwd.txt");
    let seen = call(&folder, &[closed("PreToolUse", hook)], "shell", json!({"x": "ls"})).await;
    assert_eq!(seen.text(), "ls");
    let told: Value = serde_json::from_str(&folder.read("told.json")).unwrap();
    let here = folder.path("").to_string_lossy().trim_end_matches('/').to_owned();
    assert_eq!(told["session_id"], "s1");
    assert_eq!(told["hook_event_name"], "PreToolUse");
    assert_eq!(told["tool_name"], "Bash", "our shell is known as Bash");
    assert_eq!(told["tool_input"], json!({"x": "ls"}));
    assert_eq!(told["tool_use_id"], "c1");
    assert_eq!(told["permission_mode"], "default");
    for field in ["prompt_id", "transcript_path", "cwd"] {
        assert!(told[field].is_string(), "{field}");
    }
    let env = folder.read("env.txt");
    assert!(env.contains(&format!("CLAUDE_PROJECT_DIR={here}")), "{env}");
    assert!(env.contains(&format!("HAFT_PROJECT_DIR={here}")), "{env}");
    assert!(!env.contains("hunter2"), "a variable nobody passed on: {env}");
    assert_eq!(
        folder.read("pwd.txt").trim(),
        std::fs::canonicalize(&here).unwrap().to_string_lossy()
    );
}

#[tokio::test]
async fn every_exit_code_means_what_the_protocol_says() {
    let folder = Folder::new();
    let json_allow = say(r#""permissionDecision": "allow""#);
    for (n, (body, fails_closed, code, is_told)) in [
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
        let handler = folder.script(&format!("hook{n}"), &body);
        let mut spec = closed("PreToolUse", handler);
        spec.fails_closed = fails_closed;
        let seen = call(&folder, &[spec], "shell", json!({"x": "a"})).await;
        assert_eq!(seen.code(), code, "{body}: {}", seen.text());
        assert_eq!(!seen.open.is_empty(), is_told, "{body}: {:?}", seen.open);
    }
}

#[tokio::test]
async fn the_reason_of_a_block_is_told_and_the_hook_is_not() {
    let folder = Folder::new();
    let hook = folder.script("guard", "echo 'use the staging server' >&2; exit 2");
    let seen = call(&folder, &[open("PreToolUse", hook)], "shell", json!({})).await;
    assert_eq!(seen.text(), "blocked_by_hook: use the staging server");
}

#[tokio::test]
async fn a_missing_program_is_a_problem_in_either_form() {
    let folder = Folder::new();
    let exec = |program: &str, script: &str| Handler::Command {
        command: program.to_owned(),
        args: Some(vec![
            folder.path(script).to_string_lossy().into_owned(),
            "a b".to_owned(),
            "$HOME".to_owned(),
        ]),
    };
    let missing = || exec("/no/such/program", "x");
    let seen = call(&folder, &[closed("PreToolUse", missing())], "shell", json!({})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    let seen = call(&folder, &[open("PreToolUse", missing())], "shell", json!({})).await;
    assert_eq!((seen.code(), seen.open.len()), (None, 1));
    // With arguments no shell is started: they arrive as they are.
    folder.script("args", r#"printf '%s\n' "$@" > args.txt"#);
    let spec = closed("PreToolUse", exec("/bin/sh", "args"));
    let seen = call(&folder, &[spec], "shell", json!({})).await;
    assert_eq!(seen.code(), None);
    assert_eq!(folder.read("args.txt"), "a b\n$HOME\n");
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
async fn a_hook_that_hangs_is_killed_with_everything_it_started() {
    let folder = Folder::new();
    let body = "sleep 300 & echo $! > child; echo $$ > leader; sleep 300";
    let hook = folder.script("hangs", body);
    let began = Instant::now();
    let spec = within(closed("PreToolUse", hook.clone()), 700);
    let seen = call(&folder, &[spec], "shell", json!({})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    for file in ["child", "leader"] {
        let pid = folder.read(file);
        assert!(dies(&pid).await, "{file} {pid} is still there");
    }
    let seen = call(&folder, &[within(open("PreToolUse", hook), 300)], "shell", json!({})).await;
    assert_eq!(seen.code(), None);
    assert!(seen.open[0].contains("no answer within"), "{:?}", seen.open);
}

#[tokio::test]
async fn a_cancelled_turn_kills_the_hook_it_waits_for() {
    let folder = Folder::new();
    let hook = folder.script("hangs", "sleep 300 & echo $! > child.tmp; mv child.tmp child; wait");
    let hooks = Hooks::load(&[closed("PreToolUse", hook)], folder.place()).unwrap();
    let runtime = hooks.add_to(permissive()).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let stop = async {
        while !folder.path("child").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        control.abort();
    };
    let (answers, ()) = tokio::join!(turn.run(vec![ToolCall::new("c1", "shell", json!({}))]), stop);
    assert_eq!(answers[0].failure().unwrap().code().as_str(), "cancelled");
    assert!(dies(&folder.read("child")).await);
}

#[tokio::test]
async fn much_output_is_bounded_and_a_daemon_is_not_waited_for() {
    let folder = Folder::new();
    let loud = folder.script("loud", "echo fine; head -c 30000000 /dev/zero >&2");
    let seen = call(&folder, &[closed("PreToolUse", loud)], "shell", json!({})).await;
    assert_eq!(seen.code(), None, "standard error is not read here: {}", seen.text());
    // It leaves a process behind that keeps both pipes open.
    let daemon = folder.script("daemon", "sleep 30 & echo $! > child; exit 0");
    let began = Instant::now();
    let seen = call(&folder, &[closed("PreToolUse", daemon)], "shell", json!({})).await;
    assert_eq!(seen.code(), None);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let child = folder.read("child");
    assert!(is_alive(&child), "what it meant to leave running goes on");
    let pid = rustix::process::Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn deny_after_a_mebibyte_of_output_is_hook_failed_and_not_silence() {
    let folder = Folder::new();
    let noise = "head -c 2000000 /dev/zero | tr '\\0' 'x'; echo;";
    let deny = r#"echo '{"decision": "block", "reason": "no"}'"#;
    let long = r#"printf '{"decision": "block", "reason": "'; head -c 2000000 /dev/zero | tr '\0' 'x'; echo '"}'"#;
    for body in [format!("{noise} {deny}"), long.to_owned(), noise.to_owned()] {
        for spec in [closed, open] {
            let spec = spec("PreToolUse", folder.script("loud", &body));
            let seen = call(&folder, &[spec], "shell", json!({"x": "a"})).await;
            assert_eq!(seen.code(), Some("hook_failed"), "{body}");
        }
    }
    // An exit code of 2 blocks, however much was printed.
    let body = format!("{noise} head -c 2000000 /dev/zero | tr '\\0' 'y' >&2; exit 2");
    let spec = open("PreToolUse", folder.script("blocks", &body));
    let seen = call(&folder, &[spec], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("blocked_by_hook"));
    // After a body the result is withheld: the rewritten output was lost.
    let spec = open("PostToolUse", folder.script("after", noise));
    let seen = call(&folder, &[spec], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
}

#[test]
fn empty_hook_command_is_an_error_at_load() {
    let folder = Folder::new();
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
            let error = Hooks::load(&[spec], folder.place()).unwrap_err().to_string();
            assert!(error.contains("hint: name what to run"), "{handler:?}: {error}");
        }
    }
    for fine in [
        command("true", None),
        command("#!x\ntrue", None),
        command("sh", Some(&[])),
        command("grep -c '' x", None),
    ] {
        assert!(Hooks::load(&[closed("PreToolUse", fine)], folder.place()).is_ok());
    }
}

#[tokio::test]
async fn a_hook_that_does_not_read_its_input_blocks_nobody() {
    let folder = Folder::new();
    let hook = folder.script("deaf", "exec <&-; exit 0");
    let much = "x".repeat(2 << 20);
    let seen = call(&folder, &[closed("PreToolUse", hook)], "shell", json!({"x": much})).await;
    assert_eq!(seen.code(), None);
    let slow = folder.script("slow", "sleep 0.2; echo 'too long' >&2; exit 2");
    let seen = call(&folder, &[closed("PreToolUse", slow)], "shell", json!({"x": much})).await;
    assert_eq!(seen.code(), Some("blocked_by_hook"));
}

#[tokio::test]
async fn rewrites_compose_in_the_order_they_are_written() {
    let folder = Folder::new();
    let add = |name: &str, letter: &str| {
        let body = format!(
            r#"x=$(sed 's/.*"tool_input":{{"x":"\([a-z]*\)".*/\1/'); echo "{{\"hookSpecificOutput\": {{\"hookEventName\": \"PreToolUse\", \"updatedInput\": {{\"x\": \"${{x}}{letter}\"}}}}}}""#
        );
        closed("PreToolUse", folder.script(name, &body))
    };
    let specs = [add("one", "b"), add("two", "c"), add("three", "d")];
    let seen = call(&folder, &specs, "shell", json!({"x": "a"})).await;
    assert_eq!(seen.text(), "abcd");
    // A rewrite that the tool does not take is no rewrite: nothing runs.
    let bad = folder.script("bad", &say(r#""updatedInput": {"x": 7}"#));
    let seen = call(&folder, &[closed("PreToolUse", bad)], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
}

#[tokio::test]
async fn a_deny_beats_an_allow_on_either_side_and_an_allow_stands_in_for_a_rule() {
    let folder = Folder::new();
    let allow = || folder.script("allow", &say(r#""permissionDecision": "allow""#));
    let deny = || {
        folder.script(
            "deny",
            &say(r#""permissionDecision": "deny", "permissionDecisionReason": "no""#),
        )
    };
    for handlers in [[allow(), deny()], [deny(), allow()]] {
        let specs = handlers.map(|handler| closed("PreToolUse", handler));
        let seen = call(&folder, &specs, "shell", json!({"x": "a"})).await;
        assert_eq!(seen.text(), DENIED);
    }
    let calls = || vec![ToolCall::new("c1", "shell", json!({"x": "a"}))];
    let specs = [closed("PreToolUse", allow())];
    let seen = walk(&folder, &specs, strict(), calls()).await;
    assert_eq!(seen.text(), "a", "without a rule the hook's allow counts");
    let seen = walk(&folder, &[], strict(), calls()).await;
    assert_eq!(seen.code(), Some("denied"));
}

#[tokio::test]
async fn context_stands_beside_the_result_and_continue_false_ends_the_run() {
    let folder = Folder::new();
    let hook = folder.script("context", &say(r#""additionalContext": "tests live in ./t""#));
    let seen = call(&folder, &[closed("PreToolUse", hook)], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.text(), "a\n[note from the host: tests live in ./t]");
    let body = r#"echo '{"continue": false, "stopReason": "the budget is spent"}'"#;
    let hook = folder.script("halt", body);
    let seen = call(&folder, &[closed("PreToolUse", hook)], "shell", json!({"x": "a"})).await;
    assert_eq!(seen.code(), Some("blocked_by_hook"));
    assert_eq!(seen.halted.as_deref(), Some("the budget is spent"));
}

#[tokio::test]
async fn a_matcher_chooses_tools_by_either_name_and_a_handler_runs_once() {
    let folder = Folder::new();
    let count = folder.script("count", "echo x >> count.txt");
    for (matcher, tool, times) in [
        ("Bash", "shell", 1),
        ("shell", "shell", 1),
        ("Bash|Edit", "other", 0),
        ("Ba.h", "shell", 1),
        ("^oth", "other", 1),
    ] {
        let _ = std::fs::remove_file(folder.path("count.txt"));
        let mut spec = closed("PreToolUse", count.clone());
        spec.matcher = Some(matcher.to_owned());
        // The same handler again, for all tools: it runs once where both match.
        let twice = [spec.clone(), spec];
        call(&folder, &twice, tool, json!({})).await;
        let runs = std::fs::read(folder.path("count.txt")).unwrap_or_default().len() / 2;
        assert_eq!(runs, times, "{matcher} {tool}");
    }
    let mut bash = closed("PreToolUse", count.clone());
    bash.matcher = Some("Bash".to_owned());
    let _ = std::fs::remove_file(folder.path("count.txt"));
    call(&folder, &[bash, closed("PreToolUse", count)], "other", json!({})).await;
    assert_eq!(folder.read("count.txt"), "x\n", "the first did not match, so the second runs");
}

#[test]
fn what_cannot_be_set_up_is_refused_and_what_is_never_called_is_noted() {
    let folder = Folder::new();
    let command = || Handler::Command { command: "true".to_owned(), args: None };
    let load = |specs: &[haft::policy::HookSpec]| Hooks::load(specs, folder.place());
    let mut spec = closed("PreToolUse", command());
    spec.matcher = Some("(?=Bash)".to_owned());
    let error = load(&[spec]).unwrap_err().to_string();
    assert!(error.contains("look-around") && error.contains("hint:"), "{error}");
    assert!(load(&[closed("PreToolUze", command())]).is_err());
    assert!(load(&[within(closed("PreToolUse", command()), 0)]).is_err());
    let prompt = Handler::Other(json!({"type": "prompt"}));
    assert!(load(&[closed("PreToolUse", prompt.clone())]).is_err(), "a guard is not left out");
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
async fn a_hook_that_failed_does_not_get_to_allow() {
    let folder = Folder::new();
    let allow = r#"echo '{"hookSpecificOutput": {"permissionDecision": "allow"}}'; exit 1"#;
    let specs = [open("PreToolUse", folder.script("allow", allow))];
    let calls = || vec![ToolCall::new("c1", "shell", json!({"x": "a"}))];
    let seen = walk(&folder, &specs, strict(), calls()).await;
    assert_eq!(seen.code(), Some("denied"), "the default still asks, and nobody is there");
    assert_eq!(seen.open.len(), 1);
    let odd = r#"printf '{"hookSpecificOutput": {"updatedInput": {"x": "\377"}, "permissionDecision": "allow"}}'"#;
    let specs = [open("PreToolUse", folder.script("odd", odd))];
    let seen = walk(&folder, &specs, strict(), calls()).await;
    assert_eq!((seen.code(), seen.open.len()), (Some("denied"), 1));
    let specs = [closed("PreToolUse", folder.script("odd", odd))];
    assert_eq!(walk(&folder, &specs, permissive(), calls()).await.code(), Some("hook_failed"));
}

#[tokio::test]
async fn words_before_an_answer_do_not_silence_it() {
    let folder = Folder::new();
    let body = r#"echo 'Welcome!'; echo '{"decision": "block", "reason": "no"}'"#;
    let script = || folder.script("chatty", body);
    let seen = call(&folder, &[closed("PreToolUse", script())], "shell", json!({})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    let seen = call(&folder, &[open("PreToolUse", script())], "shell", json!({})).await;
    assert_eq!((seen.code(), seen.open.len()), (None, 1), "{:?}", seen.open);
}

#[tokio::test]
async fn a_guard_is_asked_although_the_same_command_is_also_named_as_no_guard() {
    let folder = Folder::new();
    let script = || folder.script("broken", "exit 1");
    let specs = [open("PreToolUse", script()), closed("PreToolUse", script())];
    assert_eq!(call(&folder, &specs, "shell", json!({})).await.code(), Some("hook_failed"));
}

#[tokio::test]
async fn a_hook_is_about_whatever_a_rule_of_that_name_is_about() {
    let folder = Folder::new();
    let about = |matcher: &str| {
        let mut spec = closed("PreToolUse", folder.script("no", "echo no >&2; exit 2"));
        spec.matcher = Some(matcher.to_owned());
        spec
    };
    let run = async |spec: HookSpec, tool: &str, view: ToolView| {
        let terminal = DynTool::new(
            ToolSpec::new("terminal", "Runs commands."),
            json!({"properties": {"command": {"type": "string"}}}),
            |_, _| async { Ok("ran") },
        );
        let tools = vec![terminal, echo("shell"), echo("fetch_url")];
        let registry = ToolRegistry::builder().add(tools).build().unwrap();
        let builder = Runtime::builder().registry(registry).policy(AllowAll);
        let hooks = Hooks::load(&[spec], folder.place()).unwrap();
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
async fn script_that_changed_since_it_was_trusted_refuses_even_where_the_hook_fails_open() {
    let body = "touch ran";
    for event in ["PreToolUse", "PostToolUse"] {
        for (change, runs) in
            [("same", true), ("edit", false), ("delete", false), ("fifo", false), ("link", false)]
        {
            let folder = Folder::new();
            let handler = folder.script("guard", body);
            let path = folder.path("guard");
            let content = format!("{body}\n");
            let mut spec = open(event, handler);
            spec.scripts = vec![HookScript::new(&path, Some(content.as_bytes()))];
            match change {
                "edit" => drop(folder.script("guard", "touch ran; true")),
                "delete" => std::fs::remove_file(&path).unwrap(),
                "fifo" => {
                    std::fs::remove_file(&path).unwrap();
                    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
                    assert!(made.success());
                }
                "link" => {
                    folder.script("other", "touch ran; exit 0");
                    std::fs::remove_file(&path).unwrap();
                    std::os::unix::fs::symlink("other", &path).unwrap();
                }
                _ => {}
            }
            let seen = call(&folder, &[spec], "shell", json!({"x": "ls"})).await;
            assert_eq!(seen.code(), (!runs).then_some("hook_failed"), "{event} {change}");
            assert_eq!(folder.path("ran").exists(), runs, "{event} {change}");
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
    let folder = Folder::new();
    let handler = Handler::Command { command: "./late".to_owned(), args: None };
    let mut spec = open("PreToolUse", handler);
    spec.scripts = vec![HookScript::new(folder.path("late"), None)];
    let specs = [spec];
    let seen = call(&folder, &specs, "shell", json!({"x": "ls"})).await;
    assert_eq!((seen.code(), seen.open.len()), (None, 1), "it fails open, as it is written");
    folder.script("late", "touch ran");
    let seen = call(&folder, &specs, "shell", json!({"x": "ls"})).await;
    assert_eq!(seen.code(), Some("hook_failed"));
    assert!(!folder.path("ran").exists());
}
