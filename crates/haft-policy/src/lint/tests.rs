//! One test per kind of finding, and none for valid rules.

use haft_core::{Capability, Decision, ToolSpec};
use serde_json::{Value, json};

use super::*;
use crate::{
    ConfigFile, ConfigLayer, FileFormat, LoadOptions, PathBase, PolicyConfig, PolicyContext,
    testing::{TestCall, at, call_in, context},
};

fn rule(decision: Decision, text: &str) -> Rule {
    let anchor = PathBase { directory: Some("/w".into()), home: Some("/home/u".into()) };
    Rule::new(decision, Pattern::parse(text, &anchor).unwrap_or_else(|e| panic!("{text}: {e}")))
}

fn deny(text: &str) -> Rule {
    rule(Decision::Deny, text)
}

fn ask(text: &str) -> Rule {
    rule(Decision::Ask, text)
}

fn allow(text: &str) -> Rule {
    rule(Decision::Allow, text)
}

fn except(mut rule: Rule, text: &str) -> Rule {
    rule.except.push(allow(text).matches.remove(0));
    rule
}

/// Which rules are found, by index, and the kind of finding.
fn found(mut rules: Vec<Rule>, tools: &[TestCall]) -> Vec<(usize, &'static str)> {
    for (at, rule) in rules.iter_mut().enumerate() {
        rule.location.line = at + 1;
    }
    let rules = Rules::new(rules, PolicyContext::default()).unwrap();
    rules.lint(&described(tools)).iter().map(|f| (f.location.line, f.kind.as_str())).collect()
}

fn described(tools: &[TestCall]) -> Vec<PolicyTool<'_>> {
    tools.iter().map(TestCall::tool).collect()
}

fn kinds(rules: Vec<Rule>) -> Vec<(usize, &'static str)> {
    found(rules, &[])
}

fn entry(source: Option<&str>, spec: ToolSpec, schema: Value) -> TestCall {
    call_in(at("/w"), source, spec, schema, json!({}))
}

/// A shell, a tool that sends mail and touches nothing else, and one of a source.
fn tools() -> Vec<TestCall> {
    let text = |name: &str| {
        json!({"type": "object", "properties": {name: {"type": "string"}},
            "additionalProperties": false})
    };
    vec![
        entry(
            None,
            ToolSpec::new("mail_send", "Sends.").capabilities([Capability::Email]),
            text("to"),
        ),
        entry(Some("github"), ToolSpec::new("get_issue", "Gets."), text("id")),
    ]
}

#[test]
fn a_rule_below_a_stronger_one_that_covers_it_is_shadowed() {
    for rules in [
        vec![deny("Bash(git push *)"), allow("Bash(git push origin wip)")],
        vec![ask("mail_*"), allow("mail_send arg.to=bob@x.org")],
        vec![deny("Read(./secret/**)"), ask("Read(./secret/key)")],
        vec![deny("WebFetch(domain:*.x.org)"), deny("WebFetch(domain:a.x.org)")],
        vec![allow("Bash(git status)"), allow("Bash(git status)")],
        vec![allow("Bash(cargo *)"), allow("Bash(cargo build *)")],
        vec![except(deny("Bash(a *)"), "Bash(a b)"), except(ask("Bash(a b *)"), "Bash(a b)")],
    ] {
        let text = format!("{:?}", rules[1].matches[0].as_str());
        assert_eq!(kinds(rules), [(2, "shadowed")], "{text}");
    }
}

#[test]
fn a_rule_that_may_decide_is_not_shadowed() {
    let first = |mut rule: Rule| {
        rule.priority = 200;
        rule
    };
    let even_tainted = |mut rule: Rule| {
        rule.even_tainted = true;
        rule
    };
    for rules in [
        vec![allow("Bash(git *)"), deny("Bash(git push *)")],
        vec![deny("Bash(git push *)"), deny("Bash(git *)")],
        vec![deny("Bash(git *)"), first(deny("Bash(git push *)"))],
        vec![except(deny("Bash(a *)"), "Bash(a b *)"), allow("Bash(a b c)")],
        vec![allow("Bash(cargo *)"), even_tainted(allow("Bash(cargo build *)"))],
        vec![allow("Edit(./**)"), allow("Edit(./.git/hooks/**)")],
        vec![allow("Bash(ls *)"), allow("Bash(ls)"), deny("Bash(ls -R *)")],
        vec![rule(Decision::NeedInput("to".to_owned()), "mail_*"), ask("mail_send")],
    ] {
        let text = format!("{:?}", rules[1].matches[0].as_str());
        let kinds = kinds(rules);
        let expected: &[_] = if text.contains("(ls)") { &[(2, "shadowed")] } else { &[] };
        assert_eq!(kinds, expected, "{text}");
    }
}

#[test]
fn pattern_that_never_matches_is_found() {
    for text in [
        "Bash(git add * && git commit *)",
        "Bash(* | sh)",
        "Bash(echo x > y)",
        "tool=a tool=b",
        "mail_send tool=mail_read",
        "label=trusted label=untrusted",
        "destructive read_only",
    ] {
        assert_eq!(kinds(vec![deny(text)]), [(1, "never_matches")], "{text}");
    }
    assert_eq!(kinds(vec![allow("WebFetch(domain:x.org) effect=read")]), [(1, "never_matches")]);
    let far = format!("Read(./{})", "x".repeat(300));
    assert_eq!(kinds(vec![deny(&far)]), [(1, "never_matches")]);
    let homeless =
        |decision| Rule::new(decision, Pattern::parse("Read(~/x)", &PathBase::default()).unwrap());
    assert_eq!(kinds(vec![homeless(Decision::Allow)]), [(1, "never_matches")]);
    assert_eq!(kinds(vec![homeless(Decision::Deny)]), []);
    for text in ["Bash(echo 'a && b')", "Bash(git commit -m \"x; y\")", "Bash(echo a\\;b)"] {
        assert_eq!(kinds(vec![deny(text)]), [], "{text}");
    }
}

#[test]
fn pattern_that_matches_no_registered_tool_is_found() {
    let tools = tools();
    for text in [
        "mail_sent",
        "tool=calendar_add",
        "mcp__gitlab",
        "mcp__github__get_pull",
        "source=gitlab",
        "mail_send arg.too=x",
        "mail_send(too:x)",
        "mail_send capability=payment",
        "Bash(git push *)",
        "Read(./a)",
        "Edit(./a)",
        "WebFetch(domain:x.org)",
        "Agent(x)",
    ] {
        assert_eq!(found(vec![deny(text)], &tools), [(1, "never_matches")], "{text}");
    }
    for text in ["mail_*", "mcp__github__get_*", "mail_send arg.to=*", "capability=email", "path=a"]
    {
        assert_eq!(found(vec![deny(text)], &tools), [], "{text}");
    }
    let silent = [entry(None, ToolSpec::new("anything", "Does it."), json!({"type": "object"}))];
    assert_eq!(found(vec![deny("Read(./a)"), deny("Bash(x)")], &silent), []);
    let rules = Rules::new(vec![deny("mail_sent")], PolicyContext::default()).unwrap();
    assert_eq!(rules.lint(&described(&tools))[0].hint, "did you mean `mail_send`?");
}

#[test]
fn same_pattern_allowed_and_denied_is_a_contradiction() {
    assert_eq!(kinds(vec![allow("mail_send"), deny("mail_send")]), [(1, "contradictory")]);
    assert_eq!(kinds(vec![ask("Bash(ls *)"), allow("Bash(ls *)")]), [(2, "contradictory")]);
    assert_eq!(kinds(vec![deny("mail_send"), ask("mail_send")]), [(2, "shadowed")]);
    let gap = except(deny("Bash(a *)"), "Bash(a b)");
    assert_eq!(kinds(vec![gap, allow("Bash(a *)")]), []);
}

#[test]
fn exception_that_excludes_nothing_or_everything_is_found() {
    for (own, gap) in [
        ("Bash(rm -rf *)", "Bash(rm x)"),
        ("Bash(rm *)", "WebFetch(domain:x.org)"),
        ("WebFetch(domain:x.org)", "WebFetch(domain:y.org)"),
        ("Read(./a/**)", "Read(./b/**)"),
        ("mail_send", "mail_read"),
        ("Bash(rm -rf *)", "Bash(rm *)"),
        ("Read(./a/**)", "Read(./**)"),
    ] {
        let kinds = kinds(vec![except(deny(own), gap)]);
        assert_eq!(kinds, [(1, "unreachable_exception")], "{own} but {gap}");
    }
    for (own, gap) in [
        ("Bash(git push *)", "Bash(git push origin wip)"),
        ("Bash(git push *)", "Bash(git -C x push)"),
        ("mail_*", "mail_read"),
        ("Bash", "Bash(ls *)"),
        ("write_file", "Edit(./a)"),
        ("Read(.env)", "Bash(cat *)"),
    ] {
        assert_eq!(kinds(vec![except(deny(own), gap)]), [], "{own} but {gap}");
    }
}

#[test]
fn overbroad_allow_is_found() {
    for text in [
        "*",
        "Bash",
        "Bash(*)",
        "Bash(sh *)",
        "Bash(python *)",
        "Bash(bash -c *)",
        "Bash(/usr/bin/python3:*)",
        "mcp__*",
        "Edit",
        "Edit(//**)",
    ] {
        assert_eq!(kinds(vec![allow(text)]), [(1, "broad_allow")], "{text}");
        assert_eq!(kinds(vec![deny(text)]), [], "{text}");
    }
    for text in ["Bash(python manage.py *)", "* effect=read", "Bash(git *)", "Read", "mcp__github"]
    {
        assert_eq!(kinds(vec![allow(text)]), [], "{text}");
    }
    assert_eq!(kinds(vec![except(allow("Bash"), "Bash(rm *)")]), []);
}

#[test]
fn options_without_effect_are_found() {
    let with = |mut rule: Rule, change: fn(&mut Rule)| {
        change(&mut rule);
        rule
    };
    let tainted = with(deny("a"), |rule| rule.even_tainted = true);
    let rewrites = with(deny("a"), |rule| drop(rule.rewrite.insert("x".to_owned(), 1.into())));
    let high = || with(ask("a"), |rule| rule.priority = 200);
    assert_eq!(kinds(vec![tainted]), [(1, "no_effect")]);
    assert_eq!(kinds(vec![rewrites]), [(1, "no_effect")]);
    assert_eq!(kinds(vec![high(), deny("c"), ask("b")]), [(1, "no_effect")]);
    assert_eq!(kinds(vec![high(), ask("* arg.x=1")]), []);
}

const SENSIBLE: &str = r#"
[[rule]]
match = "Bash(git push *)"
decision = "ask"
except = ["Bash(git push origin wip/*)"]
test.ask = ["git push origin main"]

[[rule]]
match = ["Bash(rm -rf *)", "Bash(sudo *)"]
decision = "deny"
test.deny = ["rm -rf /", "sudo ls"]

[[rule]]
match = ["Bash(git status)", "Bash(git diff *)", "Bash(git log *)", "Bash(cargo test *)"]
decision = "allow"

[[rule]]
match = ["Read(.env)", "Read(~/.ssh/**)"]
decision = "deny"
test.deny = ["Read(./.env)"]

[[rule]]
match = "Edit(./src/**)"
decision = "allow"

[[rule]]
match = "Edit(./src/generated/**)"
decision = "ask"
test.ask = ["./src/generated/a.rs"]

[[rule]]
match = "WebFetch(domain:*.rust-lang.org)"
decision = "allow"

[[rule]]
match = "mcp__github__get_*"
decision = "allow"

[[rule]]
match = "mcp__github__delete_*"
decision = "deny"
test.deny = ["mcp__github__delete_repo"]

[[rule]]
match = "mail_send arg.to=*@evil.org"
decision = "deny"
test.deny = [{ tool = "mail_send", args = { to = "bob@evil.org" } }]
"#;

fn read(text: &str) -> Rules {
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form: FileFormat::Toml,
        path: "/w/haft.toml".into(),
        anchor: "/w".into(),
        text: text.to_owned(),
    };
    let location = LoadOptions { trusted: true, ..LoadOptions::default() };
    let setup = PolicyConfig::read(&[file], &location).unwrap_or_else(|e| panic!("{e}"));
    Rules::new(setup.rules, PolicyContext::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_deny_or_an_ask_without_an_example_is_untested() {
    let rules = read(
        r#"
        [[rule]]
        match = "Bash(git push *)"
        decision = "ask"

        [[rule]]
        match = "Bash(git status)"
        decision = "allow"
        "#,
    );
    let found = rules.lint(&[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].kind, found[0].kind.is_info()), (FindingKind::Untested, true));
    let text = found[0].to_string();
    assert!(text.starts_with("/w/haft.toml:") && text.contains("test.ask"), "{text}");
    let json = serde_json::to_value(&found[0]).unwrap();
    assert_eq!(json["kind"], "untested");
}

#[test]
fn other_spellings_of_options_are_known_ways_around() {
    let rules =
        |pattern: &str| read(&format!("[[rule]]\nmatch = \"{pattern}\"\ndecision = \"deny\"\n"));
    for (pattern, way) in [
        ("Bash(git push --force *)", "`git push -f`"),
        ("Bash(git push --force *)", "`git push origin main --force`"),
        ("Bash(rm -rf *)", "`rm -fr x`"),
        ("Bash(git commit --no-verify *)", "`git commit -n`"),
        ("Bash(npm install *)", "`npm i x`"),
    ] {
        let found = rules(pattern).ways_around();
        assert_eq!(found.len(), 1, "{pattern}: {found:?}");
        assert!(found[0].to_string().contains(way), "{pattern}: {}", found[0]);
    }
    // A rule that covers them all leaves none of these.
    let found = rules("Bash(git push *)").ways_around();
    assert!(found.iter().all(|found| !found.to_string().contains("git push -f")), "{found:?}");
}

#[test]
fn valid_rules_have_no_findings() {
    let rules = read(SENSIBLE);
    let found = rules.lint(&[]);
    assert!(found.is_empty(), "{found:#?}");
}

proptest::proptest! {
    #[test]
    fn any_file_is_refused_or_linted(
        cuts in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0..12usize, ".{0,6}"), 0..6),
    ) {
        let mut text = SENSIBLE.to_owned();
        for (at, len, with) in cuts {
            let from = text.floor_char_boundary(at.index(text.len() + 1));
            let to = text.floor_char_boundary((from + len).min(text.len())).max(from);
            text.replace_range(from..to, &with);
        }
        for form in [FileFormat::Toml, FileFormat::Settings] {
            let file = ConfigFile {
                layer: ConfigLayer::Project,
                form,
                path: "/w/haft.toml".into(),
                anchor: "/w".into(),
                text: text.clone(),
            };
            let Ok(setup) = PolicyConfig::read(&[file], &LoadOptions::default()) else { continue };
            if let Ok(rules) = Rules::new(setup.rules, context()) {
                for finding in rules.lint(&described(&tools())) {
                    proptest::prop_assert!(!finding.to_string().is_empty());
                }
            }
        }
    }
}

#[test]
fn lint_handles_ten_thousand_rules_and_reports_the_limit() {
    let many = (0..10_000).map(|n| deny(&format!("tool_{n} arg.x={n}"))).collect();
    assert_eq!(kinds(many), []);
    let same = (0..3_000).map(|n| deny(&format!("tool arg.x={n}"))).collect();
    assert_eq!(kinds(same), [(3_000, "unfinished")]);
}
