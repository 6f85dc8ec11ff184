//! Writes `Tool::spec`, `Tool::profile` and `Tool::guard` from the options.
//!
//! What is constant goes into the spec. What a function decides goes into the claim, which starts
//! from the declared one, so silence stays strict.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Path, spanned::Spanned};

use crate::{
    options::Options,
    params::{Kind, Param},
    values::Said,
};

/// Writes the methods of the trait that the options decide.
pub(crate) fn write(
    name: &str,
    description: &str,
    options: &Options,
    params: &[Param],
) -> TokenStream {
    let spec = spec(name, description, options, params);
    let claim = claim(options, params);
    let guard = options.per_call.get("guard").map(|path| {
        let call = over_arguments(path, params);
        quote! {
            async fn guard(
                &self,
                __args: &Self::Args,
                __cx: &__haft::ToolContext,
            ) -> ::core::result::Result<::core::option::Option<__haft::Verdict>, __haft::Failure> {
                __haft::private::verdict(#call)
            }
        }
    });
    let guards = guard.is_some();
    quote! {
        const CHECKS: bool = false;
        const GUARDS: bool = #guards;

        #spec #claim #guard
    }
}

fn spec(name: &str, description: &str, options: &Options, params: &[Param]) -> TokenStream {
    let aliases = &options.aliases;
    let settings = &options.settings;
    let flags = [("read_only", &options.read_only), ("destructive", &options.destructive)];
    let flags = flags.into_iter().filter_map(|(word, said)| {
        let field = syn::Ident::new(word, proc_macro2::Span::call_site());
        match said {
            Some(Said::Now(said)) => Some(quote!(__spec.#field = Some(#said);)),
            Some(Said::PerCall(_)) => Some(quote!(__spec.per_call.push(#word);)),
            None => None,
        }
    });
    let per_call = options.per_call.keys();
    let needs = params.iter().filter_map(|param| match &param.kind {
        Kind::Injected(ty) => Some(quote!(__haft::private::need::<#ty>(&mut __spec);)),
        Kind::Argument(_) | Kind::Context => None,
    });
    quote! {
        fn spec(&self) -> __haft::ToolSpec {
            use ::core::option::Option::{None, Some};
            let mut __spec = __haft::ToolSpec::new(#name, #description);
            #(__spec.aliases.push(#aliases.into());)*
            #(#flags)*
            #(#settings)*
            #(__spec.per_call.push(#per_call);)*
            #(#needs)*
            __spec
        }
    }
}

fn claim(options: &Options, params: &[Param]) -> Option<TokenStream> {
    let mut steps = Vec::new();
    let said_class = options.place("class").is_some();
    let said_destructive = options.destructive.is_some() || options.can_destroy;
    if let Some(Said::PerCall(path)) = &options.read_only {
        let call = over_arguments(path, params);
        let class =
            (!said_class).then(|| quote!(__claim.class = __haft::ConcurrencyClass::ReadOnly;));
        let destructive = (!said_destructive)
            .then(|| quote!(__claim.destructive = ::core::option::Option::Some(false);));
        steps.push(quote! {
            __claim.read_only = #call;
            if __claim.read_only { #class #destructive }
        });
    }
    if let Some(Said::PerCall(path)) = &options.destructive {
        let call = over_arguments(path, params);
        steps.push(quote!(__claim.destructive = ::core::option::Option::Some(#call);));
    }
    if let Some(path) = options.per_call.get("class") {
        let call = over_arguments(path, params);
        steps.push(quote!(__claim.class = #call;));
    }
    if let Some(path) = options.per_call.get("effects") {
        let call = over_arguments(path, params);
        steps.push(quote!(__claim.effects = ::core::convert::Into::into(#call);));
    }
    if let Some(path) = options.per_call.get("keys") {
        let call = over_arguments(path, params);
        steps.push(quote!(__claim.keys = __haft::private::keys(#call);));
    }
    (!steps.is_empty()).then(|| {
        quote! {
            fn profile(
                &self,
                __declared: __haft::CallProfile,
                __args: &Self::Args,
                __cx: &__haft::ToolContext,
            ) -> __haft::CallProfile {
                let mut __claim = __declared;
                #(#steps)*
                __claim.settled()
            }
        }
    })
}

/// Calls a function with each visible argument by reference, in order.
fn over_arguments(path: &Path, params: &[Param]) -> TokenStream {
    let fields = params.iter().filter(|p| p.argument().is_some()).map(|p| &p.ident);
    // At the path, so that a function with other parameters is told there.
    let args = fields.map(|field| {
        let mut field = field.clone();
        field.set_span(path.span());
        quote_spanned!(path.span()=> &__args.#field)
    });
    quote!(#path(#(#args),*))
}
