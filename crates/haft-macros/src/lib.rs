//! `#[tool]`, `#[tools]` and `#[derive(Tool)]`: a Rust function, a method block or an argument
//! struct becomes an implementation of haft's `Tool`.
//!
//! The macros generate code that an author could have written by hand. A mistake is a compile error
//! that says what is expected; several errors are reported at once.
//!
//! Read in this order: `entry` and `options` parse an attribute, `signature` and `params` parse the
//! arguments, `check` finds contradictions, and `expand_*` combines what `args`, `spec` and
//! `tool_impl` generate.

mod errors;
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
mod tool_impl;
mod expand_fn;
mod expand_impl;
mod expand_struct;
mod expand_data;

use proc_macro::TokenStream;
use syn::{Ident, Path, parse_quote};

fn haft() -> Path {
    parse_quote!(::haft)
}

fn haft_core() -> Path {
    parse_quote!(::haft_core)
}

/// Makes a tool from a function.
///
/// `async fn get_time(city: String, cx: &ToolContext) -> Result<String, Failure>` is unchanged. If
/// `?` in the body meets errors of other crates, return `Result<T, ToolError>`. The macro
/// adds the unit struct `GetTimeTool`, which implements `Tool`. The doc comment of the function is
/// the tool's description; the doc comments of its parameters describe the arguments.
///
/// # Options
///
/// `name`, `type_name`, `description`, `title`, `alias`, `read_only`, `destructive`, `idempotent`,
/// `open_world`, `class`, `keys`, `effects`, `capabilities`, `permission`, `guard`, `check`,
/// `interrupt`, `requires_user_interaction`, `exposure`, `enabled`, `concurrency`,
/// `abort_siblings`, `isolation`, `timeout`, `deadline`, `approval_timeout`, `rate`, `cache`,
/// `retry`, `max_result`, `trust`, `confidentiality`, `unknown`, `examples`, `crate`.
///
/// `class`, `read_only`, `destructive`, `keys`, `effects` and `guard` also take the path of a
/// function, which gets each argument of the schema by reference and decides per call. The function
/// of `check` gets the same and returns a `Result`: it checks what a schema cannot express, such
/// as an end before a start.
///
/// # Parameters
///
/// - `Option<T>`, `#[default(value)]` and `#[default]` make an argument optional.
/// - `#[param(min, max, min_length, max_length, pattern, example, rename, description, secret)]`
///   refines its schema.
/// - `#[param(strict)]` switches the repair of invalid values off for this argument.
/// - `#[param(path)]`, `#[param(write_path)]`, `#[param(url)]`, `#[param(command)]`: the text (or
///   each text of a list) is a file to read, a file to write, a URL or a shell command. Rules about
///   paths, hosts and commands apply to such arguments.
/// - `&ToolContext`, `State<T>`, `RunState<T>` and parameters marked `#[inject]` come from the host
///   and are not part of the schema.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_fn::expand(options.into(), item.into(), haft()).into()
}

/// `tool` for crates that depend on `haft-core` alone.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tool_core(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_fn::expand(options.into(), item.into(), haft_core()).into()
}

/// Makes tools from the methods marked `#[tool]` in an `impl` block.
///
/// The struct then implements `IntoTools`; all its tools share one instance. Methods take `&self`.
/// `#[tools(prefix = "fs_")]` is prepended to every name that a method does not set itself.
#[proc_macro_attribute]
pub fn tools(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_impl::expand(options.into(), item.into(), haft()).into()
}

/// `tools` for crates that depend on `haft-core` alone.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn tools_core(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_impl::expand(options.into(), item.into(), haft_core()).into()
}

/// Makes a tool from an argument struct with an `async fn run(self, cx: &ToolContext)`.
///
/// The fields are the arguments, the struct's doc comment is the description, and `#[tool(…)]` on
/// the struct takes the same options as the attribute. `Fetch::tool()` returns the tool.
#[proc_macro_derive(Tool, attributes(tool, param, default, inject))]
pub fn derive_tool(item: TokenStream) -> TokenStream {
    expand_struct::expand(item.into(), haft()).into()
}

/// The derive `Tool` for crates that depend on `haft-core` alone.
#[doc(hidden)]
#[proc_macro_derive(ToolCore, attributes(tool, param, default, inject))]
pub fn derive_tool_core(item: TokenStream) -> TokenStream {
    expand_struct::expand(item.into(), haft_core()).into()
}

fn derive_name(name: &str) -> Ident {
    Ident::new(name, proc_macro2::Span::call_site())
}

/// Makes a struct or an enum usable inside the arguments of a tool: it derives `Deserialize` and
/// `JsonSchema` from haft's own serde and schemars. Attributes of both work as usual.
#[proc_macro_attribute]
pub fn arguments(options: TokenStream, item: TokenStream) -> TokenStream {
    let derive = derive_name("Deserialize");
    expand_data::expand("arguments", &derive, options.into(), item.into(), haft()).into()
}

/// `arguments` for crates that depend on `haft-core` alone.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn arguments_core(options: TokenStream, item: TokenStream) -> TokenStream {
    let derive = derive_name("Deserialize");
    expand_data::expand("arguments", &derive, options.into(), item.into(), haft_core()).into()
}

/// Makes a struct or an enum a result: bodies of tools and closures may return it, also in a list
/// or as the `T` of `Json<T>`. It derives `Serialize` and `JsonSchema` from haft's own serde and
/// schemars; the schema is exported.
#[proc_macro_attribute]
pub fn output(options: TokenStream, item: TokenStream) -> TokenStream {
    let derive = derive_name("Serialize");
    expand_data::expand("output", &derive, options.into(), item.into(), haft()).into()
}

/// `output` for crates that depend on `haft-core` alone.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn output_core(options: TokenStream, item: TokenStream) -> TokenStream {
    let derive = derive_name("Serialize");
    expand_data::expand("output", &derive, options.into(), item.into(), haft_core()).into()
}
