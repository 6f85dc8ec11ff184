//! `haft call … --trace`: the phases of a call with their times.

use serde_json::Value;

use crate::{Folder, haft};

/// The phases of a trace, and whether they are contiguous.
fn phases(trace: &Value) -> Vec<String> {
    let phases = trace["phases"].as_array().unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    for pair in phases.windows(2) {
        assert!(number(&pair[0]["from_us"]) <= number(&pair[1]["from_us"]), "{trace}");
    }
    let last = phases.last().unwrap();
    assert!(number(&last["from_us"]) + number(&last["took_us"]) <= number(&trace["total_us"]) + 1);
    phases.iter().map(|p| p["phase"].as_str().unwrap().to_owned()).collect()
}

/// The names at the beginning of the lines.
fn names(page: &str) -> Vec<&str> {
    page.lines()
        .skip_while(|line| !line.starts_with("trace: "))
        .skip(1)
        .map(|line| line.split("  ").find(|part| !part.trim().is_empty()).unwrap().trim())
        .collect()
}

#[test]
fn trace_goes_to_stderr() {
    let ran = haft("call add a=2 b=40 --trace");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "42\n"));
    assert!(ran.err.starts_with("trace: "), "{ran:?}");
    let expected = ["admit", "plan", "judge", "journal", "layers", "attempt 1", "shape", "settle"];
    assert_eq!(names(&ran.err), expected, "{}", ran.err);
    for line in ran.err.lines().skip(1) {
        assert!(line.contains(" µs  ") && line.ends_with('#'), "{line}");
        assert!(!line.contains('\u{1b}'), "no colour in a pipe");
    }
}

#[test]
fn trace_is_part_of_the_json() {
    let ran = haft("call add a=2 b=40 --trace --json");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    assert_eq!(json["ok"], true);
    let expected = ["admit", "plan", "judge", "journal", "layers", "attempt 1", "shape", "settle"];
    assert_eq!(phases(&json["trace"]), expected);
    assert!(haft("call add a=2 b=40 --json").json().get("trace").is_none());
}

#[test]
fn trace_shows_the_approval_wait_and_the_end_of_a_denied_call() {
    let asked = haft("call delete_note name=trip --yes --trace --json").json();
    let asked = phases(&asked["trace"]);
    assert!(asked.contains(&"approval".to_owned()), "{asked:?}");
    assert!(asked.contains(&"check".to_owned()), "{asked:?}");
    let refused = haft("call delete_note name=trip --trace");
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.starts_with("error: denied: "), "{refused:?}");
    assert_eq!(names(&refused.err), ["admit", "plan", "check", "judge", "shape", "settle"]);
    let unknown = haft("call nothing --trace");
    assert_eq!(names(&unknown.err), ["admit", "plan", "shape", "settle"]);
}

#[cfg(unix)]
#[test]
fn trace_shows_the_time_of_hooks() {
    let hook = r#"{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]}}"#;
    let folder = Folder::trusted("traced", &[(".claude/settings.json", hook)]);
    let ran = folder.run(["call", "add", "a=2", "b=40", "--trace"]);
    assert_eq!(ran.out, "42\n", "{ran:?}");
    let names = names(&ran.err);
    assert!(names.contains(&"hooks") && names.contains(&"after"), "{names:?}");
}

#[test]
fn trace_shows_the_time_of_layers() {
    let ran = haft("call tides harbour=Brest --trace --json");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    let json = ran.json();
    let text = &json["output"]["blocks"][0]["text"];
    assert_eq!(*text, "Brest: high water at noon, read at attempt 2", "{json}");
    let trace = &json["trace"];
    let expected = [
        "admit",
        "plan",
        "judge",
        "cache",
        "layers",
        "attempt 1",
        "backoff",
        "layers",
        "attempt 2",
        "shape",
        "settle",
    ];
    assert_eq!(phases(trace), expected);
    let rows = trace["phases"].as_array().unwrap();
    let waits: Vec<_> = rows.iter().filter(|row| row["phase"] == "backoff").collect();
    assert!(waits[0]["took_us"].as_u64().unwrap() >= 20_000, "it waits so long: {trace}");
    let page = haft("call tides harbour=Brest --trace").err;
    assert_eq!(names(&page), expected, "{page}");
}
