//! Semantic checks of a pattern: why it can never match, and what it leaves open.

use std::path::Path;

use haft_core::{Decision, Operation};
use serde_json::Value;

use super::{Head, Kind, Pattern, Side, Tools, select::Selector, subsume};
use crate::{
    context::ArgumentKind,
    facts::Names,
    request::{PolicyTool, traits::Traits},
};

/// Programs that execute what their arguments say.
const OPEN_ENDED: [&str; 25] = [
    "sh", "bash", "zsh", "dash", "ksh", "fish", "sudo", "doas", "env", "eval", "exec", "xargs",
    "ssh", "python", "python2", "python3", "node", "deno", "perl", "ruby", "php", "lua", "awk",
    "npx", "find",
];

/// Why a pattern never matches, and a hint.
type Never = (String, String);

impl Pattern {
    /// Returns why no call can match it, whatever tools there are.
    pub(crate) fn contradicts_itself(
        &self,
        decision: &Decision,
        home: Option<&Path>,
    ) -> Option<Never> {
        for (at, own) in self.selectors.iter().enumerate() {
            for other in self.selectors.iter().skip(at + 1) {
                if subsume::excludes(&own.selector, &other.selector) {
                    let message =
                        format!("`{}` and `{}` never match together", own.text, other.text);
                    return Some((message, "write two rules, or remove one of the two".to_owned()));
                }
            }
        }
        if let Some(tools) = self.tools() {
            let other = self.selectors.iter().find(|written| {
                matches!(&written.selector, Selector::Tool(others)
                    if others.iter().all(|other| tools.is_disjoint(other)))
            });
            if let Some(other) = other {
                let message = format!("`{}` is not the tool that the pattern names", other.text);
                return Some((message, "name one tool".to_owned()));
            }
        }
        self.no_such_part(decision, home).or_else(|| self.no_such_effect(decision))
    }

    /// Compound commands, and paths that cannot exist.
    fn no_such_part(&self, decision: &Decision, home: Option<&Path>) -> Option<Never> {
        if let Some(Head::Command(command)) = &self.head
            && let Some(operator) = command.operator()
        {
            let message = format!(
                "no command contains `{operator}`: each part of a compound command is matched alone"
            );
            let hint = match operator {
                ">" | "<" => "match the file with `Edit(…)` or `Read(…)`",
                _ => "write one rule for each command",
            };
            return Some((message, hint.to_owned()));
        }
        let side = if *decision == Decision::Allow { Side::Allow } else { Side::Restrict };
        let head = match &self.head {
            Some(Head::Read(path) | Head::Edit(path)) => path.is_nowhere(side, home),
            _ => None,
        };
        let selected = || {
            self.selectors.iter().find_map(|written| match &written.selector {
                // One of several is enough.
                Selector::Path(paths) => {
                    let nowhere: Option<Vec<_>> =
                        paths.iter().map(|p| p.is_nowhere(side, home)).collect();
                    nowhere?.into_iter().next()
                }
                _ => None,
            })
        };
        let message = head.or_else(selected)?;
        Some((message, "write the path from the root, `//…`".to_owned()))
    }

    /// An allow for one effect, on calls that have only others.
    fn no_such_effect(&self, decision: &Decision) -> Option<Never> {
        if *decision != Decision::Allow {
            return None;
        }
        let (does, word) = match &self.head {
            Some(Head::Command(_)) => (Operation::Execute, "execute"),
            Some(Head::Host(_)) => (Operation::External, "external"),
            Some(Head::Read(_)) => (Operation::Read, "read"),
            Some(Head::Edit(_)) => (Operation::Write, "write"),
            _ => return None,
        };
        let other = self.selectors.iter().find(|written| {
            matches!(&written.selector, Selector::Effect(effects) if !effects.contains(&does))
        })?;
        let message = format!(
            "`{}` matches only calls that do nothing else, and these also `{word}`",
            other.text
        );
        Some((message, format!("write `effect={word}`, or remove it")))
    }

    /// Returns whether the match depends on the arguments of a call.
    pub(crate) fn constrains_arguments(&self) -> bool {
        self.asks_about_parts()
            || matches!(self.head, Some(Head::Parameter { .. } | Head::Agent(_)))
            || self.selectors.iter().any(|written| matches!(written.selector, Selector::Arg(..)))
    }

    /// Returns why none of these tools can match it.
    pub(crate) fn misses(
        &self,
        tools: &[PolicyTool<'_>],
        by_context: &[ArgumentKind],
    ) -> Option<Never> {
        let names: Vec<Names<'_>> = tools.iter().map(Names::of).collect();
        let is_tool =
            |tools: &Tools| names.iter().any(|names| tools.matches(names, Side::Restrict));
        for own in self.tools().into_iter().map(std::slice::from_ref).chain(self.selected_tools()) {
            if !own.iter().any(is_tool) {
                return Some(self.no_tool(own, &names));
            }
        }
        for written in &self.selectors {
            let Selector::Source(sources) = &written.selector else { continue };
            let is = |source: &str| sources.iter().any(|glob| glob.matches(source, false));
            if !names.iter().any(|names| names.remote.is_some_and(|(source, _)| is(source))) {
                return Some(no_source(&written.text, &names));
            }
        }
        let named: Vec<PolicyTool<'_>> = tools
            .iter()
            .zip(&names)
            .filter(|(_, names)| self.tools().is_none_or(|t| t.matches(names, Side::Restrict)))
            .map(|(tool, _)| *tool)
            .collect();
        self.misses_arguments(&named)
            .or_else(|| self.misses_capabilities(&named))
            .or_else(|| self.misses_parts(tools, by_context))
    }

    fn tools(&self) -> Option<&Tools> {
        match &self.head {
            Some(Head::Tools(tools) | Head::Parameter { tools, .. }) => Some(tools),
            _ => None,
        }
    }

    fn selected_tools(&self) -> impl Iterator<Item = &[Tools]> {
        self.selectors.iter().filter_map(|written| match &written.selector {
            Selector::Tool(tools) => Some(tools.as_slice()),
            _ => None,
        })
    }

    fn no_tool(&self, tools: &[Tools], names: &[Names<'_>]) -> Never {
        if let [one] = tools
            && let Some(source) = one.source()
            && !names.iter().any(|names| names.remote.is_some_and(|(own, _)| own == source))
        {
            return no_source(source, names);
        }
        let head = self.text.split([' ', '(']).next().unwrap_or_default();
        let near = haft_schema::near::nearest(head, names.iter().map(|names| names.own));
        let hint = match near {
            Some(name) => format!("did you mean `{name}`?"),
            None => "list the tools with `haft tools`".to_owned(),
        };
        (format!("no tool matches `{}`", self.text), hint)
    }

    /// Arguments that none of its tools has.
    fn misses_arguments(&self, tools: &[PolicyTool<'_>]) -> Option<Never> {
        let head = match &self.head {
            Some(Head::Parameter { name, .. }) => Some(name.as_str()),
            _ => None,
        };
        let selected = self.selectors.iter().filter_map(|written| match &written.selector {
            Selector::Arg(name, _) if !name.contains('.') => Some(name.as_str()),
            _ => None,
        });
        // Without a named tool, an argument may belong to any tool.
        self.tools()?;
        let missing = |name: &&str| tools.iter().all(|tool| has_no(tool.input_schema, name));
        let name = head.into_iter().chain(selected).find(missing)?;
        let known = tools
            .iter()
            .filter_map(|tool| tool.input_schema.get("properties").and_then(Value::as_object));
        let near =
            haft_schema::near::nearest(name, known.flat_map(|map| map.keys().map(String::as_str)));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "list its arguments with `haft tools`".to_owned(),
        };
        Some((format!("the tool has no argument `{name}`"), hint))
    }

    fn misses_capabilities(&self, tools: &[PolicyTool<'_>]) -> Option<Never> {
        let written = self.selectors.iter().find(|written| {
            matches!(&written.selector, Selector::Capability(wanted)
            if !tools.iter().any(|tool| {
                let own = tool.spec.effective_capabilities();
                wanted.iter().any(|capability| own.has(*capability))
            }))
        })?;
        let message = format!("no tool that it matches has `{}`", written.text);
        Some((message, "list what tools declare with `haft tools`".to_owned()))
    }

    /// Parts that no tool has: a file, a URL, a command.
    fn misses_parts(&self, tools: &[PolicyTool<'_>], by_context: &[ArgumentKind]) -> Option<Never> {
        let (kinds, what): (&[ArgumentKind], _) = match &self.head {
            Some(Head::Command(_) | Head::Kind(Kind::Bash)) => {
                (&[ArgumentKind::Command], "runs a command")
            }
            Some(Head::Read(_) | Head::Kind(Kind::Read)) => (
                &[ArgumentKind::ReadPath, ArgumentKind::WritePath, ArgumentKind::Command],
                "reads a file",
            ),
            Some(Head::Edit(_) | Head::Kind(Kind::Edit)) => {
                (&[ArgumentKind::WritePath, ArgumentKind::Command], "writes a file")
            }
            Some(Head::Host(_) | Head::Kind(Kind::WebFetch)) => {
                (&[ArgumentKind::Url, ArgumentKind::Command], "reaches a URL")
            }
            Some(Head::Agent(_)) => {
                let any = tools.iter().any(|tool| tool.traits().delegates());
                let message = "no tool delegates to an agent".to_owned();
                return (!any).then(|| (message, "remove it".to_owned()));
            }
            _ => return None,
        };
        let has = |about: &ArgumentKind| {
            by_context.contains(about)
                || tools.iter().any(|tool| Traits::may_be_about(tool, *about))
        };
        if kinds.iter().any(has) {
            return None;
        }
        let hint = "declare what its arguments are, with `x-haft` or in `[tool.NAME]`";
        Some((format!("no tool {what}, so `{}` matches nothing", self.text), hint.to_owned()))
    }

    /// Returns what an allow leaves open: everything, or a program that can do anything.
    pub(crate) fn leaves_open(&self) -> Option<String> {
        if !self.selectors.is_empty() {
            return None;
        }
        match &self.head {
            None | Some(Head::Tools(Tools::All)) => Some("every call".to_owned()),
            Some(Head::Tools(tools)) if tools.is_every_source() => {
                Some("every tool of every source".to_owned())
            }
            Some(Head::Kind(Kind::Bash)) => Some("every command".to_owned()),
            Some(Head::Kind(Kind::Edit)) => Some("writing every file".to_owned()),
            Some(Head::Edit(path)) if path.is_everything() => Some("writing every file".to_owned()),
            Some(Head::Command(command)) if command.is_everything() => {
                Some("every command".to_owned())
            }
            Some(Head::Command(command)) => command
                .open_ended(&OPEN_ENDED)
                .map(|program| format!("everything that `{program}` can do")),
            _ => None,
        }
    }
}

fn no_source(source: &str, names: &[Names<'_>]) -> Never {
    let mut known: Vec<&str> = names.iter().filter_map(|names| Some(names.remote?.0)).collect();
    known.sort_unstable();
    known.dedup();
    let bare = source.trim_start_matches("source=");
    let hint = match haft_schema::near::nearest(bare, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there are no tool sources".to_owned(),
        None => format!("there are {}", known.join(", ")),
    };
    (format!("there is no tool source `{bare}`"), hint)
}

/// Whether arguments of this schema certainly never have such a property.
fn has_no(schema: &Value, name: &str) -> bool {
    let Some(map) = schema.as_object() else { return false };
    let plain = ["$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "$dynamicRef"];
    map.get("additionalProperties") == Some(&Value::Bool(false))
        && !plain.iter().any(|word| map.contains_key(*word))
        && map
            .get("properties")
            .and_then(Value::as_object)
            .is_none_or(|own| !own.contains_key(name))
}
