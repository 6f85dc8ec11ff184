//! Writes the argument struct that serde decodes and schemars describes.
//!
//! Both derives are reached through haft's own re-exports, so a user's manifest needs neither.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Expr, ExprLit, Ident, Lit, Path, ext::IdentExt, spanned::Spanned};

use crate::params::{Argument, Default, Param};

/// Writes the struct and the functions behind its defaults.
pub(crate) fn write(name: &Ident, params: &[Param], krate: &Path) -> TokenStream {
    let serde = quote!(#krate::private::serde).to_string();
    let schemars = quote!(#krate::private::schemars).to_string();
    let arguments = || params.iter().filter_map(|p| p.argument().map(|a| (&p.ident, a)));
    let fields = arguments().map(|(ident, argument)| field(name, ident, argument));
    let defaults = arguments().filter_map(|(ident, argument)| default(ident, argument));
    // Says in words what the derives would only say in traits.
    let known = arguments().map(|(_, argument)| {
        let ty = &argument.field;
        quote_spanned!(ty.span()=> __haft::private::argument::<#ty>();)
    });
    // An object without properties is derived open; a tool without arguments takes none.
    let closed = arguments()
        .next()
        .is_none()
        .then(|| quote!(#[schemars(extend("properties" = {}, "additionalProperties" = false))]));
    quote! {
        const _: () = { #(#known)* };

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
        // A text is welcome wherever it can become the field's type; a number is taken as it is,
        // because `From` would leave its type open.
        Default::Of(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) => {
            quote!(::core::convert::From::from(#text))
        }
        Default::Of(expr) => expr.to_token_stream(),
    };
    Some(quote!(fn #name() -> #ty { #value }))
}
