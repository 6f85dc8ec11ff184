//! Selectors: conditions on a call and its run. All selectors of a pattern must match.
//!
//! If a call has several values (effects, capabilities, items of a list), a deny needs one that
//! matches and an allow needs all to match.

use haft_core::{Capability, Confidentiality, Operation, Trust};
use serde_json::Value;

use super::{Side, Ternary, path::PathPattern, tool::Tools};
use crate::{
    facts::{Facts, find},
    glob::Glob,
    host::HostPattern,
    request::Subject,
};

/// Maximum bytes of a text that is compared with wildcards.
pub(crate) const MAX_VALUE_BYTES: usize = 256 * 1024;

/// One condition.
#[derive(Debug, Clone)]
pub(super) enum Selector {
    Tool(Vec<Tools>),
    Source(Vec<Glob>),
    Effect(Vec<Operation>),
    Capability(Vec<Capability>),
    Path(Vec<PathPattern>),
    Host(Vec<HostPattern>),
    Arg(String, Vec<Glob>),
    Label(Vec<Tag>),
    FromUntrusted,
    Agent(Vec<Glob>),
    User(Vec<Glob>),
    Meta(String, Vec<Glob>),
    Destructive,
    ReadOnly,
}

/// A label of what a run has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Trust(Trust),
    Confidentiality(Confidentiality),
}

impl Tag {
    pub(super) const ALL: [(&'static str, Tag); 7] = [
        ("trusted", Tag::Trust(Trust::Trusted)),
        ("workspace", Tag::Trust(Trust::Workspace)),
        ("untrusted", Tag::Trust(Trust::Untrusted)),
        ("tainted", Tag::Trust(Trust::Untrusted)),
        ("public", Tag::Confidentiality(Confidentiality::Public)),
        ("internal", Tag::Confidentiality(Confidentiality::Internal)),
        ("secret", Tag::Confidentiality(Confidentiality::Secret)),
    ];

    /// Returns whether a run never has both.
    pub(super) fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Trust(own), Self::Trust(other)) => own != other,
            (Self::Confidentiality(own), Self::Confidentiality(other)) => own != other,
            _ => false,
        }
    }
}

impl Selector {
    /// Returns whether it depends on the tool alone, and not on the arguments or the run.
    pub(super) fn is_about_the_tool(&self) -> bool {
        matches!(self, Self::Tool(_) | Self::Source(_))
    }

    /// Returns whether it matches. Selectors of paths and hosts are evaluated per part, and match
    /// here.
    pub(super) fn holds(&self, facts: &Facts<'_>, side: Side) -> Ternary {
        match self {
            Self::Path(_) | Self::Host(_) => Ternary::Yes,
            Self::Tool(tools) => yes(tools.iter().any(|t| t.matches(&facts.names, side))),
            Self::Source(sources) => {
                let is = |source: &str| sources.iter().any(|glob| glob.matches(source, false));
                yes(facts.names.remote.is_some_and(|(source, _)| is(source)))
            }
            Self::Effect(wanted) => effects(wanted, facts, side),
            Self::Capability(wanted) => {
                if !facts.declared {
                    return Ternary::Unknown(
                        "the tool does not declare what it reaches".to_owned(),
                    );
                }
                let mut own = facts.capabilities.iter();
                yes(match side {
                    Side::Restrict => own.any(|c| wanted.contains(&c)),
                    Side::Allow => {
                        !facts.capabilities.is_empty() && own.all(|c| wanted.contains(&c))
                    }
                })
            }
            Self::Arg(name, globs) => values(&find(facts.arguments, name), globs, side),
            Self::Meta(name, globs) => {
                let metadata = &facts.scope.metadata;
                match metadata.get(name) {
                    Some(value) => values(&[value], globs, side),
                    None => {
                        match name.split_once('.').and_then(|(a, b)| Some((metadata.get(a)?, b))) {
                            Some((value, rest)) => values(&find(value, rest), globs, side),
                            None => Ternary::No,
                        }
                    }
                }
            }
            Self::Label(tags) => {
                let label = facts.seen.label().join(facts.scope.label);
                // A restriction of one label also applies to all worse ones.
                let worse = side == Side::Restrict;
                yes(tags.iter().any(|tag| match tag {
                    Tag::Trust(own) => {
                        *own == label.trust || worse && *own > Trust::Trusted && label.trust > *own
                    }
                    Tag::Confidentiality(own) => {
                        *own == label.confidentiality
                            || worse
                                && *own > Confidentiality::Public
                                && label.confidentiality > *own
                    }
                }))
            }
            Self::FromUntrusted => traced(facts),
            Self::Agent(globs) => {
                let own = facts.scope.agent.as_deref();
                yes(own.is_some_and(|own| globs.iter().any(|glob| glob.matches(own, false))))
            }
            Self::User(globs) => {
                let own = facts.scope.user.as_deref();
                yes(own.is_some_and(|own| globs.iter().any(|glob| glob.matches(own, false))))
            }
            Self::Destructive => yes(facts.destructive),
            Self::ReadOnly => yes(facts.read_only),
        }
    }

    /// Explains, for people, why it does not match.
    pub(super) fn missing(&self, written: &str) -> String {
        match self {
            Self::Label(_) => format!("the run is not {}", written.trim_start_matches("label=")),
            Self::FromUntrusted => "no argument comes from untrusted output".to_owned(),
            Self::Destructive => "the call is not destructive".to_owned(),
            Self::ReadOnly => "the call is not read-only".to_owned(),
            _ => format!("`{written}` does not match"),
        }
    }
}

fn yes(is: bool) -> Ternary {
    if is { Ternary::Yes } else { Ternary::No }
}

fn effects(wanted: &[Operation], facts: &Facts<'_>, side: Side) -> Ternary {
    let own = &facts.operations;
    let fits = |o: &Operation| wanted.contains(o);
    let silent = own.contains(&Operation::Unknown);
    match side {
        _ if own.is_empty() => Ternary::No,
        Side::Restrict if own.iter().any(fits) => Ternary::Yes,
        Side::Allow if own.iter().all(fits) => Ternary::Yes,
        // A read-only call neither writes nor starts anything.
        _ if silent
            && facts.read_only
            && !wanted.iter().any(|o| matches!(o, Operation::Read | Operation::External)) =>
        {
            Ternary::No
        }
        _ if silent => Ternary::Unknown("the call does not declare its effects".to_owned()),
        _ => Ternary::No,
    }
}

/// Compares the values of an argument; a missing one never matches.
pub(super) fn values(values: &[&Value], globs: &[Glob], side: Side) -> Ternary {
    let mut leaves = Vec::new();
    for value in values {
        match value {
            // A list counts as its items.
            Value::Array(list) => leaves.extend(list.iter()),
            other => leaves.push(other),
        }
    }
    let mut answers = leaves.iter().map(|leaf| one(leaf, globs));
    match side {
        Side::Restrict => answers.fold(Ternary::No, |all, one| match (all, one) {
            (Ternary::Yes, _) | (_, Ternary::Yes) => Ternary::Yes,
            (Ternary::Unknown(why), _) | (_, Ternary::Unknown(why)) => Ternary::Unknown(why),
            (Ternary::No, Ternary::No) => Ternary::No,
        }),
        Side::Allow if leaves.is_empty() => Ternary::No,
        Side::Allow => answers.find(|one| *one != Ternary::Yes).unwrap_or(Ternary::Yes),
    }
}

fn one(value: &Value, globs: &[Glob]) -> Ternary {
    if globs.iter().any(Glob::is_any) {
        return Ternary::Yes;
    }
    let is = |text: &str| {
        if text.len() > MAX_VALUE_BYTES && globs.iter().any(|g| g.literal().is_none()) {
            Ternary::Unknown("the value is too long to compare".to_owned())
        } else {
            yes(globs.iter().any(|glob| glob.matches(text, false)))
        }
    };
    match value {
        Value::String(text) => is(text),
        Value::Number(number) => match (is(&value.to_string()), whole(number)) {
            (Ternary::No, Some(whole)) => is(&whole),
            (answer, _) => answer,
        },
        Value::Bool(_) | Value::Null => is(&value.to_string()),
        Value::Array(_) | Value::Object(_) => {
            Ternary::Unknown("the value is not a string, number or boolean".to_owned())
        }
    }
}

/// Many parsers read `1.0` as `1`.
fn whole(number: &serde_json::Number) -> Option<String> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9e15).then(|| format!("{}", float as i64))
}

/// Whether some value of the arguments comes from untrusted output.
fn traced(facts: &Facts<'_>) -> Ternary {
    if facts.seen.label().join(facts.scope.label).trust != Trust::Untrusted {
        return Ternary::No;
    }
    let traced = facts.seen.trace([facts.arguments], 1);
    match (traced.found.is_empty(), traced.is_whole) {
        (false, _) => Ternary::Yes,
        (true, false) => Ternary::Unknown("there are too many values to trace".to_owned()),
        (true, true) => Ternary::No,
    }
}

/// Whether a call delegates to an agent of such a name.
pub(super) fn delegates_to(glob: &Glob, facts: &Facts<'_>, side: Side) -> Ternary {
    if facts.subject != Subject::SubagentCall {
        return Ternary::No;
    }
    let names = ["agent", "agent_name", "agent_type", "subagent_type", "name"];
    let named = names.iter().find_map(|name| facts.arguments.get(name));
    match named {
        Some(value) => values(&[value], std::slice::from_ref(glob), side),
        None => Ternary::Unknown("the call does not name its agent".to_owned()),
    }
}

/// Whether an argument of a tool is the name of a skill, as `Skill(…)` means it.
pub(super) fn is_skill(tool: &str, argument: &str) -> bool {
    (tool, argument) == ("Skill", "skill")
}

/// Whether an argument has such a value.
pub(super) fn parameter(facts: &Facts<'_>, name: &str, value: &Glob, side: Side) -> Ternary {
    let globs = std::slice::from_ref(value);
    if !facts.names.known_as.iter().any(|known| is_skill(known, name)) {
        return match facts.arguments.get(name) {
            Some(own) => values(&[own], globs, side),
            None => Ternary::No,
        };
    }
    // `skill__load` has the name of the skill in `name`, `skill__read` in `skill`.
    let named: Vec<&Value> =
        ["name", name].iter().filter_map(|name| facts.arguments.get(name)).collect();
    if named.is_empty() {
        return Ternary::Unknown("the call does not name its skill".to_owned());
    }
    values(&named, globs, side)
}
