//! The nearest of some names, for "did you mean".

/// Returns the candidate that a hasty writer most likely meant.
pub(crate) fn nearest<'a>(
    wrong: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A name nobody would mistype is not worth comparing at all, and comparing it would cost dearly.
    const LONG: usize = 256;
    if wrong.is_empty() || wrong.len() > LONG {
        return None;
    }
    let folded = fold(wrong);
    candidates
        .into_iter()
        .filter(|name| name.len() <= LONG)
        .filter_map(|name| {
            if fold(name) == folded {
                return Some((0, name));
            }
            let distance = strsim::damerau_levenshtein(wrong, name);
            // A short name that the writer wrote out, or a long one that he cut off.
            let begins = name.len() > 1
                && (folded.starts_with(&fold(name)) || fold(name).starts_with(&folded));
            let close = begins
                || distance <= 2.min(wrong.chars().count().saturating_sub(1))
                || strsim::jaro_winkler(wrong, name) >= 0.88;
            close.then_some((distance, name))
        })
        .min()
        .map(|(_, name)| name)
}

/// Case and separators are the commonest slips.
pub(crate) fn fold(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_and_leaves_strangers_alone() {
        let names = ["read_file", "write_file", "search"];
        assert_eq!(nearest("readFile", names), Some("read_file"));
        assert_eq!(nearest("serach", names), Some("search"));
        assert_eq!(nearest("launch_rocket", names), None);
        assert_eq!(nearest("equals", ["eq", "ne", "gt"]), Some("eq"));
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("search", [&*"search".repeat(1_000_000)]), None);
    }
}
