//! Parses the list of an attribute: `name`, `name = value` or `name(value, …)`.
//!
//! It does not interpret the names.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::{
    Expr, Ident, Token,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream, Parser},
    punctuated::Punctuated,
};

/// One entry of an attribute's list.
pub(crate) struct Entry {
    pub(crate) name: Ident,
    pub(crate) value: Value,
}

/// The form of an entry.
pub(crate) enum Value {
    /// `name`
    Bare,
    /// `name = value`
    Is(Expr),
    /// `name(value, …)`
    List(Vec<Expr>),
}

impl Entry {
    /// Parses the inside of an attribute's parentheses.
    pub(crate) fn list(tokens: TokenStream) -> syn::Result<Vec<Entry>> {
        let entries = Punctuated::<Entry, Token![,]>::parse_terminated.parse2(tokens)?;
        Ok(entries.into_iter().collect())
    }

    /// Parses an expression inside a list as an entry: `ttl = "5m"`, `jitter`,
    /// `retry_on("a")`.
    pub(crate) fn nested(expr: &Expr) -> syn::Result<Entry> {
        syn::parse2(expr.to_token_stream())
    }

    /// Returns the name as text.
    pub(crate) fn word(&self) -> String {
        self.name.unraw().to_string()
    }

    /// Returns the span of the name.
    pub(crate) fn span(&self) -> Span {
        self.name.span()
    }

    /// Returns the tokens at which to report an error of the value.
    pub(crate) fn error_tokens(&self) -> TokenStream {
        match &self.value {
            Value::Is(expr) => expr.to_token_stream(),
            Value::Bare | Value::List(_) => self.name.to_token_stream(),
        }
    }
}

impl Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(
                "an option starts with its name, as in `read_only` or `timeout = \"20s\"`",
            ));
        }
        // `crate` and other keywords are names here.
        let name = Ident::parse_any(input)?;
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            if input.is_empty() || input.peek(Token![,]) {
                return Err(syn::Error::new(
                    name.span(),
                    format!("`{name} =` has no value; write it after the `=`"),
                ));
            }
            Value::Is(input.parse()?)
        } else if input.peek(syn::token::Paren) {
            let inside;
            parenthesized!(inside in input);
            Value::List(
                Punctuated::<Expr, Token![,]>::parse_terminated(&inside)?.into_iter().collect(),
            )
        } else {
            Value::Bare
        };
        Ok(Entry { name, value })
    }
}
