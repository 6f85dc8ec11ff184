//! Generates `Tool::spec`, `Tool::profile`, `Tool::check` and `Tool::guard` from the options.
//!
//! Constants go into the spec. Functions go into the profile, which starts from the declared one,
//! so that defaults stay strict.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Path, spanned::Spanned};

use crate::{
    options::Options,
    params::{Kind, Param},
    values::Setting,
};

/// Generates the trait methods that depend on the options.
pub(crate) fn write(
    name: &str,
    description: &str,
    options: &Options,
    params: &[Param],
) -> TokenStream {
    let spec = spec(name, description, options, params);
    let profile = profile(options, params);
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
    let check = options.per_call.get("check").map(|path| {
        let call = over_arguments(path, params);
        let convert = quote_spanned!(path.span()=> __haft::private::check_result(#call));
        quote! {
            async fn check(
                &self,
                __args: &Self::Args,
                __cx: &__haft::ToolContext,
            ) -> ::core::result::Result<(), __haft::Failure> {
                #convert
            }
        }
    });
    let (checks, guards, profiles) = (check.is_some(), guard.is_some(), profile.is_some());
    quote! {
        const CHECKS: bool = #checks;
        const GUARDS: bool = #guards;
        const PROFILES: bool = #profiles;

        #spec #profile #check #guard
    }
}

fn spec(name: &str, description: &str, options: &Options, params: &[Param]) -> TokenStream {
    let aliases = &options.aliases;
    let settings = &options.settings;
    let flags = [("read_only", &options.read_only), ("destructive", &options.destructive)];
    let flags = flags.into_iter().filter_map(|(word, setting)| {
        let field = syn::Ident::new(word, proc_macro2::Span::call_site());
        match setting {
            Some(Setting::Const(value)) => Some(quote!(__spec.#field = Some(#value);)),
            Some(Setting::PerCall(_)) => Some(quote!(__spec.per_call.push(#word);)),
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

fn profile(options: &Options, params: &[Param]) -> Option<TokenStream> {
    let mut steps = Vec::new();
    let has_class = options.span_of("class").is_some();
    let has_destructive = options.destructive.is_some() || options.can_destroy;
    if let Some(Setting::PerCall(path)) = &options.read_only {
        let call = over_arguments(path, params);
        let class =
            (!has_class).then(|| quote!(__profile.class = __haft::ConcurrencyClass::ReadOnly;));
        let destructive = (!has_destructive)
            .then(|| quote!(__profile.destructive = ::core::option::Option::Some(false);));
        steps.push(quote! {
            __profile.read_only = #call;
            if __profile.read_only { #class #destructive }
        });
    }
    if let Some(Setting::PerCall(path)) = &options.destructive {
        let call = over_arguments(path, params);
        steps.push(quote!(__profile.destructive = ::core::option::Option::Some(#call);));
    }
    if let Some(path) = options.per_call.get("class") {
        let call = over_arguments(path, params);
        steps.push(quote!(__profile.class = #call;));
    }
    if let Some(path) = options.per_call.get("effects") {
        let call = over_arguments(path, params);
        steps.push(quote!(__profile.effects = ::core::convert::Into::into(#call);));
    }
    if let Some(path) = options.per_call.get("keys") {
        let call = over_arguments(path, params);
        steps.push(quote!(__profile.keys = __haft::private::keys(#call);));
    }
    (!steps.is_empty()).then(|| {
        quote! {
            fn profile(
                &self,
                __declared: __haft::CallProfile,
                __args: &Self::Args,
                __cx: &__haft::ToolContext,
            ) -> __haft::CallProfile {
                let mut __profile = __declared;
                #(#steps)*
                __profile.normalized()
            }
        }
    })
}

/// Calls a function with each visible argument by reference, in order.
fn over_arguments(path: &Path, params: &[Param]) -> TokenStream {
    let fields = params.iter().filter(|p| p.argument().is_some()).map(|p| &p.ident);
    // With the span of the path, so that a wrong signature is reported there.
    let args = fields.map(|field| {
        let mut field = field.clone();
        field.set_span(path.span());
        quote_spanned!(path.span()=> &__args.#field)
    });
    quote!(#path(#(#args),*))
}
