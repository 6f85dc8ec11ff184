//! `haft call … --trace`: the phases of a call with their times.

use serde_json::Value;

use crate::{TempDir, haft};

/// The phases of a call that is allowed.
const PHASES: [&str; 11] = [
    "validate",
    "plan",
    "check",
    "authorize",
    "slot",
    "lock wait",
    "journal",
    "layers",
    "attempt 1",
    "sanitize",
    "finish",
];

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
    let ran = haft("call list_files path=notes --trace");
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.starts_with("trace: "), "{ran:?}");
    let expected = PHASES;
    assert_eq!(names(&ran.err), expected, "{}", ran.err);
    for line in ran.err.lines().skip(1) {
        assert!(line.contains(" µs  ") && line.ends_with('#'), "{line}");
        assert!(!line.contains('\u{1b}'), "no colour in a pipe");
    }
}

#[test]
fn trace_is_part_of_the_json() {
    let ran = haft("call list_files path=notes --trace --json");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let json = ran.json();
    assert_eq!(json["ok"], true);
    let expected = PHASES;
    assert_eq!(phases(&json["trace"]), expected);
    assert!(haft("call list_files path=notes --json").json().get("trace").is_none());
}

#[test]
fn trace_shows_the_approval_wait_and_the_end_of_a_denied_call() {
    let asked = haft("call write_file file_path=traced content=x --yes --trace --json").json();
    let asked = phases(&asked["trace"]);
    assert!(asked.contains(&"approval".to_owned()), "{asked:?}");
    assert!(asked.contains(&"check".to_owned()), "{asked:?}");
    let refused = haft("call write_file file_path=traced content=x --trace");
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.starts_with("error: denied: "), "{refused:?}");
    assert_eq!(
        names(&refused.err),
        ["validate", "plan", "check", "authorize", "sanitize", "finish"]
    );
    let unknown = haft("call nothing --trace");
    assert_eq!(names(&unknown.err), ["validate", "plan", "sanitize", "finish"]);
}

#[cfg(unix)]
#[test]
fn trace_shows_the_time_of_hooks() {
    let hook = r#"{"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "true"}]}]}}"#;
    let dir = TempDir::trusted("traced", &[(".claude/settings.json", hook)]);
    let ran = dir.run(["call", "list_files", "--trace"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let names = names(&ran.err);
    assert!(names.contains(&"hooks") && names.contains(&"hooks after"), "{names:?}");
}
