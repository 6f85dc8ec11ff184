//! `#[tool]`, `#[tools]` and `#[derive(Tool)]`.
use proc_macro::TokenStream;
/// x
#[proc_macro_attribute]
pub fn tool(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}
/// x
#[proc_macro_attribute]
pub fn tool_core(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}
/// x
#[proc_macro_attribute]
pub fn tools(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}
/// x
#[proc_macro_attribute]
pub fn tools_core(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}
/// x
#[proc_macro_derive(Tool, attributes(tool, param, default))]
pub fn derive_tool(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
