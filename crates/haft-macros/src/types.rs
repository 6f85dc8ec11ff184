//! Inspects types by their tokens.
//!
//! A macro sees tokens, not types, so it cannot resolve an alias. Where that matters, the author
//! can use an attribute.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, PathArguments, PathSegment, Type};

/// Returns the last segment of a type's path.
pub(crate) fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        Type::Paren(inner) => last_segment(&inner.elem),
        Type::Group(inner) => last_segment(&inner.elem),
        _ => None,
    }
}

/// Returns whether the type's path ends in this name.
pub(crate) fn is_named(ty: &Type, name: &str) -> bool {
    last_segment(ty).is_some_and(|segment| segment.ident == name)
}

/// Returns the only type argument, such as the `T` of `Option<T>`.
pub(crate) fn only_argument(ty: &Type) -> Option<&Type> {
    let PathArguments::AngleBracketed(list) = &last_segment(ty)?.arguments else { return None };
    match list.args.iter().collect::<Vec<_>>().as_slice() {
        [GenericArgument::Type(inner)] => Some(inner),
        _ => None,
    }
}

/// Returns the type inside an `Option`, or the type itself.
pub(crate) fn without_option(ty: &Type) -> &Type {
    match only_argument(ty) {
        Some(inner) if is_named(ty, "Option") => inner,
        _ => ty,
    }
}

/// Returns whether the type contains a reference that is not `'static`.
pub(crate) fn borrows(ty: &Type) -> bool {
    let tokens = flat(ty.to_token_stream());
    let is = |token: Option<&TokenTree>, mark: char| matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == mark);
    let is_static = |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Ident(name)) if name == "static");
    (0..tokens.len()).any(|i| {
        let next = tokens.get(i + 1);
        (is(tokens.get(i), '&') && !is(next, '\'')) || (is(tokens.get(i), '\'') && !is_static(next))
    })
}

/// Returns whether the tokens contain an identifier, at any depth.
pub(crate) fn mentions(tokens: TokenStream, word: &str) -> bool {
    flat(tokens).iter().any(|token| matches!(token, TokenTree::Ident(ident) if ident == word))
}

fn flat(tokens: TokenStream) -> Vec<TokenTree> {
    let mut out = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => out.extend(flat(group.stream())),
            other => out.push(other),
        }
    }
    out
}

/// Replaces every `Self` by a type, for code that moves out of its `impl` block.
pub(crate) fn without_self(tokens: TokenStream, this: &TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if ident == "Self" => this.clone(),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), without_self(group.stream(), this));
                inner.set_span(group.span());
                TokenTree::Group(inner).into()
            }
            other => other.into(),
        })
        .collect()
}
