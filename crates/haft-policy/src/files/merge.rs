//! Merges configuration files: precedence, and what a directory may set before it is trusted.
//!
//! Rules of all files apply together. For a single value the strongest file wins. Restrictions are
//! never lost: a bypass that any file disables stays disabled, the smaller budget applies, and an
//! untrusted directory may still deny and ask.
//!
//! INVARIANT: no file of a directory loosens anything before the directory is trusted, and no later
//! change loosens anything before it was shown.

use haft_core::Decision;

use super::{
    CallLimits, FileNote, LoadOptions, ModelSettings, PolicyConfig, UntrustedReason,
    content::FileContent,
};
use crate::{
    budget::Budget,
    context::Mode,
    network::NetworkAccess,
    rule::{ConfigLayer, SourceLocation},
};

/// Merges what the files contain.
pub(super) fn merge(mut files: Vec<FileContent>, options: &LoadOptions) -> PolicyConfig {
    // Of two files of one layer, haft's own comes first.
    files.sort_by_key(|content| (content.layer, content.imported));
    let mut setup = PolicyConfig::default();
    distrust(&mut files, &mut setup.notes);
    only_managed(&mut files, &mut setup.notes);
    mode(&files, &mut setup);
    setup.context.home.clone_from(&options.home);
    // An allow that is written into an untrusted directory would be ignored.
    setup.context.rules_file = if options.trusted { options.always_file.clone() } else { None };
    let guard = files.iter().any(|content| content.hooks_guard == Some(true));
    for content in files {
        tighten(&mut setup.budget, &content.budget);
        setup.limits = setup.limits.or(content.limits);
        for (tool, args) in content.about {
            let of = setup.context.argument_kinds.entry(tool).or_default();
            for (argument, about) in args {
                of.entry(argument).or_insert(about);
            }
        }
        for (root, _) in content.roots {
            if !setup.context.roots.contains(&root) {
                setup.context.roots.push(root);
            }
        }
        for tool in content.tools {
            match setup.tools.iter().find(|known| known.spec.name == tool.spec.name) {
                None => setup.tools.push(tool),
                Some(known) => {
                    let message = format!(
                        "the tool `{}` is also declared at {}, and that declaration is used",
                        known.spec.name, known.location
                    );
                    setup.notes.push(FileNote { location: tool.location, message });
                }
            }
        }
        super::audit::merge(&mut setup.audit_file, content.audit);
        setup.hooks_env.extend(content.hooks_env.into_iter().map(|(name, _)| name));
        setup.sandbox.add(content.sandbox);
        setup.model.add(content.model);
        for server in content.mcp_servers {
            match setup.mcp_servers.iter().find(|known| known.name == server.name) {
                None => setup.mcp_servers.push(server),
                Some(known) => {
                    let message = format!(
                        "the MCP server `{}` is also declared at {}, and that declaration is used",
                        known.name, known.location
                    );
                    setup.notes.push(FileNote { location: server.location, message });
                }
            }
        }
        setup.rules.extend(content.rules);
        setup.notes.extend(content.notes);
        let mut open: Option<(SourceLocation, usize)> = None;
        for hook in content.hooks {
            let mut spec = hook.spec;
            let usual = guard || !content.imported && content.hooks_guard != Some(false);
            spec.fails_closed = hook.fails_closed.unwrap_or(usual);
            if content.imported && !spec.fails_closed {
                open.get_or_insert_with(|| (spec.location.clone(), 0)).1 += 1;
            }
            setup.hooks.push(spec);
        }
        if let Some((location, count)) = open {
            let message = format!(
                "{} of this file FAIL OPEN, as documented there: if one fails, the call goes on; \
                 `[hooks] mode = \"guard\"` in haft.toml makes them refuse instead",
                counted(count, "hook"),
            );
            setup.notes.push(FileNote { location, message });
        }
    }
    setup.context.network = setup.sandbox.network.clone();
    setup
}

/// Removes everything that could loosen a restriction from files that trust does not cover.
fn distrust(files: &mut [FileContent], notes: &mut Vec<FileNote>) {
    let mut untrusted = Ignored::default();
    for content in files {
        match content.untrusted_files.clone() {
            None => {}
            Some(UntrustedReason::Untrusted) => strip(content, &mut untrusted),
            // One note for each file, because a person has to review that file.
            Some(why) => {
                let mut ignored = Ignored::default();
                strip(content, &mut ignored);
                if let Some((mode, location)) = &content.mode
                    && strictness(*mode) < strictness(Mode::Default)
                {
                    ignored.add("mode", location);
                }
                ignored.report_file(&why, &content.location, notes);
            }
        }
    }
    untrusted.report(notes);
}

/// Removes everything that could loosen a restriction from one file.
fn strip(content: &mut FileContent, ignored: &mut Ignored) {
    content.rules.retain(|rule| {
        let strict = rule.decision != Decision::Allow;
        if !strict {
            ignored.add("allow rule", &rule.location);
        }
        strict
    });
    for rule in &mut content.rules {
        if !rule.rewrite.is_empty() {
            ignored.add("rewrite of arguments", &rule.location);
            rule.rewrite.clear();
        }
        if !rule.network.is_none() {
            ignored.add("network access of a rule", &rule.location);
            rule.network = NetworkAccess::none();
        }
    }
    for hook in content.hooks.drain(..) {
        ignored.add("hook", &hook.spec.location);
    }
    // Hooks of other files would get them.
    for (_, location) in content.hooks_env.drain(..) {
        ignored.add("passed variable", &location);
    }
    for tool in content.tools.drain(..) {
        ignored.add("declared tool", &tool.location);
    }
    for (_, location) in content.roots.drain(..) {
        ignored.add("directory of the workspace", &location);
    }
    content.sandbox.strip(|what, location| ignored.add(what, location));
    // It names a file that is written.
    if let Some((_, location)) = content.audit.take() {
        ignored.add("section `[audit]`", &location);
    }
    // It could send the conversation and a key to another server.
    if let Some(location) = content.model.location.take() {
        ignored.add("section `[model]`", &location);
        content.model = ModelSettings::default();
    }
    // It starts a program, or sends arguments of calls to a host.
    for server in content.mcp_servers.drain(..) {
        ignored.add("MCP server", &server.location);
    }
    if let Some(location) = content.about_location.take() {
        for _ in content.about.values().flatten() {
            ignored.add("statement about an argument", &location);
        }
        content.about.clear();
    }
    // A shorter timeout is not a restriction either: a hook that fails open could miss it.
    if let Some(location) = content.limits_location.take() {
        for _ in 0..content.limits.count() {
            ignored.add("limit", &location);
        }
        content.limits = CallLimits::default();
    }
}

/// What was ignored: description, count, and first location.
#[derive(Default)]
struct Ignored(Vec<(&'static str, usize, SourceLocation)>);

impl Ignored {
    fn add(&mut self, what: &'static str, location: &SourceLocation) {
        match self.0.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, count, _)) => *count += 1,
            None => self.0.push((what, 1, location.clone())),
        }
    }

    fn report(self, notes: &mut Vec<FileNote>) {
        for (what, count, location) in self.0 {
            let verb = if count == 1 { "does" } else { "do" };
            let message = format!(
                "{} of this directory {verb} not apply until the directory is trusted; to trust \
                 it, run `haft trust`",
                counted(count, what)
            );
            notes.push(FileNote { location, message });
        }
    }

    /// Reports what a new or changed file does not apply until it was shown.
    fn report_file(self, why: &UntrustedReason, file: &SourceLocation, notes: &mut Vec<FileNote>) {
        let why = match why {
            // Reported even if nothing is ignored: the old file may have denied something.
            UntrustedReason::Changed => "changed since it was trusted",
            _ if self.0.is_empty() => return,
            UntrustedReason::Replaced => {
                "the directory at this path is not the one that was trusted"
            }
            _ => "new since this directory was trusted",
        };
        let location = self.0.first().map_or(file, |(_, _, location)| location).clone();
        let total: usize = self.0.iter().map(|(_, count, _)| count).sum();
        let what: Vec<String> =
            self.0.into_iter().map(|(what, count, _)| counted(count, what)).collect();
        let effect = match total {
            0 => String::new(),
            1 => format!(": {} does not apply", what.join(", ")),
            _ => format!(": {} do not apply", what.join(", ")),
        };
        let message = format!("{why}{effect}; to see the file and accept it, run `haft trust`");
        notes.push(FileNote { location, message });
    }
}

fn counted(count: usize, what: &str) -> String {
    match (count, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        // `rewrite of …` gets its plural in the first word, `allow rule` in the last.
        (_, Some((first, rest)))
            if ["of ", "about ", "`"].iter().any(|start| rest.starts_with(start)) =>
        {
            format!("{count} {first}s {rest}")
        }
        _ => format!("{count} {what}s"),
    }
}

/// Removes what only the organisation may set.
fn only_managed(files: &mut [FileContent], notes: &mut Vec<FileNote>) {
    let rules = files.iter().any(|content| content.only_managed_rules);
    let hooks = files.iter().any(|content| content.only_managed_hooks);
    let mut left_out = Ignored::default();
    for content in files.iter_mut().filter(|content| content.layer != ConfigLayer::Managed) {
        if rules {
            content.rules.retain(|rule| {
                let strict = rule.decision != Decision::Allow;
                if !strict {
                    left_out.add("allow rule", &rule.location);
                }
                strict
            });
        }
        if hooks {
            for hook in content.hooks.drain(..) {
                left_out.add("hook", &hook.spec.location);
            }
        }
    }
    for (what, count, location) in left_out.0 {
        let message = format!(
            "{} without effect: the organisation's settings allow only its own",
            counted(count, what)
        );
        notes.push(FileNote { location, message });
    }
}

/// Finds the mode: the strongest file's, unless it loosens without permission.
fn mode(files: &[FileContent], setup: &mut PolicyConfig) {
    let mut found: Option<(Mode, SourceLocation)> = None;
    let mut untrusted_files: Vec<(Mode, SourceLocation, bool)> = Vec::new();
    for content in files {
        match (&content.mode, &content.untrusted_files) {
            (None, _) => {}
            (Some((mode, location)), None) => {
                found = Some((*mode, location.clone()));
                break; // what is weaker says nothing any more
            }
            (Some((mode, location)), Some(why)) => {
                untrusted_files.push((*mode, location.clone(), *why == UntrustedReason::Untrusted));
            }
        }
    }
    let usual = found.as_ref().map_or(Mode::Default, |(mode, _)| *mode);
    // Of the files that may only tighten, the strictest mode applies, so that none weakens another.
    for (mode, at, is_untrusted) in untrusted_files {
        let current = found.as_ref().map_or(Mode::Default, |(mode, _)| *mode);
        if strictness(mode) > strictness(current) {
            found = Some((mode, at));
        } else if is_untrusted && strictness(mode) < strictness(usual) {
            let message = format!(
                "mode `{}` of this directory does not apply until the directory is trusted; to \
                 trust it, run `haft trust`",
                word(mode)
            );
            setup.notes.push(FileNote { location: at, message });
        }
    }
    setup.may_bypass = !files.iter().any(|content| content.no_bypass);
    let Some((mode, at)) = found else { return };
    setup.context.mode = mode;
    if mode == Mode::BypassPermissions {
        let message = if setup.may_bypass {
            "EVERYTHING THAT NO RULE MATCHES IS ALLOWED: mode `bypassPermissions`"
        } else {
            setup.context.mode = Mode::Default;
            "mode `bypassPermissions` is disabled here; `default` is used"
        };
        setup.notes.push(FileNote { location: at, message: message.to_owned() });
    }
}

/// How strict a mode is.
fn strictness(mode: Mode) -> u8 {
    match mode {
        Mode::BypassPermissions => 0,
        Mode::AcceptEdits => 1,
        Mode::Default => 2,
        Mode::Plan | Mode::DontAsk => 3,
    }
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Default => "default",
        Mode::AcceptEdits => "acceptEdits",
        Mode::Plan => "plan",
        Mode::DontAsk => "dontAsk",
        Mode::BypassPermissions => "bypassPermissions",
    }
}

/// Takes the smaller of two budgets, value by value, and the higher of two prices.
fn tighten(own: &mut Budget, other: &Budget) {
    fn least<T: Ord + Copy>(own: &mut Option<T>, other: Option<T>) {
        *own = match (*own, other) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    least(&mut own.calls, other.calls);
    least(&mut own.wall, other.wall);
    least(&mut own.bytes, other.bytes);
    least(&mut own.tokens, other.tokens);
    least(&mut own.micros, other.micros);
    least(&mut own.cycles, other.cycles);
    least(&mut own.depth, other.depth);
    least(&mut own.warn_at, other.warn_at);
    for (tool, calls) in &other.calls_of {
        own.calls_of
            .entry(tool.clone())
            .and_modify(|own| *own = (*own).min(*calls))
            .or_insert(*calls);
    }
    for (tool, price) in &other.price_of {
        own.price_of
            .entry(tool.clone())
            .and_modify(|own| *own = (*own).max(*price))
            .or_insert(*price);
    }
}
