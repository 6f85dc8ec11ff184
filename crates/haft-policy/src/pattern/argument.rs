//! The index key of a pattern about an argument: its literal value, or a literal part of a value
//! with wildcards: its start, its end, or else one between two wildcards.

use super::{
    Head, Key, Pattern,
    select::{Selector, is_skill},
};

/// A literal part of a text with wildcards, never empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Affix {
    /// The text starts with it.
    Start(String),
    /// The text ends with it.
    End(String),
    /// The text contains it.
    Middle(String),
}

impl Affix {
    fn text(&self) -> &str {
        match self {
            Self::Start(text) | Self::End(text) | Self::Middle(text) => text,
        }
    }
}

impl Pattern {
    /// Returns the key of an argument that must have one value, or else of one whose value must
    /// start or end with a literal text, or contain it.
    pub(super) fn argument<'a>(&'a self, tool: &'a str) -> Option<Key<'a>> {
        let head = match &self.head {
            // The name of a skill is in different arguments.
            Some(Head::Parameter { name, value, .. }) if !is_skill(tool, name) => {
                Some((name.as_str(), value))
            }
            _ => None,
        };
        let selected = self.selectors.iter().filter_map(|written| match &written.selector {
            Selector::Arg(name, values) => match values.as_slice() {
                [value] => Some((name.as_str(), value)),
                _ => None,
            },
            _ => None,
        });
        let mut like = None;
        for (name, value) in head.into_iter().chain(selected) {
            if let Some(value) = value.literal() {
                return Some(Key::Argument { tool, name, value });
            }
            let affix = [
                Affix::Start(value.literal_start()),
                Affix::End(value.literal_end()),
                Affix::Middle(value.literal_middle()),
            ];
            let affix = affix.into_iter().find(|affix| !affix.text().is_empty());
            like = like.or(affix.map(|value| Key::ArgumentLike { tool, name, value }));
        }
        like
    }
}
