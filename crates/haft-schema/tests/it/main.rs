//! The validator, judged by the official test suite and by another validator.

mod differential;
mod suite;
