//! Whether one pattern covers all of another, or nothing of it.
//!
//! Both answers are certain or `false`: what is not clear from the texts is not claimed. Symlinks
//! are not considered, because they can lead from any path to any other.

use super::{Head, Kind, Pattern, Side, path::PathPattern, select::Selector};
use crate::host::HostPattern;

/// The sides of the two patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sides {
    /// Both restrict: what the other may match, this one may match.
    Restrict,
    /// Both allow: each part that the other matches, this one matches.
    Allow,
    /// This one restricts and the other allows: what the other matches, this one may match.
    RestrictAllow,
}

impl Sides {
    /// Returns the side of the pattern that covers.
    fn own(self) -> Side {
        match self {
            Self::Restrict | Self::RestrictAllow => Side::Restrict,
            Self::Allow => Side::Allow,
        }
    }

    fn other(self) -> Side {
        match self {
            Self::Restrict => Side::Restrict,
            Self::Allow | Self::RestrictAllow => Side::Allow,
        }
    }
}

/// Which kinds of parts a pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asks {
    commands: bool,
    paths: bool,
    hosts: bool,
}

impl Asks {
    fn nothing(self) -> bool {
        !(self.commands || self.paths || self.hosts)
    }
}

impl Pattern {
    /// Returns whether every hit of the other pattern is certainly a hit of this one.
    pub(crate) fn subsumes(&self, other: &Pattern, sides: Sides) -> bool {
        if self.text == other.text {
            return true;
        }
        let asks = self.asks();
        // A named tool that does not declare what it touches is `Unknown`; another one is no match.
        let named = self.names_tools() == other.names_tools();
        let parts =
            asks.nothing() || asks == other.asks() && (named || sides == Sides::RestrictAllow);
        parts
            && self.head_covers(other, sides)
            && self.selectors.iter().all(|own| implied(&own.selector, other, sides))
    }

    /// Returns whether certainly no part of any call is matched by both, one on the allowing side
    /// and one on the restricting side, like a rule and its exception.
    pub(crate) fn is_disjoint(&self, other: &Pattern) -> bool {
        let (own, others) = (self.only_asks(), other.only_asks());
        // Commands mention files, so these two kinds overlap.
        let kinds = own.zip(others).is_some_and(|(a, b)| a != b && a.hosts != b.hosts);
        kinds || self.one_part_disjoint(other) || self.is_disjoint_in_calls(other)
    }

    /// Returns whether certainly no call is matched by both, whichever of its parts.
    pub(crate) fn is_disjoint_in_calls(&self, other: &Pattern) -> bool {
        let heads = match (&self.head, &other.head) {
            (
                Some(Head::Tools(own) | Head::Parameter { tools: own, .. }),
                Some(Head::Tools(other) | Head::Parameter { tools: other, .. }),
            ) => own.is_disjoint(other),
            _ => false,
        };
        heads
            || self.selectors.iter().any(|own| {
                other.selectors.iter().any(|other| excludes(&own.selector, &other.selector))
            })
    }

    /// Whether no part matches both specifiers. A call may have several parts of a kind, so this is
    /// about one part.
    fn one_part_disjoint(&self, other: &Pattern) -> bool {
        match (&self.head, &other.head) {
            (Some(Head::Command(own)), Some(Head::Command(other))) => own.is_disjoint(other),
            (Some(Head::Host(own)), Some(Head::Host(other))) => own.is_disjoint(other),
            (
                Some(Head::Read(own) | Head::Edit(own)),
                Some(Head::Read(other) | Head::Edit(other)),
            ) => own.is_disjoint(other),
            _ => false,
        }
    }

    /// The only kind of part that it matches, if there is one.
    fn only_asks(&self) -> Option<Asks> {
        let asks = self.asks();
        let kinds = usize::from(asks.commands) + usize::from(asks.paths) + usize::from(asks.hosts);
        (kinds == 1 && !self.names_tools()).then_some(asks)
    }

    fn asks(&self) -> Asks {
        let selects =
            |is: fn(&Selector) -> bool| self.selectors.iter().any(|own| is(&own.selector));
        Asks {
            commands: matches!(self.head, Some(Head::Command(_))),
            paths: matches!(self.head, Some(Head::Read(_) | Head::Edit(_)))
                || selects(|selector| matches!(selector, Selector::Path(_))),
            hosts: matches!(self.head, Some(Head::Host(_)))
                || selects(|selector| matches!(selector, Selector::Host(_))),
        }
    }

    /// Whether its head names whole tools.
    fn names_tools(&self) -> bool {
        matches!(
            self.head,
            Some(Head::Tools(_) | Head::Parameter { .. } | Head::Kind(_) | Head::Agent(_))
        )
    }

    fn head_covers(&self, other: &Pattern, sides: Sides) -> bool {
        let side = sides.own();
        let Some(own) = &self.head else { return true };
        match (own, &other.head) {
            (Head::Tools(own), Some(Head::Tools(other) | Head::Parameter { tools: other, .. }))
                if own.covers(other, side) =>
            {
                true
            }
            (Head::Tools(own), _) => {
                own.covers(&super::Tools::All, side)
                    || other.selectors.iter().any(|written| match &written.selector {
                        Selector::Tool(tools) => tools.iter().all(|t| own.covers(t, side)),
                        _ => false,
                    })
            }
            (Head::Kind(own), Some(Head::Kind(other))) => own == other,
            (Head::Kind(Kind::Bash), Some(Head::Command(_)))
            | (Head::Kind(Kind::WebFetch), Some(Head::Host(_))) => true,
            // A rule that restricts a file also matches commands that mention it; the bare tool
            // name does not.
            (Head::Kind(Kind::Read), Some(Head::Read(_)))
            | (Head::Kind(Kind::Edit), Some(Head::Edit(_))) => sides.other() == Side::Allow,
            (Head::Command(own), Some(Head::Command(other))) => match sides {
                // Every view that an allow considers is one that a deny considers.
                Sides::RestrictAllow | Sides::Restrict => own.covers(other, Side::Restrict),
                Sides::Allow => own.covers(other, Side::Allow),
            },
            (Head::Read(own), Some(Head::Read(other))) => own.covers(other, side, sides.other()),
            (Head::Edit(own), Some(Head::Edit(other))) => own.covers(other, side, sides.other()),
            (Head::Read(own), Some(Head::Edit(other))) => {
                side == Side::Restrict && own.covers(other, side, sides.other())
            }
            (Head::Host(own), Some(Head::Host(other))) => own.covers(other),
            (
                Head::Parameter { tools, name, value },
                Some(Head::Parameter { tools: others, name: other, value: theirs }),
            ) => tools.covers(others, side) && name == other && value.covers(theirs),
            (Head::Agent(own), Some(Head::Agent(other))) => own.covers(other),
            _ => false,
        }
    }

    /// Returns its bucket when many are compared with each other; patterns that may cover anything
    /// are in the unnamed bucket.
    pub(crate) fn bucket(&self) -> String {
        bucket(&self.key())
    }

    /// Returns the buckets of the patterns that may cover it.
    pub(crate) fn buckets(&self) -> Vec<String> {
        let mut all = vec![String::new(), self.bucket()];
        let path = |all: &mut Vec<String>, path: &PathPattern| {
            all.extend(path.names().map(|name| bucket(&super::Key::FileName(name))));
            if let super::Key::Below(directory) = path.key() {
                all.extend(
                    directory.ancestors().map(|directory| bucket(&super::Key::Below(directory))),
                );
            }
        };
        let host = |all: &mut Vec<String>, host: &HostPattern| {
            let mut rest = Some(host.ending());
            while let Some(ending) = rest {
                all.push(bucket(&super::Key::Host(ending)));
                rest = ending.split_once('.').map(|(_, rest)| rest);
            }
        };
        match &self.head {
            Some(Head::Tools(tools) | Head::Parameter { tools, .. }) => {
                all.push(bucket(&tools.key()));
            }
            Some(Head::Read(own) | Head::Edit(own)) => path(&mut all, own),
            Some(Head::Host(own)) => host(&mut all, own),
            _ => {}
        }
        for written in &self.selectors {
            match &written.selector {
                Selector::Tool(tools) => all.extend(tools.iter().map(|t| bucket(&t.key()))),
                Selector::Path(paths) => paths.iter().for_each(|own| path(&mut all, own)),
                Selector::Host(hosts) => hosts.iter().for_each(|own| host(&mut all, own)),
                _ => {}
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}

fn bucket(key: &super::Key<'_>) -> String {
    use super::Key;
    match key {
        Key::Tool(name) => format!("tool {name}"),
        Key::Argument { tool, .. } | Key::ArgumentLike { tool, .. } => format!("tool {tool}"),
        Key::Source(name) => format!("source {name}"),
        Key::Command(Some(word), _) => format!("command {word}"),
        Key::FileName(name) => format!("name {name}"),
        Key::Below(directory) => format!("below {}", directory.display()),
        Key::Host(host) => format!("host {host}"),
        Key::Command(None, _) | Key::Any => String::new(),
    }
}

/// Whether a selector certainly matches where the other pattern matches.
fn implied(own: &Selector, other: &Pattern, sides: Sides) -> bool {
    let (side, their_side) = (sides.own(), sides.other());
    let by_head = match (own, &other.head) {
        (Selector::Tool(own), Some(Head::Tools(other) | Head::Parameter { tools: other, .. })) => {
            own.iter().any(|own| own.covers(other, side))
        }
        (Selector::Path(own), Some(Head::Read(other) | Head::Edit(other))) => {
            own.iter().any(|own| own.covers(other, side, their_side))
        }
        (Selector::Host(own), Some(Head::Host(other))) => own.iter().any(|own| own.covers(other)),
        _ => false,
    };
    by_head
        || other.selectors.iter().any(|written| match (own, &written.selector) {
            (Selector::Tool(own), Selector::Tool(other)) => {
                each(other, own, |other, own| own.covers(other, side))
            }
            (Selector::Source(own), Selector::Source(other))
            | (Selector::Agent(own), Selector::Agent(other))
            | (Selector::User(own), Selector::User(other)) => {
                each(other, own, |other, own| own.covers(other))
            }
            (Selector::Arg(name, own), Selector::Arg(same, other))
            | (Selector::Meta(name, own), Selector::Meta(same, other)) => {
                name == same && each(other, own, |other, own| own.covers(other))
            }
            (Selector::Effect(own), Selector::Effect(other)) => each(other, own, PartialEq::eq),
            (Selector::Capability(own), Selector::Capability(other)) => {
                each(other, own, PartialEq::eq)
            }
            (Selector::Label(own), Selector::Label(other)) => each(other, own, PartialEq::eq),
            (Selector::Path(own), Selector::Path(other)) => {
                each(other, own, |other, own| own.covers(other, side, their_side))
            }
            (Selector::Host(own), Selector::Host(other)) => {
                each(other, own, |other, own| own.covers(other))
            }
            (Selector::FromUntrusted, Selector::FromUntrusted)
            | (Selector::Destructive, Selector::Destructive)
            | (Selector::ReadOnly, Selector::ReadOnly) => true,
            _ => false,
        })
}

/// Whether two selectors certainly never match together. If a call may have several values, that is
/// no contradiction.
pub(super) fn excludes(own: &Selector, other: &Selector) -> bool {
    match (own, other) {
        (Selector::Tool(own), Selector::Tool(other)) => none(own, other, |a, b| a.is_disjoint(b)),
        (Selector::Source(own), Selector::Source(other))
        | (Selector::Agent(own), Selector::Agent(other))
        | (Selector::User(own), Selector::User(other)) => none(own, other, |a, b| a.is_disjoint(b)),
        (Selector::Label(own), Selector::Label(other)) => none(own, other, |a, b| a.excludes(*b)),
        // A destructive call is never declared read-only.
        (Selector::Destructive, Selector::ReadOnly)
        | (Selector::ReadOnly, Selector::Destructive) => true,
        _ => false,
    }
}

/// Whether each of these is covered by one of those.
fn each<T>(these: &[T], those: &[T], fits: impl Fn(&T, &T) -> bool) -> bool {
    these.iter().all(|one| those.iter().any(|other| fits(one, other)))
}

/// Whether all of these and those are disjoint, pairwise.
pub(super) fn none<T>(these: &[T], those: &[T], apart: impl Fn(&T, &T) -> bool) -> bool {
    these.iter().all(|one| those.iter().all(|other| apart(one, other)))
}

#[cfg(test)]
mod tests;
