//! `#[tool]`, `#[tools]` and `#[derive(Tool)]`: a Rust function, a method block or an argument
//! struct becomes an implementation of haft's `Tool`.
//!
//! The macros are sugar over the trait: they write what an author could have written, and nothing
//! they write acts by itself. A mistake is a compile error that says what would be right; several
//! mistakes are told at once.
//!
//! Read in this order: an attribute is parsed in `entry` and `options`, the arguments in
//! `signature` and `params`, contradictions are found in `check`, and `expand_*` puts together what
//! `args`, `spec` and `blueprint` write.

mod mistakes;
mod names;
mod grammar;
mod json;
mod docs;
mod types;
mod entry;
mod options;
mod values;
mod limits;
mod check;
mod params;
mod signature;
mod args;
mod spec;
mod blueprint;
mod expand_fn;
mod expand_impl;
mod expand_struct;

use proc_macro::TokenStream;
use syn::{Path, parse_quote};

fn haft() -> Path {
    parse_quote!(::haft)
}

fn haft_core() -> Path {
    parse_quote!(::haft_core)
}

/// Makes a tool of a function.
///
/// `async fn get_time(city: String, cx: &ToolContext) -> Result<String, Failure>` stays what it is
/// and gets the unit struct `GetTime` beside it, which implements `Tool`. Its doc comment is the
/// tool's description; the doc comments of its parameters describe the arguments.
///
/// # Options
///
/// `name`, `type_name`, `description`, `title`, `alias`, `read_only`, `destructive`, `idempotent`,
/// `open_world`, `class`, `keys`, `effects`, `capabilities`, `permission`, `guard`, `interrupt`,
/// `requires_user_interaction`, `exposure`, `enabled`, `concurrency`, `abort_siblings`,
/// `isolation`, `timeout`, `deadline`, `approval_timeout`, `rate`, `cache`, `retry`, `max_result`, `trust`,
/// `confidentiality`, `unknown`, `examples`, `crate`.
///
/// `class`, `read_only`, `destructive`, `keys`, `effects` and `guard` also take the path of a
/// function, which gets each visible argument by reference and decides per call.
///
/// # Parameters
///
/// - `Option<T>`, `#[default(value)]` and `#[default]` make an argument optional.
/// - `#[param(min, max, min_length, max_length, pattern, example, rename, description, secret)]`
///   refines its schema.
/// - `#[param(path)]`, `#[param(write_path)]`, `#[param(url)]`, `#[param(command)]` say that the text
///   (or each text of a list) is a file that is read, a file that is written, an address, a shell
///   command. Rules about paths, hosts and commands are about such arguments.
/// - `&ToolContext`, `State<T>` and `RunState<T>`, or whatever is marked `#[inject]`, come from the
///   host and stay out of the schema.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_fn::expand(options.into(), item.into(), haft()).into()
}

/// Is `tool` for crates that depend on `haft-core` alone.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tool_core(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_fn::expand(options.into(), item.into(), haft_core()).into()
}

/// Makes tools of the methods marked `#[tool]` in an `impl` block whose struct carries state.
///
/// The struct then implements `IntoTools`; all its tools share one instance. Methods take `&self`.
/// `#[tools(prefix = "fs_")]` goes before every name that a method does not set itself.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_impl::expand(options.into(), item.into(), haft()).into()
}

/// Is `tools` for crates that depend on `haft-core` alone.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tools_core(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_impl::expand(options.into(), item.into(), haft_core()).into()
}

/// Makes a tool of an argument struct with an `async fn run(self, cx: &ToolContext)`.
///
/// The fields are the arguments, the struct's doc comment is the description, and `#[tool(…)]` on
/// the struct takes the options of the attribute of that name. `Fetch::tool()` gives the tool.
#[proc_macro_derive(Tool, attributes(tool, param, default, inject))]
pub fn derive_tool(item: TokenStream) -> TokenStream {
    expand_struct::expand(item.into(), haft()).into()
}

/// Is the derive `Tool` for crates that depend on `haft-core` alone.
#[doc(hidden)]
#[proc_macro_derive(ToolCore, attributes(tool, param, default, inject))]
pub fn derive_tool_core(item: TokenStream) -> TokenStream {
    expand_struct::expand(item.into(), haft_core()).into()
}
