//! Finds options that contradict each other, and names that no provider takes.
//!
//! The registry finds the same contradictions when a tool is added; here they are told earlier and
//! at the word that is wrong.

use proc_macro2::Span;
use syn::{Error, LitStr};

use crate::{mistakes::Mistakes, names, options::Options, values::Said};

/// Notes every contradiction between the options.
pub(crate) fn options(options: &Options, mistakes: &mut Mistakes) {
    let mut say = |word: &str, message: &str| {
        let span = options.place(word).unwrap_or_else(Span::call_site);
        mistakes.add(Error::new(span, message));
    };
    let read_only = matches!(options.read_only, Some(Said::Now(true)));
    if read_only && matches!(options.destructive, Some(Said::Now(true))) {
        say("destructive", "`read_only` and `destructive` contradict each other; keep one");
    }
    if read_only && options.can_destroy {
        say("capabilities", "`read_only` contradicts the capability `destructive`; keep one");
    }
    let may_be_kept = matches!(options.read_only, Some(Said::Now(true) | Said::PerCall(_)))
        || options.idempotent == Some(true);
    if options.place("cache").is_some() && !may_be_kept {
        say(
            "cache",
            "`cache` needs `read_only` or `idempotent`; a cached write would silently not happen",
        );
    }
    if read_only && let Some(span) = options.changes {
        let message = "`read_only` contradicts an effect that writes or executes; keep one";
        mistakes.add(Error::new(span, message));
    }
}

/// Notes a name that some provider would refuse.
pub(crate) fn name(text: &str, span: Span, mistakes: &mut Mistakes) {
    if !names::is_tool_name(text) {
        let message = format!(
            "`{text}` cannot be the name of a tool: a name starts with a letter or `_`, goes on \
             with letters, digits, `_` or `-`, and has at most 64 characters"
        );
        mistakes.add(Error::new(span, message));
    }
}

/// Notes aliases that no provider takes or that say nothing new.
pub(crate) fn aliases(name_said: &str, aliases: &[LitStr], mistakes: &mut Mistakes) {
    let mut seen = vec![name_said.to_owned()];
    for alias in aliases {
        let text = alias.value();
        name(&text, alias.span(), mistakes);
        if seen.contains(&text) {
            mistakes.at(alias, format!("the tool already answers to `{text}`"));
        }
        seen.push(text);
    }
}
