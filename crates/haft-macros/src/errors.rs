//! Collects compile errors, so that an author sees all of them at once.
//!
//! INVARIANT: every error points at the wrong tokens and says what is expected.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// Adds an error at the given tokens.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.add(syn::Error::new_spanned(tokens, message));
    }

    /// Adds an error of a parser.
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Returns the value, or adds the error and returns `None`.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|e| self.add(e)).ok()
    }

    /// Returns whether there are no errors.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the compile errors.
    pub(crate) fn to_compile_errors(&self) -> TokenStream {
        self.0.as_ref().map_or_else(|| quote!(), syn::Error::to_compile_error)
    }
}
