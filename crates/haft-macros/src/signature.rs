//! Reads the signature of a function or method, and takes our attributes off it.
//!
//! In: a signature as the author wrote it. Out: its parameters, and a signature the compiler takes.

use quote::ToTokens;
use syn::{
    Attribute, FnArg, Pat, PatType, ReceiverKind, ReturnType, Safety, Signature, parse_quote,
    spanned::Spanned,
};

use crate::{docs, mistakes::Mistakes, params, params::Param, types};

/// What a function looks like from outside.
pub(crate) struct Shape {
    pub(crate) params: Vec<Param>,
    pub(crate) is_async: bool,
    /// Whether the first parameter is `&self`.
    pub(crate) on_self: bool,
}

/// Reads a signature.
pub(crate) fn read(sig: &Signature, mistakes: &mut Mistakes) -> Shape {
    refuse(sig, mistakes);
    let mut read = Vec::new();
    let mut on_self = false;
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                on_self = true;
                let shared = matches!(receiver.kind, ReceiverKind::Reference(_, _, None));
                if !shared {
                    let message = "a tool's method takes `&self`: calls may run at the same time, \
                                   so what changes belongs behind a lock";
                    mistakes.at(receiver, message);
                }
            }
            FnArg::Typed(typed) => read.extend(parameter(typed, mistakes)),
        }
    }
    params::check(&read, mistakes);
    Shape { params: read, is_async: sig.asyncness.is_some(), on_self }
}

/// Returns the type a function returns, as it is written; `None` when it cannot be named.
pub(crate) fn returns(sig: &Signature) -> Option<proc_macro2::TokenStream> {
    match &sig.output {
        ReturnType::Default => Some(quote::quote!(())),
        ReturnType::Type(_, ty) if types::mentions(ty.to_token_stream(), "impl") => None,
        ReturnType::Type(_, ty) => Some(ty.to_token_stream()),
    }
}

/// Returns the attributes that decide whether an item is there at all.
pub(crate) fn conditions(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect()
}

/// Takes our attributes and the doc comments off the parameters; the compiler knows neither.
pub(crate) fn strip(sig: &mut Signature) {
    for input in &mut sig.inputs {
        match input {
            FnArg::Receiver(receiver) => receiver.attrs.retain(|attr| !docs::is_doc(attr)),
            FnArg::Typed(typed) => {
                typed.attrs.retain(|attr| !docs::is_doc(attr) && !params::is_helper(attr));
            }
        }
    }
}

/// Returns what a tool's function may do that another should not: its parameters are the fields
/// of a schema, so there may be many.
pub(crate) fn allowances(sig: &Signature) -> Option<Attribute> {
    // The number from which the lint speaks.
    let many = sig.inputs.len() > 7;
    many.then(|| {
        parse_quote! {
            #[allow(clippy::too_many_arguments, reason = "the parameters are a schema's fields")]
        }
    })
}

fn parameter(typed: &PatType, mistakes: &mut Mistakes) -> Option<Param> {
    let name = match &*typed.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Some(&pat.ident),
        Pat::Wild(_) => None,
        other => {
            let message = "a parameter of a tool is a plain name; take it apart in the body";
            mistakes.at(other, message);
            return None;
        }
    };
    Param::read(name, &typed.attrs, &typed.ty, &typed.pat, mistakes)
}

fn refuse(sig: &Signature, mistakes: &mut Mistakes) {
    if let Some(token) = &sig.constness {
        mistakes.at(token, "a tool's function cannot be `const`; remove the word");
    }
    if let Safety::Unsafe(token) = &sig.safety {
        let message = "a tool's function cannot be `unsafe`: a model calls it, and nobody checks \
                       its conditions";
        mistakes.at(token, message);
    }
    if let Some(abi) = &sig.abi {
        mistakes.at(abi, "a tool's function is a Rust function; remove `extern`");
    }
    if let Some(variadic) = &sig.variadic {
        mistakes.at(variadic, "a tool has a fixed list of arguments; take a `Vec` for the rest");
    }
    if !sig.generics.params.is_empty() {
        let message = "a tool's function cannot be generic: the model gives JSON, and one schema \
                       must say of what; write the types out";
        mistakes.at(&sig.generics.params, message);
    }
    if let ReturnType::Type(_, ty) = &sig.output
        && sig.asyncness.is_none()
        && matches!(&**ty, syn::Type::ImplTrait(bounds) if types::mentions(bounds.bounds.to_token_stream(), "Future"))
    {
        let message = "write `async fn` and the type it gives, instead of `impl Future`";
        mistakes.add(syn::Error::new(ty.span(), message));
    }
}
