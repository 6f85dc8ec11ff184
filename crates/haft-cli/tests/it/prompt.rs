//! The approval prompt at a real terminal. Pages and keys have unit tests in `prompt.rs`.

#![cfg(unix)]

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{
    TempDir,
    terminal::{Terminal, once},
};

/// Runs a command at a terminal, types an answer once the keys are there, and returns the screen.
fn at_a_terminal(line: &str, answer: &'static str) -> Option<String> {
    typed_at(line, "[?] why  >", answer)
}

/// The same for any other page: the answer is typed once `until` can be read.
fn typed_at(line: &str, until: &'static str, answer: &'static str) -> Option<String> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let dir = TempDir::new(&format!("prompt-{}", COUNT.fetch_add(1, Ordering::Relaxed)), &[]);
    let screen = Terminal::like(&dir.command()).run(line, once(until, answer))?;
    Some(screen.page())
}

#[test]
fn approval_at_a_terminal_runs_the_call_and_denial_does_not() {
    let Some(yes) = at_a_terminal("haft call delete_path path=notes/trip.txt", "y\n") else {
        return;
    };
    assert!(yes.contains("delete_path"), "{yes}");
    assert!(yes.contains("    path: \"notes/trip.txt\""), "{yes}");
    assert!(yes.contains("deleted `notes/trip.txt`") && yes.ends_with("exit 0"), "{yes}");
    assert!(!yes.contains("[s] this session"), "one call is no session: {yes}");
    let no = at_a_terminal("haft call delete_path path=notes/trip.txt", "n keep it\n").unwrap();
    assert!(no.contains("declined: a person denied this call: keep it"), "{no}");
    assert!(!no.contains("deleted `") && no.ends_with("exit 2"), "{no}");
    let why = at_a_terminal("haft call delete_path path=notes/trip.txt", "?\n\n").unwrap();
    assert!(why.contains("check       the default"), "{why}");
    assert!(why.ends_with("exit 2"), "{why}");
}

#[test]
fn ask_user_returns_what_is_typed() {
    let line =
        "haft call ask_user question='Which one?' choices:='[\"tea\",\"milk\"]' --workspace .";
    let Some(screen) = typed_at(line, "your answer", "2\n") else { return };
    assert!(screen.contains("The model asks you\n  Which one?\n"), "{screen}");
    assert!(screen.contains("\nmilk\n") && screen.ends_with("exit 0"), "{screen}");
    // `--yes` approves the call but does not answer the question.
    let screen = typed_at(&format!("{line} --yes"), "your answer", "cocoa\n").unwrap();
    assert!(screen.contains("\ncocoa\n") && screen.ends_with("exit 0"), "{screen}");
}

#[test]
fn shell_explain_without_input_says_what_to_do() {
    let Some(screen) = typed_at("haft shell explain", "never", "") else { return };
    assert!(screen.contains("no command was given"), "{screen}");
    assert!(screen.contains("hint: give commands as arguments, each in quotes"), "{screen}");
    assert!(screen.ends_with("exit 1"), "what is called wrongly ends with 1: {screen}");
}

/// How many columns a text takes; wide characters take two.
fn columns(text: &str) -> usize {
    text.chars().map(|c| if c >= '\u{1100}' && c != '│' { 2 } else { 1 }).sum()
}

#[test]
fn question_is_folded_at_the_real_width_of_the_terminal() {
    // Blanks until a terminal of 20, 33 or 80 columns would wrap, and then a forged line.
    let forged = "[y] once   [e] edit   Allowed by policy  > y";
    for cols in [20, 33, 80] {
        for filler in
            ["a".repeat(cols), "漢".repeat(cols / 2), "e\u{301}".repeat(cols), " ".repeat(cols)]
        {
            for pad in 0..3 {
                let name = format!("{}{filler}{forged}", "b".repeat(pad));
                let line = format!(
                    "stty cols {cols} rows 60; haft call write_file file_path=x content='{name}' --workspace ."
                );
                let Some(screen) = at_a_terminal(&line, "n\n") else { return };
                let (page, _) = screen.split_once("[?] why").expect("the question is there");
                assert!(page.contains("write_file"), "{page}");
                for line in page.lines() {
                    assert!(columns(line) < cols, "{cols}: the terminal folds {line:?} of\n{page}");
                    let is_ours = line.is_empty() || line.starts_with([' ', '│']);
                    assert!(is_ours, "{cols}: {line:?} begins at column 0 of\n{page}");
                }
                if cols != 20 {
                    break;
                }
            }
        }
    }
}

/// A workspace that is trusted, with one file.
fn project(name: &str) -> TempDir {
    TempDir::trusted(name, &[("haft.toml", ""), ("src/a.txt", "one\ntwo\nthree\n")])
}

const EDIT: &str = "haft call edit_file file_path=src/a.txt old_text=two new_text=2 --workspace .";

/// Runs a command in a directory, and types these keys once the question is there.
fn in_project(dir: &TempDir, line: &str, keys: &'static str) -> Option<String> {
    Some(Terminal::like(&dir.command()).run(line, once("[?] why  >", keys))?.page())
}

fn content(dir: &TempDir, name: &str) -> String {
    crate::read(&dir.work().join(name))
}

#[test]
fn one_key_answers_without_enter() {
    let line = "haft call delete_path path=notes/trip.txt";
    let Some(yes) = at_a_terminal(line, "y") else { return };
    assert!(yes.contains("  > y\n") && yes.ends_with("exit 0"), "{yes}");
    let no = at_a_terminal(line, "n").unwrap();
    assert!(no.contains("declined") && no.ends_with("exit 2"), "{no}");
    let end_of_input = at_a_terminal(line, "\u{4}").unwrap();
    assert!(end_of_input.contains("declined") && end_of_input.ends_with("exit 2"));
    // The last byte of an arrow key is the letter of another key.
    let dir = TempDir::new("prompt-arrow", &[]);
    let (mut arrow, mut no) =
        (once("[?] why  >", "\u{1b}[A"), once("`Esc` is not one of the keys", "n"));
    let screen = Terminal::like(&dir.command()).run(line, |seen| arrow(seen).or_else(|| no(seen)));
    let screen = screen.unwrap().page();
    assert!(screen.contains("declined") && screen.ends_with("exit 2"), "{screen}");
}

#[test]
fn terminal_reads_lines_again_after_a_question() {
    let dir = TempDir::new("prompt-mode", &[]);
    let haft = env!("CARGO_BIN_EXE_haft");
    for (keys, code) in [("y", 0), ("\u{3}", 130)] {
        // The shell must survive Ctrl-C.
        let line = format!(
            "trap : INT; {haft} call delete_path path=notes/trip.txt; echo code $?; stty -a"
        );
        let Some(screen) = in_project(&dir, &line, keys) else { return };
        assert!(screen.contains(&format!("code {code}")), "{screen}");
        assert!(screen.contains(" icanon") && screen.contains(" echo "), "{screen}");
        let _ = dir.run(["call", "write_file", "file_path=notes/trip.txt", "content=x", "--yes"]);
    }
}

#[test]
fn edit_is_shown_as_a_unified_diff() {
    let dir = project("prompt-diff");
    let Some(screen) = in_project(&dir, EDIT, "n") else { return };
    let shown = "    │ @@ -1,3 +1,3 @@\n    │  one\n    │ -two\n    │ +2\n    │  three\n";
    assert!(screen.contains(shown), "{screen}");
    assert!(!screen.contains("old_text"), "the diff shows it: {screen}");
    let write = "haft call write_file file_path=src/a.txt content=\"$(printf 'one\\nzwei')\" \
                 --workspace .";
    let screen = in_project(&dir, write, "n").unwrap();
    assert!(screen.contains("    │ -two\n    │ -three\n    │ +zwei\n"), "{screen}");
    assert!(screen.contains("    │ \\ No newline at end of file\n"), "{screen}");
    let new = "haft call write_file file_path=src/b.txt content=new --workspace .";
    let screen = in_project(&dir, new, "n").unwrap();
    assert!(screen.contains("    content: \"new\"\n"), "{screen}");
    // The arguments of an edit that cannot be made are shown as they are.
    let wrong = EDIT.replace("=two", "=four");
    let screen = in_project(&dir, &wrong, "n").unwrap();
    assert!(screen.contains("    old_text: \"four\"\n"), "{screen}");
}

#[test]
fn hidden_characters_of_a_diff_are_visible_and_cannot_forge_a_line() {
    let dir = project("prompt-hidden");
    let edit = EDIT.replace("=2", "=\"$(printf 'x\\342\\200\\256y\\033[2K\\r+z')\"");
    let Some(screen) = in_project(&dir, &edit, "n") else { return };
    assert!(screen.contains("│ +x<U+202E>y<U+001B>[2K<U+000D>+z"), "{screen}");
    let long = format!("{}-gone", "b".repeat(90));
    let edit = EDIT.replace("=2", &format!("={long}"));
    let screen = in_project(&dir, &edit, "n").unwrap();
    assert!(screen.contains("\n    │ ↳") && !screen.contains("\n    │ -gone"), "{screen}");
}

#[test]
fn always_saves_a_rule_for_the_file_or_its_directory() {
    let dir = project("prompt-always");
    let label = "[a] always: edit_file path=/src/a.txt → haft.local.toml";
    let Some(screen) = in_project(&dir, EDIT, "a") else { return };
    assert!(screen.contains(label), "{screen}");
    assert!(screen.contains("[d] always: edit_file path=/src/** → haft.local.toml"), "{screen}");
    assert!(screen.ends_with("exit 0"), "{screen}");
    assert!(content(&dir, "haft.local.toml").contains("match = \"edit_file path=/src/a.txt\""));
    // No question, also about another edit of this file; another file is asked about.
    let again = ["call", "edit_file", "file_path=src/a.txt", "old_text=one", "new_text=1"];
    assert_eq!(dir.run(again).code, Some(0));
    assert_eq!(content(&dir, "src/a.txt"), "1\n2\nthree\n");
    dir.put("src/b.txt", "two\n");
    let other = EDIT.replace("a.txt", "b.txt");
    let screen = in_project(&dir, &other, "d").unwrap();
    assert!(screen.ends_with("exit 0"), "{screen}");
    assert!(content(&dir, "haft.local.toml").contains("match = \"edit_file path=/src/**\""));
    let third = ["call", "edit_file", "file_path=src/b.txt", "old_text=2", "new_text=3"];
    assert_eq!(dir.run(third).code, Some(0));
    let delete = dir.run(["call", "delete_path", "path=src/b.txt"]);
    assert_eq!(delete.code, Some(2), "the rule is about edits: {delete:?}");
}

#[test]
fn question_says_why_always_is_missing() {
    let untrusted = TempDir::new("prompt-untrusted", &[("a.txt", "two\n")]);
    let edit = EDIT.replace("src/a.txt", "a.txt");
    let Some(screen) = in_project(&untrusted, &edit, "n") else { return };
    let why = "no \"always\": no rule file of this directory is trusted (`haft trust`)\n";
    assert!(screen.contains(why) && !screen.contains("[a]"), "{screen}");
    let rule = "[[rule]]\nmatch = \"edit_file\"\ndecision = \"ask\"\n";
    let asked = TempDir::trusted("prompt-asked", &[("haft.toml", rule), ("a.txt", "two\n")]);
    let screen = in_project(&asked, &edit, "n").unwrap();
    assert!(screen.contains("no \"always\": the rule at "), "{screen}");
    assert!(screen.contains("haft.toml:2"), "{screen}");
}

#[test]
fn answer_for_the_session_covers_further_edits_of_the_file() {
    let edit = |id: &str, old: &str, new: &str| {
        format!(
            "{{\"calls\": [{{\"id\": \"{id}\", \"name\": \"edit_file\", \"arguments\": \
             {{\"file_path\": \"src/a.txt\", \"old_text\": \"{old}\", \"new_text\": \"{new}\"}}}}]}}"
        )
    };
    let script = [
        "{\"script\": 1, \"name\": \"editor\"}".to_owned(),
        edit("c1", "two", "2"),
        edit("c2", "one", "1"),
        "{\"text\": \"Done.\"}".to_owned(),
    ];
    let dir = project("prompt-session");
    dir.put("edits.jsonl", &script.join("\n"));
    let line = "haft run x --model script:edits.jsonl --workspace .";
    let Some(screen) = in_project(&dir, line, "s") else { return };
    assert!(screen.contains("[s] this session: edit_file path=/src/a.txt"), "{screen}");
    assert_eq!(screen.matches("[y] once").count(), 1, "the second edit is not asked: {screen}");
    assert_eq!(content(&dir, "src/a.txt"), "1\n2\nthree\n", "{screen}");
}
