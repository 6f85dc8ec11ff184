//! Carries a JSON Schema into the words of each dialect.
//!
//! `resolve` makes it self-contained, `root` makes its root one object, `lower` says the rest in
//! the words a dialect has. `rules` are the dialects' own, as data.

mod circles;
mod forms;
mod inline;
mod keywords;
mod lower;
mod merge;
mod nulls;
mod query;
mod reduce;
mod resolve;
mod root;
mod rules;
mod sizes;
mod text;

pub(crate) use self::{
    lower::{Lowered, lower},
    nulls::without_nulls,
    resolve::{Document, resolve},
    rules::{Limits, References, Rules, Subset, Typing, Values, Words},
    sizes::choices,
};
