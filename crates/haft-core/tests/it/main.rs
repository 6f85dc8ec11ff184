//! Tests of the generated tools: one module per macro and topic, and one for compile errors.

#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

mod host;
mod host_defaults;
mod functions;
mod options;
mod params;
mod outputs;
mod methods;
mod structs;
mod compile_errors;
