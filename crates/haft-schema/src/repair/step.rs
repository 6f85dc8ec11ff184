//! One change of a value: applied, and recorded for people.
//!
//! In: JSON pointers and the change at each. Out: the changed value, and short records without
//! secrets. Whether a change is correct is decided in `repair`.

use std::{borrow::Cow, collections::HashMap};

use haft_core::{host::RandomState, text::shortened_bytes};
use serde_json::Value;

use super::{Repair, RepairKind};
use crate::{
    lookup::SchemaLookup,
    pointer::{below, split},
};

/// Values in a record are truncated to this many bytes.
const MAX_SHOWN_BYTES: usize = 80;

/// A change at one location.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// Where, before the change.
    pub(crate) at: String,
    pub(crate) kind: RepairKind,
    pub(crate) before: Value,
    pub(crate) change: Change,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Set(Value),
    Drop,
    Rename(String),
}

/// Keeps one step for each location; none if two steps conflict.
pub(crate) fn agreed(steps: Vec<Step>) -> Vec<Step> {
    let mut kept: Vec<Step> = Vec::new();
    let mut by_location: HashMap<String, Option<usize>, RandomState> = HashMap::default();
    for step in steps {
        match by_location.get(&step.at) {
            None => {
                by_location.insert(step.at.clone(), Some(kept.len()));
                kept.push(step);
            }
            Some(Some(n)) if kept.get(*n).is_some_and(|k| k.change == step.change) => {}
            Some(_) => {
                by_location.insert(step.at, None);
            }
        }
    }
    kept.retain(|step| by_location.get(&step.at).is_some_and(Option::is_some));
    kept
}

/// Applies steps; `None` if the location of one no longer exists. Renames come last, because they
/// move what is below them.
pub(crate) fn apply(value: &mut Value, steps: &[Step]) -> Option<()> {
    for step in steps {
        match &step.change {
            Change::Set(new) => *value.pointer_mut(&step.at)? = new.clone(),
            Change::Drop => {
                let (parent, key) = split(&step.at)?;
                value.pointer_mut(parent)?.as_object_mut()?.shift_remove(&key)?;
            }
            Change::Rename(_) => {}
        }
    }
    for step in steps {
        if let Change::Rename(to) = &step.change {
            let (parent, from) = split(&step.at)?;
            let map = value.pointer_mut(parent)?.as_object_mut()?;
            // In its old position: people see the order of names.
            let renamed =
                |(key, value)| if key == from { (to.clone(), value) } else { (key, value) };
            *map = std::mem::take(map).into_iter().map(renamed).collect();
        }
    }
    Some(())
}

impl Step {
    /// Returns the location of the value after the change.
    pub(crate) fn location_after(&self) -> Cow<'_, str> {
        match &self.change {
            Change::Rename(to) => {
                let parent = split(&self.at).map_or("", |(parent, _)| parent);
                Cow::Owned(below(parent, to))
            }
            Change::Set(_) | Change::Drop => Cow::Borrowed(&self.at),
        }
    }

    /// Makes the record of the step.
    pub(crate) fn into_repair(self, lookup: SchemaLookup<'_>) -> Repair {
        let shown = |value: &Value| shortened_bytes(&value.to_string(), MAX_SHOWN_BYTES);
        let hidden = || "a hidden value".to_owned();
        let Self { at, kind, before, change } = self;
        let (pointer, before, after) = match change {
            Change::Rename(to) => {
                let parent = split(&at).map_or("", |(parent, _)| parent);
                (below(parent, &to), shown(&before), Some(shown(&Value::from(to))))
            }
            // A null reveals nothing, not even about a secret.
            Change::Drop => (at, shown(&before), None),
            Change::Set(_) if lookup.is_secret(&at) => (at, hidden(), Some(hidden())),
            Change::Set(after) => (at, shown(&before), Some(shown(&after))),
        };
        Repair { pointer, kind, before, after }
    }
}
