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
