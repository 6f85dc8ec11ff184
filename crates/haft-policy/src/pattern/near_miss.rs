//! How close a pattern is to a call that it does not match, for people.

use haft_core::{Operation, text::shortened};

use super::{Head, Pattern, Side, Ternary, select, select::Selector};
use crate::facts::{Facts, Part, find};

impl Pattern {
    /// Returns what is missing for a match; `None` if it is not close.
    pub(crate) fn near_miss(&self, facts: &Facts<'_>) -> Option<String> {
        let side = Side::Restrict;
        let mut missing = Vec::new();
        let mut fits = false;
        match &self.head {
            None => {}
            Some(Head::Tools(tools)) => {
                if !tools.matches(&facts.names, side) {
                    return None;
                }
                fits = true;
            }
            Some(Head::Kind(kind)) => {
                let known = facts.names.known_as.contains(&kind.name());
                if !known && !facts.parts.iter().any(|part| kind.has(part)) {
                    return None;
                }
                fits = true;
            }
            Some(Head::Parameter { tools, name, value }) => {
                if !tools.matches(&facts.names, side) {
                    return None;
                }
                fits = true;
                if select::parameter(facts, name, value, side) == Ternary::No {
                    let is = match find(facts.arguments, name).first() {
                        Some(value) => format!("is {}", shown(&value.to_string())),
                        None => "is missing".to_owned(),
                    };
                    missing.push(format!("the tool matches, `{name}` {is}"));
                }
            }
            Some(Head::Agent(glob)) => {
                if facts.subject != crate::request::Subject::SubagentCall {
                    return None;
                }
                match select::delegates_to(glob, facts, side) {
                    Ternary::No => missing.push("it is another agent".to_owned()),
                    _ => fits = true,
                }
            }
            Some(Head::Command(_) | Head::Read(_) | Head::Edit(_) | Head::Host(_)) => {
                if facts
                    .parts
                    .iter()
                    .any(|part| self.part(part, facts, side) != Ternary::No && self.is_for(part))
                {
                    fits = true
                } else {
                    missing.push(facts.parts.iter().find_map(|part| self.differs(part))?)
                }
            }
        }
        for written in &self.selectors {
            let answer = match &written.selector {
                Selector::Path(_) | Selector::Host(_) => {
                    let of = |part: &&Part| match &written.selector {
                        Selector::Path(_) => matches!(part, Part::Path { .. }),
                        _ => matches!(part, Part::Host(_)),
                    };
                    let mut parts = facts.parts.iter().filter(of);
                    if parts.any(|p| self.part(p, facts, side) != Ternary::No) {
                        Ternary::Yes
                    } else {
                        Ternary::No
                    }
                }
                selector => selector.holds(facts, side),
            };
            match answer {
                Ternary::No if written.selector.is_about_the_tool() => return None,
                Ternary::No => missing.push(written.selector.missing(&written.text)),
                _ => fits = true,
            }
        }
        match missing.as_slice() {
            [one] if fits || self.selectors.is_empty() => Some(one.clone()),
            _ => None,
        }
    }

    /// Whether the specifier is about parts of this kind.
    fn is_for(&self, part: &Part) -> bool {
        matches!(
            (&self.head, part),
            (Some(Head::Command(_)), Part::Command(_) | Part::Unreadable(_))
                | (Some(Head::Host(_)), Part::Host(_))
                | (Some(Head::Read(_) | Head::Edit(_)), Part::Path { .. })
        )
    }

    /// Describes how a part differs from the specifier, if it is close.
    fn differs(&self, part: &Part) -> Option<String> {
        match (&self.head, part) {
            (Some(Head::Command(pattern)), Part::Command(command)) => {
                let first = command.words.first().and_then(|word| word.literal());
                let same = pattern.first_word().is_some_and(|word| Some(word) == first);
                same.then(|| {
                    let inside = self.inside();
                    format!("the tool matches, `{}` is not `{inside}`", shown(&command.to_string()))
                })
            }
            (Some(Head::Read(path)), Part::Path { operation: Operation::Read, spelled, .. }) => {
                Some(format!(
                    "`{}` is not below `{}`",
                    shown(&spelled.to_string_lossy()),
                    path.as_str()
                ))
            }
            (Some(Head::Edit(path)), Part::Path { operation, spelled, .. }) => {
                let spelled = spelled.to_string_lossy();
                Some(if *operation == Operation::Read {
                    format!("`{}` is read, not written", shown(&spelled))
                } else {
                    format!("`{}` is not below `{}`", shown(&spelled), path.as_str())
                })
            }
            (Some(Head::Host(pattern)), Part::Host(Ok(host))) => {
                Some(format!("`{host}` is not `{}`", pattern.as_str()))
            }
            _ => None,
        }
    }

    /// The text between the brackets.
    pub(super) fn inside(&self) -> &str {
        let (_, rest) = self.text.split_once('(').unwrap_or_default();
        rest.rsplit_once(')').map_or(rest, |(inside, _)| inside)
    }
}

/// Truncates long texts, for people.
fn shown(text: &str) -> String {
    shortened(text, 80)
}
