//! `#[derive(Tool)]` on an argument struct.
//!
//! In: a struct whose fields are the arguments, with a method `run(self, cx)`. Out: a second struct
//! that implements `Tool`, and `tool()` to get one; the registry also takes the struct by its name.
//! Every call makes a fresh instance.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Data, DataStruct, DeriveInput, Fields, Ident, Path, ext::IdentExt};

use crate::{
    check, docs,
    errors::Errors,
    expand_fn, expand_impl, names, params,
    params::Param,
    tool_impl::{self, ToolImpl},
};

/// Expands the derive.
pub(crate) fn expand(item: TokenStream, krate: Path) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => input,
        Err(e) => return e.to_compile_error(),
    };
    let mut errors = Errors::default();
    let ours: Vec<Attribute> =
        input.attrs.iter().filter(|attr| attr.path().is_ident("tool")).cloned().collect();
    let options = expand_impl::options(&ours, None, &mut errors);
    let krate = options.krate.clone().unwrap_or(krate);
    check::options(&options, &mut errors);

    let this = &input.ident;
    let plain = names::snake(&this.unraw().to_string());
    let docs = docs::text(&input.attrs);
    let (name, description) = expand_fn::named(&options, &plain, this, docs, &mut errors);
    let params = fields(&input, &mut errors);
    params::check(&params, &mut errors);
    let ident = options.type_name.clone().unwrap_or_else(|| format_ident!("{}Tool", this.unraw()));

    let vis = &input.vis;
    let added = added(&input, &ident);
    let about = format!("The tool `{name}`, made from `{this}`.");
    let declared = quote! {
        #[doc = #about]
        #[derive(Debug, Clone, Copy)]
        #vis struct #ident;

        #[automatically_derived]
        impl #this {
            /// Returns the tool whose arguments this is.
            #vis fn tool() -> #ident {
                #ident
            }
        }

        #added
    };
    if !errors.is_empty() {
        if !input.generics.params.is_empty() {
            return errors.to_compile_errors();
        }
        let placeholder = tool_impl::placeholder(&krate, &ident, &errors);
        return quote!(#declared #placeholder);
    }

    let injections = tool_impl::injections(&params);
    let passes = tool_impl::passes(&params);
    let names = params.iter().map(|param| &param.ident);
    let span = this.span();
    // For a struct without `run`: this one is not implemented, and says what to write.
    let missing_run = quote! {
        #[allow(unused_imports, reason = "only a struct without `run` needs it")]
        use __haft::private::MissingRun as _;
    };
    let body = quote_spanned! {span=>
        #missing_run
        #injections
        let __value = #this::run(#this { #(#names: #passes,)* }, __cx).await;
    };
    let mut items = ToolImpl {
        krate: &krate,
        ident: &ident,
        name: &name,
        description: &description,
        options: &options,
        params: &params,
        returns: Some(quote_spanned!(span=> {
            #missing_run
            __haft::private::returns(#this::run)
        })),
        body,
        value: span,
        item: span,
    }
    .write();
    items.extend(added_unit(&input, &ident));
    let hidden = tool_impl::in_anonymous_const(&krate, &[], &items);
    quote!(#declared #hidden)
}

/// What lets the registry add the struct by its name, as in `add(Fetch)`. A struct with named
/// fields leaves its name free for a constant, which is the tool.
fn added(input: &DeriveInput, tool: &Ident) -> TokenStream {
    let Data::Struct(DataStruct { fields: Fields::Named(_), .. }) = &input.data else {
        return TokenStream::new();
    };
    let (this, vis) = (&input.ident, &input.vis);
    quote! {
        #[doc(hidden)]
        #[allow(non_upper_case_globals, dead_code, reason = "it has the name of the struct")]
        #vis const #this: #tool = #tool;
    }
}

/// The same for a struct without fields, whose name is a value already.
fn added_unit(input: &DeriveInput, tool: &Ident) -> TokenStream {
    let Data::Struct(DataStruct { fields: Fields::Unit, .. }) = &input.data else {
        return TokenStream::new();
    };
    let this = &input.ident;
    quote! {
        #[automatically_derived]
        impl __haft::private::api::IntoTools for #this {
            fn into_tools(self) -> ::std::vec::Vec<__haft::private::api::DynTool> {
                __haft::private::api::IntoTools::into_tools(#tool)
            }
        }
    }
}

fn fields(input: &DeriveInput, errors: &mut Errors) -> Vec<Param> {
    if !input.generics.params.is_empty() {
        let message = "an argument struct cannot be generic: a tool has one JSON Schema; \
                       write concrete types";
        errors.at(&input.generics.params, message);
    }
    let data = match &input.data {
        Data::Struct(data) => data,
        Data::Enum(data) => {
            let message = "a call has named arguments, so a tool is a struct with named fields; \
                           an enum can be the type of one of them";
            errors.at(data.enum_token, message);
            return Vec::new();
        }
        Data::Union(data) => {
            let message = "a call has named arguments, so a tool is a struct with named fields";
            errors.at(data.union_token, message);
            return Vec::new();
        }
    };
    match &data.fields {
        Fields::Named(named) => named
            .named
            .iter()
            .filter_map(|field| {
                Param::read(field.ident.as_ref(), &field.attrs, &field.ty, field, errors)
            })
            .collect(),
        Fields::Unit => Vec::new(),
        Fields::Unnamed(fields) => {
            let message = "a call has named arguments; give the fields names, as in \
                           `struct Fetch { url: String }`";
            errors.at(fields, message);
            Vec::new()
        }
    }
}
