//! `haft policy`: checks rules, runs their examples, and suggests rules from a decision log.
//!
//! Runs no tool and writes no file.

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use anstyle::Style;
use haft::policy::{Decision, ExampleResult, Pattern, Rule, Rules, SourceLocation};
use serde_json::{Value, json};

use crate::{
    args, builtin, decisions,
    error::Problem,
    host_env::HostEnv,
    location,
    setup::{self, Setup},
    site::Site,
    stub_tools,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table, WARN},
};

pub(crate) fn run(args: &args::Policy, host: &HostEnv) -> Result<ExitCode, Problem> {
    match args {
        args::Policy::Check { rules, deny, output } => {
            check(&Setup::open_for_review(host, rules)?, *deny, *output)
        }
        args::Policy::Test { rules, output } => test(host, rules, *output),
        args::Policy::Suggest { from, rules, output } => {
            suggest(&Setup::open(host, rules)?, from, *output)
        }
    }
}

/// How many rules of each kind a file has.
#[derive(Default)]
struct Count {
    deny: usize,
    ask: usize,
    need_input: usize,
    allow: usize,
    off: usize,
}

impl Count {
    fn add(&mut self, rule: &Rule) {
        let kind = match rule.decision {
            _ if !rule.enabled => &mut self.off,
            Decision::Deny => &mut self.deny,
            Decision::Ask => &mut self.ask,
            Decision::NeedInput(_) => &mut self.need_input,
            Decision::Allow => &mut self.allow,
        };
        *kind += 1;
    }

    fn words(&self) -> String {
        let kinds = [
            (self.deny, "deny"),
            (self.ask, "ask"),
            (self.need_input, "need input"),
            (self.allow, "allow"),
            (self.off, "disabled"),
        ];
        let counts = kinds.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{n} {kind}"));
        counts.collect::<Vec<_>>().join(", ")
    }
}

fn check(setup: &Setup, deny: bool, output: args::Output) -> Result<ExitCode, Problem> {
    let rules = setup.rules();
    let here = setup.here();
    let mut files: BTreeMap<String, Count> = BTreeMap::new();
    for file in setup.site.files()? {
        files.entry(location::short(&file.path, here)).or_default();
    }
    for rule in rules.rules() {
        let file =
            rule.location.file.as_ref().map_or_else(String::new, |f| location::short(f, here));
        files.entry(file).or_default().add(rule);
    }
    let mut findings = findings(&rules, here);
    findings.extend(unknown_tools(&rules, here));
    findings.extend(unmatched_budget(setup)?);
    let mode = setup.loaded.context.mode;
    if output.json {
        let files: Vec<Value> = files
            .iter()
            .map(|(file, n)| {
                json!({"file": file, "deny": n.deny, "ask": n.ask, "need_input": n.need_input,
                    "allow": n.allow, "off": n.off})
            })
            .collect();
        style::print(format_args!(
            "{}\n",
            json!({"root": setup.site.root, "trusted": setup.is_trusted, "mode": mode,
                "rules": rules.rules().len(), "hooks": setup.loaded.hooks.len(), "files": files,
                "notes": setup.loaded.notes, "findings": findings})
        ))?;
    } else {
        let mut table = Table::new(0);
        for (file, count) in &files {
            let counts = count.words();
            let counts = if counts.is_empty() { "no rules".to_owned() } else { counts };
            table.row([(NAME, file.clone()), (Style::new(), counts)]);
        }
        let mut out = table.to_string();
        for finding in &findings {
            let text = |key: &str| style::visible(finding[key].as_str().unwrap_or_default());
            out += &format!(
                "{}  {}  {}\n    {}\n",
                style::paint(NAME, text("at")),
                style::paint(BAD, text("kind")),
                text("message"),
                style::paint(DIM, text("hint")),
            );
        }
        for note in &setup.notes {
            // Most have a location first.
            let located = note.split_once(": ").filter(|(at, _)| !at.contains(' '));
            let (at, message) = located.unwrap_or(("", note));
            let at = if at.is_empty() { String::new() } else { style::visible(at) + "  " };
            out += &format!(
                "{}{}  {}\n",
                style::paint(NAME, at),
                style::paint(WARN, "note"),
                style::visible(message),
            );
        }
        let trust = if setup.is_trusted { "trusted" } else { "not trusted" };
        out += &format!(
            "{} in {}, {}, mode {}, directory {trust}\n",
            style::count(rules.rules().len(), "rule"),
            style::count(files.len(), "file"),
            style::count(findings.len(), "finding"),
            mode.as_str(),
        );
        style::print_page(out)?;
    }
    // A way around is for information: no list of programs is complete.
    let is_mistake = |finding: &Value| finding["kind"] != "way_around";
    Ok(ExitCode::from(u8::from(deny && findings.iter().any(is_mistake))))
}

fn shown_location(location: &SourceLocation, here: &Path) -> String {
    match &location.file {
        Some(file) => format!("{}:{}", location::short(file, here), location.line),
        None => location.to_string(),
    }
}

/// Rules of Claude Code settings for a tool of Claude Code that haft does not know. Tools of MCP
/// servers are called `mcp__server__tool` there, and tools of haft start with a small letter.
fn unknown_tools(rules: &Rules, here: &Path) -> Vec<Value> {
    let name = |pattern: &Pattern| {
        let (name, rest) = pattern.as_str().split_once('(').unwrap_or((pattern.as_str(), ""));
        let is_tool = name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_alphanumeric())
            && (rest.is_empty() || rest.ends_with(')'));
        (is_tool && stub_tools::find(name).is_none()).then(|| name.to_owned())
    };
    let is_settings = |rule: &&Rule| {
        let file = rule.location.file.as_deref();
        rule.enabled && file.is_some_and(|file| file.extension().is_some_and(|e| e == "json"))
    };
    let named = rules.rules().iter().filter(is_settings).flat_map(|rule| {
        rule.matches.iter().filter_map(move |pattern| Some((&rule.location, name(pattern)?)))
    });
    let finding = |(location, name): (&SourceLocation, String)| {
        let hint = match style::nearest(&name, stub_tools::NAMES) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "haft compares the name with each tool that it sees".to_owned(),
        };
        let message = format!("`{name}` is no tool of Claude Code that haft knows");
        json!({"at": shown_location(location, here), "kind": "never_matches",
            "message": message, "hint": hint, "other_rule": null})
    };
    named.map(finding).collect()
}

/// Lints valid rules: shadowed, never matching, contradictory.
fn findings(rules: &Rules, here: &Path) -> Vec<Value> {
    let at = |location: &SourceLocation| shown_location(location, here);
    let found = rules.lint(&[]).into_iter().filter(|finding| !finding.kind.is_info());
    found
        .chain(rules.ways_around())
        .map(|finding| {
            json!({"at": at(&finding.location), "kind": finding.kind.as_str(),
                "message": finding.message, "hint": finding.hint,
                "other_rule": finding.other_rule.as_ref().map(at)})
        })
        .collect()
}

/// Keys of `[budget]` that match no tool of this directory.
fn unmatched_budget(setup: &Setup) -> Result<Vec<Value>, Problem> {
    let budget = &setup.loaded.budget;
    if budget.calls_of.is_empty() && budget.price_of.is_empty() {
        return Ok(Vec::new());
    }
    let registry = builtin::all(setup)?.build()?;
    let names: Vec<&str> = registry.own().map(|entry| entry.name().as_str()).collect();
    let unmatched = budget.unmatched(&names).into_iter();
    Ok(unmatched
        .map(|(key, glob)| {
            let hint = match style::nearest(glob, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`haft tools list` lists the tools".to_owned(),
            };
            json!({"at": format!("[budget] {}", key.as_str()), "kind": "never_matches",
                "message": format!("`{glob}` matches no tool of this directory"),
                "hint": hint, "other_rule": null})
        })
        .collect())
}

fn test(host: &HostEnv, from: &args::Rules, output: args::Output) -> Result<ExitCode, Problem> {
    let site = Site::find(host, from);
    let (config, covered) = site.read()?;
    let mut notes = covered.notes;
    notes.extend(config.notes.iter().map(|note| setup::shown(note, &site.here)));
    if !from.quiet {
        setup::print_notes(&notes);
    }
    // Loaded without running examples: elsewhere a failed example is an error, here it is the
    // output.
    let rules = Rules::new_unchecked(config.rules, config.context);
    let tried = rules.run_examples();
    let failed = tried.iter().filter(|one| !one.holds).count();
    let bare = rules.rules().iter().filter(|rule| rule.examples.is_empty()).count();
    if output.json {
        style::print(format_args!(
            "{}\n",
            json!({"examples": tried, "held": tried.len() - failed, "failed": failed,
                "rules": rules.rules().len(), "without_examples": bare})
        ))?;
    } else {
        let mut table = Table::new(0);
        for one in &tried {
            table.row(row(one, &site.here));
        }
        style::print_page(format_args!(
            "{table}{}, {failed} failed; {} without an example\n",
            style::count(tried.len(), "example"),
            style::count(bare, "rule"),
        ))?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn row(one: &ExampleResult, here: &Path) -> [(Style, String); 5] {
    let call = match &one.call {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (colour, mark) = if one.holds { (GOOD, "✓") } else { (BAD, "✗") };
    let did = match (&one.problem, one.applies, one.expected) {
        (Some(problem), ..) => format!("invalid: {problem}"),
        (None, true, true) => "matches".to_owned(),
        (None, false, false) => "does not match".to_owned(),
        (None, false, true) => "does not match, but should".to_owned(),
        (None, true, false) => "matches, but should not".to_owned(),
    };
    let all = one
        .verdict
        .as_ref()
        .map_or_else(String::new, |verdict| format!("all rules: {}", verdict.decision.as_str()));
    [
        (colour, mark.to_owned()),
        (NAME, location::at(&one.location, here)),
        (BOLD, style::cell(&call)),
        (colour, style::visible(&did)),
        (DIM, all),
    ]
}

fn suggest(setup: &Setup, from: &Path, output: args::Output) -> Result<ExitCode, Problem> {
    let decided = decisions::read(from)?;
    let suggestions = setup.rules().suggest(&decided);
    if output.json {
        let json = json!({"decisions": decided.len(), "suggestions": suggestions});
        style::print(format_args!("{json}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = String::new();
    for one in &suggestions {
        let rule = serde_json::to_string(&one.rule).unwrap_or_default();
        out += &format!(
            "{}\n[[rule]]\nmatch = {}\ndecision = \"allow\"\n\n",
            style::paint(DIM, comment(one.covers, &one.also_allows)),
            style::visible(&rule),
        );
    }
    style::print(out)?;
    style::message(format_args!(
        "{} from {}",
        style::count(suggestions.len(), "rule"),
        style::count(decided.len(), "decision"),
    ));
    Ok(ExitCode::SUCCESS)
}

/// What a suggested rule covers, as comment lines of a rule file.
fn comment(covers: usize, also: &[String]) -> String {
    let mut out = format!("# covers {}", style::count(covers, "approval"));
    for also in also {
        out += &format!("\n# would also allow: {}", style::visible(also).replace('\n', " "));
    }
    out
}
