//! Output of a command at a real terminal while the command runs, and the status line below it.

#![expect(clippy::disallowed_methods, reason = "the tests make the files that commands wait for")]

use std::{fs, path::PathBuf, time::Duration};

use serde_json::json;

use crate::{
    TempDir,
    terminal::{Screen, Terminal, once},
};

/// A command waits for this file, so that a test decides when it continues.
const WAIT: &str = "while [ ! -e go ]; do sleep 0.05; done";

fn dir(name: &str) -> TempDir {
    TempDir::trusted(&format!("live-{name}"), &[])
}

/// The line that runs a command, which is in a file so that it needs no quotes.
fn call(dir: &TempDir, command: &str, options: &str) -> String {
    fs::write(dir.0.join("command"), command).unwrap();
    format!("haft call shell command=@../command --workspace . --yes {options}")
}

/// Runs a command at a terminal, and lets it continue once the screen shows all of this.
fn run_until(dir: &TempDir, command: &str, until: &[&str]) -> Option<Screen> {
    let go: PathBuf = dir.work().join("go");
    let terminal = Terminal::like(&dir.command());
    terminal.run(&call(dir, command, ""), |seen| {
        if until.iter().all(|text| seen.contains(text)) {
            fs::write(&go, "").unwrap();
        }
        None
    })
}

#[test]
fn output_is_shown_while_the_command_runs_and_not_a_second_time() {
    let dir = dir("slow");
    let command = format!("echo one; echo two >&2; {WAIT}; echo three");
    // Without live output the command would wait until the test times out.
    let Some(screen) = run_until(&dir, &command, &["out │ one\r", "err │ two\r"]) else {
        return;
    };
    assert_eq!(screen.code, Some(0), "{}", screen.page());
    let wanted = ["  out │ one", "  err │ two", "  out │ three", "exit code 0", ""];
    let mut lines = screen.lines();
    lines[..2].sort_by_key(|line| line.starts_with("  err"));
    assert_eq!(lines, wanted);
}

#[test]
fn result_without_anything_new_is_not_printed_again() {
    let dir = dir("same");
    let command = format!("echo one; {WAIT}; printf two");
    let Some(screen) = run_until(&dir, &command, &["out │ one\r"]) else { return };
    let wanted = ["  out │ one", "  out │ two", "done; the result is the output above", ""];
    assert_eq!(screen.lines(), wanted);
}

#[test]
fn quick_command_shows_its_result_alone() {
    let dir = dir("quick");
    let line = call(&dir, "echo one", "");
    let Some(screen) = Terminal::like(&dir.command()).run(&line, |_| None) else { return };
    assert_eq!(screen.lines(), ["one", ""]);
}

#[test]
fn status_line_counts_seconds_and_disappears_without_a_trace() {
    let dir = dir("status");
    let command = format!("echo one; {WAIT}; echo two");
    let until = ["running 2 s, Ctrl-C stops", "running 4 s, Ctrl-C stops"];
    let Some(screen) = run_until(&dir, &command, &until) else { return };
    let page = screen.page();
    assert!(page.contains("running 3 s") && !page.contains("running 1 s"), "{page}");
    let wanted = ["  out │ one", "  out │ two", "done; the result is the output above", ""];
    assert_eq!(screen.lines(), wanted);
    // In between, the line is erased before anything else is written.
    let after = screen.raw.split("Ctrl-C stops").skip(1);
    assert!(after.clone().count() > 2);
    after.for_each(|rest| assert!(rest.starts_with("\r   "), "{rest:?}"));
}

#[test]
fn half_line_is_shown_and_continued() {
    let dir = dir("half");
    let command = format!("printf 'name: '; {WAIT}; echo Bob; echo end");
    let Some(screen) = run_until(&dir, &command, &["out │ name:"]) else { return };
    let lines = screen.lines();
    assert_eq!(lines[..3], ["  out │ name:", "      │ Bob", "  out │ end"], "{}", screen.page());
}

#[test]
fn output_cannot_move_the_cursor_or_forge_a_prompt() {
    let dir = dir("escapes");
    let forged = r"\033[2J\033[1;1H\033[31mred\033[0m\033]0;title\007\n[y] once   [n] no  > y\n";
    let forged = format!(r"{forged}\nrunning 99 s, Ctrl-C stops\rerror: x\n\302\233 \342\200\256");
    let long = "b".repeat(77) + "[y] once";
    let command = format!("printf '{forged}\\n{long}\\n'; {WAIT}");
    let go = dir.work().join("go");
    let line = format!("stty cols 80 rows 24; {}", call(&dir, &command, ""));
    let terminal = Terminal::like(&dir.command()).with_colours();
    let screen = terminal.run(&line, |seen| {
        if seen.contains("] once") && seen.contains("running 2 s") {
            fs::write(&go, "").unwrap();
        }
        None
    });
    let Some(screen) = screen else { return };
    let mut raw = screen.raw.clone();
    for ours in ["\x1b[0m", "\x1b[1m", "\x1b[2m"] {
        raw = raw.replace(ours, "");
    }
    assert!(!raw.contains(['\x1b', '\x07', '\u{9b}', '\u{202e}']), "{raw:?}");
    let plain = Screen { raw, code: screen.code };
    let lines = plain.lines();
    let (output, rest) = lines.split_at(lines.len() - 2);
    assert_eq!(rest, ["done; the result is the output above", ""], "{lines:?}");
    for line in output {
        let is_marked = line.starts_with("  out │") || line.starts_with("      │");
        assert!(is_marked && line.chars().count() < 80, "{line:?}");
    }
    assert!(output.contains(&"  out │ [y] once   [n] no  > y".to_owned()), "{output:?}");
}

#[test]
fn ctrl_c_stops_the_command_and_leaves_no_status_line() {
    let dir = dir("ctrl-c");
    let line = call(&dir, "echo one; sleep 50; echo two", "");
    let keys = once("running 2 s", "\x03");
    let Some(screen) = Terminal::like(&dir.command()).run(&line, keys) else { return };
    let page = screen.page();
    assert_eq!(screen.code, Some(130), "{page}");
    let lines = screen.lines();
    assert_eq!(lines[0], "  out │ one", "{page}");
    assert!(lines[1].starts_with("error: cancelled"), "{lines:?}");
    assert!(lines.contains(&"Output before the interruption is above.".to_owned()), "{lines:?}");
    assert!(
        !lines.iter().any(|line| line.contains("running") || line.contains("two")),
        "{lines:?}"
    );
}

#[test]
fn nothing_is_shown_live_without_a_terminal_or_when_it_is_not_wanted() {
    let dir = dir("quiet");
    let command = "echo one; sleep 2.6; echo two";
    for (at, options) in
        ["--json", "--quiet", "| cat", "2>&1 | cat", "2>/dev/null"].iter().enumerate()
    {
        let line = call(&dir, command, options);
        let Some(screen) = Terminal::like(&dir.command()).run(&line, |_| None) else { return };
        let page = screen.page();
        assert!(page.contains("one") && page.contains("two"), "{at}: {page}");
        assert!(!page.contains("running") && !page.contains('│'), "{options}: {page}");
    }
}

#[test]
fn screen_in_the_guide_matches_the_output() {
    let guide = include_str!("../../../../docs/guide/command.md");
    let section = guide.split("### Watch a command\n").nth(1).unwrap();
    let block = section.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let dir = dir("guide");
    let command =
        format!("echo compiling; sleep 0.3; echo 'warning: unused variable' >&2; {WAIT}; echo end");
    let Some(screen) = run_until(&dir, &command, &["running 3 s, Ctrl-C stops"]) else { return };
    let drawn =
        Screen { raw: screen.raw.split("\r        ").next().unwrap().to_owned(), code: None };
    let mut wanted: Vec<&str> = block.lines().collect();
    assert_eq!(wanted.pop(), Some("running 3 s, Ctrl-C stops"));
    assert_eq!(drawn.lines()[..wanted.len()], wanted, "{}", screen.page());
}

/// The peak memory of the process with this word in its command line, in kilobytes.
fn peak_memory(word: &str) -> Option<u64> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let of = |dir: PathBuf| {
        let line = fs::read(dir.join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let is_haft = line.split('\0').next().is_some_and(|name| name.ends_with("haft"));
        let is_it = is_haft && line.split('\0').any(|own| own == word);
        let status = is_it.then(|| fs::read_to_string(dir.join("status")).ok()).flatten()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        peak.trim().trim_end_matches(" kB").parse().ok()
    };
    processes.filter_map(|entry| of(entry.path())).max()
}

#[test]
fn hundred_megabytes_are_truncated_with_bounded_memory() {
    let dir = dir("flood");
    let name = format!("../command-{}", std::process::id());
    // How much of the flood is shown depends on the speed of the machine. The lines before it are
    // fewer than a terminal shows in a second, so that all of them are shown.
    let lines = "yes 0123456789012345678901234567890123456789";
    let command =
        format!("{lines} | head -n 1200; sleep 1.2; {lines} | head -c 100000000; sleep 0.6");
    fs::write(dir.work().join(&name), command).unwrap();
    let word = format!("command=@{name}");
    let line = format!("haft call shell {word} --workspace . --yes");
    let (mut pieces, mut peak) = (0, 0);
    let screen = Terminal::like(&dir.command()).run(&line, |_| {
        pieces += 1;
        if pieces % 64 == 1 {
            peak = peak.max(peak_memory(&word).unwrap_or(0));
        }
        None
    });
    let Some(screen) = screen else { return };
    assert_eq!(screen.code, Some(0), "{} bytes", screen.raw.len());
    assert!(screen.raw.len() < 30_000_000, "{} bytes on the screen", screen.raw.len());
    assert!(peak > 0 && peak < 400_000, "{peak} kB");
    assert!(screen.raw.contains("output is left out here"));
    let lines = screen.lines();
    let is_ours = |line: &&String| line.starts_with("  out │ 0123456789");
    let shown = lines.iter().filter(is_ours).count();
    assert!(shown > 1200, "{shown} lines");
}

#[test]
fn output_and_status_wait_while_a_question_is_open() {
    let slow = "cat words; sleep 1; cat words; sleep 1; cat words; sleep 1; cat words; sleep 1";
    let response = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [
            {"type": "tool_use", "id": "a", "name": "shell", "input": {"command": slow}},
            {"type": "tool_use", "id": "b", "name": "list_files", "input": {}},
        ],
    })
    .to_string();
    let rule = "[[rule]]\nmatch = \"list_files\"\ndecision = \"ask\"\n";
    let files = [("response.json", response.as_str()), ("words", "hello\n"), ("haft.toml", rule)];
    let dir = TempDir::trusted("live-question", &files);
    let line = "haft dispatch response.json --dialect anthropic --workspace .";
    let mut answer = once("[?] why  >", "n\n");
    let screen = Terminal::like(&dir.command()).run(line, |seen| {
        let answer = answer(seen)?;
        // Meanwhile the command prints three times, and its status line would be due.
        std::thread::sleep(Duration::from_millis(2_500));
        Some(answer)
    });
    let Some(screen) = screen else { return };
    let page = screen.page();
    let (_, after) = screen.raw.split_once("[?] why  > ").expect("the question is there");
    assert!(after.starts_with("n\r\n"), "nothing is between the question and the answer: {page}");
    assert!(after.contains("  out │ hello\r\n") && after.contains("running "), "{page}");
}
