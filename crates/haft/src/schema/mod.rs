//! Whether arguments fit a tool's schema, what is wrong when they do not, and what may be repaired.
//!
//! In: a JSON Schema and what a model wrote. Out: yes or no, lines that a model can act on, or a
//! value that fits and a list of what was changed to make it fit. Pure: no clock, no I/O, nothing
//! is fetched. Whether the call may run is decided elsewhere.
//!
//! INVARIANT: a value that fits is never changed, and a value that was changed fits.

mod compiled;
mod places;
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
