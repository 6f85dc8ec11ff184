//! `haft call`: arguments, approval, and an exit code for each failure.

use insta::assert_snapshot;
use serde_json::json;

use crate::{file, haft, haft_fed, haft_words};

#[test]
fn call_prints_only_its_result() {
    assert_snapshot!(haft("call add a=2 b=40").page(), @r"
    exit 0
    --- stdout
    42
    ");
    assert_snapshot!(haft("call read_note name=garden").page(), @r"
    exit 0
    --- stdout
    Water the beans before nine.
    No rain until Friday.
    ");
}

#[test]
fn json_success_and_failure_go_to_stdout() {
    let good = haft("call add a=2 b=40 --json");
    assert_eq!((good.code, good.err.as_str()), (Some(0), ""));
    assert_eq!(
        good.json(),
        json!({"tool": "add", "ok": true, "output": {"blocks": [{"type": "json", "json": 42}]}})
    );
    let bad = haft("call read_note name=attic --json");
    assert_eq!((bad.code, bad.err.as_str()), (Some(5), ""));
    assert_eq!(bad.json()["ok"], false);
    assert_eq!(bad.json()["failure"]["code"], "tool_failed");
    assert_eq!(bad.json()["failure"]["execution"], "completed");
}

#[test]
fn pairs_are_parsed_by_the_schema_and_json_pairs_as_json() {
    assert!(haft("call search_notes query=rain limit=1").out.starts_with("garden: "));
    assert!(haft("call search_notes query=61").out.contains("seat 61"), "text stays text");
    assert_eq!(haft("call add a:=2 b:=40").out, "42\n");
    assert_snapshot!(haft("call read_note name:=61").page(), @r"
    exit 1
    --- stderr
    error: bad_arguments: /name: expected a string; got 61 (integer)
    hint: `haft tools show read_note` lists the arguments
    ");
    assert_snapshot!(haft("call add a=two b=1").page(), @r#"
    exit 1
    --- stderr
    error: bad_arguments: /a: expected an integer; got "two" (string)
    hint: `haft tools show add` lists the arguments
    "#);
}

#[test]
fn argument_can_be_read_from_a_file() {
    let text = file("garden.txt", "a = b\n");
    let ran = haft_words(["call", "write_note", "name=x", &format!("text=@{text}"), "--yes"]);
    assert_eq!(ran.out, "`x` is new and has 6 characters\n");
    let number = file("number.json", " 40 ");
    assert_eq!(haft_words(["call", "add", "a=2", &format!("b:=@{number}")]).out, "42\n");
    let whole = file("whole.json", r#"{"a": 2}"#);
    assert_eq!(
        haft_words(["call", "add", "--args-json", &format!("@{whole}"), "b=40"]).out,
        "42\n"
    );
    assert_eq!(haft_fed("call add --args-json -", br#"{"a": 2, "b": 40}"#).out, "42\n");
    assert_eq!(haft_words(["call", "add", "--args-json", r#"{"a": 2, "b": 40}"#]).out, "42\n");
}

#[test]
fn invalid_arguments_get_an_error_with_a_hint() {
    assert_snapshot!(haft("call read_note nam=garden").page(), @r"
    exit 1
    --- stderr
    error: `read_note` has no argument `nam`
    hint: did you mean `name`?
    hint: `haft tools show read_note` lists the arguments
    ");
    assert_snapshot!(haft("call read_note garden").page(), @r"
    exit 1
    --- stderr
    error: `garden` is not an argument
    hint: did you mean `name='garden'`?
    hint: write `key=text`, `key:=json`, `key=@file` or `key:=@file`; options start with `--`
    ");
    assert_snapshot!(haft("call add a:=two b=1").page(), @r"
    exit 1
    --- stderr
    error: the value of `a` is not JSON: expected ident at line 1 column 2
    hint: `a:=` takes JSON; `a=` takes text
    ");
    assert_snapshot!(haft("call add a=1 a=2").page(), @r"
    exit 1
    --- stderr
    error: `a` is given twice
    ");
    assert_snapshot!(haft_words(["call", "read_note", r#"{"name": "garden"}"#]).page(), @r#"
    exit 1
    --- stderr
    error: `{"name": "garden"}` is not an argument
    hint: pass a JSON object with all arguments as `--args-json JSON`
    "#);
    assert_snapshot!(haft_words(["call", "add", "--args-json", "{'a': 1}"]).page(), @r#"
    exit 1
    --- stderr
    error: `--args-json` is not JSON: key must be a string at line 1 column 2
    hint: put keys and texts in double quotes, as in `--args-json '{"name": "garden"}'`
    "#);
    assert_snapshot!(haft("call search_notes text=rain").page(), @r"
    exit 1
    --- stderr
    error: `search_notes` has no argument `text`
    hint: the arguments are `query`, `limit`
    hint: `haft tools show search_notes` lists the arguments
    ");
    for odd in ["=", ":=1", "=x"] {
        assert_eq!(haft_words(["call", "add", odd]).code, Some(1), "{odd}");
    }
    assert_snapshot!(haft("call add --args-json [1]").page(), @r"
    exit 1
    --- stderr
    error: unparseable_arguments: the arguments must be a JSON object, got array
    hint: `haft tools show add` lists the arguments
    ");
}

#[test]
fn unreadable_files_are_reported() {
    file("todo-list.txt", "x");
    assert_snapshot!(haft("call write_note name=x text=@todo-lst.txt").page(), @r"
    exit 1
    --- stderr
    error: there is no file `todo-lst.txt`
    hint: did you mean `todo-list.txt`?
    ");
    file("latin.txt", b"caf\xe9");
    assert_snapshot!(haft("call write_note name=x text=@latin.txt").page(), @r"
    exit 1
    --- stderr
    error: `latin.txt` is not UTF-8: invalid byte at offset 3
    ");
    assert_snapshot!(haft("call write_note name=x text=@.").page(), @r"
    exit 1
    --- stderr
    error: `.` is a directory
    ");
}

#[test]
fn unknown_tool_gets_a_similar_name() {
    assert_snapshot!(haft("call red_note name=x").page(), @r"
    exit 1
    --- stderr
    error: unknown_tool: there is no tool called `red_note`
    hint: did you mean `read_note`?
    hint: `haft tools list` lists the tools
    ");
    let json = haft("call red_note --json");
    assert_eq!(json.code, Some(1));
    assert_eq!(json.json()["failure"]["code"], "unknown_tool");
}

#[test]
fn hints_are_written_for_a_person() {
    assert_snapshot!(haft("call nosuch").page(), @r"
    exit 1
    --- stderr
    error: unknown_tool: there is no tool called `nosuch`
    hint: `haft tools list` lists the tools
    ");
    let calls = [
        "nosuch",
        "nosuch --workspace .",
        "crash",
        "slow_report pages=100",
        "read_note name=attic",
        "fetch_page url=https://example.com/ --yes",
        "delete_note name=garden --yes",
        "ask_user question=x --workspace .",
        "read_file file_path=/etc/passwd --workspace .",
    ];
    for call in calls {
        let ran = haft(&format!("call {call}"));
        assert_ne!(ran.code, Some(0), "{call}");
        for model in ["you were given", "the user", "your answer", "your reply", "go on without"] {
            assert!(!ran.err.contains(model), "{call}: {}", ran.err);
        }
    }
}

#[test]
fn approval_is_denied_without_a_terminal() {
    assert_snapshot!(haft("call delete_note name=trip").page(), @r"
    exit 2
    --- stderr
    error: denied: this call needs approval (it is not read-only), and no approver is configured
    hint: `--yes` approves this call
    cause: ask: it is not read-only (the default)
    ");
    // `y` on a piped stdin is not an approval.
    assert_eq!(haft_fed("call delete_note name=trip", b"y\n").code, Some(2));
    assert_snapshot!(haft("call delete_note name=trip --yes").page(), @r"
    exit 0
    --- stdout
    `trip` is gone
    ");
}

#[test]
fn yes_never_overrides_a_deny() {
    assert_snapshot!(haft("call delete_note name=garden --yes").page(), @r"
    exit 2
    --- stderr
    error: denied: the note `garden` is pinned
    cause: deny: the note `garden` is pinned (guard `unpinned`)
    ");
}

#[test]
fn each_failure_has_its_exit_code() {
    assert_snapshot!(haft("call crash").page(), @r"
    exit 5
    --- stderr
    error: panicked: the tool panicked
    hint: this is a bug in the tool
    cause: the answer was not in the box
    ");
    let late = haft("call slow_report pages=100");
    assert_eq!(late.code, Some(7), "{late:?}");
    assert!(late.err.starts_with("error: timed_out: "), "{late:?}");
    assert!(late.err.contains("\nOutput before the interruption"), "{late:?}");
    let stuck = haft("call count_primes below=1000000000");
    assert_eq!(stuck.code, Some(8), "{stuck:?}");
    assert!(stuck.err.starts_with("error: unknown_outcome: "), "{stuck:?}");
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "the program must be there before it is interrupted")]
fn ctrl_c_cancels_the_call() {
    use std::{process::Stdio, time::Duration};

    use crate::{Ran, command};

    for wait in [100, 400, 1_600, 6_400] {
        let child = command()
            .args(["call", "wait", "seconds=60"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        let id = child.id().to_string();
        std::process::Command::new("kill").args(["-INT", &id]).status().unwrap();
        let ran = Ran::of(child.wait_with_output().unwrap());
        // Without a code the signal came before the handler was installed: wait longer.
        if ran.code.is_some() {
            assert_eq!(ran.code, Some(130), "{ran:?}");
            assert!(ran.err.starts_with("error: cancelled: "), "{ran:?}");
            return;
        }
    }
    panic!("the program never listened");
}
