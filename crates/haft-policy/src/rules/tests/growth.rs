//! How much work a decision is among many rules. Rules that are looked at are counted, so that the
//! tests do not depend on the load of the machine.

use haft_core::{Decision, ToolSpec};
use serde_json::json;

use super::super::*;
use crate::{
    pattern::{PathBase, Pattern},
    reload::ReloadableRules,
    testing::{TestCall, call, call_in, context},
};

fn denies(texts: impl IntoIterator<Item = String>) -> Rules {
    let rule = |text: String| {
        Rule::new(Decision::Deny, Pattern::parse(&text, &PathBase::default()).unwrap())
    };
    Rules::new_unchecked(texts.into_iter().map(rule).collect(), context())
}

fn own(name: &str) -> TestCall {
    call(ToolSpec::new(name, "Does it."), json!({}), json!({}))
}

#[test]
fn hidden_tools_are_looked_up_by_name_among_any_number_of_denies() {
    for count in [10, 100, 1_000, 10_000] {
        let rules = denies((0..count).flat_map(|n| {
            [format!("tool_{n}"), format!("mcp__server{n}"), format!("tool=other_{n}")]
        }));
        for (tool, is_hidden) in [("tool_7", true), ("other_7", true), ("fine", false)] {
            let call = own(tool);
            let looked_at = rules.hiders.find_tool(&Names::of(&call.tool())).len();
            assert_eq!(looked_at, usize::from(is_hidden), "{tool} among {count}");
            let why = rules.hides(&call.tool(), &Scope::default());
            assert_eq!(why.is_some(), is_hidden, "{tool} among {count}");
        }
        let spec = ToolSpec::new("get", "Gets.");
        let remote = call_in(Scope::default(), Some("server7"), spec, json!({}), json!({}));
        assert_eq!(rules.hiders.find_tool(&Names::of(&remote.tool())).len(), 1);
        assert!(rules.hides(&remote.tool(), &Scope::default()).is_some());
    }
}

#[test]
fn first_rule_in_order_gives_the_reason_for_hiding() {
    let mut rules: Vec<Rule> =
        denies(["*".to_owned(), "tool_*".to_owned(), "tool_1".to_owned()]).rules().to_vec();
    for (at, rule) in rules.iter_mut().enumerate() {
        rule.reason = Some(format!("reason {at}"));
    }
    let reason = |rules: &[Rule]| {
        let rules = Rules::new_unchecked(rules.to_vec(), context());
        rules.hides(&own("tool_1").tool(), &Scope::default())
    };
    assert_eq!(reason(&rules).as_deref(), Some("reason 0"));
    assert_eq!(reason(&rules[1..]).as_deref(), Some("reason 1"));
    rules.reverse();
    assert_eq!(reason(&rules).as_deref(), Some("reason 2"));
}

#[test]
fn reloaded_rules_have_another_revision_of_what_they_hide() {
    let rules = ReloadableRules::new(denies(["tool_1".to_owned()]));
    let first = rules.hides_revision();
    assert!(first.is_some() && first == rules.hides_revision());
    rules.replace(denies(["tool_1".to_owned()]));
    assert_ne!(rules.hides_revision(), first);
    // Rules that hide nothing, then a tool, then nothing differ too.
    assert_ne!(denies([]).hides_revision(), denies([]).hides_revision());
}

#[test]
fn wildcard_rules_about_an_argument_are_looked_up_by_their_literal_start_or_end() {
    let long = "https://api.example.org/".repeat(4);
    for count in [10, 100, 1_000, 10_000] {
        let rules = denies((0..count).flat_map(|n| {
            [
                format!("mail_send arg.to=team{n}.*"),
                format!("mail_send arg.to=*@host{n}.example.org"),
                format!("mail_send(to:{n}é*)"),
            ]
        }));
        for (to, looked_at) in [
            ("team7.anyone@x.org", 1),
            ("someone@host7.example.org", 1),
            ("team7.someone@host8.example.org", 2),
            ("7élan", 1),
            ("7e", 0),
            ("é", 0),
            ("", 0),
            (long.as_str(), 0),
        ] {
            let sample = Sample::new("mail_send", json!({ "to": to }));
            let facts = sample.facts(&rules.context);
            let found = rules.deny.find(&facts, &rules.rules);
            assert_eq!(found.len(), looked_at, "{to} among {count}");
            let denied = rules.judge_sample(&sample).decision == Decision::Deny;
            assert_eq!(denied, looked_at > 0, "{to} among {count}");
        }
    }
}

#[test]
fn wildcard_rules_about_an_argument_are_looked_up_by_what_the_text_contains() {
    for count in [10, 100, 1_000, 10_000] {
        let rules = denies((0..count).flat_map(|n| {
            [format!("mail_send arg.to=*x{n}é*"), format!("mail_send arg.to=*host{n}.example*y*")]
        }));
        for (to, denied) in [
            ("a x7é b", true),
            ("x7éx7éx7é", true),
            ("at-host7.example.party", true),
            ("host7.example.part", false),
            ("x7e", false),
            ("é", false),
            ("", false),
        ] {
            let sample = Sample::new("mail_send", json!({ "to": to }));
            let facts = sample.facts(&rules.context);
            let found = rules.deny.find(&facts, &rules.rules).len();
            // The parts of hosts are truncated, so a few of them share a place in the index.
            assert!(found <= 12, "{found} rules for {to} among {count}");
            let is_denied = rules.judge_sample(&sample).decision == Decision::Deny;
            assert_eq!(is_denied, denied, "{to} among {count}");
        }
    }
}

#[test]
fn literal_start_longer_than_the_index_still_matches() {
    for prefix in ["x".repeat(200), format!("{}é", "x".repeat(63)), "é".repeat(100)] {
        let rules =
            denies([format!("mail_send arg.to={prefix}*"), format!("mail_send arg.to=*{prefix}")]);
        let inside = denies([format!("mail_send arg.to=*{prefix}*")]);
        for to in [format!(".{prefix}."), format!("x{prefix}"), prefix.clone()] {
            let sample = Sample::new("mail_send", json!({ "to": to }));
            assert_eq!(inside.judge_sample(&sample).decision, Decision::Deny, "{to}");
        }
        for (to, is_denied) in [
            (format!("{prefix}."), true),
            (format!(".{prefix}"), true),
            (prefix.clone(), true),
            (format!(".{prefix}."), false),
            (prefix.chars().skip(1).collect(), false),
        ] {
            let sample = Sample::new("mail_send", json!({ "to": to }));
            let is = rules.judge_sample(&sample).decision == Decision::Deny;
            assert_eq!(is, is_denied, "{to}");
        }
    }
}
