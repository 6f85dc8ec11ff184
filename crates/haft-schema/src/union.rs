//! Guesses which branch of a union a value was intended for.
//!
//! In: the branches, the value, and the errors of each branch. Out: one branch, or the fact that
//! the value names none. The guess is only used for messages; no value is accepted because of it.

use serde_json::Value;

use super::{
    expected::expected,
    lookup::SchemaLookup,
    validator::{Violation, ViolationKind as Kind},
};

/// The errors of each branch.
pub(super) type BranchErrors = [Vec<Violation<'static>>];

/// A union and the value that matches none of its branches.
pub(super) struct Union<'a> {
    pub(super) lookup: SchemaLookup<'a>,
    pub(super) branches: &'a [Value],
    pub(super) against: &'a BranchErrors,
    /// The location of the value.
    pub(super) at: &'a str,
    pub(super) value: &'a Value,
}

/// The result of the guess.
pub(super) enum Choice<'a> {
    /// It was intended for this branch.
    Branch(usize),
    /// The discriminator property has a value that no branch has.
    NoSuchTag { key: &'a str, tags: Vec<&'a Value> },
    /// The discriminator property is missing.
    TagMissing { key: &'a str, tags: Vec<&'a Value> },
    /// It has none of the types of the branches.
    NoSuchType,
}

impl<'a> Union<'a> {
    /// Chooses by discriminator property, then by type, then by fewest errors.
    pub(super) fn choose(&self) -> Choice<'a> {
        let typed: Vec<usize> =
            (0..self.branches.len()).filter(|n| !self.has_other_type(*n)).collect();
        match *typed {
            [] => return Choice::NoSuchType,
            [only] => return Choice::Branch(only),
            _ => {}
        }
        let named = match self.named(&typed) {
            Ok(named) => named,
            Err(choice) => return choice,
        };
        let nearest = named.into_iter().min_by_key(|n| {
            let errors = self.against.get(*n).map(Vec::as_slice).unwrap_or_default();
            let deepest = errors.iter().map(|e| e.at().matches('/').count()).max();
            (errors.len(), std::cmp::Reverse(deepest))
        });
        nearest.map_or(Choice::NoSuchType, Choice::Branch)
    }

    /// Returns the branches that the value may be intended for: those selected by a discriminator
    /// that all branches define, or all. Repairs rely only on this, unlike messages.
    pub(super) fn candidates(&self) -> Vec<usize> {
        let typed: Vec<usize> =
            (0..self.branches.len()).filter(|n| !self.has_other_type(*n)).collect();
        self.by_discriminator(&typed).unwrap_or_else(|| (0..self.branches.len()).collect())
    }

    /// Whether the branch does not allow the type of the value at all.
    fn has_other_type(&self, branch: usize) -> bool {
        self.against.get(branch).is_some_and(|errors| {
            errors.iter().any(|e| matches!(e.kind(), Kind::Type { .. }) && e.at() == self.at)
        })
    }

    /// Keeps the branches that the value selects, if there is a discriminator.
    fn named(&self, among: &[usize]) -> Result<Vec<usize>, Choice<'a>> {
        if let Some(named) = self.by_discriminator(among).or_else(|| self.by_matching_tags(among)) {
            return Ok(named);
        }
        let Some(map) = self.value.as_object() else { return Ok(among.to_vec()) };
        for (key, tags) in self.common_tags(among) {
            let mut all: Vec<&Value> = Vec::new();
            for tag in tags.into_iter().flatten() {
                if !all.contains(&tag) {
                    all.push(tag);
                }
            }
            match map.get(key) {
                Some(sent) if !all.contains(&sent) => {
                    return Err(Choice::NoSuchTag { key, tags: all });
                }
                None if among.iter().all(|n| self.requires(*n, key)) => {
                    return Err(Choice::TagMissing { key, tags: all });
                }
                _ => {}
            }
        }
        Ok(among.to_vec())
    }

    /// The branches that the value selects by a discriminator that every branch defines.
    fn by_discriminator(&self, among: &[usize]) -> Option<Vec<usize>> {
        let map = self.value.as_object()?;
        self.common_tags(among).into_iter().find_map(|(key, tags)| {
            let sent = map.get(key)?;
            let named = among.iter().zip(tags).filter(|(_, tags)| tags.contains(&sent));
            let named: Vec<usize> = named.map(|(n, _)| *n).collect();
            (!named.is_empty() && named.len() < among.len()).then_some(named)
        })
    }

    /// The properties that every branch restricts to listed values, and the values of each branch.
    fn common_tags(&self, among: &[usize]) -> Vec<(&'a str, Vec<Vec<&'a Value>>)> {
        let first = among.first().and_then(|n| self.branches.get(*n));
        let keys = first.map(|branch| self.lookup.names(branch)).unwrap_or_default();
        let tags = |key: &str| -> Option<Vec<Vec<&'a Value>>> {
            among.iter().map(|n| self.tags(self.branches.get(*n)?, key)).collect()
        };
        keys.into_iter().filter_map(|key| Some((key, tags(key)?))).collect()
    }

    fn requires(&self, branch: usize, key: &str) -> bool {
        self.branches.get(branch).is_some_and(|branch| {
            self.lookup.parts(branch).iter().any(|part| {
                let required = part.get("required").and_then(Value::as_array);
                required.is_some_and(|names| names.iter().any(|name| name == key))
            })
        })
    }

    /// The branches with a discriminator that the value matches, and none that it contradicts;
    /// `None` if there are no such branches.
    fn by_matching_tags(&self, among: &[usize]) -> Option<Vec<usize>> {
        let map = self.value.as_object()?;
        let mut agreeing = Vec::new();
        for n in among {
            let Some(branch) = self.branches.get(*n) else { continue };
            let (mut agrees, mut contradicts) = (false, false);
            for key in self.lookup.names(branch) {
                if let Some(sent) = map.get(key)
                    && let Some(tags) = self.tags(branch, key)
                {
                    if tags.contains(&sent) { agrees = true } else { contradicts = true }
                }
            }
            if agrees && !contradicts {
                agreeing.push(*n);
            }
        }
        (!agreeing.is_empty()).then_some(agreeing)
    }

    /// The values that a branch allows for a property, if it lists them.
    fn tags(&self, branch: &'a Value, key: &str) -> Option<Vec<&'a Value>> {
        self.lookup.parts(branch).into_iter().find_map(|part| {
            let property = part.get("properties")?.get(key)?;
            match self.lookup.keyword_of(property, "const") {
                Some(one) => Some(vec![one]),
                None => {
                    Some(self.lookup.keyword_of(property, "enum")?.as_array()?.iter().collect())
                }
            }
        })
    }

    /// Returns a short label for a branch.
    pub(super) fn label(&self, branch: usize) -> String {
        let Some(node) = self.branches.get(branch) else { return "nothing".to_owned() };
        if let Some(map) = self.value.as_object() {
            let mut names = self.lookup.names(node).into_iter().filter(|n| map.contains_key(*n));
            let tag = names.find_map(|key| Some((key, self.tags(node, key)?)));
            if let Some((key, tags)) = tag
                && let [tag] = *tags
            {
                return format!("`{key}` {tag}");
            }
        }
        if let Some(title) = self.lookup.keyword_of(node, "title").and_then(Value::as_str) {
            return format!("`{title}`");
        }
        if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
            return format!("`{}`", reference.rsplit('/').next().unwrap_or(reference));
        }
        let required: Vec<String> = node
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .take(3)
            .map(|name| format!("`{name}`"))
            .collect();
        match (expected(node), required.is_empty()) {
            (Some(kind), true) => kind,
            (kind, false) => {
                let kind = kind.unwrap_or_else(|| "an object".to_owned());
                format!("{kind} with {}", required.join(", "))
            }
            (None, true) => format!("shape {}", branch + 1),
        }
    }
}
