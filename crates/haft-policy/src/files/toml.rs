//! `haft.toml` and `haft.local.toml`: `[defaults]`, `[workspace]`, `[[rule]]`, `[budget]`,
//! `[tool.NAME]`, `[hooks]`, `[sandbox]`, `[model]`, `[mcp.servers.NAME]` and `[audit]`.
//!
//! In: the text. Out: the content of the file, and every mistake in it. An unknown key is a
//! mistake: a rule with a typo must not silently restrict less.

use std::{collections::HashSet, time::Duration};

use ::toml::de::{DeTable, DeValue};
use haft_core::{Decision, host::RandomState};

use super::{
    ConfigFile, Handler, HookSpec, LoadOptions, MAX_RULES,
    amount::{money, share},
    command_tool,
    content::{FileContent, ParsedHook},
    mistake::Mistakes,
    model,
    negated::Negated,
    node::{Entry, Fields, FromNode as _, Kind, Node, Reader, words},
    relative_path::directory,
    rule_options, sandbox,
    source::Source,
};
use crate::{
    ArgumentKind, Mode, Subject,
    facts::Sample,
    pattern::PathBase,
    rule::{Example, Rule},
};

/// The default timeout of a hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

const FILE_KEYS: &[&str] = &[
    "defaults",
    "workspace",
    "rule",
    "budget",
    "tool",
    "hooks",
    "sandbox",
    "model",
    "mcp",
    "audit",
];
const RULE_KEYS: &[&str] = &[
    "id", "match", "decision", "input", "except", "reason", "priority", "subject", "when",
    "rewrite", "network", "enabled", "test",
];
const TEST_KEYS: &[&str] = &["allow", "ask", "deny", "need_input", "skip"];
const BUDGET_KEYS: &[&str] = &[
    "calls", "calls_of", "wall", "bytes", "tokens", "money", "cost", "cycles", "depth", "warn_at",
];
const HOOK_KEYS: &[&str] =
    &["matcher", "if", "command", "args", "url", "headers", "variables", "timeout", "on_error"];

words! {
    Mode {
        "default" => Default, "acceptEdits" => AcceptEdits, "plan" => Plan, "dontAsk" => DontAsk,
        "bypassPermissions" => BypassPermissions,
    }
    Subject {
        "any" => Any, "tool_call" => ToolCall, "subagent_call" => SubagentCall,
        "interaction" => Interaction, "llm_call" => ModelCall,
    }
    ArgumentKind {
        "read_path" => ReadPath, "write_path" => WritePath, "url" => Url, "command" => Command,
    }
}

/// Reads one file.
pub(super) fn read(file: &ConfigFile, load: &LoadOptions, mistakes: &mut Mistakes) -> FileContent {
    let source = Source::new(&file.path, &file.text);
    let mut content = FileContent::empty(file.layer, false);
    let Some(root) = parse(&source, mistakes) else { return content };
    let mut reader = Reader { source: &source, mistakes };
    let Some(fields) = reader.table(&root, "the file", FILE_KEYS) else { return content };
    let mut toml = Toml {
        reader,
        file,
        anchor: PathBase { directory: Some(file.anchor.clone()), home: load.home.clone() },
        content: &mut content,
        negated: Negated::default(),
    };
    for entry in fields.iter() {
        match &*entry.key {
            "defaults" => toml.defaults(&entry.value),
            "workspace" => toml.workspace(&entry.value),
            "rule" => toml.rules(&entry.value),
            "budget" => toml.budget(&entry.value),
            "tool" => toml.tools(entry),
            "hooks" => toml.hooks(&entry.value),
            "sandbox" => {
                let Toml { reader, anchor, content, .. } = &mut toml;
                sandbox::read(reader, &entry.value, file, anchor, content);
            }
            "model" => {
                model::read(&mut toml.reader, &entry.value, file, &toml.anchor, toml.content)
            }
            "mcp" => super::mcp::read(&mut toml.reader, &entry.value, file, toml.content),
            "audit" => {
                super::audit::read(&mut toml.reader, &entry.value, file, &toml.anchor, toml.content)
            }
            _ => {}
        }
    }
    let note = toml.negated.note(&toml.reader);
    content.notes.extend(note);
    content
}

/// Parses a text into values, or reports every syntax error.
pub(super) fn parse(source: &Source<'_>, mistakes: &mut Mistakes) -> Option<Node> {
    let (table, errors) = DeTable::parse_recoverable(source.text);
    if errors.is_empty() {
        return Some(node(DeValue::Table(table.into_inner()), 0));
    }
    let mut last_line = 0;
    for error in errors {
        let location = source.location(error.span().map_or(0, |span| span.start));
        // One syntax error often makes the rest of its line invalid too.
        if location.line == last_line {
            continue;
        }
        last_line = location.line;
        mistakes.add(location, || {
            let what = error.message().trim().replace('\n', ", ");
            (format!("invalid TOML: {what}"), None)
        });
    }
    None
}

/// Converts values. The parser limits the depth.
fn node(value: DeValue<'_>, at: usize) -> Node {
    let kind = match value {
        DeValue::String(text) => Kind::Text(text.into_owned()),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Kind::Whole(n),
            Err(_) => Kind::Odd("a number too large"),
        },
        DeValue::Float(n) => match n.as_str().parse() {
            Ok(n) => Kind::Real(n),
            Err(_) => Kind::Odd("not a number"),
        },
        DeValue::Boolean(flag) => Kind::Flag(flag),
        DeValue::Datetime(_) => Kind::Odd("a date"),
        DeValue::Array(list) => Kind::List(
            list.into_iter()
                .map(|item| {
                    let at = item.span().start;
                    node(item.into_inner(), at)
                })
                .collect(),
        ),
        DeValue::Table(table) => {
            let mut entries: Vec<Entry> = table
                .into_iter()
                .map(|(key, value)| {
                    let (at, value_at) = (key.span().start, value.span().start);
                    let value = node(value.into_inner(), value_at);
                    Entry { key: key.into_inner().into_owned(), at, value }
                })
                .collect();
            // The parser sorts by name; reports follow the order of the file.
            entries.sort_by_key(|entry| entry.at);
            Kind::Table(entries)
        }
    };
    Node { at, kind }
}

/// The state while one file is read.
struct Toml<'a, 's> {
    reader: Reader<'a>,
    file: &'a ConfigFile,
    anchor: PathBase,
    content: &'s mut FileContent,
    negated: Negated,
}

impl Toml<'_, '_> {
    fn defaults(&mut self, node: &Node) {
        let reader = &mut self.reader;
        let Some(fields) = reader.table(node, "`[defaults]`", super::call_limits::DEFAULT_KEYS)
        else {
            return;
        };
        let mode = fields.field(reader, "mode");
        self.content.mode = mode.zip(fields.get("mode").map(|node| reader.location(node.at)));
        self.content.no_bypass = fields.field(reader, "disable_bypass").unwrap_or(false);
        let limits = &mut self.content.limits;
        *limits = super::CallLimits::read(reader, &fields);
        if *limits != super::CallLimits::default() {
            self.content.limits_location = Some(reader.location(node.at));
        }
    }

    fn workspace(&mut self, node: &Node) {
        let Some(fields) = self.reader.table(node, "`[workspace]`", &["roots"]) else { return };
        for (text, at) in fields.texts(&mut self.reader, "roots") {
            match directory(text, self.file, &self.anchor) {
                Ok(path) => self.content.roots.push((path, self.reader.location(at))),
                Err(why) => self.reader.wrong(
                    at,
                    format!("the directory `{text}` was not found: {why}"),
                    "write an absolute path, as in `/srv/shared`, or start it with `~/`",
                ),
            }
        }
    }

    fn rules(&mut self, node: &Node) {
        let Some(list) = self.reader.list(node, "`rule`, written `[[rule]]`,") else { return };
        if list.len() > MAX_RULES {
            self.reader.wrong(
                node.at,
                format!("{} rules in one file; at most {MAX_RULES} are read", list.len()),
                "combine patterns: `match` takes a list, and `*` matches anything",
            );
            return;
        }
        let mut ids = HashSet::<_, RandomState>::default();
        for node in list {
            let Some(fields) = self.reader.table(node, "a rule", RULE_KEYS) else { continue };
            if let Some(id) = fields.get("id")
                && let Kind::Text(name) = &id.kind
                && !ids.insert(name.clone())
            {
                self.reader.wrong(
                    id.at,
                    format!("two rules of this file have the id `{name}`"),
                    "reports refer to rules by `id`; choose another one",
                );
            }
            if let Some(rule) = self.rule(node, &fields) {
                self.content.rules.push(rule);
            }
        }
    }

    /// Reads one rule. It reads on after a mistake, so that all mistakes are found at once.
    fn rule(&mut self, node: &Node, fields: &Fields<'_>) -> Option<Rule> {
        let before = self.reader.mistakes.count();
        let decision = self.decision(node, fields);
        // If the decision is invalid, the rule does not count as restricting.
        let restricts = decision.as_ref().is_some_and(|decision| *decision != Decision::Allow);
        let matches = match fields.entry("match") {
            Some(entry) => self.patterns(&entry.value, "`match`", restricts),
            None => {
                self.reader.wrong(
                    node.at,
                    "a rule without `match`",
                    "say which calls it matches, as in `match = \"Bash(git push *)\"`",
                );
                Vec::new()
            }
        };
        let except = match fields.get("except") {
            Some(node) => self.patterns(node, "`except`", restricts),
            None => Vec::new(),
        };
        let reader = &mut self.reader;
        let id = fields.line(reader, "id");
        let reason = fields.line(reader, "reason");
        let priority = match fields.get("priority") {
            Some(node) => reader.whole(node, "`priority`", i64::MIN),
            None => Some(100),
        };
        let subject = fields.field_or(reader, "subject", Subject::Any);
        let enabled = fields.field_or(reader, "enabled", true);
        let word = decision.as_ref().map(Decision::as_str);
        if let Some(node) = fields.get("when") {
            reader.choice(node, "`when`", &[("tainted", ())]);
            if word.is_some_and(|word| word != "allow") {
                reader.wrong(
                    node.at,
                    "`when = \"tainted\"` applies only to rules that allow",
                    "for a rule that applies only to tainted runs, add `label=untrusted` to \
                     `match`",
                );
            }
        }
        let rewrite = rule_options::rewrite(&mut self.reader, fields, word);
        let network = rule_options::network(&mut self.reader, fields, word);
        let examples = match fields.get("test") {
            Some(node) => self.examples(node, word),
            None => Vec::new(),
        };
        if self.reader.mistakes.count() > before {
            return None;
        }
        let at = fields.get("match").map_or(node.at, |node| node.at);
        let mut rule = Rule::new(decision?, matches.first()?.clone());
        rule.matches = matches;
        rule.except = except;
        rule.id = id;
        rule.reason = reason;
        rule.priority = priority?;
        rule.subject = subject?;
        rule.even_tainted = fields.get("when").is_some();
        rule.rewrite = rewrite;
        rule.network = network;
        rule.examples = examples;
        rule.enabled = enabled?;
        rule.location = self.reader.location(at);
        rule.layer = self.file.layer;
        Some(rule)
    }

    fn decision(&mut self, node: &Node, fields: &Fields<'_>) -> Option<Decision> {
        let reader = &mut self.reader;
        let Some(content) = fields.get("decision") else {
            reader.wrong(
                node.at,
                "a rule without `decision`",
                "add `decision = \"allow\"`, \"ask\", \"deny\" or \"need_input\"",
            );
            return None;
        };
        let input = match fields.get("input") {
            Some(node) => Some((node.at, reader.line(node, "`input`")?.to_owned())),
            None => None,
        };
        let word = reader.choice(
            content,
            "`decision`",
            &[("allow", "allow"), ("ask", "ask"), ("deny", "deny"), ("need_input", "need_input")],
        )?;
        match (word, input) {
            ("need_input", Some((_, argument))) => Some(Decision::NeedInput(argument)),
            ("need_input", None) => {
                reader.wrong(
                    content.at,
                    "`need_input` without `input`",
                    "name the argument that a person must fill in, as in `input = \"recipient\"`",
                );
                None
            }
            (_, Some((at, _))) => {
                reader.wrong(
                    at,
                    format!("`input` in a rule that decides `{word}`"),
                    "it names the argument of `decision = \"need_input\"`; remove it",
                );
                None
            }
            ("allow", None) => Some(Decision::Allow),
            ("ask", None) => Some(Decision::Ask),
            _ => Some(Decision::Deny),
        }
    }

    fn patterns(
        &mut self,
        node: &Node,
        what: &str,
        restricts: bool,
    ) -> Vec<crate::pattern::Pattern> {
        if matches!(&node.kind, Kind::List(list) if list.is_empty()) {
            self.reader.wrong(
                node.at,
                format!("{what} is an empty list"),
                "an empty list matches nothing; add a pattern or remove the key",
            );
        }
        let texts = self.reader.texts(node, what);
        texts
            .into_iter()
            .filter_map(|(text, at)| {
                if restricts {
                    self.reader.restricting(text, at, &self.anchor, &mut self.negated)
                } else {
                    self.reader.pattern(text, at, &self.anchor)
                }
            })
            .collect()
    }

    fn examples(&mut self, node: &Node, decision: Option<&str>) -> Vec<Example> {
        let mut examples = Vec::new();
        let reader = &mut self.reader;
        let Some(fields) = reader.table(node, "`test`", TEST_KEYS) else { return examples };
        for entry in fields.iter().filter(|entry| TEST_KEYS.contains(&&*entry.key)) {
            let applies = entry.key != "skip";
            if let Some(own) = decision
                && applies
                && entry.key != own
            {
                reader.wrong(
                    entry.at,
                    format!("`test.{}` in a rule that decides `{own}`", entry.key),
                    format!(
                        "put calls that it matches into `test.{own}`, and other calls into \
                         `test.skip`"
                    ),
                );
                continue;
            }
            let what = format!("`test.{}`", entry.key);
            let Some(list) = reader.list(&entry.value, &what) else { continue };
            for node in list {
                match &node.kind {
                    Kind::Text(_) => {}
                    Kind::Table(_) => {
                        let Some(call) = reader.table(node, "an example", Sample::KEYS) else {
                            continue;
                        };
                        match call.get("tool") {
                            Some(tool) => {
                                reader.text(tool, "`tool`");
                            }
                            None => reader.wrong(
                                node.at,
                                "an example without `tool`",
                                "write it as `{ tool = \"mail_send\", args = { to = \"x@y.org\" } \
                                 }`",
                            ),
                        }
                        if let Some(args) = call.get("args") {
                            reader.any_table(args, "`args`");
                        }
                    }
                    _ => {
                        reader.text(node, &format!("an example of {what}"));
                        continue;
                    }
                }
                if let Some(call) = reader.value(node) {
                    examples.push(Example { call, applies, location: reader.location(node.at) });
                }
            }
        }
        examples
    }

    fn budget(&mut self, node: &Node) {
        let reader = &mut self.reader;
        let Some(fields) = reader.table(node, "`[budget]`", BUDGET_KEYS) else { return };
        let budget = &mut self.content.budget;
        budget.calls = fields.whole(reader, "calls", 0);
        budget.bytes = fields.whole(reader, "bytes", 0);
        budget.tokens = fields.whole(reader, "tokens", 0);
        budget.cycles = fields.whole(reader, "cycles", 0);
        budget.depth = fields.whole(reader, "depth", 0);
        budget.wall = fields.field(reader, "wall");
        budget.micros = fields.with(reader, "money", money);
        budget.warn_at = fields.with(reader, "warn_at", share);
        let count = |reader: &mut Reader<'_>, node: &Node, what: &str| reader.whole(node, what, 0);
        budget.calls_of = fields.map(reader, "calls_of", count);
        budget.price_of = fields.map(reader, "cost", money);
    }

    fn tools(&mut self, entry: &Entry) {
        let reader = &mut self.reader;
        let Some(tools) = reader.any_table(&entry.value, "`[tool.NAME]`") else { return };
        for tool in tools.iter() {
            let what = format!("`[tool.{}]`", tool.key);
            let Some(fields) = reader.table(&tool.value, &what, command_tool::TOOL_KEYS) else {
                continue;
            };
            if fields.get("command").is_some() {
                let declared = command_tool::read(reader, tool, &fields, self.file.layer);
                self.content.tools.extend(declared);
            } else if let Some(other) = fields
                .iter()
                .find(|entry| entry.key != "args" && command_tool::TOOL_KEYS.contains(&&*entry.key))
            {
                reader.wrong(
                    other.at,
                    format!("`{}` in {what}, which has no `command`", other.key),
                    "declare a tool with `command = [\"program\", \"{parameter}\"]`; other tools \
                     accept only `args` here",
                );
            }
            let Some(args) = fields.get("args") else { continue };
            let Some(args) = reader.any_table(args, "`args`") else { continue };
            for arg in args.iter() {
                let what = format!("what the argument `{}` is about", arg.key);
                if let Some(about) = ArgumentKind::from_node(reader, &arg.value, &what) {
                    let of = self.content.about.entry(tool.key.clone()).or_default();
                    of.insert(arg.key.clone(), about);
                    self.content.about_location.get_or_insert_with(|| reader.location(entry.at));
                }
            }
        }
    }

    fn hooks(&mut self, node: &Node) {
        let known = [&["mode", "pass_env"], HookSpec::EVENTS].concat();
        let reader = &mut self.reader;
        let Some(fields) = reader.table(node, "`[hooks]`", &known) else { return };
        self.content.hooks_env = sandbox::variable_names(reader, &fields);
        for entry in fields.iter() {
            if entry.key == "mode" {
                let words = [("guard", true), ("open", false)];
                self.content.hooks_guard = self.reader.choice(&entry.value, "`mode`", &words);
            } else if HookSpec::EVENTS.contains(&&*entry.key) {
                let what = format!("`hooks.{0}`, written `[[hooks.{0}]]`,", entry.key);
                let Some(list) = self.reader.list(&entry.value, &what) else { continue };
                for node in list {
                    if let Some(hook) = self.hook(&entry.key, node) {
                        self.content.hooks.push(hook);
                    }
                }
            }
        }
    }

    fn hook(&mut self, event: &str, node: &Node) -> Option<ParsedHook> {
        let before = self.reader.mistakes.count();
        let reader = &mut self.reader;
        let fields = reader.table(node, "a hook", HOOK_KEYS)?;
        let matcher = fields.field(reader, "matcher");
        let only_if: Option<String> = fields.field(reader, "if");
        if let (Some(pattern), Some(node)) = (&only_if, fields.get("if")) {
            if !HookSpec::about_tools(event) {
                reader.wrong(
                    node.at,
                    format!("`if` in a hook of `{event}`, which has no tool"),
                    "remove it; the hook is called for every such event",
                );
            }
            reader.pattern(pattern, node.at, &self.anchor);
        }
        let command = fields.field(reader, "command");
        let url: Option<String> = fields.field(reader, "url");
        let args: Option<Vec<String>> = fields.field(reader, "args");
        let timeout = fields.field_or(reader, "timeout", HOOK_TIMEOUT);
        let fails_closed = fields.with(reader, "on_error", |reader, node, what| {
            reader.choice(node, what, &[("block", true), ("open", false)])
        });
        for key in ["headers", "variables"] {
            if let (Some(entry), None) = (fields.entry(key), fields.get("url")) {
                reader.wrong(
                    entry.at,
                    format!("`{key}` in a hook without `url`"),
                    "it applies only to hooks with a `url`; remove it",
                );
            }
        }
        let handler = match (command, args, url) {
            (Some(command), args, None) => Some(Handler::Command { command, args }),
            (None, Some(mut args), None) if !args.is_empty() => {
                let command = args.remove(0);
                Some(Handler::Command { command, args: Some(args) })
            }
            (None, None, Some(url)) => {
                if !(url.starts_with("https://") || url.starts_with("http://")) {
                    let at = fields.get("url").map_or(node.at, |node| node.at);
                    let message = format!("`{url}` is not a valid URL");
                    self.reader.wrong(at, message, "start it with `https://`");
                }
                Some(http(&mut self.reader, url, &fields, "variables"))
            }
            _ => {
                if self.reader.mistakes.count() == before {
                    self.reader.wrong(
                        node.at,
                        "a hook must have exactly one thing to call",
                        "write `command = \"./guard.sh\"`, `args = [\"program\", \"argument\"]` \
                         or `url = \"https://…\"`",
                    );
                }
                None
            }
        };
        if let Some(mistake) = handler.as_ref().and_then(Handler::mistake) {
            self.reader.wrong(node.at, mistake, Handler::NEXT_STEP);
        }
        if self.reader.mistakes.count() > before {
            return None;
        }
        let spec = HookSpec {
            matcher,
            only_if,
            timeout: timeout?,
            location: self.reader.location(node.at),
            layer: self.file.layer,
            ..HookSpec::new(event, handler?)
        };
        Some(ParsedHook { spec, fails_closed })
    }
}

/// Reads a hook that is a URL. `variables` is the key of the variables that its headers may use.
pub(super) fn http(
    reader: &mut Reader<'_>,
    url: String,
    fields: &Fields<'_>,
    variables: &str,
) -> Handler {
    let headers = fields.map(reader, "headers", String::from_node);
    let names = fields.texts(reader, variables);
    let allowed_variables = names.into_iter().map(|(name, _)| name.to_owned()).collect();
    Handler::Http { url, headers, allowed_variables }
}
