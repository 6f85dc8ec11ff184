//! Settings of Claude Code, read in place: `permissions` and `hooks`, as documented there.
//!
//! In: the text. Out: the equivalent rules and hooks, and a note for everything that is ignored or
//! handled differently. Keys that are not about permissions or hooks are skipped.
//!
//! FAIL CLOSED: an allow that cannot be parsed is ignored and noted; a deny or an ask that cannot
//! be parsed is a mistake, because ignoring it would allow what its author forbade. One that starts
//! with `!` forbids nothing, so it is noted.

use std::time::Duration;

use haft_core::Decision;

use super::{
    ConfigFile, FileNote, Handler, HookSpec, LoadOptions, MAX_RULES,
    content::{FileContent, ParsedHook},
    json,
    mistake::Mistakes,
    negated::Negated,
    node::{Entry, Fields, FromNode as _, Kind, Node, Reader},
    relative_path::directory,
    settings_keys as keys,
    source::Source,
    toml::http,
};
use crate::{
    context::Mode,
    pattern::{PathBase, Pattern},
    rule::Rule,
};

/// Claude Code's default timeouts, by type of handler.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);
const PROMPT_TIMEOUT: Duration = Duration::from_secs(30);
const AGENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads one file.
pub(super) fn read(
    file: &ConfigFile,
    options: &LoadOptions,
    mistakes: &mut Mistakes,
) -> FileContent {
    let source = Source::new(&file.path, &file.text);
    let mut content = FileContent::empty(file.layer, true);
    let root = match json::parse(&file.text) {
        Ok(root) => root,
        Err(broken) => {
            mistakes.add(source.location(broken.at), || {
                (format!("invalid JSON: {}", broken.message), None)
            });
            return content;
        }
    };
    let mut reader = Reader { source: &source, mistakes };
    let Some(fields) = reader.any_table(&root, "the file") else { return content };
    let mut settings = Settings {
        reader,
        file,
        anchor: PathBase { directory: Some(file.anchor.clone()), home: options.home.clone() },
        content: &mut content,
        negated: Negated::default(),
    };
    settings.file(&fields);
    let note = settings.negated.note(&settings.reader);
    content.notes.extend(note);
    content
}

/// The state while one file is read.
struct Settings<'a, 's> {
    reader: Reader<'a>,
    file: &'a ConfigFile,
    anchor: PathBase,
    content: &'s mut FileContent,
    negated: Negated,
}

impl Settings<'_, '_> {
    fn note(&mut self, at: usize, message: impl Into<String>) {
        let location = self.reader.location(at);
        self.content.notes.push(FileNote { location, message: message.into() });
    }

    fn file(&mut self, fields: &Fields<'_>) {
        let managed = self.file.layer == crate::rule::ConfigLayer::Managed;
        let mut passed = Vec::new();
        for entry in fields.iter() {
            match &*entry.key {
                "permissions" => self.permissions(&entry.value),
                "hooks" => self.hooks(&entry.value),
                "allowManagedPermissionRulesOnly" if managed => {
                    self.content.only_managed_rules = self.strict_flag(entry);
                }
                "allowManagedHooksOnly" if managed => {
                    self.content.only_managed_hooks = self.strict_flag(entry);
                }
                key => match keys::misspelt(key) {
                    Some(known) => self.misspelt(entry, "", known),
                    None if keys::restricts(key) || !keys::is_known(key) => passed.push(entry),
                    None => {}
                },
            }
        }
        self.note_unsupported(&passed, "");
        let mut entries = fields.iter().peekable();
        if let Some(first) = entries.peek().map(|entry| entry.at)
            && !entries.any(|entry| keys::is_known(&entry.key))
        {
            self.reader.wrong(
                first,
                "this is not a settings file of Claude Code: none of its keys is known",
                "name a file with `permissions` or `hooks`; rules of haft are in `haft.toml`",
            );
        }
    }

    /// Rejects a misspelt key: ignoring it would allow what its author forbade.
    fn misspelt(&mut self, entry: &Entry, of: &str, known: &str) {
        self.reader.wrong(
            entry.at,
            format!("unknown key `{of}{}`", entry.key),
            format!("did you mean `{of}{known}`? A misspelt key has no effect in Claude Code"),
        );
    }

    /// Rejects keys of a hook that differ from a known one by a typo.
    fn typos(&mut self, fields: &Fields<'_>, known: &'static [&'static str]) {
        for entry in fields.iter().filter(|entry| !known.contains(&&*entry.key)) {
            if let Some(right) = keys::typo(&entry.key, known) {
                self.misspelt(entry, "", right);
            }
        }
    }

    /// Reads a flag that restricts; an invalid value counts as set.
    fn strict_flag(&mut self, entry: &Entry) -> bool {
        bool::from_node(&mut self.reader, &entry.value, &format!("`{}`", entry.key)).unwrap_or(true)
    }

    /// Notes keys that are relevant but not supported, all in one note.
    fn note_unsupported(&mut self, entries: &[&Entry], of: &str) {
        let Some(first) = entries.first() else { return };
        let names = names(entries.iter().map(|entry| format!("{of}{}", entry.key)));
        self.note(first.at, format!("not supported, and without effect: {names}"));
    }

    fn permissions(&mut self, node: &Node) {
        let Some(fields) = self.reader.any_table(node, "`permissions`") else { return };
        let mut passed = Vec::new();
        for entry in fields.iter() {
            match &*entry.key {
                "allow" => self.rules(entry, &Decision::Allow),
                "ask" => self.rules(entry, &Decision::Ask),
                "deny" => self.rules(entry, &Decision::Deny),
                "defaultMode" => self.mode(&entry.value),
                "additionalDirectories" => self.directories(&entry.value),
                "disableBypassPermissionsMode" => self.bypass(&entry.value),
                key => match keys::misspelt_permission(key) {
                    Some(known) => self.misspelt(entry, "permissions.", known),
                    None => passed.push(entry),
                },
            }
        }
        self.note_unsupported(&passed, "permissions.");
    }

    fn mode(&mut self, node: &Node) {
        let Some(word) = self.reader.text(node, "`defaultMode`") else { return };
        let mode = match word {
            "default" | "manual" => Mode::Default,
            "acceptEdits" => Mode::AcceptEdits,
            "plan" => Mode::Plan,
            "dontAsk" => Mode::DontAsk,
            "bypassPermissions" => Mode::BypassPermissions,
            "auto" => {
                self.note(
                    node.at,
                    "mode `auto` uses a classifier, which is not supported; `default` is used, \
                     and calls that no rule matches need approval",
                );
                Mode::Default
            }
            other => {
                self.note(node.at, format!("unknown mode `{other}`; `default` is used"));
                Mode::Default
            }
        };
        self.content.mode = Some((mode, self.reader.location(node.at)));
    }

    fn bypass(&mut self, node: &Node) {
        match &node.kind {
            Kind::Text(word) if word == "disable" => {}
            // FAIL CLOSED: the author of the key wanted it disabled.
            _ => self.note(
                node.at,
                "`disableBypassPermissionsMode` must be `\"disable\"` or absent; `\"disable\"` is \
                 used",
            ),
        }
        self.content.no_bypass = true;
    }

    fn directories(&mut self, node: &Node) {
        for (text, at) in self.reader.texts(node, "`additionalDirectories`") {
            match directory(text, self.file, &self.anchor) {
                Ok(path) => self.content.roots.push((path, self.reader.location(at))),
                Err(why) => self.note(at, format!("directory `{text}` is ignored: {why}")),
            }
        }
    }

    fn rules(&mut self, entry: &Entry, decision: &Decision) {
        let what = format!("`permissions.{}`", entry.key);
        let Some(list) = self.reader.list(&entry.value, &what) else { return };
        if list.len() > MAX_RULES {
            self.reader.wrong(
                entry.at,
                format!("{} rules in one list; at most {MAX_RULES} are read", list.len()),
                "combine patterns: `*` matches anything",
            );
            return;
        }
        for node in list {
            let Some(text) = self.reader.text(node, &format!("a rule of {what}")) else { continue };
            let Some(pattern) = self.pattern(text, node.at, decision) else { continue };
            let mut rule = Rule::new(decision.clone(), pattern);
            // `Agent(model:opus)` may name an agent or a parameter; a restriction means both.
            let parameter = keys::agent_parameter(text).filter(|_| *decision != Decision::Allow);
            rule.matches.extend(parameter.and_then(|p| Pattern::parse(&p, &self.anchor).ok()));
            rule.location = self.reader.location(node.at);
            rule.layer = self.file.layer;
            self.content.rules.push(rule);
        }
    }

    /// Reads the pattern of one rule; `None` if it is ignored, which is noted.
    fn pattern(&mut self, text: &str, at: usize, decision: &Decision) -> Option<Pattern> {
        if let Some(why) = ignored_because(text, decision) {
            self.note(at, format!("`{text}` is ignored: {why}"));
            return None;
        }
        if *decision != Decision::Allow {
            if let Some(parameter) = keys::bash_parameter(text) {
                return Pattern::parse(&parameter, &self.anchor).ok();
            }
            // `Tool(*)` is every use of the tool; other meanings of `*` are not considered.
            let whole = text.strip_suffix("(*)").unwrap_or(text);
            return self.reader.restricting(whole, at, &self.anchor, &mut self.negated);
        }
        match Pattern::parse(text, &self.anchor) {
            Ok(pattern) => Some(pattern),
            Err(e) => {
                self.note(at, format!("`{text}` allows nothing: {}", e.message));
                None
            }
        }
    }

    fn hooks(&mut self, node: &Node) {
        let Some(fields) = self.reader.any_table(node, "`hooks`") else { return };
        let (mut uncalled, mut unknown) = (Vec::new(), Vec::new());
        for entry in fields.iter() {
            if HookSpec::EVENTS.contains(&&*entry.key) {
                self.event(entry);
            } else if HookSpec::PROTOCOL.contains(&&*entry.key) {
                uncalled.push(entry);
            } else if let Some(known) = keys::typo(&entry.key, HookSpec::PROTOCOL) {
                self.misspelt(entry, "hooks.", known);
            } else {
                unknown.push(entry);
            }
        }
        if let Some(first) = uncalled.first() {
            let names = names(uncalled.iter().map(|entry| entry.key.clone()));
            self.note(first.at, format!("haft does not support the hook events: {names}"));
        }
        if let Some(first) = unknown.first() {
            let names = names(unknown.iter().map(|entry| entry.key.clone()));
            self.note(first.at, format!("unknown hook events: {names}"));
        }
    }

    fn event(&mut self, entry: &Entry) {
        let Some(groups) = self.reader.list(&entry.value, &format!("`hooks.{}`", entry.key)) else {
            return;
        };
        for group in groups {
            let Some(fields) = self.reader.any_table(group, "a hook") else { continue };
            self.typos(&fields, keys::HOOK);
            let matcher = match fields.field_or(&mut self.reader, "matcher", "") {
                Some("" | "*") => None,
                Some(text) => Some(text.to_owned()),
                None => continue,
            };
            let Some(handlers) = fields.get("hooks") else {
                self.reader.wrong(
                    group.at,
                    "a hook without `hooks`",
                    "write the handlers as a list: `\"hooks\": [{ \"type\": \"command\", … }]`",
                );
                continue;
            };
            for node in self.reader.list(handlers, "`hooks`").unwrap_or(&[]) {
                if let Some(hook) = self.handler(&entry.key, matcher.clone(), node) {
                    self.content.hooks.push(hook);
                }
            }
        }
    }

    fn handler(&mut self, event: &str, matcher: Option<String>, node: &Node) -> Option<ParsedHook> {
        let before = self.reader.mistakes.count();
        let fields = self.reader.any_table(node, "a handler")?;
        self.typos(&fields, keys::HANDLER);
        let Some(kind) = fields.get("type") else {
            self.reader.wrong(
                node.at,
                "a handler without `type`",
                "add `\"type\": \"command\"` or `\"type\": \"http\"`",
            );
            return None;
        };
        let kind = self.reader.text(kind, "`type`")?;
        let (handler, usual) = match kind {
            "command" => (self.command(node, &fields)?, COMMAND_TIMEOUT),
            "http" => (self.http(node, &fields)?, COMMAND_TIMEOUT),
            other => {
                self.note(
                    node.at,
                    format!(
                        "handlers of type `{other}` are not supported; use `command` or `http`"
                    ),
                );
                let usual = match other {
                    "prompt" => PROMPT_TIMEOUT,
                    "agent" => AGENT_TIMEOUT,
                    _ => COMMAND_TIMEOUT,
                };
                (Handler::Other(self.reader.value(node)?), usual)
            }
        };
        let timeout = match fields.get("timeout") {
            Some(node) => self.seconds(node)?,
            None => usual,
        };
        let mut only_if: Option<String> = fields.field(&mut self.reader, "if");
        if let (Some(pattern), Some(at)) = (&only_if, fields.get("if").map(|node| node.at)) {
            if !HookSpec::about_tools(event) {
                self.note(
                    at,
                    format!(
                        "a hook of `{event}` with `if` is never called: this event has no tool"
                    ),
                );
                return None;
            }
            if let Err(e) = Pattern::parse(pattern, &self.anchor) {
                // FAIL CLOSED: a hook whose condition cannot be parsed is called every time.
                self.note(
                    at,
                    format!(
                        "`if` `{pattern}` is not a valid pattern ({}); the hook is always called",
                        e.message
                    ),
                );
                only_if = None;
            }
        }
        if let Some(mistake) = handler.mistake() {
            self.reader.wrong(node.at, mistake, Handler::NEXT_STEP);
        }
        if self.reader.mistakes.count() > before {
            return None;
        }
        let spec = HookSpec {
            matcher,
            only_if,
            timeout,
            fails_closed: false,
            location: self.reader.location(node.at),
            layer: self.file.layer,
            ..HookSpec::new(event, handler)
        };
        Some(ParsedHook { spec, fails_closed: None })
    }

    fn command(&mut self, node: &Node, fields: &Fields<'_>) -> Option<Handler> {
        let Some(command) = fields.get("command") else {
            self.reader.wrong(
                node.at,
                "a handler of type `command` without `command`",
                "name what to run, as in `\"command\": \"./guard.sh\"`",
            );
            return None;
        };
        let command = self.reader.text(command, "`command`")?.to_owned();
        if let Some(shell) = fields.get("shell")
            && self.reader.text(shell, "`shell`")? != "bash"
        {
            self.note(shell.at, "only `bash` is supported; this handler is ignored");
            return self.reader.value(node).map(Handler::Other);
        }
        for key in ["async", "asyncRewake"] {
            if let Some(entry) = fields.entry(key)
                && entry.value.kind != Kind::Flag(false)
            {
                self.note(
                    entry.at,
                    format!("`{key}` is not supported: the handler runs in the foreground"),
                );
            }
        }
        let args = fields.field(&mut self.reader, "args");
        Some(Handler::Command { command, args })
    }

    fn http(&mut self, node: &Node, fields: &Fields<'_>) -> Option<Handler> {
        let Some(url) = fields.get("url") else {
            self.reader.wrong(
                node.at,
                "a handler of type `http` without `url`",
                "set the URL, as in `\"url\": \"https://hooks.example.org/check\"`",
            );
            return None;
        };
        let url = self.reader.text(url, "`url`")?.to_owned();
        Some(http(&mut self.reader, url, fields, "allowedEnvVars"))
    }

    fn seconds(&mut self, node: &Node) -> Option<Duration> {
        const MAX_SECONDS: f64 = 86_400.0;
        let seconds = f64::from_node(&mut self.reader, node, "`timeout`")?;
        if seconds > 0.0 && seconds <= MAX_SECONDS {
            return Some(Duration::from_secs_f64(seconds));
        }
        self.reader.wrong(
            node.at,
            format!("`timeout` must be a number of seconds above 0 and up to a day, got {seconds}"),
            "remove it to use the default of ten minutes",
        );
        None
    }
}

/// Returns why a rule has no effect, if it has none.
fn ignored_because(text: &str, decision: &Decision) -> Option<String> {
    let (tool, specifier) = match text.split_once('(') {
        Some((tool, rest)) => (tool.trim(), Some(rest.strip_suffix(')').unwrap_or(rest).trim())),
        None => (text.trim(), None),
    };
    // `Write(*)` may mean the whole tool or the path `*`: a deny takes the former, an allow the
    // latter.
    if let Some(specifier) = specifier
        && (specifier != "*" || *decision == Decision::Allow)
    {
        let instead = |rule: &str| {
            format!(
                "paths are matched only by `Read(…)` and `Edit(…)`; write `{rule}({specifier})`"
            )
        };
        match tool {
            "Write" | "NotebookEdit" | "MultiEdit" => return Some(instead("Edit")),
            "Glob" | "Grep" | "LS" => return Some(instead("Read")),
            "Cd" => return Some("a run does not change its directory".to_owned()),
            _ => {}
        }
    }
    if *decision != Decision::Allow {
        return None;
    }
    if keys::bash_parameter(text).is_some() {
        return Some("`Tool(parameter:value)` can deny or ask, but not allow".to_owned());
    }
    if tool == "Skill" {
        return Some("it allows nothing; allow `skill__load` and `skill__read`".to_owned());
    }
    if tool.contains(['*', '?']) && !names_a_server(tool) {
        return Some(
            "an allow rule may use `*` and `?` in a tool name only after `mcp__<server>__`"
                .to_owned(),
        );
    }
    if let Some(specifier) = specifier
        && keys::is_parameter(tool, specifier)
    {
        return Some("`Tool(parameter:value)` can deny or ask, but not allow".to_owned());
    }
    None
}

/// Whether wildcards come only after a literal `mcp__<server>__`.
fn names_a_server(tool: &str) -> bool {
    let Some(rest) = tool.strip_prefix("mcp__") else { return false };
    match rest.split_once("__") {
        Some((server, _)) => !server.is_empty() && !server.contains(['*', '?']),
        None => false,
    }
}

/// Joins names for a note, truncated.
fn names(names: impl ExactSizeIterator<Item = String>) -> String {
    const MAX_NAMES: usize = 12;
    let more = names.len().saturating_sub(MAX_NAMES);
    let shown: Vec<String> = names.take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
