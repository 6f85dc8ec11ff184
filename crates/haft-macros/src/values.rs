//! Parses the value of one option, or reports the expected form.
//!
//! Every parser gets an example of the correct form; the error message ends with it.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Error, Expr, ExprLit, ExprPath, ExprUnary, Ident, Lit, LitStr, Path, UnOp};

use crate::{
    entry::{Entry, Value},
    names,
};

/// A constant, or a function over the arguments that decides per call.
pub(crate) enum Setting<T> {
    Const(T),
    PerCall(Path),
}

/// Returns an error with the expected form of an option.
pub(crate) fn wrong(entry: &Entry, takes: &str, example: &str) -> Error {
    let name = &entry.name;
    let message = format!("`{name}` takes {takes}, as in `{example}`");
    Error::new_spanned(entry.error_tokens(), message)
}

/// Parses a string literal.
pub(crate) fn text<'a>(entry: &'a Entry, example: &str) -> syn::Result<&'a LitStr> {
    match &entry.value {
        Value::Is(expr) => as_text(expr),
        Value::Bare | Value::List(_) => None,
    }
    .ok_or_else(|| wrong(entry, "a string", example))
}

/// Parses one string literal or a list of them.
pub(crate) fn texts<'a>(entry: &'a Entry, example: &str) -> syn::Result<Vec<&'a LitStr>> {
    match &entry.value {
        Value::List(list) => list
            .iter()
            .map(|expr| {
                as_text(expr).ok_or_else(|| {
                    let name = &entry.name;
                    Error::new_spanned(expr, format!("`{name}` takes strings, as in `{example}`"))
                })
            })
            .collect(),
        Value::Is(_) | Value::Bare => text(entry, example).map(|one| vec![one]),
    }
}

/// Parses a boolean; the bare name is `true`.
pub(crate) fn flag(entry: &Entry) -> syn::Result<bool> {
    match &entry.value {
        Value::Bare => Some(true),
        Value::Is(expr) => as_bool(expr),
        Value::List(_) => None,
    }
    .ok_or_else(|| {
        let name = &entry.name;
        let message = format!("write `{name}`, `{name} = true` or `{name} = false`");
        Error::new_spanned(entry.error_tokens(), message)
    })
}

/// Parses a boolean, or a function that decides per call.
pub(crate) fn flag_or_fn(entry: &Entry) -> syn::Result<Setting<bool>> {
    if let Value::Is(expr) = &entry.value
        && let Some(path) = as_path(expr)
    {
        return Ok(Setting::PerCall(path.clone()));
    }
    flag(entry).map(Setting::Const).map_err(|_| {
        let name = &entry.name;
        let message = format!(
            "`{name}` takes no value, `true`, `false` or the path of a function of the \
             arguments, as in `{name} = my_function`"
        );
        Error::new_spanned(entry.error_tokens(), message)
    })
}

/// Parses a whole number above zero.
pub(crate) fn count(entry: &Entry, example: &str) -> syn::Result<TokenStream> {
    let number = match &entry.value {
        Value::Is(Expr::Lit(ExprLit { lit: Lit::Int(number), .. })) => Some(number),
        _ => None,
    };
    match number.map(|n| (n, n.base10_parse::<u32>())) {
        Some((number, Ok(1..))) => Ok(number.to_token_stream()),
        _ => Err(wrong(entry, "a whole number above zero", example)),
    }
}

/// Parses one of a few names and returns its enum variant.
pub(crate) fn choice(entry: &Entry, of: &[(&str, &str)]) -> syn::Result<Ident> {
    let words: Vec<String> = of.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    let name = &entry.name;
    let literal = match &entry.value {
        Value::Is(expr) => as_text(expr),
        Value::Bare | Value::List(_) => None,
    };
    let Some(literal) = literal else {
        let message = format!("`{name}` takes {}", names::either(&words));
        return Err(Error::new_spanned(entry.error_tokens(), message));
    };
    let text = literal.value();
    match of.iter().find(|(word, _)| *word == text) {
        Some((_, variant)) => Ok(Ident::new(variant, literal.span())),
        None => {
            let known: Vec<&str> = of.iter().map(|(word, _)| *word).collect();
            let suggestion = names::suggestion(&text, &known);
            let message =
                format!("`{name}` takes {}, not \"{text}\"{suggestion}", names::either(&words));
            Err(Error::new_spanned(literal, message))
        }
    }
}

/// Parses the path of a function.
pub(crate) fn function<'a>(entry: &'a Entry, example: &str) -> syn::Result<&'a Path> {
    match &entry.value {
        Value::Is(expr) => as_path(expr),
        Value::Bare | Value::List(_) => None,
    }
    .ok_or_else(|| wrong(entry, "the path of a function", example))
}

/// Returns the expression as a string literal.
pub(crate) fn as_text(expr: &Expr) -> Option<&LitStr> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
        Expr::Group(group) => as_text(&group.expr),
        _ => None,
    }
}

/// Returns the expression as a path.
pub(crate) fn as_path(expr: &Expr) -> Option<&Path> {
    match expr {
        Expr::Path(ExprPath { qself: None, path, .. }) => Some(path),
        Expr::Group(group) => as_path(&group.expr),
        _ => None,
    }
}

/// Returns the expression as a number, to compare bounds.
pub(crate) fn as_number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(n), .. }) => n.base10_parse().ok(),
        Expr::Lit(ExprLit { lit: Lit::Float(n), .. }) => n.base10_parse().ok(),
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => as_number(expr).map(|n| -n),
        Expr::Group(group) => as_number(&group.expr),
        _ => None,
    }
}

fn as_bool(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Bool(literal), .. }) => Some(literal.value),
        Expr::Group(group) => as_bool(&group.expr),
        _ => None,
    }
}
