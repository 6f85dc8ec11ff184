#![doc = include_str!("../README.md")]
//!
//! INVARIANT: a valid value is never changed, and a repaired value is valid.

mod compiled;
mod keywords;
mod pointer;
mod lookup;
pub mod parse;
pub mod syntax;
mod expected;
mod union;
mod stop;
mod work;
mod ranges;
mod integers;
mod explain;
mod example;
mod repair;
pub mod near;
mod loss;
pub mod lowering;

pub use self::{
    compiled::{Formats, Schema},
    explain::{Unexplained, ValidationError, refused, with_example},
    loss::{Loss, LossKind},
    parse::strict_json,
    repair::{Repair, RepairKind, RepairPolicy},
    stop::Stop,
};
