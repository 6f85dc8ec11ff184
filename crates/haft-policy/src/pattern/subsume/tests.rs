//! One pattern against another: a table, and properties for every call.

use std::sync::OnceLock;

use haft_core::{Capability, Effect, Operation, ToolSpec};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    facts::Facts,
    pattern::PathBase,
    testing::{TestCall, at, call_in, context},
};

fn pattern(text: &str) -> Pattern {
    let anchor = PathBase { directory: Some("/w".into()), home: Some("/home/u".into()) };
    Pattern::parse(text, &anchor).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn covers(wide: &str, narrow: &str, sides: Sides) -> bool {
    pattern(wide).subsumes(&pattern(narrow), sides)
}

const PATTERNS: &[&str] = &[
    "*",
    "t",
    "look",
    "l*",
    "g*",
    "ge*",
    "Bash",
    "Read",
    "Edit",
    "WebFetch",
    "Bash(git *)",
    "Bash(git push *)",
    "Bash(git push)",
    "Bash(git:*)",
    "Bash(git*)",
    "Bash(* push *)",
    "Bash(timeout *)",
    "Bash(timeout 5 git push)",
    "Bash(find *)",
    "Bash(find . -delete)",
    "Bash(watch *)",
    "Bash(watch ls)",
    "Bash(X=1 git *)",
    "Bash(X=1 git push)",
    "Bash(rm *)",
    "Read(./a/**)",
    "Read(./a/*)",
    "Read(./a)",
    "Read(./a/b)",
    "Read(a)",
    "Read(**/b)",
    "Edit(./**)",
    "Edit(./a/**)",
    "Edit(./a/b)",
    "Read(//w/a/**)",
    "Read(~/a/**)",
    "Read(./[ab]/**)",
    "Read(./?)",
    "path=./a",
    "path=./a/b",
    "path=./a|./b",
    "t path=./a",
    "look path=./a",
    "* path=./a",
    "WebFetch(domain:x.org)",
    "WebFetch(domain:*.x.org)",
    "WebFetch(domain:a.x.org)",
    "WebFetch(domain:*)",
    "host=x.org",
    "host=*.org",
    "host=x.org|a.x.org",
    "effect=read",
    "effect=read|write",
    "effect=external",
    "capability=filesystem",
    "capability=filesystem|network",
    "arg.x=*",
    "arg.x=a",
    "arg.x=a|b",
    "arg.x=a*",
    "t arg.x=a",
    "t(x:a)",
    "t(x:*)",
    "label=trusted",
    "label=trusted|untrusted",
    "read_only",
    "destructive",
    "mcp__s",
    "mcp__s__look",
    "mcp__s__l*",
    "mcp__*",
    "source=s",
    "source=*",
    "tool=t",
    "tool=t|look",
    "t tool=t",
    "Agent(x)",
    "Agent(*)",
    "arg.x=a effect=read",
    "path=./a effect=read",
];

type Pairs = (Vec<Pattern>, Vec<(usize, usize, Sides)>);

/// All pairs that cover each other, with the sides for which they do.
fn pairs() -> &'static Pairs {
    static PAIRS: OnceLock<Pairs> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let all: Vec<Pattern> = PATTERNS.iter().map(|text| pattern(text)).collect();
        let mut pairs = Vec::new();
        for (own, wide) in all.iter().enumerate() {
            for (other, narrow) in all.iter().enumerate() {
                for sides in [Sides::Restrict, Sides::Allow, Sides::RestrictAllow] {
                    if own != other && wide.subsumes(narrow, sides) {
                        pairs.push((own, other, sides));
                    }
                }
            }
        }
        (all, pairs)
    })
}

/// Checks that each hit of the narrow pattern is one of the wide one.
fn check(wide: &Pattern, narrow: &Pattern, sides: Sides, facts: &Facts<'_>) -> Result<(), String> {
    let own = wide.hits(facts, sides.own());
    let theirs = narrow.hits(facts, sides.other());
    let holds = match sides {
        Sides::Allow => theirs.yes.without(own.yes).is_empty(),
        Sides::Restrict => {
            theirs.yes.or(theirs.unknown).is_empty() || !own.yes.or(own.unknown).is_empty()
        }
        Sides::RestrictAllow => theirs.yes.is_empty() || !own.yes.or(own.unknown).is_empty(),
    };
    if holds {
        Ok(())
    } else {
        Err(format!("{wide} / {narrow}, {sides:?}: {own:?} {theirs:?} for {facts:?}"))
    }
}

fn any_command() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "git",
        "push",
        "timeout",
        "5",
        "find",
        ".",
        "-delete",
        "watch",
        "ls",
        "sudo",
        "rm",
        "$x",
        "'git push'",
        "\"a $x\"",
        "X=1",
        "/usr/bin/git",
        "xargs",
        "-C",
    ]);
    let commands = prop::collection::vec(prop::collection::vec(word, 1..5), 1..3);
    commands
        .prop_map(|all| all.iter().map(|words| words.join(" ")).collect::<Vec<_>>().join(" && "))
}

fn any_call() -> impl Strategy<Value = TestCall> {
    let target = prop::sample::select(vec!["a", "a/b", "a/b/c", "b", "../a", "/w/a/c", "~/a/x"]);
    let address = prop::sample::select(vec!["https://x.org", "a.x.org", "b.org", "https:x"]);
    let effect = prop_oneof![
        target.clone().prop_map(Effect::read),
        target.prop_map(Effect::write),
        address.prop_map(Effect::external),
        any_command().prop_map(Effect::execute),
    ];
    let name = prop::sample::select(vec!["t", "look", "get", "read_file", "shell", "agent"]);
    let argument = prop::option::of(prop::sample::select(vec![
        json!("a"),
        json!("ab"),
        json!(["a", "c"]),
        json!({}),
        json!(7),
    ]));
    let declares = prop::option::of(prop::collection::vec(effect, 0..3));
    let source = prop::option::of(Just("s"));
    (name, source, argument, declares, any::<(bool, bool)>()).prop_map(
        |(name, source, argument, declares, (reaches, reads))| {
            let mut spec = ToolSpec::new(name, "Does it.");
            let writes = declares
                .iter()
                .flatten()
                .any(|effect| matches!(effect.operation, Operation::Write | Operation::Execute));
            if let Some(effects) = declares {
                spec = spec.effects(effects);
            }
            if reaches {
                spec = spec.capabilities([Capability::Filesystem, Capability::Network]);
            }
            if reads && !writes {
                spec = spec.read_only();
            }
            let arguments = argument.map_or(json!({}), |x| json!({"x": x, "agent": "x"}));
            let open = json!({"additionalProperties": true});
            call_in(at("/w"), source, spec, open, arguments)
        },
    )
}

proptest! {
    #[test]
    fn covering_pattern_matches_whatever_the_covered_one_matches(call in any_call()) {
        let context = context();
        let facts = Facts::of(&call.request(), &context);
        let (all, pairs) = pairs();
        prop_assert!(pairs.len() > 200, "{}", pairs.len());
        for (own, other, sides) in pairs {
            let checked = check(&all[*own], &all[*other], *sides, &facts);
            prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
        }
    }

    #[test]
    fn stars_only_widen_a_command(
        words in prop::collection::vec("[ab]{1,3}", 1..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 4),
        tail in any::<(bool, bool)>(),
    ) {
        let text = words.join(" ");
        let starred = |text: &str, cuts: &[prop::sample::Index], tail: bool| {
            let mut chars: Vec<char> = text.chars().collect();
            cuts.iter().for_each(|cut| { let at = cut.index(chars.len()); chars[at] = '*'; });
            format!("Bash({}{})", chars.iter().collect::<String>(), if tail { " *" } else { "" })
        };
        let (narrow, wide) = (starred(&text, &cuts[..2], tail.0), starred(&text, &cuts, tail.1));
        let (narrow, wide) = (pattern(&narrow), pattern(&wide));
        let spec = ToolSpec::new("t", "Does it.").effects([Effect::execute(text)]);
        let call = call_in(at("/w"), None, spec, json!({"additionalProperties": true}), json!({}));
        let context = context();
        let facts = Facts::of(&call.request(), &context);
        for (a, b) in [(&wide, &narrow), (&narrow, &wide)] {
            for sides in [Sides::Restrict, Sides::Allow, Sides::RestrictAllow] {
                if a.subsumes(b, sides) {
                    let checked = check(a, b, sides, &facts);
                    prop_assert!(checked.is_ok(), "{}", checked.unwrap_err());
                }
            }
        }
    }

    #[test]
    fn what_is_apart_never_hits_the_same_part(call in any_call()) {
        let context = context();
        let facts = Facts::of(&call.request(), &context);
        let (all, _) = pairs();
        let hits = |side| -> Vec<_> { all.iter().map(|p| p.hits(&facts, side).yes).collect() };
        let (denied, allowed) = (hits(Side::Restrict), hits(Side::Allow));
        for (own, a) in all.iter().enumerate() {
            for (other, b) in all.iter().enumerate().filter(|(_, b)| a.is_disjoint(b)) {
                prop_assert!(denied[own].and(allowed[other]).is_empty(), "{a} / {b} {facts:?}");
            }
        }
    }

    #[test]
    fn lining_up_never_takes_too_much(a in "[ab*?]{0,6}", b in "[ab*?]{0,6}", text in "[ab]{0,6}") {
        use crate::glob::{Glob, Style};
        let (own, other) = (Glob::parse(&a, Style::Files), Glob::parse(&b, Style::Files));
        let (own, other) = (own.unwrap(), other.unwrap());
        if own.covers(&other) && other.matches(&text, false) {
            prop_assert!(own.matches(&text, false), "{a} {b} {text}");
        }
        if own.is_disjoint(&other) {
            prop_assert!(!(own.matches(&text, false) && other.matches(&text, false)));
        }
    }
}

#[test]
fn subsumption_table() {
    for (wide, narrow, restrict, allow) in [
        ("*", "Bash(git push *)", true, true),
        ("Bash", "Bash(git push *)", true, true),
        ("Bash(git *)", "Bash(git push *)", true, true),
        ("Bash(git push *)", "Bash(git *)", false, false),
        ("Bash(git *)", "Bash(gitk *)", false, false),
        ("Bash(git:*)", "Bash(git *)", true, true),
        ("Bash(* push *)", "Bash(git push *)", true, true),
        ("Bash(find *)", "Bash(find . -delete)", true, false),
        ("Bash(timeout *)", "Bash(timeout 5 rm x)", true, false),
        ("Read(./a/**)", "Read(./a/b)", true, true),
        ("Read(./a/*)", "Read(./a/b/c)", true, false),
        ("Read(./a)", "Read(./a/**)", true, true),
        ("Read(.env)", "Read(./x/.env)", true, true),
        ("Read(./a/**)", "Edit(./a/b)", true, false),
        ("Edit(./a/**)", "Read(./a/b)", false, false),
        ("Read(~/a/**)", "Read(./a/b)", false, false),
        ("WebFetch(domain:*.x.org)", "WebFetch(domain:a.b.x.org)", true, true),
        ("WebFetch(domain:*.x.org)", "WebFetch(domain:x.org)", false, false),
        ("mcp__s", "mcp__s__t", true, true),
        ("mcp__s__get_*", "mcp__s__get_issue", true, true),
        ("mcp__s__t", "mcp__s", false, false),
        ("mail_*", "mail_send arg.to=x", true, true),
        ("mail_send arg.to=*@x.org", "mail_send arg.to=bob@x.org", true, true),
        ("mail_send arg.to=bob@x.org", "mail_send", false, false),
        ("effect=read|write", "effect=read", true, true),
        ("effect=read", "effect=read|write", false, false),
        ("path=./a", "Read(./a/b)", true, true),
    ] {
        assert_eq!(covers(wide, narrow, Sides::Restrict), restrict, "deny {wide} / {narrow}");
        assert_eq!(covers(wide, narrow, Sides::Allow), allow, "allow {wide} / {narrow}");
    }
    // A deny that names no tool stops an allow that names one. As two denies they differ, if the
    // tool does not declare what it touches.
    assert!(covers("path=./a", "look path=./a/b", Sides::RestrictAllow));
    assert!(!covers("path=./a", "look path=./a/b", Sides::Restrict));
}

#[test]
fn covering_pattern_is_in_a_searched_bucket() {
    let (all, pairs) = pairs();
    for (own, other, sides) in pairs {
        let (wide, narrow) = (&all[*own], &all[*other]);
        let looked = narrow.buckets();
        assert!(looked.contains(&wide.bucket()), "{wide} / {narrow} {sides:?}: {looked:?}");
    }
}
