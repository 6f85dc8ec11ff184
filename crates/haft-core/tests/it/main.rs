//! The generated tools, seen from outside: one module per way of writing one, and one for the
//! mistakes.

#![expect(clippy::unwrap_used, reason = "the helpers belong to the tests")]

mod host;
mod functions;
mod options;
mod params;
mod outputs;
mod methods;
mod structs;
mod mistakes;
