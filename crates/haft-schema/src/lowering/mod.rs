//! Lowers a JSON Schema to the keywords that each dialect supports.
//!
//! `resolve` makes it self-contained, `root` makes its root one object, `lower` rewrites the rest.
//! `rules` describes each dialect as data. Our own code: no crate lowers a schema and reports what
//! that changes.

mod cycles;
mod document;
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
mod unsupported;

pub use crate::references::UnresolvedReference;

pub use self::{
    document::Document,
    lower::{LoweredSchema, lower},
    nulls::without_nulls,
    resolve::resolve,
    rules::{KeywordSupport, Limits, LoweringRules, References, Subset, Typing, Values},
    sizes::choices,
    unsupported::UnsupportedSchema,
};
