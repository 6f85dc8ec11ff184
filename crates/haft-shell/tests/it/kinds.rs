//! A corpus of commands with their kinds; some must never be confused.
//!
//! `kinds.jsonl` has one command on each line: `command`, `kind`, `note`, and `plain` for obviously
//! read-only commands.

use std::collections::HashSet;

use haft_shell::{Kind, classify};
use serde_json::Value;

/// One line of the corpus.
pub(crate) struct Case {
    pub(crate) command: String,
    pub(crate) kind: String,
    pub(crate) is_plain: bool,
    note: String,
}

/// Parses the corpus.
pub(crate) fn cases() -> Vec<Case> {
    let case = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| value[key].as_str().unwrap().to_owned();
        Case {
            command: text("command"),
            kind: text("kind"),
            note: text("note"),
            is_plain: value["plain"] == true,
        }
    };
    include_str!("kinds.jsonl").lines().map(case).collect()
}

#[test]
fn no_command_that_writes_is_read_only() {
    let wrong: Vec<_> = cases()
        .into_iter()
        .filter(|case| case.kind != "read_only")
        .filter(|case| classify(&case.command).kind == Kind::ReadOnly)
        .map(|case| (case.command, case.note))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn most_obvious_read_only_commands_are_recognised() {
    let plain: Vec<_> = cases().into_iter().filter(|case| case.is_plain).collect();
    assert!(plain.len() >= 120, "there are {}", plain.len());
    let missed: Vec<_> = plain
        .iter()
        .map(|case| (&case.command, classify(&case.command)))
        .filter(|(_, found)| found.kind != Kind::ReadOnly)
        .map(|(command, found)| (command, found.why))
        .collect();
    let known = plain.len() - missed.len();
    println!("{known} of {} plain commands are recognised; missed: {missed:#?}", plain.len());
    assert!(known * 100 >= plain.len() * 85, "{missed:#?}");
}

#[test]
fn every_corpus_command_has_its_kind() {
    let cases = cases();
    assert!(cases.len() >= 300, "there are {}", cases.len());
    let commands: HashSet<_> = cases.iter().map(|case| &case.command).collect();
    assert_eq!(commands.len(), cases.len(), "a command is listed twice");
    let mut wrong = Vec::new();
    for case in &cases {
        let found = classify(&case.command);
        if found.kind.as_str() != case.kind {
            let Case { command, kind, note, .. } = case;
            wrong.push(format!("{command:?} ({note}): {kind}, not {} ({})", found.kind, found.why));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn kind_is_at_least_that_of_the_strictest_part() {
    for case in cases() {
        let found = classify(&case.command);
        assert!(!found.why.is_empty(), "{}", case.command);
        for part in &found.parts {
            assert!(part.kind <= found.kind, "{}: {found:?}", case.command);
            assert!(!part.why.is_empty(), "{}", case.command);
        }
        if found.kind == Kind::Destructive && !case.command.contains(":|:") {
            assert!(found.parts.iter().any(|part| part.kind == found.kind), "{found:?}");
        }
    }
}

#[test]
fn parts_show_the_known_words_of_each_command() {
    let found = classify("cat \"$F\" | sort -o 'a b' && rm -r x");
    let parts: Vec<_> = found.parts.iter().map(|p| (p.words.join("|"), p.kind.as_str())).collect();
    let wanted = [("cat|…", "read_only"), ("sort|-o|a b", "writes"), ("rm|-r|x", "destructive")];
    assert_eq!(parts, wanted.map(|(words, kind)| (words.to_owned(), kind)));
    assert!(found.why.contains("`rm`"), "{}", found.why);
    assert!(classify("sudo rm x").why.contains("started by `sudo`"));
}

#[test]
fn text_that_bash_rejects_is_not_read_only() {
    for case in cases() {
        if classify(&case.command).kind != Kind::ReadOnly {
            continue;
        }
        match crate::corpus::bash_accepts(&case.command) {
            None => return, // no bash here
            Some(accepts) => assert!(accepts, "{:?}", case.command),
        }
    }
}
