//! `#[arguments]` and `#[output]` on a struct or an enum.
//!
//! In: a data type of the author. Out: the same, with the derives of serde and schemars from haft's
//! re-exports, so that neither crate is needed in the author's Cargo.toml.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Item, Path};

use crate::{entry::Entry, errors::Errors, expand_fn, values};

/// Expands one of the attributes; `serde_derive` is `Deserialize` or `Serialize`.
pub(crate) fn expand(
    attribute: &str,
    serde_derive: &Ident,
    options: TokenStream,
    item: TokenStream,
    krate: Path,
) -> TokenStream {
    let mut errors = Errors::default();
    let mut krate = krate;
    for entry in errors.take(Entry::list(options)).unwrap_or_default() {
        match entry.word().as_str() {
            "crate" => {
                let path = values::function(&entry, "crate = ::haft").cloned();
                krate = errors.take(path).unwrap_or(krate);
            }
            other => {
                let message = format!("`#[{attribute}]` has no option `{other}`; expected crate");
                errors.at(&entry.name, message);
            }
        }
    }
    if !matches!(syn::parse2::<Item>(item.clone()), Ok(Item::Struct(_) | Item::Enum(_))) {
        let message = format!("`#[{attribute}]` goes on a struct or an enum");
        errors.at(expand_fn::head(&item), message);
    }
    if !errors.is_empty() {
        let errors = errors.to_compile_errors();
        return quote!(#item #errors);
    }
    let serde = quote!(#krate::private::serde).to_string();
    let schemars = quote!(#krate::private::schemars).to_string();
    quote! {
        #[derive(#krate::private::serde::#serde_derive, #krate::private::schemars::JsonSchema)]
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars)]
        #item
    }
}
