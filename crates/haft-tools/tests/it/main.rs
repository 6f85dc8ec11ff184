//! The built-in tools through the whole walk of a call.

mod files;
mod process;
mod fetch;
