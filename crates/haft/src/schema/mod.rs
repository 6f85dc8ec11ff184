//! Validates arguments against a tool's JSON Schema, explains what is wrong, and repairs small
//! mistakes.
//!
//! In: a JSON Schema and the JSON that a model wrote. Out: valid or not, error lines that a model
//! can act on, or a repaired value and the list of its repairs. Pure: no clock, no I/O, nothing is
//! fetched. Authorization happens elsewhere.
//!
//! INVARIANT: a valid value is never changed, and a repaired value is valid.

mod compiled;
mod lookup;
pub(crate) mod parse;
pub(crate) mod syntax;
mod union;
pub(crate) mod stop;
mod work;
mod guided;
mod ranges;
mod integers;
pub(crate) mod validation_error;
pub(crate) mod unexplained;
mod example;
mod step;
mod repair;

pub(crate) use self::compiled::draft;
pub use self::{
    compiled::{Formats, Schema},
    parse::strict_json,
    repair::{Repair, RepairKind, RepairPolicy},
    validation_error::ValidationError,
};
