//! Fuzzy search for the nearest name, for "did you mean" hints.

/// Returns the candidate that is most similar to a misspelled name.
pub fn nearest<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.is_empty() || wrong.len() > MAX_NAME_BYTES {
        return None;
    }
    let folded = fold(wrong);
    candidates
        .into_iter()
        .filter(|name| name.len() <= MAX_NAME_BYTES)
        .filter_map(|name| {
            if fold(name) == folded {
                return Some((0, name));
            }
            let distance = strsim::damerau_levenshtein(wrong, name);
            // A short name that was written out, or a long one that was cut short.
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

/// Longer names are unlikely typos and are not compared: the cost is quadratic in their length.
const MAX_NAME_BYTES: usize = 256;
/// A search fully compares at most this many names. One comparison takes about 3 µs.
const MAX_COMPARED: usize = 96;
/// A search compares letter counts of at most this many names.
const MAX_LETTER_COMPARISONS: usize = 2_048;

/// An index of names, so that an unknown name is not compared with all of 10 000: a model could
/// cause that cost as often as it likes.
#[derive(Debug)]
pub struct NearIndex {
    names: Vec<Indexed>,
    /// Sorted by folded text.
    by_text: Vec<usize>,
    /// Sorted by length of the folded text.
    by_len: Vec<usize>,
}

#[derive(Debug)]
struct Indexed {
    name: Box<str>,
    folded: Box<str>,
    letters: Letters,
}

impl NearIndex {
    /// Indexes names; a search returns positions in this order.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let indexed = |name: &str| {
            let folded = fold(name).into_boxed_str();
            Indexed { name: name.into(), letters: Letters::of(&folded), folded }
        };
        let names: Vec<Indexed> = names.into_iter().map(indexed).collect();
        let (mut by_text, mut by_len): (Vec<usize>, Vec<usize>) =
            ((0..names.len()).collect(), (0..names.len()).collect());
        by_text.sort_by_key(|at| names.get(*at).map(|own| &own.folded));
        by_len.sort_by_key(|at| names.get(*at).map(|own| own.folded.len()));
        Self { names, by_text, by_len }
    }

    /// Returns the index of the name most similar to a misspelled one, among those on offer.
    pub fn nearest(&self, wrong: &str, is_offered: impl Fn(usize) -> bool) -> Option<usize> {
        if wrong.is_empty() || wrong.len() > MAX_NAME_BYTES {
            return None;
        }
        let mut near = self.candidates(&fold(wrong));
        near.retain(|at| is_offered(*at));
        let names = near.iter().filter_map(|at| self.names.get(*at)).map(|own| &*own.name);
        let found = nearest(wrong, names)?;
        near.into_iter().find(|at| self.names.get(*at).is_some_and(|own| &*own.name == found))
    }

    /// The names worth a full comparison: prefixes, neighbours in sort order, and names of similar
    /// length and letters.
    fn candidates(&self, folded: &str) -> Vec<usize> {
        let text = |at: &usize| self.names.get(*at).map_or("", |own| &*own.folded);
        let mut near: Vec<usize> = Vec::new();
        for end in (2..=folded.len()).filter(|end| folded.is_char_boundary(*end)) {
            let part = &folded[..end];
            let from = self.by_text.partition_point(|at| text(at) < part);
            let same = self.by_text.iter().skip(from).take_while(|at| text(at) == part);
            near.extend(same.take(2));
        }
        near.truncate(MAX_COMPARED / 3);
        let place = self.by_text.partition_point(|at| text(at) < folded);
        let around = place.saturating_sub(MAX_COMPARED / 6);
        near.extend(self.by_text.iter().skip(around).take(MAX_COMPARED / 3));
        near.extend(self.similar(folded));
        near.sort_unstable();
        near.dedup();
        near
    }

    /// The names of similar length that share the most letters.
    fn similar(&self, folded: &str) -> Vec<usize> {
        let len = folded.len();
        let len_of = |at: &usize| self.names.get(*at).map_or(0, |own| own.folded.len());
        let slack = 2.max(len / 3);
        let from = self.by_len.partition_point(|at| len_of(at) + slack < len);
        let to = self.by_len.partition_point(|at| len_of(at) <= len + slack);
        // If there are too many, those nearest in length count.
        let middle = self.by_len.partition_point(|at| len_of(at) < len);
        let from = from.max(middle.saturating_sub(MAX_LETTER_COMPARISONS / 2));
        let window = self.by_len.get(from..to).unwrap_or_default();
        let letters = Letters::of(folded);
        let mut similar: Vec<(u32, usize)> = window
            .iter()
            .take(MAX_LETTER_COMPARISONS)
            .filter_map(|at| Some((self.names.get(*at)?.letters.distance(&letters), *at)))
            .collect();
        similar.sort_unstable();
        similar.into_iter().map(|(_, at)| at).take(MAX_COMPARED / 3).collect()
    }
}

/// How often each letter occurs in a name; letters share 32 counters.
#[derive(Debug, Clone, Copy)]
struct Letters([u8; 32]);

impl Letters {
    fn of(text: &str) -> Self {
        let mut counts = [0u8; 32];
        for byte in text.bytes() {
            if let Some(count) = counts.get_mut(usize::from(byte % 32)) {
                *count = count.saturating_add(1);
            }
        }
        Self(counts)
    }

    fn distance(&self, other: &Self) -> u32 {
        self.0.iter().zip(&other.0).map(|(one, two)| u32::from(one.abs_diff(*two))).sum()
    }
}

/// Removes differences of case and separators, the most common typos.
pub(crate) fn fold(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{MAX_COMPARED, MAX_LETTER_COMPARISONS, NearIndex, fold, nearest};

    #[test]
    fn finds_typos_and_ignores_unrelated_names() {
        let names = ["read_file", "write_file", "search"];
        assert_eq!(nearest("readFile", names), Some("read_file"));
        assert_eq!(nearest("serach", names), Some("search"));
        assert_eq!(nearest("launch_rocket", names), None);
        assert_eq!(nearest("equals", ["eq", "ne", "gt"]), Some("eq"));
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("search", [&*"search".repeat(1_000_000)]), None);
    }

    #[test]
    fn index_finds_what_a_full_comparison_finds() {
        let verbs = ["read", "write", "list", "delete", "search", "create", "update", "move"];
        let nouns = ["file", "label", "issue", "pull_request", "user", "note", "page", "branch"];
        let names: Vec<String> =
            verbs.iter().flat_map(|v| nouns.iter().map(move |n| format!("{v}_{n}"))).collect();
        let index = NearIndex::new(names.iter().map(String::as_str));
        let found = |wrong: &str| index.nearest(wrong, |_| true).map(|at| names[at].as_str());
        for wrong in [
            "readFile",
            "raed_file",
            "read_fil",
            "read",
            "list_pull_requests",
            "delete_isue",
            "CREATE-NOTE",
            "serch_user",
            "update_brnch",
            "move_pages_now",
            "launch_rocket",
            "x",
            "",
        ] {
            assert_eq!(found(wrong), nearest(wrong, names.iter().map(String::as_str)), "{wrong}");
        }
        let all_but = names.iter().position(|name| name == "read_file");
        let other =
            index.nearest("read_fil", |at| Some(at) != all_but).map(|at| names[at].as_str());
        assert_ne!(other, Some("read_file"), "what is not on offer is not named");
        assert_eq!(NearIndex::new([]).nearest("a", |_| true), None);
    }

    #[test]
    fn search_among_ten_thousand_names_compares_a_bounded_number() {
        for count in [100, 10_000, 40_000] {
            let names: Vec<String> = (0..count).map(|n| format!("tool_{n:05}")).collect();
            let index = NearIndex::new(names.iter().map(String::as_str));
            for wrong in ["tool_1234x", "tool", "tol_00012", &"tool_".repeat(50)] {
                assert!(index.candidates(&fold(wrong)).len() <= MAX_COMPARED, "{count} {wrong}");
            }
        }
        const { assert!(MAX_LETTER_COMPARISONS < 10_000) };
    }

    #[test]
    fn search_costs_the_same_among_ten_times_as_many_names() {
        let index = |count: usize| {
            let names: Vec<String> = (0..count).map(|n| format!("service_{n:05}_lookup")).collect();
            NearIndex::new(names.iter().map(String::as_str))
        };
        let (few, many) = (index(3_000), index(30_000));
        let time = |index: &NearIndex| {
            #[expect(clippy::disallowed_methods, reason = "this test measures time")]
            let clock = std::time::Instant::now();
            for n in 0..10 {
                assert!(index.nearest(&format!("servce_0{n}000_lookp"), |_| true).is_some());
            }
            clock.elapsed()
        };
        // Another process may take the processor during one measurement, but not during all.
        let costs: Vec<_> = (0..5).map(|_| (time(&few), time(&many))).collect();
        assert!(
            costs.iter().any(|(few, many)| *many <= *few * 2),
            "ten searches among 3 000 and among 30 000: {costs:?}"
        );
    }
}
