//! `haft shell explain`: commands as arguments and as lines, bad lines, long streams.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use insta::assert_snapshot;
use serde_json::json;

use crate::{command, haft_fed, haft_words, lines};

#[test]
fn commands_as_arguments_are_explained_as_text() {
    let ran =
        haft_words(["shell", "explain", "ls -la", "cat notes | sort -o notes && sudo rm \"$X\""]);
    assert_snapshot!(ran.page(), @r#"
    exit 0
    --- stdout
    read-only: ls -la
      `ls` is read-only

    destructive: cat notes | sort -o notes && sudo rm "$X"
      `rm` is destructive here, started by `sudo`
        read-only    cat notes      `cat` is read-only
        writes       sort -o notes  `sort`: its option `-o` is not in the read-only list
        destructive  sudo rm …      `rm` is destructive here, started by `sudo`
    "#);
}

#[test]
fn json_has_one_line_per_command() {
    let ran = haft_words(["shell", "explain", "--json", "echo $(date)", "ls )"]);
    assert_eq!((ran.code, &*ran.err), (Some(0), ""));
    let wanted = [
        json!({
            "command": "echo $(date)",
            "kind": "read_only",
            "parts": [
                {"words": ["echo", "…"], "kind": "read_only", "why": "`echo` is read-only"},
                {"words": ["date"], "kind": "read_only", "why": "`date` is read-only"},
            ],
            "why": "each of its 2 commands is read-only",
        }),
        json!({
            "command": "ls )",
            "kind": "unparseable",
            "parts": [],
            "why": "`)` is not expected after 3 characters",
        }),
    ];
    assert_eq!(lines(&ran.out), wanted);
}

#[test]
fn invalid_line_gets_an_error_and_the_rest_is_read() {
    let long = format!("{{\"command\": \"echo {}\"}}\n", "x".repeat(3 << 20));
    let mut fed =
        b"{\"command\": \"ls\"}\n\nnot json\n{\"cmd\": \"ls\"}\n[1]\n{\"command\": 5}\n".to_vec();
    fed.extend(b"{\"command\": \"\xff\"}\n");
    fed.extend(long.as_bytes());
    fed.extend(b"{\"command\": \"rm x\", \"id\": 7}");
    let ran = haft_fed("shell explain", &fed);
    assert_eq!((ran.code, &*ran.err), (Some(1), ""));
    let lines = lines(&ran.out);
    let kinds: Vec<_> = lines.iter().map(|line| line["kind"].as_str()).collect();
    let mut wanted = [None; 8];
    (wanted[0], wanted[7]) = (Some("read_only"), Some("destructive"));
    assert_eq!(kinds, wanted);
    let at: Vec<_> = lines.iter().filter_map(|line| line["line"].as_u64()).collect();
    assert_eq!(at, [3, 4, 5, 6, 7, 8], "lines are counted as they are");
    assert!(lines[1..7].iter().all(|line| line["error"].is_string() && line["command"].is_null()));
    assert!(lines[6]["error"].as_str().unwrap().contains("longer"));
}

#[test]
fn valid_lines_and_empty_input_exit_with_0() {
    let ran = haft_fed("shell explain --json", b"{\"command\": \"rm -rf x\"}\n");
    assert_eq!((ran.code, lines(&ran.out)[0]["kind"].as_str()), (Some(0), Some("destructive")));
    let ran = haft_fed("shell explain", b"");
    assert_eq!((ran.code, &*ran.out, &*ran.err), (Some(0), "", ""));
}

#[test]
fn each_line_is_answered_before_the_next_is_read() {
    let mut child = command()
        .args(["shell", "explain"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap());
    for (text, kind) in [("ls", "read_only"), ("touch x", "writes"), ("rm x", "destructive")] {
        writeln!(to, "{}", json!({"command": text})).unwrap();
        let mut answer = String::new();
        from.read_line(&mut answer).unwrap();
        assert_eq!(lines(&answer)[0]["kind"], kind);
    }
    drop(to);
    assert!(child.wait().unwrap().success());
}

#[test]
fn control_and_bidi_characters_are_escaped() {
    let ran = haft_words(["shell", "explain", "ls \u{202e}mr\u{1b}[2J"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.out.starts_with("unparseable: ls <U+202E>"), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}') && !ran.out.contains('\u{202e}'));
}
