//! The parts of calls, by what their tools declare and their schemas say.

use std::collections::BTreeMap;

use haft_core::{Decision, Effect, ToolSpec};
use serde_json::json;

use super::*;
use crate::{
    pattern::{PathBase, Pattern},
    rule::Rule,
    testing::{at, call, call_in, context},
};

/// The parts as short strings.
fn parts(facts: &Facts<'_>) -> Vec<String> {
    let short = |part: &Part| match part {
        Part::Call => "call".to_owned(),
        Part::Command(command) => format!("run {command}"),
        Part::Unreadable(_) => "unreadable".to_owned(),
        Part::Path { operation, spelled, resolved } => {
            let verb = if *operation == Operation::Read { "read" } else { "write" };
            let doubt = if resolved.is_err() { "?" } else { "" };
            format!("{verb} {}{doubt}", spelled.display())
        }
        Part::Host(Ok(host)) => format!("host {host}"),
        Part::Host(Err(_)) => "host ?".to_owned(),
        Part::Reach(capability) => format!("reach {capability}"),
    };
    facts.parts.iter().map(short).collect()
}

fn of(spec: ToolSpec, schema: Value, arguments: Value) -> Vec<String> {
    parts(&Facts::of(&call(spec, schema, arguments).request(), &context()))
}

fn spec() -> ToolSpec {
    ToolSpec::new("t", "Does it.")
}

#[test]
fn tool_without_declarations_is_one_call_part() {
    assert_eq!(of(spec(), json!({}), json!({})), ["call"]);
    let declared = spec().capabilities(Capabilities::NONE).effects([]);
    assert_eq!(of(declared, json!({}), json!({})), ["call"], "there is always a part");
}

#[test]
fn declared_and_named_effects_leave_no_call_part() {
    let files = || spec().capabilities([Capability::Filesystem]);
    let one = files().effects([Effect::read("a/../b"), Effect::write("/x")]);
    assert_eq!(of(one, json!({}), json!({})), ["read /w/b", "write /x"]);
    let unsaid = files().effects([Effect { operation: Operation::Read, target: None }]);
    assert_eq!(of(unsaid, json!({}), json!({})), ["reach filesystem", "call"]);
    let undeclared = spec().effects([Effect::read("a")]);
    assert_eq!(of(undeclared, json!({}), json!({})), ["read /w/a", "call"]);
    let more = spec()
        .capabilities([Capability::Filesystem, Capability::Network, Capability::Email])
        .effects([Effect::read("a"), Effect::external("https://x.org/p")]);
    assert_eq!(of(more, json!({}), json!({})), ["read /w/a", "host x.org", "reach email"]);
    let table = spec().capabilities([Capability::Database]).effects([Effect::read("table:users")]);
    assert_eq!(of(table, json!({}), json!({})), ["reach database", "call"]);
    let lie = files().effects([Effect::read("x:/../../etc/passwd")]);
    assert_eq!(
        of(lie, json!({}), json!({})),
        ["read /etc/passwd"],
        "no name of a kind hides a path"
    );
}

#[test]
fn argument_kind_comes_from_the_schema_not_from_its_name() {
    // Names, lists, upper-case schemes, nesting: what a guess by key would miss.
    let schema = json!({"properties": {
        "target": {"type": "string", "x-haft": "write_path"},
        "urls": {"type": "array", "items": {"type": "string"}, "x-haft": "url"},
        "cmd": {"type": "string", "x-haft": "command"},
        "more": {"type": "array", "items": {"properties": {"at": {"x-haft": "read_path"}}}},
        "path": {"type": "string"},
    }});
    let arguments = json!({
        "target": "http://looks/like/one",
        "urls": ["HTTPS://X.ORG/a", "y.org"],
        "cmd": "git status > out",
        "more": [{"at": "b"}, {"at": "../c"}],
        "path": "/not/marked",
    });
    assert_eq!(
        of(spec(), schema.clone(), arguments),
        [
            "write /w/http:/looks/like/one",
            "host x.org",
            "host y.org",
            "write /w/out",
            "run git status",
            "read /w/b",
            "read /c",
            "call",
        ]
    );
    let odd = json!({"urls": ["x.org", "https:x"], "more": [{"at": 5}], "target": ""});
    assert_eq!(of(spec(), schema, odd), ["host x.org", "host ?", "read ?", "write /w", "call"]);
}

#[test]
fn policy_context_can_declare_argument_kinds() {
    let about = |key: &str| {
        let about = BTreeMap::from([
            ("file".to_owned(), ArgumentKind::ReadPath),
            ("to.host".to_owned(), ArgumentKind::Url),
        ]);
        PolicyContext { argument_kinds: BTreeMap::from([(key.to_owned(), about)]), ..context() }
    };
    let schema = json!({"additionalProperties": true});
    let arguments = json!({"file": ["a", "b"], "to": {"host": "x.org"}});
    let call = call_in(at("/w"), Some("fs"), ToolSpec::new("get", "Gets."), schema, arguments);
    let named = ["read /w/a", "read /w/b", "host x.org", "call"];
    for key in ["fs__get", "fs__*", "mcp__fs", "mcp__fs__get", "mcp__fs__g*", "*"] {
        assert_eq!(parts(&Facts::of(&call.request(), &about(key))), named, "{key}");
    }
    for key in ["get", "mcp__f", "mcp__fs__put", "other"] {
        assert_eq!(parts(&Facts::of(&call.request(), &about(key))), ["call"], "{key}");
    }
}

#[test]
fn redirections_are_files_and_network_files_are_hosts() {
    let shell = || ToolSpec::new("shell", "Runs.").capabilities([Capability::Subprocess]);
    let run = |text: &str| of(shell().effects([Effect::execute(text)]), json!({}), json!({}));
    assert_eq!(run("ls > out 2>/dev/null"), ["write /w/out", "run ls"]);
    assert_eq!(run("cat < in 2>&1"), ["read /w/in", "run cat"]);
    assert_eq!(run("echo x > /dev/tcp/X.org/80"), ["host x.org", "run echo x"]);
    // The `cd` may fail, so both files are parts.
    let moved = ["run cd /etc", "write /w/passwd", "write /etc/passwd", "run echo x"];
    assert_eq!(run("cd /etc && echo x > passwd"), moved);
    let unknown = ["run cd …", "write passwd?", "run echo x"];
    assert_eq!(run("cd $D && echo x > passwd"), unknown);
    assert_eq!(run("echo x > \"$F\""), ["write ?", "run echo x"]);
    assert_eq!(run("echo 'never closed"), ["unreadable"]);
    assert_eq!(run(""), ["unreadable"]);
}

#[test]
fn well_known_tool_declares_its_targets_or_is_unknown() {
    let text = |name: &str| json!({"properties": {name: {"type": "string"}}});
    let named = |name: &str| ToolSpec::new(name, "Does it.");
    assert_eq!(of(named("read_file"), text("path"), json!({"path": "a"})), ["read /w/a", "call"]);
    assert_eq!(
        of(named("fetch_url"), text("url"), json!({"url": "x.org"})),
        ["host x.org", "call"]
    );
    assert_eq!(of(named("read_file"), text("x"), json!({"x": "a"})), ["read ?", "call"]);
    assert_eq!(of(named("shell"), text("x"), json!({"x": "rm"})), ["unreadable"]);
    let shell = of(named("shell"), text("command"), json!({"command": "ls"}));
    assert_eq!(shell, ["run ls"], "a shell does what its command does");
    assert_eq!(of(named("deploy"), text("command"), json!({"command": "ls"})), ["run ls", "call"]);
    let list = json!({"properties": {"command": {"type": "array"}}});
    let words = json!({"command": [["ls"]]});
    assert_eq!(of(named("deploy"), list, words), ["unreadable", "call"]);
}

#[test]
fn names_are_those_a_tool_was_registered_by() {
    let known = |name: &str| {
        let call = call(ToolSpec::new(name, "Does it."), json!({}), json!({}));
        Names::of(&call.tool()).known_as.to_vec()
    };
    assert_eq!(known("shell"), ["Bash"]);
    assert_eq!(known("write_file"), ["Write", "Edit"]);
    for changes in ["edit_file", "move_path", "delete_path", "make_dir"] {
        assert_eq!(known(changes), ["Edit"], "{changes}");
    }
    assert_eq!((known("read_file"), known("list_files")), (vec!["Read"], vec!["Glob"]));
    assert_eq!(known("search_files"), ["Grep"]);
    assert_eq!(known("t"), [""; 0]);
    let remote =
        call_in(at("/w"), Some("s"), ToolSpec::new("shell", "Runs."), json!({}), json!({}));
    let names = Names::of(&remote.tool());
    assert_eq!((names.own, names.remote), ("s__shell", Some(("s", "shell"))));
    assert!(names.known_as.is_empty(), "a source does not bring our shell");
    let (alias, mut renamed) = ("harmless".into(), remote.tool());
    renamed.name = &alias;
    assert_eq!(Names::of(&renamed), names, "a view changes no name that rules know");
}

#[test]
fn too_many_parts_set_overflow() {
    let many: Vec<Effect> = (0..100).map(|n| Effect::read(format!("f{n}"))).collect();
    let call = call(spec().effects(many), json!({}), json!({}));
    let context = context();
    let facts = Facts::of(&call.request(), &context);
    assert!(facts.overflow);
    assert_eq!(facts.parts.len(), Parts::MAX);
    assert!(facts.parts.contains(&Part::Call), "the whole call keeps its place");
}

#[test]
fn relative_working_directory_is_resolved() {
    let read = spec().capabilities([Capability::Filesystem]).effects([Effect::read("a")]);
    let call = call_in(at("."), None, read, json!({}), json!({}));
    let disk = PolicyContext::default();
    let facts = Facts::of(&call.request(), &disk);
    let [Part::Path { spelled, resolved: Ok(resolved), .. }] = &*facts.parts else { panic!() };
    assert!(spelled.is_absolute() && resolved.is_absolute() && spelled.ends_with("a"));
}

fn sample(example: Value, rule: &str) -> Result<Vec<String>, String> {
    let pattern = Pattern::parse(rule, &PathBase::default()).unwrap();
    let sample = Sample::read(&example, Rule::new(Decision::Ask, pattern).about())?;
    let context = context();
    let facts = sample.facts(&context);
    let mut all = vec![match facts.names.remote {
        Some((source, tool)) => format!("{source}/{tool}"),
        None => facts.names.own.to_owned(),
    }];
    all.extend(parts(&facts));
    Ok(all)
}

#[test]
fn examples_parse_in_every_documented_form() {
    let ok = |example: Value, rule: &str| sample(example, rule).unwrap();
    assert_eq!(ok(json!("Bash(git push)"), "t"), ["shell", "run git push"]);
    assert_eq!(ok(json!("git push && ls"), "Bash(git *)"), ["shell", "run git push", "run ls"]);
    assert_eq!(ok(json!("Read(a)"), "t"), ["read_file", "read a"]);
    assert_eq!(ok(json!("./a"), "Edit(./**)"), ["edit_file", "write a"]);
    assert_eq!(ok(json!("https://x.org/p"), "WebFetch(domain:x.org)"), ["fetch_url", "host x.org"]);
    assert_eq!(ok(json!("mcp__github__get_issue"), "t"), ["github/get_issue", "call"]);
    assert_eq!(ok(json!("mail_send"), "t"), ["mail_send", "call"]);
    let table = json!({"tool": "mail_send", "args": {"to": "b"}, "capabilities": ["email"]});
    assert_eq!(ok(table, "t"), ["mail_send", "reach email"]);
    let shell = json!({"tool": "Bash", "args": {"command": "ls"}});
    assert_eq!(ok(shell, "t"), ["shell", "run ls"]);
    for (bad, says) in [
        (json!(5), "a string or a table"),
        (json!("not a call!"), "is not a call"),
        (json!("t(x)"), "name=value"),
        (json!({"args": {}}), "needs the key `tool`"),
        (json!({"tol": "t"}), "did you mean `tool`?"),
        (json!({"tool": "t", "label": "odd"}), "not a known label"),
    ] {
        assert!(sample(bad.clone(), "t").unwrap_err().contains(says), "{bad}");
    }
}

#[test]
fn arguments_of_an_example_are_json_if_they_parse() {
    let pattern = Pattern::parse("t", &PathBase::default()).unwrap();
    let rule = Rule::new(Decision::Ask, pattern);
    let text = r#"mail_send(to=bob@x.org, n=5, list=["a, b"], note="x, y", plain=a b)"#;
    let sample = Sample::read(&json!(text), rule.about()).unwrap();
    assert_eq!(
        sample.arguments,
        json!({"to": "bob@x.org", "n": 5, "list": ["a, b"], "note": "x, y", "plain": "a b"})
    );
}

#[test]
fn command_list_is_judged_like_text_and_cwd_makes_relative_paths_unknown() {
    let schema = json!({"properties": {
        "command": {"type": "string", "x-haft": "command"},
        "argv": {"type": "array", "items": {"type": "string"}, "x-haft": "words"},
        "cwd": {"type": "string", "x-haft": "directory"},
    }});
    let shell = || {
        let spec = ToolSpec::new("shell", "Runs it.");
        spec.capabilities([Capability::Subprocess, Capability::Filesystem])
    };
    let text = of(shell(), schema.clone(), json!({"command": "git log -1"}));
    let list = of(shell(), schema.clone(), json!({"argv": ["git", "log", "-1"]}));
    assert_eq!((&text, list), (&vec!["run git log -1".to_owned()], text.clone()));
    let odd = of(shell(), schema.clone(), json!({"argv": ["cat", "a; rm b", "> c"]}));
    assert_eq!(odd, ["run cat a; rm b > c"], "a word is a word");
    let loose = json!({"properties": {"command": {}, "argv": {"x-haft": "words"}}});
    let wrong = of(shell(), loose, json!({"argv": ["cat", 1]}));
    assert_eq!(wrong, ["unreadable"]);

    let mentions = |arguments: Value| {
        let call = call(shell(), schema.clone(), arguments);
        let context = context();
        let facts = Facts::of(&call.request(), &context);
        let unknown = facts
            .mentions
            .iter()
            .filter(|(_, part)| matches!(part, Part::Path { resolved: Err(_), .. }));
        (parts(&facts).contains(&"read /w/secret".to_owned()), unknown.count())
    };
    assert_eq!(mentions(json!({"argv": ["cat", "key"]})), (false, 0));
    assert_eq!(mentions(json!({"argv": ["cat", "key"], "cwd": "."})).1, 0);
    assert_eq!(mentions(json!({"argv": ["cat", "key"], "cwd": "secret"})), (true, 1));
    assert_eq!(mentions(json!({"command": "cat key", "cwd": "secret"})), (true, 1));
}
