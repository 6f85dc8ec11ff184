//! The tool part of a pattern: a name, a glob over names, a source and a tool of it.

use super::{Key, Side};
use crate::{
    facts::Names,
    glob::{Glob, Style},
};

/// Tool names of other programs, whose tools have other names here.
const FOREIGN_NAMES: [&str; 9] =
    ["Bash", "Read", "Write", "Edit", "Glob", "Grep", "WebFetch", "Agent", "Skill"];

fn is_foreign(name: &str) -> bool {
    FOREIGN_NAMES.contains(&name)
}

/// Which tools match.
#[derive(Debug, Clone)]
pub(super) enum Tools {
    /// All of them.
    All,
    /// The one of this name, or known by it.
    Named(String),
    /// Those whose name matches.
    Like(Glob),
    /// Those of a source, `mcp__…`.
    Of(Remote),
}

/// The text after `mcp__`.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    whole: Glob,
    source: Glob,
    tool: Option<Glob>,
    /// The source, if it is unambiguous.
    only: Option<String>,
}

impl Tools {
    pub(super) fn parse(text: &str) -> Self {
        // As `NameGlob` does. Brackets are not special, so none is unclosed.
        let glob = |text: &str| {
            Glob::parse(text, Style::Names).unwrap_or_else(|_| Glob::Text(text.to_owned()))
        };
        if let Some(rest) = text.strip_prefix("mcp__") {
            let (source, tool) = match rest.split_once("__") {
                Some((source, tool)) => (source, Some(tool)),
                None => (rest, None),
            };
            let one = !tool.is_some_and(|t| t.contains("__"));
            let only = glob(source).literal().filter(|_| one).map(str::to_owned);
            return Self::Of(Remote {
                whole: glob(rest),
                source: glob(source),
                tool: tool.map(glob),
                only,
            });
        }
        let name = glob(text);
        match name.literal() {
            _ if name.is_any() => Self::All,
            Some(name) => Self::Named(name.to_owned()),
            None => Self::Like(name),
        }
    }

    /// Returns whether a tool matches. A source and its tool are compared separately; if the text
    /// can be split in two ways, a deny takes both and an allow the first. A name of another
    /// program allows no tool of a source: a server may have the name of a built-in source.
    pub(super) fn matches(&self, names: &Names<'_>, side: Side) -> bool {
        let has_known = side == Side::Restrict || names.remote.is_none();
        let known = || names.known_as.iter().filter(|_| has_known);
        match self {
            Self::All => true,
            Self::Named(name) => names.own == name || known().any(|known| known == name),
            Self::Like(glob) => {
                glob.matches(names.own, false) || known().any(|known| glob.matches(known, false))
            }
            Self::Of(remote) => names.remote.is_some_and(|(source, tool)| {
                remote.matches(source, tool)
                    || side == Side::Restrict
                        && remote.whole.matches(&format!("{source}__{tool}"), false)
                    || side == Side::Restrict && remote.whole.matches(source, false)
            }),
        }
    }

    /// Returns whether it certainly matches all tools that the other matches.
    pub(super) fn covers(&self, other: &Self, side: Side) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Named(own), Self::Named(other)) => own == other,
            (Self::Like(own), Self::Named(other)) => own.matches(other, false),
            (Self::Like(own), Self::Like(other)) => own.covers(other),
            (Self::Of(own), Self::Of(other)) => own.covers(other, side),
            _ => false,
        }
    }

    /// Returns whether certainly no tool matches both.
    pub(super) fn is_disjoint(&self, other: &Self) -> bool {
        match (self, other) {
            // A tool may have one of these names besides its own.
            (Self::Named(own), Self::Named(other)) => {
                own != other && !is_foreign(own) && !is_foreign(other)
            }
            (Self::Like(glob), Self::Named(name)) | (Self::Named(name), Self::Like(glob)) => {
                !is_foreign(name)
                    && !glob.matches(name, false)
                    && !FOREIGN_NAMES.iter().any(|name| glob.matches(name, false))
            }
            (Self::Of(own), Self::Of(other)) => match (&own.only, &other.only) {
                (Some(a), Some(b)) if a == b => match (&own.tool, &other.tool) {
                    (Some(a), Some(b)) => a.is_disjoint(b),
                    _ => false,
                },
                (Some(_), Some(_)) => true,
                _ => false,
            },
            _ => false,
        }
    }

    pub(super) fn key(&self) -> Key<'_> {
        match self {
            Self::Named(name) => Key::Tool(name),
            Self::Of(Remote { only: Some(source), .. }) => Key::Source(source),
            Self::All | Self::Like(_) | Self::Of(_) => Key::Any,
        }
    }

    /// Returns the source that it names, if it is unambiguous.
    pub(super) fn source(&self) -> Option<&str> {
        match self {
            Self::Of(remote) => remote.only.as_deref(),
            _ => None,
        }
    }

    /// Returns whether it matches every tool of every external source.
    pub(super) fn is_every_source(&self) -> bool {
        match self {
            Self::Of(remote) => {
                remote.source.is_any() && remote.tool.as_ref().is_none_or(Glob::is_any)
            }
            _ => false,
        }
    }
}

impl Remote {
    fn covers(&self, other: &Self, side: Side) -> bool {
        let sources = self.source.covers(&other.source);
        let tools = match (&self.tool, &other.tool) {
            (None, _) => true,
            (Some(own), Some(other)) => own.covers(other),
            (Some(_), None) => false,
        };
        // A whole source covers its tools, unless the name of the source itself is ambiguous.
        let whole = side == Side::Allow || self.tool.is_none() || self.whole.covers(&other.whole);
        sources && tools && whole
    }

    fn matches(&self, source: &str, tool: &str) -> bool {
        self.source.matches(source, false)
            && self.tool.as_ref().is_none_or(|glob| glob.matches(tool, false))
    }
}
