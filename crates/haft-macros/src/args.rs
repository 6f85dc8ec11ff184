//! Generates the argument struct, with the derives of serde and schemars.
//!
//! Both derives come from haft's re-exports, so the user's Cargo.toml needs neither.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, ExprLit, Ident, Lit, Path, ext::IdentExt, spanned::Spanned};

use crate::params::{Argument, Default, Param};

/// Generates the struct and the functions for its defaults.
pub(crate) fn write(name: &Ident, params: &[Param], krate: &Path) -> TokenStream {
    let serde = quote!(#krate::private::serde).to_string();
    let schemars = quote!(#krate::private::schemars).to_string();
    let arguments = || params.iter().filter_map(|p| p.argument().map(|a| (&p.ident, a)));
    let fields = arguments().map(|(ident, argument)| field(name, ident, argument));
    let defaults = arguments().filter_map(|(ident, argument)| default(ident, argument));
    // Gives a clear compile error for an unsupported type, before the derives do. An alias of
    // `State` satisfies the derives, so that this is its only error.
    let type_checks = arguments().map(|(_, argument)| {
        let ty = &argument.field;
        quote_spanned! {ty.span()=>
            __haft::private::argument::<#ty>();
            ::core::assert!(
                !__haft::private::Parameter::<#ty>::IS_HOST_VALUE,
                "this type is an alias of `State` or `RunState`, which the host supplies; mark the parameter with `#[inject]`",
            );
        }
    });
    // schemars leaves an object without properties open; close it, as the tool has no arguments.
    let closed = arguments()
        .next()
        .is_none()
        .then(|| quote!(#[schemars(extend("properties" = {}, "additionalProperties" = false))]));
    quote! {
        const _: () = {
            #[allow(unused_imports, reason = "found only for a type that the model fills in")]
            use __haft::private::ModelValue as _;
            #(#type_checks)*
        };

        #[derive(__haft::private::serde::Deserialize, __haft::private::schemars::JsonSchema)]
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars)]
        #closed
        pub struct #name { #(#fields,)* }

        impl #name { #(#defaults)* }
    }
}

fn field(name: &Ident, ident: &Ident, argument: &Argument) -> TokenStream {
    let ty = &argument.field;
    let rename = argument.rename.as_ref().map(|to| quote!(#[serde(rename = #to)]));
    let default = argument.default.as_ref().map(|_| {
        let path = format!("{name}::{}", default_name(ident));
        quote!(#[serde(default = #path)])
    });
    let description = (!argument.description.is_empty()).then(|| {
        let text = &argument.description;
        quote!(#[schemars(description = #text)])
    });
    let schema = &argument.schema;
    quote! {
        #rename #default #description #(#[schemars(#schema)])*
        #ident: #ty
    }
}

fn default_name(ident: &Ident) -> Ident {
    format_ident!("__default_{}", ident.unraw())
}

fn default(ident: &Ident, argument: &Argument) -> Option<TokenStream> {
    let name = default_name(ident);
    let ty = &argument.field;
    let value = match argument.default.as_ref()? {
        Default::OfType => quote!(<#ty as ::core::default::Default>::default()),
        // Text is converted into the field's type. A number is used as is, because `From` would
        // leave its type ambiguous.
        Default::Of(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => {
            quote!(::core::convert::From::from(#text))
        }
        Default::Of(expr) => expr.to_token_stream(),
    };
    Some(quote!(fn #name() -> #ty { #value }))
}
