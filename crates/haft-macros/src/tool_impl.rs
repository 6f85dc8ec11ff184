//! Generates the implementation of `Tool`, for all three macros.
//!
//! The generated items are inside an anonymous constant, so that only the tool's type is added to
//! the author's namespace. Inside, `__haft` is the crate.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Path};

use crate::{
    args,
    errors::Errors,
    options::Options,
    params::{Kind, Param},
    spec,
};

/// A parsed tool, ready for code generation.
pub(crate) struct ToolImpl<'a> {
    pub(crate) krate: &'a Path,
    /// The type that implements `Tool`.
    pub(crate) ident: &'a Ident,
    pub(crate) name: &'a str,
    pub(crate) description: &'a str,
    pub(crate) options: &'a Options,
    pub(crate) params: &'a [Param],
    /// An expression of type `Returns<T>`, for the output schema. `None` if `T` cannot be named.
    pub(crate) returns: Option<TokenStream>,
    /// Statements that bind `__value`, the return value of the body.
    pub(crate) body: TokenStream,
    /// Where to report an unsupported return type.
    pub(crate) value: Span,
    /// Where to report a future that is not `Send`.
    pub(crate) item: Span,
}

impl ToolImpl<'_> {
    /// Generates the argument struct, the output type and the implementation.
    pub(crate) fn write(&self) -> TokenStream {
        let Self { krate, ident, name, description, options, params, body, value, item, .. } = self;
        let args_ident = format_ident!("__HaftArgs{}", ident);
        let args = args::write(&args_ident, params, krate);
        let methods = spec::write(name, description, options, params);
        let (output_ident, output) = self.output();
        let finish =
            if output.is_some() { quote!(__read.map(#output_ident)) } else { quote!(__read) };
        // With this span, an unsupported return value is reported at the author's return type.
        let read = quote_spanned! {*value=>
            let mut __returned = __haft::private::Returned(::core::option::Option::Some(__value));
            let __read = (&mut &mut &mut &mut &mut &mut &mut &mut &mut &mut __returned).read(__cx).await;
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
                    #[allow(unused_imports, reason = "method resolution picks one of them")]
                    use __haft::private::{
                        ReadAnyResult as _, ReadAnything as _, ReadError as _, ReadOutput as _,
                        ReadRaw as _, ReadRawError as _, ReadRawResult as _, ReadRawShown as _,
                        ReadResult as _, ReadShown as _,
                    };
                    #body
                    #read
                    #finish
                }
            }
        }
    }

    /// Returns the output type, and its definition if the return type may have a schema.
    fn output(&self) -> (TokenStream, Option<TokenStream>) {
        let Some(returns) = &self.returns else { return (quote!(__haft::Output), None) };
        let name = format_ident!("__HaftOutput{}", self.ident);
        let definition = quote! {
            #[derive(Debug)]
            pub struct #name(__haft::Output);

            #[automatically_derived]
            impl __haft::IntoOutput for #name {
                fn schema() -> ::core::option::Option<__haft::private::serde_json::Value> {
                    #[allow(unused_imports, reason = "method resolution picks one of them")]
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

/// Generates bindings for the injected values.
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

/// Returns the argument expressions for the call of the body, in order.
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

/// Wraps generated items in an anonymous constant.
pub(crate) fn in_anonymous_const(
    krate: &Path,
    conditions: &[Attribute],
    items: &TokenStream,
) -> TokenStream {
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
            use #krate::private::api as __haft;
            #items
        };
    }
}

/// Generates an empty implementation, so that an error is not repeated at every use of the tool.
pub(crate) fn placeholder(krate: &Path, ident: &Ident, errors: &Errors) -> TokenStream {
    let errors = errors.to_compile_errors();
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
    let items = in_anonymous_const(krate, &[], &items);
    quote!(#errors #items)
}
