//! `haft call`: arguments, approval, and an exit code for each failure.

use insta::assert_snapshot;
use serde_json::json;

use crate::{GARDEN, Ran, TempDir, file, haft, haft_fed, haft_words};

#[test]
fn call_prints_only_its_result() {
    let ran = haft("call read_file file_path=notes/garden.txt");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), GARDEN, ""));
}

#[test]
fn json_success_and_failure_go_to_stdout() {
    let good = haft("call read_file file_path=notes/garden.txt --json");
    assert_eq!((good.code, good.err.as_str()), (Some(0), ""));
    let json = good.json();
    assert_eq!((&json["tool"], &json["ok"]), (&json!("read_file"), &json!(true)));
    assert_eq!(json["output"]["blocks"][0], json!({"type": "text", "text": GARDEN.trim_end()}));
    let bad = haft("call read_file file_path=attic --json");
    assert_eq!((bad.code, bad.err.as_str()), (Some(1), ""));
    assert_eq!(bad.json()["ok"], false);
    assert_eq!(bad.json()["failure"]["code"], "invalid_value");
    assert_eq!(bad.json()["failure"]["execution"], "completed");
}

#[test]
fn pairs_are_parsed_by_the_schema_and_json_pairs_as_json() {
    let first = haft("call read_file file_path=notes/garden.txt limit=1");
    assert!(first.out.starts_with("1\tWater the beans before nine.\n"), "{first:?}");
    let found = haft("call search_files pattern=61 path=notes");
    assert!(found.out.contains("seat 61"), "text stays text: {found:?}");
    let second = haft("call read_file file_path=notes/garden.txt offset:=2");
    assert!(second.out.starts_with("2\tNo rain until Friday.\n"), "{second:?}");
    assert_snapshot!(haft("call read_file file_path:=61").page(), @r"
    exit 1
    --- stderr
    error: bad_arguments: /file_path: expected a string of at least 1 character; got 61 (integer)
    hint: `haft tools show read_file` lists the arguments
    ");
    assert_snapshot!(haft("call read_file file_path=x limit=two").page(), @r#"
    exit 1
    --- stderr
    error: bad_arguments: /limit: expected an integer or null of at least 1; got "two" (string)
    hint: `haft tools show read_file` lists the arguments
    "#);
}

#[test]
fn argument_can_be_read_from_a_file() {
    let dir = TempDir::new("calls-files", &[]);
    let text = file("garden.txt", "a = b\n");
    let ran = dir.run(["call", "write_file", "file_path=x", &format!("content=@{text}"), "--yes"]);
    assert_eq!(ran.out, "created `x`: 1 line, 6 bytes\n");
    let garden = "file_path=notes/garden.txt";
    let number = file("number.json", " 1 ");
    let ran = haft_words(["call", "read_file", garden, &format!("limit:=@{number}")]);
    assert!(ran.out.starts_with("1\tWater") && !ran.out.contains("rain"), "{ran:?}");
    let whole = file("whole.json", r#"{"limit": 9}"#);
    let whole = format!("@{whole}");
    assert_eq!(haft_words(["call", "read_file", "--args-json", &whole, garden]).out, GARDEN);
    let json = r#"{"file_path": "notes/garden.txt"}"#;
    assert_eq!(haft_fed("call read_file --args-json -", json.as_bytes()).out, GARDEN);
    assert_eq!(haft_words(["call", "read_file", "--args-json", json]).out, GARDEN);
}

#[test]
fn invalid_arguments_get_an_error_with_a_hint() {
    assert_snapshot!(haft("call read_file path=garden").page(), @r"
    exit 1
    --- stderr
    error: `read_file` has no argument `path`
    hint: did you mean `file_path`?
    hint: `haft tools show read_file` lists the arguments
    ");
    assert_snapshot!(haft("call read_file garden").page(), @r"
    exit 1
    --- stderr
    error: `garden` is not an argument
    hint: did you mean `file_path='garden'`?
    hint: write `key=text`, `key:=json`, `key=@file` or `key:=@file`; options start with `--`
    ");
    assert_snapshot!(haft("call read_file limit:=two").page(), @r"
    exit 1
    --- stderr
    error: the value of `limit` is not JSON: expected ident at line 1 column 2
    hint: `limit:=` takes JSON; `limit=` takes text
    ");
    assert_snapshot!(haft("call read_file limit=1 limit=2").page(), @r"
    exit 1
    --- stderr
    error: `limit` is given twice
    ");
    assert_snapshot!(haft_words(["call", "read_file", r#"{"file_path": "a"}"#]).page(), @r#"
    exit 1
    --- stderr
    error: `{"file_path": "a"}` is not an argument
    hint: pass a JSON object with all arguments as `--args-json JSON`
    "#);
    assert_snapshot!(haft_words(["call", "read_file", "--args-json", "{'a': 1}"]).page(), @r#"
    exit 1
    --- stderr
    error: `--args-json` is not JSON: key must be a string at line 1 column 2
    hint: put keys and texts in double quotes, as in `--args-json '{"file_path": "a.txt"}'`
    "#);
    assert_snapshot!(haft("call make_dir text=rain").page(), @r"
    exit 1
    --- stderr
    error: `make_dir` has no argument `text`
    hint: the arguments are `path`
    hint: `haft tools show make_dir` lists the arguments
    ");
    for odd in ["=", ":=1", "=x"] {
        assert_eq!(haft_words(["call", "read_file", odd]).code, Some(1), "{odd}");
    }
    assert_snapshot!(haft("call read_file --args-json [1]").page(), @r"
    exit 1
    --- stderr
    error: unparseable_arguments: the arguments must be a JSON object, got array
    hint: `haft tools show read_file` lists the arguments
    ");
}

#[test]
fn unreadable_files_are_reported() {
    file("todo-list.txt", "x");
    assert_snapshot!(haft("call write_file file_path=x content=@todo-lst.txt").page(), @r"
    exit 1
    --- stderr
    error: there is no file `todo-lst.txt`
    hint: did you mean `todo-list.txt`?
    ");
    file("latin.txt", b"caf\xe9");
    assert_snapshot!(haft("call write_file file_path=x content=@latin.txt").page(), @r"
    exit 1
    --- stderr
    error: `latin.txt` is not UTF-8: invalid byte at offset 3
    ");
    assert_snapshot!(haft("call write_file file_path=x content=@.").page(), @r"
    exit 1
    --- stderr
    error: `.` is a directory
    ");
}

#[test]
fn unknown_tool_gets_a_similar_name() {
    assert_snapshot!(haft("call red_file file_path=x").page(), @r"
    exit 1
    --- stderr
    error: unknown_tool: there is no tool called `red_file`
    hint: did you mean `read_file`?
    hint: `haft tools list` lists the tools
    ");
    let json = haft("call red_file --json");
    assert_eq!(json.code, Some(1));
    assert_eq!(json.json()["failure"]["code"], "unknown_tool");
    assert_eq!(
        json.json()["failure"]["next"],
        "did you mean `read_file`? `haft tools list` lists the tools"
    );
}

#[test]
fn json_failure_has_a_next_step_for_a_person() {
    for (call, next) in [
        ("nosuch", "`haft tools list` lists the tools"),
        ("read_file", "`haft tools show read_file` lists the arguments"),
        ("write_file file_path=a content=b --workspace .", "`--yes` approves this call"),
    ] {
        let failure = haft(&format!("call {call} --json")).json()["failure"].clone();
        assert_eq!(failure["next"], next, "{call}: {failure}");
    }
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
        "read_file file_path=attic",
        "fetch_url url=https://example.com/",
        "delete_path path=.git --yes",
        "ask_user question=x",
        "read_file file_path=/etc/passwd",
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
    let dir = TempDir::new("calls-approval", &[]);
    let delete = ["call", "delete_path", "path=notes/trip.txt"];
    assert_snapshot!(dir.run(delete).page(), @r"
    exit 2
    --- stderr
    error: denied: this call needs approval (it is not read-only), and no approver is configured
    hint: `--yes` approves this call
    cause: ask: it is not read-only (the default)
    ");
    // `y` on a piped stdin is not an approval.
    assert_eq!(haft_fed("call delete_path path=notes/trip.txt", b"y\n").code, Some(2));
    assert_snapshot!(dir.run(delete.into_iter().chain(["--yes"])).page(), @r"
    exit 0
    --- stdout
    deleted `notes/trip.txt`
    --- stderr
    note: the workspace is the current directory, `[dir]/work`
    ");
}

#[test]
fn yes_never_overrides_a_deny() {
    let rule = "[[rule]]\nmatch = \"Edit(./notes/**)\"\ndecision = \"deny\"\nreason = \"pinned\"\n";
    let dir = TempDir::new("calls-deny", &[("haft.toml", rule)]);
    let delete = ["call", "delete_path", "path=notes/garden.txt", "--yes"];
    assert_snapshot!(dir.run(delete).page(), @r#"
    exit 2
    --- stderr
    error: denied: pinned
    cause: deny: pinned ([dir]/work/haft.toml:2 deny "Edit(./notes/**)")
    "#);
    assert!(dir.work().join("notes/garden.txt").exists());
}

#[test]
fn workspace_is_named_by_a_note_only_if_it_matters() {
    let dir = TempDir::new("calls-note", &[]);
    let note = "note: the workspace is the current directory, `[dir]/work`\n";
    let write = ["call", "write_file", "file_path=x", "content=y", "--yes"];
    assert_eq!(dir.run(write).err, note);
    for more in [&["--quiet"][..], &["--workspace", "."]] {
        assert_eq!(dir.run(write.iter().chain(more).copied()).err, "", "{more:?}");
    }
    assert_eq!(dir.run(["call", "list_files"]).err, "", "a read needs no note");
}

#[test]
fn wide_current_directory_is_not_used_as_the_workspace() {
    let dir = TempDir::new("calls-wide", &[]);
    let home = dir.0.join("home");
    for (directory, what) in [
        (home.as_path(), "your home directory"),
        (&dir.0, "above your home directory"),
        (std::path::Path::new("/"), "the root of the file system"),
    ] {
        let call = |more: &[&str]| {
            let mut command = dir.command();
            command.current_dir(directory).args(["call", "list_files", "path=."]).args(more);
            Ran::of(command.output().unwrap())
        };
        let ran = call(&[]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        assert!(ran.err.contains(&format!("the current directory is {what}, so")), "{ran:?}");
        assert!(ran.err.contains("`--workspace DIR`"), "{ran:?}");
        if directory == home {
            assert_eq!(call(&["--workspace", "."]).code, Some(0), "a named one is used");
        }
    }
}

#[cfg(target_os = "linux")]
mod processes {
    use std::{
        process::{Child, Stdio},
        time::Duration,
    };

    use crate::{Ran, TempDir, command, haft_words, terminal::Terminal};

    /// A tool that fails, and one whose approval must come within a second.
    const TOOLS: &str = "[tool.broken]\ndescription = \"Fails always, for a test.\"\n\
        command = [\"false\"]\nread_only = true\ncapabilities = []\n\n\
        [tool.hurried]\ndescription = \"Needs an approval soon.\"\n\
        command = [\"true\"]\napproval_timeout = \"1s\"\n";

    #[test]
    fn failed_tool_exits_with_5_and_timeout_with_7() {
        let dir = TempDir::trusted("calls-codes", &[("haft.toml", TOOLS)]);
        let broken = dir.run(["call", "broken"]);
        assert_eq!(broken.code, Some(5), "{broken:?}");
        assert!(broken.err.starts_with("error: tool_failed: "), "{broken:?}");
        let late = ["call", "shell", "command=echo one; sleep 30", "timeout_ms=400"];
        let late = haft_words(late);
        assert_eq!(late.code, Some(7), "{late:?}");
        assert!(late.err.starts_with("error: timed_out: "), "{late:?}");
        assert!(late.err.contains("\nOutput before the interruption"), "{late:?}");
    }

    #[test]
    fn approval_that_is_not_given_in_time_exits_with_6() {
        let dir = TempDir::trusted("calls-expired", &[("haft.toml", TOOLS)]);
        let Some(screen) = Terminal::like(&dir.command()).run("haft call hurried", |_| None) else {
            return;
        };
        assert_eq!(screen.code, Some(6), "{}", screen.page());
        assert!(screen.page().contains("error: approval_expired: "), "{}", screen.page());
    }

    fn children(of: u32) -> Vec<String> {
        let parent = |stat: &str| {
            let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            after.split_whitespace().nth(1).and_then(|id| id.parse::<u32>().ok())
        };
        let is_child = |id: &String| {
            let stat = std::fs::read(format!("/proc/{id}/stat")).unwrap_or_default();
            parent(&String::from_utf8_lossy(&stat)) == Some(of)
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let ids = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        ids.filter(|id| id.parse::<u32>().is_ok()).filter(is_child).collect()
    }

    fn kill(signal: &str, id: &str) {
        std::process::Command::new("kill").args([signal, id]).status().unwrap();
    }

    /// Starts a command that sleeps.
    fn sleeping(seconds: &str) -> Child {
        let mut call = command();
        call.args(["call", "shell", &format!("command=sleep {seconds}")]).stdout(Stdio::piped());
        call.stderr(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the process must be there before it is killed")]
    fn killed_supervisor_exits_with_8() {
        // An unusual duration, which identifies the process.
        let seconds = format!("{}.8", 1_000_000 + std::process::id());
        let child = sleeping(&seconds);
        while !crate::signals::runs(&seconds) {
            std::thread::sleep(Duration::from_millis(50));
        }
        children(child.id()).iter().for_each(|id| kill("-KILL", id));
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(8), "{ran:?}");
        assert!(ran.err.starts_with("error: unknown_outcome: "), "{ran:?}");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the process must be there before the signal")]
    fn ctrl_c_cancels_the_call() {
        for wait in [100, 400, 1_600, 6_400] {
            let child = sleeping("60");
            std::thread::sleep(Duration::from_millis(wait));
            kill("-INT", &child.id().to_string());
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
}
