//! Parses the signature of a function or method, and removes our attributes from it.
//!
//! In: a signature as the author wrote it. Out: its parameters, and a signature that compiles.

use quote::ToTokens;
use syn::{
    Attribute, FnArg, Pat, PatType, ReceiverKind, ReturnType, Safety, Signature, parse_quote,
    spanned::Spanned,
};

use crate::{docs, errors::Errors, params, params::Param, types};

/// A parsed signature.
pub(crate) struct Shape {
    pub(crate) params: Vec<Param>,
    pub(crate) is_async: bool,
    /// Whether the first parameter is `&self`.
    pub(crate) on_self: bool,
}

/// Parses a signature.
pub(crate) fn read(sig: &Signature, errors: &mut Errors) -> Shape {
    check_modifiers(sig, errors);
    let mut parsed = Vec::new();
    let mut on_self = false;
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                on_self = true;
                let shared = matches!(receiver.kind, ReceiverKind::Reference(_, _, None));
                if !shared {
                    let message = "a tool's method takes `&self`: calls may run concurrently, so \
                                   mutable state needs a lock";
                    errors.at(receiver, message);
                }
            }
            FnArg::Typed(typed) => parsed.extend(parameter(typed, errors)),
        }
    }
    params::check(&parsed, errors);
    Shape { params: parsed, is_async: sig.asyncness.is_some(), on_self }
}

/// Returns the written return type; `None` if it cannot be named.
pub(crate) fn returns(sig: &Signature) -> Option<proc_macro2::TokenStream> {
    match &sig.output {
        ReturnType::Default => Some(quote::quote!(())),
        ReturnType::Type(_, ty) if types::mentions(ty.to_token_stream(), "impl") => None,
        ReturnType::Type(_, ty) => Some(ty.to_token_stream()),
    }
}

/// Returns the `cfg` attributes of an item.
pub(crate) fn conditions(attrs: &[Attribute]) -> Vec<Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect()
}

/// Removes our attributes and the doc comments from the parameters; the compiler rejects both.
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

/// Returns the lint exceptions of a tool's function: its parameters are the fields of a schema, so
/// there may be many.
pub(crate) fn allowances(sig: &Signature) -> Option<Attribute> {
    // The threshold of the lint.
    let is_many = sig.inputs.len() > 7;
    is_many.then(|| {
        parse_quote! {
            #[allow(clippy::too_many_arguments, reason = "the parameters are a schema's fields")]
        }
    })
}

fn parameter(typed: &PatType, errors: &mut Errors) -> Option<Param> {
    let name = match &*typed.pat {
        Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => Some(&pat.ident),
        Pat::Wild(_) => None,
        other => {
            let message = "a parameter of a tool must be a plain name; destructure it in the body";
            errors.at(other, message);
            return None;
        }
    };
    Param::read(name, &typed.attrs, &typed.ty, &typed.pat, errors)
}

fn check_modifiers(sig: &Signature, errors: &mut Errors) {
    if let Some(token) = &sig.constness {
        errors.at(token, "a tool's function cannot be `const`; remove it");
    }
    if let Safety::Unsafe(token) = &sig.safety {
        let message = "a tool's function cannot be `unsafe`: a model calls it and cannot uphold its \
                       safety contract";
        errors.at(token, message);
    }
    if let Some(abi) = &sig.abi {
        errors.at(abi, "a tool's function is a Rust function; remove `extern`");
    }
    if let Some(variadic) = &sig.variadic {
        errors.at(variadic, "a tool has a fixed list of arguments; take a `Vec` for the rest");
    }
    if !sig.generics.params.is_empty() {
        let message = "a tool's function cannot be generic: a tool has one JSON Schema; write \
                       concrete types";
        errors.at(&sig.generics.params, message);
    }
    if let ReturnType::Type(_, ty) = &sig.output
        && sig.asyncness.is_none()
        && matches!(&**ty, syn::Type::ImplTrait(bounds) if types::mentions(bounds.bounds.to_token_stream(), "Future"))
    {
        let message = "write `async fn` and the type that it returns, instead of `impl Future`";
        errors.add(syn::Error::new(ty.span(), message));
    }
}
