//! `#[arguments]` and `#[output]` on a struct or an enum.
//!
//! In: a data type of the author. Out: the same, with the derives of serde and schemars from haft's
//! re-exports, so that neither crate is needed in the author's Cargo.toml. `#[output]` also makes
//! it a type that a body may return.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{GenericParam, Generics, Item, Path, WherePredicate, parse_quote};

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
    let declared = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Struct(item)) => Some((item.ident, item.generics)),
        Ok(Item::Enum(item)) => Some((item.ident, item.generics)),
        _ => {
            let message = format!("`#[{attribute}]` goes on a struct or an enum");
            errors.at(expand_fn::head(&item), message);
            None
        }
    };
    let Some((name, generics)) = declared.filter(|_| errors.is_empty()) else {
        let errors = errors.to_compile_errors();
        return quote!(#item #errors);
    };
    let serde = quote!(#krate::private::serde).to_string();
    let schemars = quote!(#krate::private::schemars).to_string();
    let into_output = (attribute == "output").then(|| into_output(&name, &generics, &krate));
    quote! {
        #[derive(#krate::private::serde::#serde_derive, #krate::private::schemars::JsonSchema)]
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars)]
        #item

        #into_output
    }
}

/// Generates the conversion into an output: that of `Json`, and of a list of such values.
fn into_output(name: &Ident, generics: &Generics, krate: &Path) -> TokenStream {
    let mut generics = generics.clone();
    let private = quote!(#krate::private);
    if generics.params.iter().any(|param| !matches!(param, GenericParam::Lifetime(_))) {
        let data: WherePredicate = parse_quote!(
            Self: #private::serde::Serialize + #private::schemars::JsonSchema + ::core::marker::Send
        );
        generics.make_where_clause().predicates.push(data);
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #parameters #private::api::IntoOutput for #name #arguments #bounds {
            fn schema() -> ::core::option::Option<#private::serde_json::Value> {
                <#private::api::Json<Self> as #private::api::IntoOutput>::schema()
            }

            fn into_output(
                self,
                cx: &#private::api::ToolContext,
            ) -> impl ::core::future::Future<
                Output = ::core::result::Result<#private::api::Output, #private::api::Failure>,
            > + ::core::marker::Send {
                #private::api::IntoOutput::into_output(#private::api::Json(self), cx)
            }
        }

        #[automatically_derived]
        impl #parameters #private::ListItem for #name #arguments #bounds {
            fn list_output(
                items: ::std::vec::Vec<Self>,
            ) -> ::core::result::Result<#private::api::Output, #private::api::Failure> {
                #private::list_of_data(&items)
            }
        }
    }
}
