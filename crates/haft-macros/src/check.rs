//! Finds options that contradict each other, and tool names that a provider would reject.
//!
//! The registry finds the same contradictions when a tool is added. Here they are reported at
//! compile time, at the wrong token.

use proc_macro2::Span;
use syn::{Error, LitStr};

use crate::{errors::Errors, names, options::Options, values::Setting};

/// Reports every contradiction between the options.
pub(crate) fn options(options: &Options, errors: &mut Errors) {
    let mut report = |word: &str, message: &str| {
        let span = options.span_of(word).unwrap_or_else(Span::call_site);
        errors.add(Error::new(span, message));
    };
    let read_only = matches!(options.read_only, Some(Setting::Const(true)));
    if read_only && matches!(options.destructive, Some(Setting::Const(true))) {
        report("destructive", "`read_only` and `destructive` contradict each other; keep one");
    }
    if read_only && options.can_destroy {
        report("capabilities", "`read_only` contradicts the capability `destructive`; keep one");
    }
    let is_cacheable =
        matches!(options.read_only, Some(Setting::Const(true) | Setting::PerCall(_)))
            || options.idempotent == Some(true);
    if options.span_of("cache").is_some() && !is_cacheable {
        report(
            "cache",
            "`cache` needs `read_only` or `idempotent`; a cached write would be silently skipped",
        );
    }
    if read_only && let Some(span) = options.changes {
        let message = "`read_only` contradicts an effect that writes or executes; keep one";
        errors.add(Error::new(span, message));
    }
}

/// Reports a name that some provider would reject.
pub(crate) fn name(text: &str, span: Span, errors: &mut Errors) {
    if !names::is_tool_name(text) {
        let message = format!(
            "`{text}` cannot be the name of a tool: a name starts with a letter or `_`, continues \
             with letters, digits, `_` or `-`, and has at most 64 characters"
        );
        errors.add(Error::new(span, message));
    }
}

/// Reports aliases that a provider would reject, and duplicates.
pub(crate) fn aliases(tool_name: &str, aliases: &[LitStr], errors: &mut Errors) {
    let mut seen = vec![tool_name.to_owned()];
    for alias in aliases {
        let text = alias.value();
        name(&text, alias.span(), errors);
        if seen.contains(&text) {
            errors.at(alias, format!("the tool already has the name `{text}`"));
        }
        seen.push(text);
    }
}
