//! What a rule matches: `Tool`, `Tool(specifier)`, and selectors.
//!
//! ```text
//! Bash(git push *)            commands, matched part by part
//! Read(./src/**)  Edit(~/x)   paths that a call reads or writes
//! WebFetch(domain:*.x.org)    hosts that a call reaches
//! mcp__github__get_*          a tool of a source, by source and tool
//! mail_send arg.to=*@x.org    a tool, and selectors that must all match
//! capability=email label=untrusted
//! ```
//!
//! Matching has three answers. What cannot be evaluated is `Unknown`, and callers fail closed: a
//! deny counts it as a match, an allow does not.

mod argument;
mod command;
mod near_miss;
mod parse;
mod path;
mod program;
mod select;
mod semantic_checks;
mod start;
mod subsume;
#[cfg(test)]
mod tests;
mod tool;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use haft_core::{Capability, Operation};

pub(crate) use self::{
    argument::Affix,
    command::{CommandPattern, Side},
    path::{AbsolutePattern, Search, States},
    select::MAX_VALUE_BYTES,
    start::{Start, starts},
    subsume::Sides,
};
use self::{path::PathPattern, select::Selector, tool::Tools};
use super::{
    context::ArgumentKind,
    facts::{Facts, Names, Part, Parts},
    glob::Glob,
    host::HostPattern,
    path_resolver::PathResolver,
};

const NO_FILE: &str = "it does not declare which files it touches";
const COMPLETED: &str = "which files it names is known only when the shell runs";
const NO_HOST: &str = "it does not declare which hosts it reaches";

/// Whether something matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ternary {
    /// It matches.
    Yes,
    /// It does not match.
    No,
    /// It cannot be determined, with the reason.
    Unknown(String),
}

/// Which parts of a call a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Hits {
    /// The parts that it matches.
    pub(crate) yes: Parts,
    /// The parts for which it cannot be determined.
    pub(crate) unknown: Parts,
    /// Why not, and the index of the part that causes it.
    pub(crate) why: Option<(usize, String)>,
}

/// The index key of a rule. A pattern can match a call only if the call has what its key names, or
/// has a part that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    /// A tool of exactly this name, or known by it.
    Tool(&'a str),
    /// The same, with an argument that is, or whose list contains, exactly this value.
    Argument { tool: &'a str, name: &'a str, value: &'a str },
    /// The same, with an argument that has such a value, or one that cannot be compared.
    ArgumentLike { tool: &'a str, name: &'a str, value: Affix },
    /// Any tool of this source.
    Source(&'a str),
    /// A command whose first and second words are these, wrappers excluded; `None` means any.
    Command(Option<&'a str>, Option<&'a str>),
    /// A path with a component of this name, as written or resolved.
    FileName(&'a str),
    /// A path at or below this absolute directory, as written or resolved.
    Below(&'a Path),
    /// This host, or a subdomain of it.
    Host(&'a str),
    /// Nothing in particular.
    Any,
}

/// What a rule matches. Keeps the text it was parsed from.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    head: Option<Head>,
    selectors: Vec<Written>,
}

/// The tool part of a pattern.
#[derive(Debug, Clone)]
enum Head {
    /// Whole tools.
    Tools(Tools),
    /// Whole tools with such a name, and such parts of other tools.
    Kind(Kind),
    /// `Bash(…)`
    Command(CommandPattern),
    /// `Read(…)`
    Read(PathPattern),
    /// `Edit(…)`
    Edit(PathPattern),
    /// `WebFetch(domain:…)`
    Host(HostPattern),
    /// `Tool(parameter:value)`
    Parameter { tools: Tools, name: String, value: Glob },
    /// `Agent(…)`
    Agent(Glob),
}

/// The tools of other programs that represent a kind of part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bash,
    Read,
    Edit,
    WebFetch,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        [Self::Bash, Self::Read, Self::Edit, Self::WebFetch].into_iter().find(|k| k.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Bash => "Bash",
            Self::Read => "Read",
            Self::Edit => "Edit",
            Self::WebFetch => "WebFetch",
        }
    }

    fn has(self, part: &Part) -> bool {
        match (self, part) {
            (Self::Bash, Part::Command(_) | Part::Unreadable(_)) => true,
            (Self::WebFetch, Part::Host(_)) => true,
            (Self::Read, Part::Path { operation, .. }) => *operation == Operation::Read,
            (Self::Edit, Part::Path { operation, .. }) => *operation != Operation::Read,
            _ => false,
        }
    }
}

impl Kind {
    /// Returns the parts that may be of this kind without declaring it: `Unknown`, for restricting
    /// rules.
    fn may_have(self, facts: &Facts<'_>) -> Parts {
        let own = select_parts(facts, |part| {
            matches!(
                (self, part),
                (Self::Bash, Part::Reach(Capability::Subprocess))
                    | (Self::WebFetch, Part::Reach(Capability::Network))
                    | (Self::Read | Self::Edit, Part::Unreadable(_))
                    | (Self::Read | Self::Edit, Part::Reach(Capability::Filesystem))
            )
        });
        let is = |operation: Operation| match self {
            Self::Read => true,
            Self::Edit => operation != Operation::Read,
            Self::Bash | Self::WebFetch => false,
        };
        let mentions = facts.named_files().filter_map(|(at, part)| match part {
            Part::Path { operation, .. } => is(*operation).then_some(at),
            _ => None,
        });
        let beginnings = facts.beginnings.iter().filter(|b| is(b.1)).map(|b| b.0);
        mentions.chain(beginnings).fold(own, Parts::with)
    }
}

/// A selector and its source text.
#[derive(Debug, Clone)]
struct Written {
    selector: Selector,
    text: String,
}

/// The base directories of the path patterns of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathBase {
    /// The base of `/…`: the directory of the file's project.
    pub directory: Option<PathBuf>,
    /// The base of `~/…`.
    pub home: Option<PathBuf>,
}

/// Why a pattern cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// Whether it is invalid, or only without effect.
    pub kind: PatternErrorKind,
    /// What is wrong.
    pub message: String,
    /// The byte offset in the text.
    pub at: usize,
    /// How to fix it.
    pub hint: Option<String>,
}

/// How severe the error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PatternErrorKind {
    /// It is not a pattern.
    Invalid,
    /// It is valid in other programs, where it matches nothing, as here.
    MatchesNothing,
    /// Its path starts with `!`, which is not supported: a deny or an ask with it is ignored, and
    /// no other rule becomes weaker.
    Negated,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PatternError {}

/// The result of a pattern for parts of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    there: Parts,
    yes: Parts,
    unknown: Parts,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Fails if the text is not a pattern, with the offset and a hint.
    pub fn parse(text: &str, anchor: &PathBase) -> Result<Self, PatternError> {
        let (head, selectors) = parse::pattern(text, anchor)?;
        Ok(Self { text: text.to_owned(), head, selectors })
    }

    /// Returns which parts of a call it matches. `side` selects how far command wrappers are
    /// unwrapped, how paths are compared, and whether one of several suffices.
    pub(crate) fn hits(&self, facts: &Facts<'_>, side: Side) -> Hits {
        let all = facts.all();
        let mut doubt = None;
        let (mut eligible, mut named) = (all, false);
        let mut vague = Parts::NONE;
        match &self.head {
            None => {}
            Some(Head::Tools(tools)) => {
                if tools.matches(&facts.names, side) {
                    named = true
                } else {
                    return Hits::default();
                }
            }
            Some(Head::Kind(kind)) => {
                if facts.names.known_as.contains(&kind.name()) {
                    named = true
                } else {
                    eligible = select_parts(facts, |part| kind.has(part));
                    if side == Side::Restrict {
                        vague = kind.may_have(facts).without(eligible);
                    }
                }
            }
            Some(Head::Parameter { tools, name, value }) => {
                if !tools.matches(&facts.names, side) {
                    return Hits::default();
                }
                named = true;
                match select::parameter(facts, name, value, side) {
                    Ternary::No => return Hits::default(),
                    Ternary::Unknown(why) => doubt = Some(why),
                    Ternary::Yes => {}
                }
            }
            Some(Head::Agent(glob)) => match select::delegates_to(glob, facts, side) {
                Ternary::No => return Hits::default(),
                Ternary::Unknown(why) => doubt = Some(why),
                Ternary::Yes => named = true,
            },
            Some(Head::Command(_) | Head::Read(_) | Head::Edit(_) | Head::Host(_)) => {}
        }
        if eligible.or(vague).is_empty() {
            return Hits::default();
        }
        for written in &self.selectors {
            match written.selector.holds(facts, side) {
                Ternary::No => return Hits::default(),
                Ternary::Unknown(why) => doubt = Some(why),
                Ternary::Yes => {}
            }
        }
        let mut hits = if self.asks_about_parts() {
            match self.parts(facts, side, eligible.or(vague), named) {
                Some(hits) => hits,
                None => return Hits::default(),
            }
        } else {
            Hits { yes: eligible, ..Hits::default() }
        };
        if !vague.is_empty() && !self.asks_about_parts() {
            hits.unknown = hits.unknown.or(vague);
            let at = vague.first_index();
            hits.why.get_or_insert_with(|| (at, "it does not declare what it touches".to_owned()));
        }
        if doubt.is_some() {
            hits.unknown = hits.unknown.or(hits.yes);
            hits.yes = Parts::NONE;
            hits.why = doubt.map(|why| (hits.unknown.first_index(), why));
        }
        hits
    }

    fn asks_about_parts(&self) -> bool {
        let head = matches!(
            self.head,
            Some(Head::Command(_) | Head::Read(_) | Head::Edit(_) | Head::Host(_))
        );
        head || self
            .selectors
            .iter()
            .any(|w| matches!(w.selector, Selector::Path(_) | Selector::Host(_)))
    }

    /// Compares part by part. For each kind that the pattern has, some part must match.
    fn parts(&self, facts: &Facts<'_>, side: Side, eligible: Parts, named: bool) -> Option<Hits> {
        let asks =
            |selector: fn(&Selector) -> bool| self.selectors.iter().any(|w| selector(&w.selector));
        let commands = matches!(self.head, Some(Head::Command(_)));
        let paths = matches!(self.head, Some(Head::Read(_) | Head::Edit(_)))
            || asks(|s| matches!(s, Selector::Path(_)));
        let hosts =
            matches!(self.head, Some(Head::Host(_))) || asks(|s| matches!(s, Selector::Host(_)));
        let mut found = [Found::default(); 3];
        let mut others = Parts::NONE;
        let mut why = None;
        for (at, part) in facts.parts.iter().enumerate() {
            let kind = match part {
                Part::Command(_) | Part::Unreadable(_) if commands => 0,
                Part::Path { .. } if paths => 1,
                Part::Host(_) if hosts => 2,
                _ => {
                    others = others.with(at);
                    continue;
                }
            };
            let found = &mut found[kind];
            found.there = found.there.with(at);
            match self.part(part, facts, side) {
                Ternary::No => {}
                Ternary::Yes => found.yes = found.yes.with(at),
                Ternary::Unknown(reason) => {
                    found.unknown = found.unknown.with(at);
                    why.get_or_insert((at, reason));
                }
            }
        }
        if side == Side::Restrict {
            // A tool that reaches files or the network without declaring where may reach a target
            // of this pattern.
            for (at, part) in facts.parts.iter().enumerate() {
                let (kind, reason) = match part {
                    Part::Reach(Capability::Filesystem) if paths => (1, NO_FILE),
                    Part::Unreadable(_) if paths && !commands => (1, NO_FILE),
                    Part::Reach(Capability::Network) if hosts => (2, NO_HOST),
                    _ => continue,
                };
                found[kind].unknown = found[kind].unknown.with(at);
                why.get_or_insert_with(|| (at, reason.to_owned()));
            }
        }
        if paths && side == Side::Restrict {
            self.named_files(facts, &mut found[1], &mut why);
        }
        let mut hits = Hits::default();
        let mut doubt = false;
        for (found, asked) in found.iter().zip([commands, paths, hosts]) {
            if !asked {
                continue;
            }
            if found.there.is_empty() && named {
                why.get_or_insert_with(|| {
                    (0, "the tool does not declare what it touches".to_owned())
                });
                doubt = true;
                continue;
            }
            if found.yes.or(found.unknown).is_empty() {
                return None;
            }
            doubt |= found.yes.is_empty();
            hits.yes = hits.yes.or(found.yes);
            hits.unknown = hits.unknown.or(found.unknown);
        }
        if named {
            hits.yes = hits.yes.or(others);
        }
        if doubt {
            hits.unknown = hits.unknown.or(hits.yes);
            hits.yes = Parts::NONE;
        }
        hits.yes = hits.yes.and(eligible);
        hits.unknown = hits.unknown.and(eligible);
        hits.why = why.filter(|_| !hits.unknown.is_empty());
        Some(hits)
    }

    /// Compares the files that commands name, or may name.
    fn named_files(&self, facts: &Facts<'_>, found: &mut Found, why: &mut Option<(usize, String)>) {
        for (at, operation, directory, name) in &facts.beginnings {
            if self.may_begin(*operation, directory, name, facts) {
                found.unknown = found.unknown.with(*at);
                why.get_or_insert_with(|| (*at, COMPLETED.to_owned()));
            }
        }
        for (at, part) in &facts.mentions {
            match self.part(part, facts, Side::Restrict) {
                Ternary::No => {}
                Ternary::Yes => found.yes = found.yes.with(*at),
                Ternary::Unknown(reason) => {
                    found.unknown = found.unknown.with(*at);
                    why.get_or_insert((*at, reason));
                }
            }
        }
        for (at, part, doubt) in &facts.possible {
            if self.part(part, facts, Side::Restrict) != Ternary::No {
                found.unknown = found.unknown.with(*at);
                why.get_or_insert_with(|| (*at, (*doubt).to_owned()));
            }
        }
    }

    /// Whether a file of this directory with this name prefix may match.
    fn may_begin(
        &self,
        operation: Operation,
        directory: &Path,
        name: &str,
        facts: &Facts<'_>,
    ) -> bool {
        let head = match &self.head {
            Some(Head::Read(path)) => path.may_begin(directory, name, facts),
            Some(Head::Edit(path)) => {
                operation != Operation::Read && path.may_begin(directory, name, facts)
            }
            _ => true,
        };
        head && self.selectors.iter().all(|written| match &written.selector {
            Selector::Path(paths) => {
                paths.iter().any(|path| path.may_begin(directory, name, facts))
            }
            _ => true,
        })
    }

    /// Compares one part with all conditions on its kind.
    fn part(&self, part: &Part, facts: &Facts<'_>, side: Side) -> Ternary {
        let head = match (&self.head, part) {
            (Some(Head::Command(pattern)), Part::Command(command)) => {
                let words = pattern.matches(command, side);
                if words == Ternary::Yes || side == Side::Allow {
                    words
                } else {
                    // Another spelling of the program does not bypass a rule about it.
                    let launches = facts.launches_of(part);
                    let files = launches.map(|launch| program::matches(pattern, launch, facts));
                    either(std::iter::once(words).chain(files))
                }
            }
            (Some(Head::Command(_)), Part::Unreadable(why)) => Ternary::Unknown(why.clone()),
            (Some(Head::Host(pattern)), Part::Host(host)) => is_host(pattern, host),
            (Some(Head::Read(path)), Part::Path { operation, spelled, resolved }) => {
                // A file that must not be read must not be overwritten either.
                if *operation == Operation::Read || side == Side::Restrict {
                    is_path(path, (spelled, resolved), facts, side)
                } else {
                    Ternary::No
                }
            }
            (Some(Head::Edit(path)), Part::Path { operation, spelled, resolved }) => {
                if *operation != Operation::Read {
                    is_path(path, (spelled, resolved), facts, side)
                } else {
                    Ternary::No
                }
            }
            _ => Ternary::Yes,
        };
        let selected = self.selectors.iter().map(|written| match (&written.selector, part) {
            (Selector::Path(paths), Part::Path { spelled, resolved, .. }) => {
                either(paths.iter().map(|path| is_path(path, (spelled, resolved), facts, side)))
            }
            (Selector::Host(hosts), Part::Host(host)) => {
                either(hosts.iter().map(|pattern| is_host(pattern, host)))
            }
            _ => Ternary::Yes,
        });
        std::iter::once(head).chain(selected).fold(Ternary::Yes, |all, one| match (all, one) {
            (Ternary::No, _) | (_, Ternary::No) => Ternary::No,
            (Ternary::Unknown(why), _) | (_, Ternary::Unknown(why)) => Ternary::Unknown(why),
            (Ternary::Yes, Ternary::Yes) => Ternary::Yes,
        })
    }

    /// Returns its index key.
    pub(crate) fn key(&self) -> Key<'_> {
        let host = |pattern: &'_ HostPattern| -> Option<()> {
            (!pattern.ending().is_empty()).then_some(())
        };
        let own = match &self.head {
            Some(Head::Tools(tools) | Head::Parameter { tools, .. }) => tools.key(),
            Some(Head::Command(pattern)) => {
                Key::Command(pattern.first_word(), pattern.second_word())
            }
            Some(Head::Read(path) | Head::Edit(path)) => path.key(),
            Some(Head::Host(pattern)) if host(pattern).is_some() => Key::Host(pattern.ending()),
            Some(Head::Kind(_) | Head::Host(_) | Head::Agent(_)) | None => Key::Any,
        };
        if let Key::Tool(tool) = own {
            return self.argument(tool).unwrap_or(own);
        }
        if own != Key::Any {
            return own;
        }
        // A tool that names no path may still match, if the tool itself is named.
        let named = self.head.is_some();
        let keys = self.selectors.iter().map(|written| match &written.selector {
            Selector::Tool(tools) if tools.len() == 1 => tools[0].key(),
            Selector::Source(sources) if sources.len() == 1 => {
                sources[0].literal().map_or(Key::Any, Key::Source)
            }
            Selector::Path(paths) if paths.len() == 1 && !named => paths[0].key(),
            Selector::Host(hosts) if hosts.len() == 1 && !named && host(&hosts[0]).is_some() => {
                Key::Host(hosts[0].ending())
            }
            _ => Key::Any,
        });
        keys.into_iter().find(|key| *key != Key::Any).unwrap_or(Key::Any)
    }

    /// Returns whether its key may miss calls that it matches, because its literal path prefix
    /// contains a symlink. `work` is the base of relative paths. Such a rule is always evaluated.
    pub(crate) fn has_symlink_prefix(&self, resolver: &dyn PathResolver, work: &Path) -> bool {
        let head = match &self.head {
            Some(Head::Read(path) | Head::Edit(path)) => Some(path),
            _ => None,
        };
        let selected = self.selectors.iter().flat_map(|written| match &written.selector {
            Selector::Path(paths) => paths.as_slice(),
            _ => &[],
        });
        matches!(self.key(), Key::Below(_) | Key::FileName(_))
            && head.into_iter().chain(selected).any(|path| path.has_symlink_prefix(resolver, work))
    }

    /// Returns the directories of the files that it restricts by path.
    pub(crate) fn restricted_starts(&self, facts: &Facts<'_>) -> Vec<PathBuf> {
        let head = match &self.head {
            Some(Head::Read(path) | Head::Edit(path)) => Some(path),
            _ => None,
        };
        let selected = self.selectors.iter().flat_map(|written| match &written.selector {
            Selector::Path(paths) => paths.as_slice(),
            _ => &[],
        });
        head.into_iter().chain(selected).flat_map(|path| path.restricted_starts(facts)).collect()
    }

    /// Returns its path patterns from the root on. Empty for a pattern that is not about paths, or
    /// whose other selectors do not match such a call; `None` if a base is unknown.
    pub(crate) fn absolute(&self, facts: &Facts<'_>) -> Option<Vec<AbsolutePattern>> {
        let holds =
            |written: &Written| written.selector.holds(facts, Side::Restrict) != Ternary::No;
        if !self.selectors.iter().all(holds) {
            return Some(Vec::new());
        }
        let paths: Vec<&PathPattern> = match &self.head {
            Some(Head::Read(path) | Head::Edit(path)) => vec![path],
            Some(Head::Tools(tools)) if !tools.matches(&facts.names, Side::Restrict) => Vec::new(),
            Some(Head::Command(_) | Head::Host(_) | Head::Parameter { .. } | Head::Agent(_)) => {
                Vec::new()
            }
            // Only the first path selector: it includes what all of them match.
            _ => {
                let all = self.selectors.iter().find_map(|written| match &written.selector {
                    Selector::Path(paths) => Some(paths),
                    _ => None,
                });
                all.into_iter().flatten().collect()
            }
        };
        let each: Option<Vec<_>> = paths.into_iter().map(|path| path.absolute(facts)).collect();
        Some(each?.into_iter().flatten().collect())
    }

    /// Returns the kind of a text that is short for a call of this pattern: a command, a path, a
    /// URL.
    pub(crate) fn about(&self) -> Option<ArgumentKind> {
        match &self.head {
            Some(Head::Command(_) | Head::Kind(Kind::Bash)) => Some(ArgumentKind::Command),
            Some(Head::Read(_) | Head::Kind(Kind::Read)) => Some(ArgumentKind::ReadPath),
            Some(Head::Edit(_) | Head::Kind(Kind::Edit)) => Some(ArgumentKind::WritePath),
            Some(Head::Host(_) | Head::Kind(Kind::WebFetch)) => Some(ArgumentKind::Url),
            Some(_) => None,
            None => self.selectors.iter().find_map(|written| match &written.selector {
                Selector::Path(_) => Some(ArgumentKind::ReadPath),
                Selector::Host(_) => Some(ArgumentKind::Url),
                _ => None,
            }),
        }
    }

    /// Returns whether it could cover every call of some tool.
    pub(crate) fn may_cover_tools(&self) -> bool {
        matches!(&self.head, None | Some(Head::Tools(_) | Head::Kind(_)))
            && self
                .selectors
                .iter()
                .all(|written| matches!(written.selector, Selector::Tool(_) | Selector::Source(_)))
    }

    /// Returns whether it covers every call of this tool, whatever its arguments and the run.
    pub(crate) fn covers_tool(&self, names: &Names<'_>) -> bool {
        let head = match &self.head {
            None => true,
            Some(Head::Tools(tools)) => tools.matches(names, Side::Restrict),
            Some(Head::Kind(kind)) => names.known_as.contains(&kind.name()),
            Some(_) => false,
        };
        head && self.selectors.iter().all(|written| match &written.selector {
            Selector::Tool(tools) => tools.iter().any(|t| t.matches(names, Side::Restrict)),
            Selector::Source(sources) => {
                names.remote.is_some_and(|(own, _)| sources.iter().any(|s| s.matches(own, false)))
            }
            _ => false,
        })
    }

    /// Returns the path of `Read(…)`, if it is that alone.
    pub(crate) fn restricted_path(&self) -> Option<&str> {
        match &self.head {
            Some(Head::Read(path)) if self.selectors.is_empty() => Some(path.as_str()),
            _ => None,
        }
    }

    /// Returns it as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn select_parts(facts: &Facts<'_>, is: impl Fn(&Part) -> bool) -> Parts {
    let each = facts.parts.iter().enumerate().filter(|(_, part)| is(part));
    each.fold(Parts::NONE, |all, (at, _)| all.with(at))
}

fn is_path(
    pattern: &PathPattern,
    (spelled, resolved): (&Path, &Result<PathBuf, String>),
    facts: &Facts<'_>,
    side: Side,
) -> Ternary {
    match resolved {
        // Nothing is known about it, so its path is not compared.
        Err(why) if spelled.as_os_str().is_empty() => Ternary::Unknown(why.clone()),
        _ => pattern.matches(spelled, resolved, facts, side),
    }
}

fn is_host(pattern: &HostPattern, host: &Result<String, String>) -> Ternary {
    match host {
        Ok(host) if pattern.matches(host) => Ternary::Yes,
        Ok(_) => Ternary::No,
        Err(why) => Ternary::Unknown(why.clone()),
    }
}

/// One of several: a yes wins, then an unknown.
fn either(mut answers: impl Iterator<Item = Ternary>) -> Ternary {
    let mut doubt = Ternary::No;
    answers
        .find_map(|answer| match answer {
            Ternary::Yes => Some(Ternary::Yes),
            Ternary::No => None,
            unknown => {
                doubt = unknown;
                None
            }
        })
        .unwrap_or(doubt)
}
