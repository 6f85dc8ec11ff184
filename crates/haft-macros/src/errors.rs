//! Collects what is wrong, so that an author sees all of it at once.
//!
//! INVARIANT: a mistake is told where it was made, in prose, with what would be right.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Mistakes(Option<syn::Error>);

impl Mistakes {
    /// Notes one mistake at the given tokens.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Notes what a parser found.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value, or notes why there is none.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|e| self.add(e)).ok()
    }

    /// Returns whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the compile errors.
    pub(crate) fn to_compile_errors(&self) -> TokenStream {
        self.0.as_ref().map_or_else(|| quote!(), syn::Error::to_compile_error)
    }
}
