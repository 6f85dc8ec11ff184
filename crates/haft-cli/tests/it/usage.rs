//! The command line itself: help, lists, usage errors, colours, the environment, closed pipes.

use std::process::Stdio;

use insta::assert_snapshot;

use crate::{Ran, TempDir, command, file, haft};

/// What `list_files path=notes` prints.
const LISTED: &str = "notes/garden.txt\t51\nnotes/trip.txt\t48\n";

/// Every command.
pub(crate) const COMMANDS: [&str; 42] = [
    "",
    "demo",
    "run",
    "chat",
    "runs",
    "runs list",
    "runs show",
    "tools",
    "tools list",
    "tools show",
    "tools export",
    "tools check",
    "tools lint",
    "call",
    "plan",
    "dispatch",
    "serve",
    "mcp",
    "mcp wrap",
    "install",
    "explain",
    "policy",
    "policy check",
    "policy test",
    "policy suggest",
    "trust",
    "hooks",
    "hooks list",
    "hooks test",
    "shell",
    "shell explain",
    "completions",
    "exit-codes",
    "result",
    "doctor",
    "mcp list",
    "mcp get",
    "mcp add",
    "mcp pin",
    "mcp diff",
    "mcp login",
    "mcp remove",
];

#[test]
fn every_help_has_examples() {
    let help = haft("--help");
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""));
    for name in COMMANDS {
        let help = haft(&format!("{name} --help"));
        assert_eq!(help.code, Some(0), "{name}");
        assert!(help.out.contains("\nExamples:\n  haft "), "{name}: {}", help.out);
    }
    assert!(haft("--version").out.starts_with("haft 0."));
}

#[test]
fn usage_errors_have_hints_and_exit_1() {
    assert_snapshot!(haft("dispach").page(), @r"
    exit 1
    --- stderr
    error: unrecognized subcommand 'dispach'
    hint: a similar subcommand exists: 'dispatch'
    usage: haft <COMMAND>
    ");
    assert_snapshot!(haft("demo --jsn").page(), @r"
    exit 1
    --- stderr
    error: unexpected argument '--jsn' found
    hint: a similar argument exists: '--json'
    usage: haft demo --json
    ");
    assert_snapshot!(haft("call").page(), @r"
    exit 1
    --- stderr
    error: the following required arguments were not provided:
      <TOOL>
    usage: haft call <TOOL> [KEY=VALUE]...
    ");
    assert_snapshot!(haft("tools show delete_pth").page(), @r"
    exit 1
    --- stderr
    error: there is no tool called `delete_pth`
    hint: did you mean `delete_path`?
    hint: `haft tools list` lists the tools
    ");
    assert_snapshot!(haft("shell explain ls -la").page(), @r"
    exit 1
    --- stderr
    error: unexpected argument '-l' found
    hint: quote the command, as in `haft shell explain 'ls -l'`
    usage: haft shell explain [OPTIONS] [COMMAND]...
    ");
    assert_snapshot!(haft("result").page(), @r"
    exit 1
    --- stderr
    error: the following required arguments were not provided:
      <ID>
    hint: `haft result list` shows the ids
    usage: haft result <ID>
    ");
    let nothing = haft("");
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(1), ""));
    assert!(nothing.err.contains("Usage: haft <COMMAND>"));
}

#[test]
fn errors_are_one_line_of_json_with_the_json_flag() {
    let from = file("json-errors.toml", "[[rule]]\nmatch = 3\n");
    let missing = "--config nowhere.toml";
    let lines = [
        "nosuch --json".to_owned(),
        "demo --jsn --json".to_owned(),
        "call --json".to_owned(),
        "call read_file nam=x --json".to_owned(),
        format!("call list_files --json --config {from}"),
        "plan nowhere.json --json".to_owned(),
        "dispatch nowhere.json --json".to_owned(),
        "dispatch nowhere.json --stream --dialect mcp --json".to_owned(),
        "result nosuch --json".to_owned(),
        "explain nosuch --json".to_owned(),
        "tools show nosuch --json".to_owned(),
        format!("tools list --json {missing}"),
        "tools export --json".to_owned(),
        "tools check --calls nowhere.jsonl --json".to_owned(),
        "tools lint --tools nowhere.jsonl --json".to_owned(),
        format!("policy check --json {missing}"),
        format!("policy test --json {missing}"),
        "policy suggest --from nowhere.jsonl --json".to_owned(),
        "trust nowhere --json".to_owned(),
        format!("hooks list --json {missing}"),
        "hooks test Nothing --json".to_owned(),
        "shell explain --jsn --json".to_owned(),
        "doctor --nosuch --json".to_owned(),
        "exit-codes --nosuch --json".to_owned(),
    ];
    for line in lines {
        let ran = haft(&line);
        assert_eq!((ran.code, ran.err.as_str()), (Some(1), ""), "{line}: {ran:?}");
        let error = &ran.json()["error"];
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{line}: {ran:?}");
        assert!(error["hints"].is_array(), "{line}: {ran:?}");
    }
    // After `--` it is an argument.
    let plain = haft("call list_files -- --json");
    assert_eq!((plain.code, plain.out.as_str()), (Some(1), ""), "{plain:?}");
}

#[test]
fn tools_are_listed_in_columns() {
    let list = haft("tools list");
    assert_eq!(list.code, Some(0));
    assert_snapshot!(list.out.lines().filter(|l| l.contains("_file")).collect::<Vec<_>>().join("\n"), @r"
    edit_file     asks          filesystem                                      Replaces a text in a file.
    list_files    runs          read-only, filesystem                           Lists a directory, or finds files by a pattern.
    read_file     runs          read-only, filesystem                           Reads a text file.
    search_files  runs          read-only, filesystem                           Searches files for a regular expression.
    write_file    asks          destructive, filesystem                         Writes a file: creates it, or replaces its whole content.
    ");
    let json = haft("tools list --json").json();
    assert_eq!(json.as_array().unwrap().len(), list.out.lines().count());
    assert_eq!(json[0]["name"], "ask_user");
}

#[test]
fn tool_is_shown_with_everything_it_declares() {
    let page = haft("tools show read_file");
    assert_eq!(page.code, Some(0));
    assert_snapshot!(page.out.split("\nDeclares").next().unwrap(), @r#"
    read_file  read-only, filesystem

    Reads a text file. Each line starts with its number and a tab. Large files are read in parts with `offset` and `limit`; the result says how to continue. A binary file is described.

    Arguments
      file_path  string                  required  Path of the file, absolute or relative to the working directory.
      offset     integer or null from 1  optional  Line to start at, from 1.
      limit      integer or null from 1  optional  Maximum number of lines; default: 2000.

    In force here
      a call           runs without a question
      because          it is read-only, without network or secrets (the default)
      as in            file_path: "value"
      body runs        in the process of haft
      timeout          120 s
      deadline         600 s
      approval within  300 s
      result           at most 99000 characters; the rest is stored
    "#);
    assert_snapshot!(page.out.split("\nLayers, ").nth(1).unwrap(), @r"
    outermost first
      breaker  30 seconds after 5 failures within that time
      timeout  2 minutes (the runtime's)
    ");
    let json = haft("tools show read_file --json").json();
    assert_eq!(json["layers"].as_array().map(Vec::len), Some(2));
    let hash = json["hash"].as_str().unwrap();
    assert!(hash.len() == 64 && page.out.contains(hash));
    assert_eq!(json["input_schema"]["properties"]["limit"]["minimum"], 1);
    assert_eq!(json["verdict"]["decision"], "runs");
    assert_eq!(json["runs_in"], serde_json::json!({"location": "process"}));
    assert_eq!(json["limits"]["timeout_ms"], 120_000);
    for (key, _) in json.as_object().unwrap() {
        let shown = match key.as_str() {
            "needs" => "required state".to_owned(),
            "unknown" => "unknown arguments".to_owned(),
            key => key.replace('_', " "),
        };
        let elsewhere = [
            "name",
            "description",
            "input schema",
            "output schema",
            "examples",
            "layers",
            "verdict",
            "runs in",
            "limits",
        ];
        assert!(page.out.contains(&format!("  {shown} ")) || elsewhere.contains(&&*shown), "{key}");
    }
}

#[test]
fn tools_list_and_show_give_the_verdict_of_the_present_rules() {
    let rules = "[[rule]]\nmatch = \"Edit(./**)\"\ndecision = \"allow\"\n\n\
                 [[rule]]\nmatch = \"search_files\"\ndecision = \"ask\"\n\n\
                 [[rule]]\nmatch = \"shell\"\ndecision = \"deny\"\n\n\
                 [defaults]\ntimeout = \"7s\"\n";
    let dir = TempDir::new("usage-verdicts", &[("haft.toml", rules)]);
    let verdict = |tool: &str| {
        let list = dir.run(["tools", "list", "--json"]).json();
        let all = list.as_array().unwrap();
        let found = all.iter().find(|listed| listed["name"] == tool).unwrap();
        let show = dir.run(["tools", "show", tool, "--json"]).json();
        assert_eq!(found["verdict"], show["verdict"], "{tool}");
        show["verdict"]["decision"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("edit_file"), "asks", "an allow rule needs trust");
    assert_eq!(verdict("read_file"), "runs");
    assert_eq!(verdict("search_files"), "asks");
    assert_eq!(verdict("shell"), "hidden");
    assert_eq!(dir.run(["trust", "--yes"]).code, Some(0));
    assert_eq!(verdict("edit_file"), "runs");
    assert_eq!(verdict("write_file"), "runs");
    assert_eq!(verdict("fetch_url"), "asks");
    let page = dir.run(["tools", "show", "edit_file"]).out;
    assert!(page.contains("  because          a rule allows it (haft.toml:2 allow"), "{page}");
    assert!(page.contains("  timeout          7 s\n"), "{page}");
}

#[cfg(target_os = "linux")]
#[test]
fn tools_show_names_the_sandbox_tier() {
    let json = haft("tools show shell --json").json();
    assert_eq!(json["runs_in"]["location"], "sandbox", "{json}");
    assert_eq!(json["verdict"]["decision"], "runs_or_asks", "{json}");
    let page = haft("tools show shell").out;
    assert!(page.contains("  body runs        in the sandbox, tier "), "{page}");
}

#[test]
fn exit_codes_are_listed_by_command_and_by_help() {
    let list = haft("exit-codes");
    for line in
        ["  1  wrong command line", "  8  unknown outcome", "130  cancelled", "     timed_out"]
    {
        assert!(list.out.contains(line), "{}", list.out);
    }
    assert!(haft("help exit-codes").out.contains("130  cancelled"));
    let json = haft("exit-codes --json").json();
    let denied = json.as_array().unwrap().iter().find(|c| c["code"] == "denied").unwrap();
    assert_eq!(denied["exit_code"], 2);
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = haft(&format!("completions {shell}"));
        assert_eq!(script.code, Some(0), "{shell}");
        for word in [
            "dispatch", "dialect", "export", "lint", "calls", "deny", "explain", "suggest",
            "revoke",
        ] {
            assert!(script.out.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(haft("completions bsh").code, Some(1));
    for shell in ["bash", "fish", "elvish", "powershell"] {
        let script = haft(&format!("completions {shell}")).out;
        let count = script.matches("haft tools names").count();
        assert_eq!(count, 3, "{shell}: for `call`, `explain` and `tools show`");
        assert!(!script.contains("HAFT_TOOL_NAMES"), "{shell}");
    }
    let script = haft("completions zsh").out;
    assert_eq!(script.matches("_haft_tool_names'").count(), 3, "{script}");
    assert_eq!(script.matches("$(haft tools names 2>/dev/null)").count(), 1);
    // Other names stay valid: files declare tools too.
    assert!(haft("call declared_elsewhere").err.contains("unknown_tool"));
}

const DECLARES_A_TOOL: &str = "[tool.count_lines]\ndescription = \"Counts lines.\"\n\
                               command = [\"wc\", \"-l\"]\nread_only = true\ncapabilities = []\n";

#[cfg(unix)]
#[test]
fn bash_completes_the_tools_of_a_trusted_directory() {
    let dir = TempDir::trusted("usage-completions", &[("haft.toml", DECLARES_A_TOOL)]);
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap();
    let script = "eval \"$(haft completions bash)\"; COMP_WORDS=(haft call count_l); \
                  COMP_CWORD=2; _haft haft count_l call; echo \"${COMPREPLY[@]}\"";
    let own = dir.command();
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", script])
        .envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .current_dir(dir.work());
    let Ok(output) = bash.output() else { return }; // there is no bash
    assert_eq!(Ran::of(output).out, "count_lines\n");
    let broken = TempDir::new("usage-completions-broken", &[("haft.toml", "[")]);
    assert!(broken.run(["tools", "names"]).out.contains("read_file\n"), "the built-in tools");
}

#[test]
fn tools_list_says_that_rules_decide_by_the_arguments() {
    let rules = "[[rule]]\nmatch = \"Read(notes/**)\"\ndecision = \"deny\"\n\n\
                 [budget]\ncalls_of = { \"make_*\" = 0 }\n";
    let dir = TempDir::new("usage-depends", &[("haft.toml", rules)]);
    let list = dir.run(["tools", "list"]).out;
    let line = |tool: &str| list.lines().find(|line| line.starts_with(tool)).unwrap().to_owned();
    assert!(line("read_file").contains("depends on the arguments"), "{list}");
    assert!(line("make_dir").contains("denied"), "{list}");
    let show = dir.run(["tools", "show", "read_file"]).out;
    assert!(show.contains("  other calls      haft.toml:2 deny \"Read(notes/**)\""), "{show}");
    let show = dir.run(["tools", "show", "make_dir"]).out;
    assert!(show.contains("the budget allows no call of it ([budget])"), "{show}");
}

#[test]
fn policy_check_reports_a_budget_key_that_matches_no_tool() {
    let rules = "[budget]\ncalls_of = { \"read_*\" = 3, read_fle = 1 }\ncost.nosuch = \"0.5\"\n";
    let dir = TempDir::new("usage-budget-keys", &[("haft.toml", rules)]);
    let checked = dir.run(["policy", "check", "--deny", "--json"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let findings = checked.json()["findings"].as_array().unwrap().clone();
    let messages: Vec<&str> = findings.iter().filter_map(|f| f["message"].as_str()).collect();
    assert_eq!(
        messages,
        [
            "`read_fle` matches no tool of this directory",
            "`nosuch` matches no tool of this directory"
        ]
    );
    assert_eq!(findings[0]["hint"], "did you mean `read_file`?");
}

#[test]
fn colours_follow_the_terminal_and_the_environment() {
    let run = |vars: &[(&str, &str)]| {
        Ran::of(command().args(["tools", "list"]).envs(vars.iter().copied()).output().unwrap()).out
    };
    assert!(!run(&[]).contains('\x1b'), "a pipe");
    assert!(run(&[("CLICOLOR_FORCE", "1")]).contains('\x1b'));
    assert!(!run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\x1b'));
}

#[test]
fn invalid_environment_variable_is_reported() {
    let run = |value: &str| {
        let mut command = command();
        command.env("HAFT_MAX_CONCURRENCY", value).args(["call", "list_files", "path=notes"]);
        Ran::of(command.output().unwrap())
    };
    assert_eq!(run("1").out, LISTED);
    assert_snapshot!(run("garbage").page(), @r"
    exit 1
    --- stderr
    error: `HAFT_MAX_CONCURRENCY` must be a whole number above zero, got `garbage`
    hint: omit it for the default, 10
    ");
    assert_eq!(run("0").code, Some(1));
}

#[cfg(unix)]
#[test]
fn non_utf8_environment_does_not_panic() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    let odd = OsStr::from_bytes(b"\xff");
    let run = |name: &OsStr| {
        Ran::of(
            command().env(name, odd).args(["call", "list_files", "path=notes"]).output().unwrap(),
        )
    };
    assert_eq!(run(OsStr::new("OTHER")).out, LISTED);
    assert_eq!(run(odd).out, LISTED);
    assert_eq!(run(OsStr::new("HAFT_MAX_CONCURRENCY")).code, Some(1));
    let argument = Ran::of(command().arg("call").arg(odd).output().unwrap());
    assert_eq!(argument.code, Some(1), "{argument:?}");
}

#[test]
fn closed_pipe_exits_quietly() {
    let export = "tools export --dialect mcp --json";
    for line in [
        export,
        "tools lint",
        "completions bash",
        "tools list",
        "exit-codes",
        "--help",
        "call list_files",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command()
            .args(line.split_whitespace())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let ran = Ran::of(output);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn closed_pipe_does_not_turn_a_failure_into_success() {
    let settings = r#"{"permissions": {"deny": ["Bash(rm *)"]}}"#;
    let dir = TempDir::new("closed-pipe", &[(".claude/settings.json", settings)]);
    for (arguments, code) in [
        (vec!["explain", "Bash", "command=rm -rf x", "--exit-code"], 2),
        (vec!["explain", "Bash", "command=rm -rf x", "--exit-code", "--json"], 2),
        (vec!["call", "read_file", "file_path=missing.txt", "--json"], 1),
    ] {
        let expected = Ran::of(dir.command().args(&arguments).output().unwrap());
        assert_eq!(expected.code, Some(code), "{expected:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = dir.command().args(&arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}
