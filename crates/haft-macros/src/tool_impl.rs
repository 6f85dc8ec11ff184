//! Writes the implementation of `Tool`: everything the three macros have in common.
//!
//! The generated items stand in an anonymous constant, so that nothing but the tool's own type is
//! added to the author's names; inside, `__haft` is the crate.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Path};

use crate::{
    args,
    mistakes::Mistakes,
    options::Options,
    params::{Kind, Param},
    spec,
};

/// What is known of a tool once its item has been read.
pub(crate) struct Blueprint<'a> {
    pub(crate) krate: &'a Path,
    /// The type that implements `Tool`.
    pub(crate) ident: &'a Ident,
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    pub(crate) options: &'a Options,
    pub(crate) params: &'a [Param],
    /// An expression of type `Returns<T>`, for the output's schema; absent when none can be named.
    pub(crate) returns: Option<TokenStream>,
    /// Statements that end in binding `__value`, the body's return value.
    pub(crate) body: TokenStream,
    /// Where a value that nobody can read is told.
    pub(crate) value: Span,
    /// Where a body that cannot cross threads is told.
    pub(crate) item: Span,
}

impl Blueprint<'_> {
    /// Writes the argument struct, the output and the implementation.
    pub(crate) fn write(&self) -> TokenStream {
        let Self { krate, ident, name, description, options, params, body, value, item, .. } = self;
        let args_ident = format_ident!("__HaftArgs{}", ident);
        let args = args::write(&args_ident, params, krate);
        let methods = spec::write(name, description, options, params);
        let (output_ident, output) = self.output();
        let finish =
            if output.is_some() { quote!(__read.map(#output_ident)) } else { quote!(__read) };
        // The span makes a value that cannot be read a mistake of the return type, not of ours.
        let read = quote_spanned! {*value=>
            let mut __returned = __haft::private::Returned(::core::option::Option::Some(__value));
            let __read = (&mut &mut &mut &mut &mut &mut &mut &mut __returned).read(__cx).await;
        };
        let header = quote_spanned! {*item=>
            async fn call(
                &self,
                __args: Self::Args,
                __cx: &__haft::ToolContext,
            ) -> ::core::result::Result<Self::Output, __haft::Failure>
        };
        quote! {
            #args
            #output

            #[automatically_derived]
            impl __haft::Tool for #ident {
                type Args = #args_ident;
                type Output = #output_ident;

                #methods

                #header {
                    #[allow(unused_imports, reason = "which reading applies is the compiler's choice")]
                    use __haft::private::{
                        ReadAnyResult as _, ReadAnything as _, ReadOutput as _, ReadRaw as _,
                        ReadRawResult as _, ReadRawShown as _, ReadResult as _, ReadShown as _,
                    };
                    #body
                    #read
                    #finish
                }
            }
        }
    }

    /// Returns the output's type, and its definition when it has a schema of its own to find.
    fn output(&self) -> (TokenStream, Option<TokenStream>) {
        let Some(returns) = &self.returns else { return (quote!(__haft::Output), None) };
        let name = format_ident!("__HaftOutput{}", self.ident);
        let definition = quote! {
            #[derive(Debug)]
            pub struct #name(__haft::Output);

            #[automatically_derived]
            impl __haft::IntoOutput for #name {
                fn schema() -> ::core::option::Option<__haft::private::serde_json::Value> {
                    #[allow(unused_imports, reason = "which reading applies is the compiler's choice")]
                    use __haft::private::{
                        SchemaOfNothing as _, SchemaOfOutput as _, SchemaOfResult as _,
                    };
                    (&&&#returns).output_schema()
                }

                fn into_output(
                    self,
                    _: &__haft::ToolContext,
                ) -> impl ::core::future::Future<
                    Output = ::core::result::Result<__haft::Output, __haft::Failure>,
                > + ::core::marker::Send {
                    ::core::future::ready(::core::result::Result::Ok(self.0))
                }
            }
        };
        (quote!(#name), Some(definition))
    }
}

/// Binds what the host injects, each to its own name.
pub(crate) fn injections(params: &[Param]) -> TokenStream {
    let lets = params.iter().enumerate().filter_map(|(i, param)| match &param.kind {
        Kind::Injected(ty) => {
            let name = format_ident!("__injected_{}", i);
            Some(quote!(let #name = <#ty as __haft::private::Inject>::inject(__cx)?;))
        }
        Kind::Argument(_) | Kind::Context => None,
    });
    quote!(#(#lets)*)
}

/// Returns the expression that gives each parameter to the body, in order.
pub(crate) fn passes(params: &[Param]) -> Vec<TokenStream> {
    let pass = |(i, param): (usize, &Param)| match &param.kind {
        Kind::Argument(argument) => {
            let field = &param.ident;
            let and = argument.borrowed.then(|| quote!(&));
            quote!(#and __args.#field)
        }
        Kind::Context => quote!(__cx),
        Kind::Injected(_) => {
            let name = format_ident!("__injected_{}", i);
            quote!(#name)
        }
    };
    params.iter().enumerate().map(pass).collect()
}

/// Puts generated items where they disturb nobody.
pub(crate) fn enclosed(krate: &Path, conditions: &[Attribute], items: &TokenStream) -> TokenStream {
    quote! {
        #(#conditions)*
        #[doc(hidden)]
        #[allow(
            clippy::all,
            clippy::pedantic,
            missing_docs,
            missing_debug_implementations,
            non_camel_case_types,
            non_snake_case,
            unreachable_pub,
            unused_qualifications,
            reason = "generated code"
        )]
        const _: () = {
            use #krate as __haft;
            #items
        };
    }
}

/// Writes a tool that does nothing, so that a mistake is told once and not again at every use.
pub(crate) fn stand_in(krate: &Path, ident: &Ident, mistakes: &Mistakes) -> TokenStream {
    let errors = mistakes.to_compile_errors();
    let items = quote! {
        impl __haft::Tool for #ident {
            type Args = __haft::private::serde_json::Value;
            type Output = __haft::Output;

            fn spec(&self) -> __haft::ToolSpec {
                __haft::ToolSpec::new("", "")
            }

            async fn call(
                &self,
                _: Self::Args,
                _: &__haft::ToolContext,
            ) -> ::core::result::Result<Self::Output, __haft::Failure> {
                ::core::result::Result::Ok(::core::default::Default::default())
            }
        }
    };
    let items = enclosed(krate, &[], &items);
    quote!(#errors #items)
}
