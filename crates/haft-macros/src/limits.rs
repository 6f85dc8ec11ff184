//! Options about time and size: `timeout`, `deadline`, `approval_timeout`, `rate`, `cache`,
//! `retry`, `max_result`.
//!
//! Durations and rates become constants, so that haft-core parses them at compile time.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, Expr, LitStr};

use crate::{
    entry::{Entry, Value},
    grammar, names, values,
};

/// Parses a duration.
pub(crate) fn time(text: &LitStr) -> syn::Result<TokenStream> {
    if let Some(message) = grammar::duration_error(&text.value()) {
        return Err(Error::new_spanned(text, message));
    }
    Ok(quote_spanned! {text.span()=>
        { const TIME: ::core::time::Duration = __haft::private::parsed!(__haft::parse_duration(#text)); TIME }
    })
}

/// Parses a rate.
pub(crate) fn rate(text: &LitStr) -> syn::Result<TokenStream> {
    if let Some(message) = grammar::rate_error(&text.value()) {
        return Err(Error::new_spanned(text, message));
    }
    Ok(quote_spanned! {text.span()=>
        { const RATE: __haft::Rate = __haft::private::parsed!(__haft::Rate::parse(#text)); RATE }
    })
}

/// Parses `cache`.
pub(crate) fn cache(entry: &Entry, example: &str) -> syn::Result<TokenStream> {
    let Value::List(list) = &entry.value else {
        let ttl = time(values::text(entry, example)?)?;
        return Ok(quote!(__haft::Cache { ttl: #ttl, scope: None }));
    };
    let (mut ttl, mut scope) = (None, quote!(None));
    for_each(entry, list, &["ttl", "scope"], |word, inner| {
        match word {
            "ttl" => ttl = Some(time(values::text(inner, r#"ttl = "5m""#)?)?),
            _ => {
                let text = values::text(inner, r#"scope = "user""#)?;
                scope = quote!(Some(#text.into()));
            }
        }
        Ok(())
    })?;
    let Some(ttl) = ttl else {
        let message = "`cache` needs a time to live, as in `cache(ttl = \"5m\")`";
        return Err(Error::new_spanned(&entry.name, message));
    };
    Ok(quote!(__haft::Cache { ttl: #ttl, scope: #scope }))
}

/// Parses `retry`; unset fields keep their defaults.
pub(crate) fn retry(entry: &Entry, example: &str) -> syn::Result<TokenStream> {
    const RETRY_KEYS: [&str; 6] =
        ["max_attempts", "backoff", "initial_delay", "max_delay", "jitter", "retry_on"];
    let Value::List(list) = &entry.value else {
        let count = values::count(entry, "retry = 3")
            .map_err(|_| values::wrong(entry, "a number of attempts, or a list", example))?;
        return Ok(quote! {
            __haft::RetryPolicy { max_attempts: #count, ..::core::default::Default::default() }
        });
    };
    let mut fields = Vec::new();
    for_each(entry, list, &RETRY_KEYS, |word, inner| {
        let field = &inner.name;
        let value = match word {
            "max_attempts" => values::count(inner, "max_attempts = 3")?,
            "backoff" => {
                let words =
                    [("exponential", "Exponential"), ("linear", "Linear"), ("fixed", "Fixed")];
                let word = values::choice(inner, &words)?;
                quote!(__haft::Backoff::#word)
            }
            "initial_delay" => time(values::text(inner, r#"initial_delay = "1s""#)?)?,
            "max_delay" => time(values::text(inner, r#"max_delay = "60s""#)?)?,
            "jitter" => {
                let flag = values::flag(inner)?;
                quote!(#flag)
            }
            _ => {
                let codes = values::texts(inner, r#"retry_on("rate_limited")"#)?;
                quote!(::std::vec![#(#codes.into()),*])
            }
        };
        fields.push(quote!(#field: #value));
        Ok(())
    })?;
    Ok(quote!(__haft::RetryPolicy { #(#fields,)* ..::core::default::Default::default() }))
}

/// Parses `max_result`.
pub(crate) fn max_result(entry: &Entry, example: &str) -> syn::Result<TokenStream> {
    const TAKES: &str = "a number of characters or \"unbounded\"";
    let text = match &entry.value {
        Value::Is(expr) => values::as_text(expr),
        Value::Bare | Value::List(_) => None,
    };
    let bound = match text {
        Some(text) if text.value() == "unbounded" => quote!(__haft::ResultLimit::Unbounded),
        Some(_) => return Err(values::wrong(entry, TAKES, example)),
        None => {
            let count =
                values::count(entry, example).map_err(|_| values::wrong(entry, TAKES, example))?;
            quote!(__haft::ResultLimit::Chars(#count))
        }
    };
    Ok(bound)
}

/// Parses a nested list with known names; each may be set once.
fn for_each(
    entry: &Entry,
    list: &[Expr],
    known: &[&str],
    mut take: impl FnMut(&str, &Entry) -> syn::Result<()>,
) -> syn::Result<()> {
    let mut seen = Vec::new();
    for expr in list {
        let inner = Entry::nested(expr)?;
        let word = inner.word();
        if !known.contains(&word.as_str()) {
            let suggestion = names::suggestion(&word, known);
            let message = format!(
                "`{}` has no `{word}`; expected one of {}{suggestion}",
                entry.name,
                known.join(", ")
            );
            return Err(Error::new_spanned(&inner.name, message));
        }
        if seen.contains(&word) {
            return Err(Error::new_spanned(
                &inner.name,
                format!("`{word}` is set twice; keep one"),
            ));
        }
        take(&word, &inner)?;
        seen.push(word);
    }
    Ok(())
}
