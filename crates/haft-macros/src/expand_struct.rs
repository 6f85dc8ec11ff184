//! `#[derive(Tool)]` on an argument struct.
//!
//! In: a struct whose fields are the arguments and whose `run(self, cx)` does the work. Out: a
//! second struct that implements `Tool`, and `tool()` to get one. Every call makes a fresh instance.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Data, DeriveInput, Fields, Path, ext::IdentExt};

use crate::{
    blueprint::{self, Blueprint},
    check, docs, expand_fn, expand_impl,
    mistakes::Mistakes,
    names, params,
    params::Param,
};

/// Expands the derive.
pub(crate) fn expand(item: TokenStream, krate: Path) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => input,
        Err(e) => return e.to_compile_error(),
    };
    let mut mistakes = Mistakes::default();
    let ours: Vec<Attribute> =
        input.attrs.iter().filter(|attr| attr.path().is_ident("tool")).cloned().collect();
    let options = expand_impl::options(&ours, None, &mut mistakes);
    let krate = options.krate.clone().unwrap_or(krate);
    check::options(&options, &mut mistakes);

    let this = &input.ident;
    let plain = names::snake(&this.unraw().to_string());
    let docs = docs::text(&input.attrs);
    let (name, description) = expand_fn::named(&options, &plain, this, docs, &mut mistakes);
    let params = fields(&input, &mut mistakes);
    params::check(&params, &mut mistakes);
    let ident = options.type_name.clone().unwrap_or_else(|| format_ident!("{}Tool", this.unraw()));

    let vis = &input.vis;
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
    };
    if !mistakes.is_empty() {
        if !input.generics.params.is_empty() {
            return mistakes.to_compile_errors();
        }
        let stand_in = blueprint::stand_in(&krate, &ident, &mistakes);
        return quote!(#declared #stand_in);
    }

    let injections = blueprint::injections(&params);
    let passes = blueprint::passes(&params);
    let names = params.iter().map(|param| &param.ident);
    let span = this.span();
    let body = quote_spanned! {span=>
        #injections
        let __value = #this::run(#this { #(#names: #passes,)* }, __cx).await;
    };
    let items = Blueprint {
        krate: &krate,
        ident: &ident,
        name: &name,
        description: &description,
        options: &options,
        params: &params,
        returns: Some(quote_spanned!(span=> __haft::private::returns(#this::run))),
        body,
        value: span,
        item: span,
    }
    .write();
    let hidden = blueprint::enclosed(&krate, &[], &items);
    quote!(#declared #hidden)
}

fn fields(input: &DeriveInput, mistakes: &mut Mistakes) -> Vec<Param> {
    if !input.generics.params.is_empty() {
        let message = "an argument struct cannot be generic: the model gives JSON, and one schema \
                       must say of what; write the types out";
        mistakes.at(&input.generics.params, message);
    }
    let data = match &input.data {
        Data::Struct(data) => data,
        Data::Enum(data) => {
            let message = "a call has named arguments, so a tool is a struct with named fields; \
                           an enum can be the type of one of them";
            mistakes.at(data.enum_token, message);
            return Vec::new();
        }
        Data::Union(data) => {
            let message = "a call has named arguments, so a tool is a struct with named fields";
            mistakes.at(data.union_token, message);
            return Vec::new();
        }
    };
    match &data.fields {
        Fields::Named(named) => named
            .named
            .iter()
            .filter_map(|field| {
                Param::read(field.ident.as_ref(), &field.attrs, &field.ty, field, mistakes)
            })
            .collect(),
        Fields::Unit => Vec::new(),
        Fields::Unnamed(fields) => {
            let message = "a call has named arguments; give the fields names, as in \
                           `struct Fetch { url: String }`";
            mistakes.at(fields, message);
            Vec::new()
        }
    }
}
