//! `haft demo`: the plan, verdicts and results of the recorded response.

use serde_json::Value;

use crate::haft;

#[test]
fn demo_shows_every_kind_of_result() {
    let ran = haft("demo");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "no panic spills onto the terminal");
    for shown in [
        "list_notes + read_note + search_notes",
        "reads run concurrently",
        "ask it is not read-only (the default) → allow (the approver, simulated)",
        "│ bad_arguments: /limit: expected an integer from 1 to 50; got \"all\" (string)",
        "│ Next: did you mean `read_note`?",
        "deny the note `garden` is pinned (guard `unpinned`)",
        "│ timed_out: ",
        "│ panicked: ",
        "│ sibling_aborted: `fetch_page` in the same batch failed",
    ] {
        assert!(ran.out.contains(shown), "{shown}\n{}", ran.out);
    }
    let last = ran.out.lines().last().unwrap();
    assert!(last.starts_with("11 calls, 11 results in order: 4 succeeded, 7 failed"), "{last}");
    assert!(!ran.out.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn demo_prints_json() {
    let json = haft("demo --json").json();
    let list = |key: &str| json[key].as_array().unwrap();
    let ids = |list: &[Value], key: &str| -> Vec<String> {
        list.iter().map(|v| v[key].as_str().unwrap().to_owned()).collect()
    };
    let planned = ids(list("plan"), "id");
    assert_eq!(planned.len(), 11);
    assert_eq!(planned, ids(list("answers"), "id"));
    assert_eq!(planned, ids(json["message"]["content"].as_array().unwrap(), "tool_use_id"));
    let codes: Vec<&str> =
        list("answers").iter().map(|a| a["failure"]["code"].as_str().unwrap_or("ok")).collect();
    assert_eq!(
        codes,
        [
            "ok",
            "ok",
            "ok",
            "ok",
            "bad_arguments",
            "timed_out",
            "panicked",
            "unknown_tool",
            "denied",
            "tool_failed",
            "sibling_aborted",
        ]
    );
    // Two calls were rejected before authorization.
    assert_eq!(list("verdicts").len(), 9);
    let verdict = &list("verdicts")[3];
    assert_eq!(verdict["asked"]["decision"], "ask");
    assert_eq!(verdict["verdict"]["decision"], "allow");
    assert_eq!(verdict["verdict"]["source"], "the approver");
}
