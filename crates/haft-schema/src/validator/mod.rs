//! A compiled validator for JSON Schema: a list of nodes, made once, that refer to each other.
//!
//! In: a schema of draft 4, 6, 7, 2019-09 or 2020-12. Out: whether a value is valid, or what is
//! wrong with it and where. Nothing is fetched. The work is bounded: nesting has a limit, results
//! are memoized when a value takes many steps, and patterns match in bounded time.
//!
//! INVARIANT: a value is valid exactly if no violation is listed, unless a limit was reached; then
//! it is not valid.

mod number;
mod equal;
mod ecma;
mod pattern;
mod content;
mod types;
mod violation;
mod node;
mod cycles;
mod build;
mod run;
mod evaluated;
mod list;

use serde_json::Value;

pub(crate) use self::violation::{Violation, ViolationKind};
use self::{build::Builder, list::Lister, node::Node, run::Run};
use crate::{draft::Draft, references::Unresolved};

/// The node of the whole schema.
const ROOT: u32 = 0;

/// A compiled validator.
#[derive(Debug)]
pub(crate) struct Validator {
    nodes: Vec<Node>,
}

impl Validator {
    /// Compiles a schema that its metaschema accepts. `asserts_formats` makes `format` restrict
    /// values.
    pub(crate) fn new(
        schema: &Value,
        draft: Draft,
        asserts_formats: bool,
    ) -> Result<Self, Unresolved> {
        Ok(Self { nodes: Builder::new(schema, draft, asserts_formats)?.build(schema)? })
    }

    /// Returns whether a value is valid.
    pub(crate) fn is_valid(&self, value: &Value) -> bool {
        let mut run = Run::new(&self.nodes);
        run.is_valid(ROOT, value) && !run.is_undecided()
    }

    /// Lists at most `limit` violations of a value, and as many for each branch of a union.
    pub(crate) fn violations<'v>(&self, value: &'v Value, limit: usize) -> Vec<Violation<'v>> {
        Lister::new(&self.nodes, limit).list(ROOT, value)
    }
}
