//! Extracts doc comments as text, as rustdoc does.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the doc comments joined, without their common indent.
pub(crate) fn text(attrs: &[Attribute]) -> String {
    let all: Vec<String> = attrs.iter().filter_map(one).collect();
    let lines: Vec<&str> = all.iter().flat_map(|doc| doc.split('\n')).collect();
    let indent = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    let lines: Vec<&str> =
        lines.into_iter().map(|line| line.get(indent..).unwrap_or_default().trim_end()).collect();
    lines.join("\n").trim().to_owned()
}

/// Returns whether this is a doc comment.
pub(crate) fn is_doc(attr: &Attribute) -> bool {
    attr.path().is_ident("doc")
}

fn one(attr: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attr.meta else { return None };
    if !is_doc(attr) {
        return None;
    }
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            let text = text.value();
            // A block comment may decorate its lines with stars.
            let starred = text.contains('\n')
                && text.lines().skip(1).all(|l| l.trim().is_empty() || l.trim().starts_with('*'));
            Some(if starred {
                text.lines()
                    .map(|l| l.trim_start().strip_prefix('*').unwrap_or(l))
                    .collect::<Vec<_>>()
                    .join("\n")
            } else {
                text
            })
        }
        // The text of `#[doc = macro!()]` is unknown here; the author can use `description`.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::{ItemFn, parse_quote};

    #[test]
    fn doc_lines_are_joined_and_common_indent_is_removed() {
        let item: ItemFn = parse_quote! {
            /// Does it.
            ///
            ///   - once
            fn f() {}
        };
        assert_eq!(text(&item.attrs), "Does it.\n\n  - once");
    }
}
