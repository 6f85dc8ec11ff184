#![doc = include_str!("../README.md")]
//!
//! INVARIANT: a valid value is never changed, and a repaired value is valid.

mod keywords;
mod pointer;
mod draft;
mod uri;
mod metaschemas;
mod references;
mod formats;
mod validator;
mod compiled;
mod lookup;
pub mod parse;
pub mod syntax;
mod expected;
mod union;
mod stop;
mod work;
mod ranges;
mod integers;
mod scalars;
mod explain;
mod example;
mod repair;
pub mod near;
mod loss;
pub mod lowering;

pub use self::{
    compiled::{Formats, Schema},
    explain::{Unexplained, ValidationError, refused, with_example},
    integers::SettledIntegers,
    loss::{Loss, LossKind},
    parse::strict_json,
    repair::{Repair, RepairKind, RepairPolicy},
    scalars::ScalarObject,
    stop::Stop,
};
