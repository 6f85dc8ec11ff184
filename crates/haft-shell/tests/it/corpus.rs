//! Parses a corpus of commands and compares with expected results, and with `bash -n`.

use std::process::{Command, Stdio};

use crate::shown;

struct Case {
    text: String,
    wanted: Vec<String>,
    refused: bool,
}

/// Parses the corpus: lines of a command after `$ `, expected commands after `> `, `!` for a
/// refusal.
fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut fresh = true;
    for line in include_str!("corpus.txt").lines() {
        if let Some(text) = line.strip_prefix("$ ") {
            match cases.last_mut().filter(|_| !fresh) {
                Some(case) => case.text = format!("{}\n{text}", case.text),
                None => cases.push(Case { text: text.into(), wanted: vec![], refused: false }),
            }
            fresh = false;
            continue;
        }
        fresh = true;
        let Some(case) = cases.last_mut() else { continue };
        match line.strip_prefix("> ") {
            Some(wanted) => case.wanted.push(wanted.to_owned()),
            None => case.refused |= line == "!",
        }
    }
    cases
}

#[test]
fn every_corpus_command_parses_as_expected() {
    let cases = cases();
    assert!(cases.len() >= 150, "there are {}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let read = match haft_shell::parse(&case.text) {
            Ok(script) => Some(script.commands.iter().map(shown::command).collect::<Vec<_>>()),
            Err(_) => None,
        };
        let wanted = (!case.refused).then(|| case.wanted.clone());
        if read != wanted {
            wrong.push(format!("{}\n  read   {read:?}\n  wanted {wanted:?}", case.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Asks bash whether a text is valid shell; `None` without bash.
pub(crate) fn bash_accepts(text: &str) -> Option<bool> {
    let run = Command::new("bash")
        .args(["--norc", "--noprofile", "-n", "-c", "--", text])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.ok().map(|status| status.success())
}

#[test]
fn text_that_bash_rejects_is_refused() {
    let mut texts: Vec<String> = cases().into_iter().map(|case| case.text).collect();
    // Every prefix of some texts: most are invalid, each in its own way.
    for text in [
        "if a; then b; elif c; then d; else e; fi",
        "for x in a b; do c; done | while d; do e; done",
        "case $x in a|b) c ;; (d) e ;& *) f ;; esac",
        "f() { a; }; (b; c) && { d; } 2>&1 || ! e",
        "[[ a == b && ( -f c || ! $d =~ (e|f)+ ) ]] && a=(b c) d",
        "a \"$(b `c` ${d:-$(e)} $((f + (1))))\" <(g) 'h' $'i\\n' {j,k} >l 2>&1 <<<m",
    ] {
        let ends = text.char_indices().map(|(n, _)| text[..n].to_owned());
        texts.extend(ends);
    }
    let mut wrong = Vec::new();
    for text in texts {
        match bash_accepts(&text) {
            None => return, // no bash here
            Some(false) if haft_shell::parse(&text).is_ok() => wrong.push(text),
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
