//! Words of names, descriptions and queries: split, lower case, without endings.
//!
//! In: text. Out: stems that an index compares. `createVectorStore` and `create_vector_store` give
//! the same words. Pure.

/// Stop words: short function words, which the index leaves out. Verbs and nouns are kept.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for",
    "from", "has", "have", "how", "i", "in", "into", "is", "it", "its", "many", "may", "me",
    "much", "my", "not", "of", "on", "or", "our", "s", "so", "some", "that", "the", "their",
    "there", "they", "this", "to", "up", "us", "was", "we", "what", "when", "which", "who", "will",
    "with", "you", "your",
];

/// Synonyms in names and descriptions of tools. A query with one of a group also finds the others,
/// with less weight. Only verbs and roles that are not specific to one kind of tool.
const SYNONYMS: &[&[&str]] = &[
    &["create", "make", "new", "add", "generate", "start", "open", "write"],
    &["delete", "remove", "revoke", "erase", "drop", "withdraw"],
    &["get", "retrieve", "fetch", "read", "show", "view", "information", "detail"],
    &["update", "modify", "change", "edit", "rename", "set", "correct", "switch", "replace"],
    &["list", "show", "every", "all", "enumerate"],
    &["cancel", "stop", "abort", "end", "terminate"],
    &["search", "find", "look", "query", "lookup"],
    &["send", "post", "submit", "publish"],
    &["download", "content", "export"],
    &["user", "customer", "person", "member", "people", "everyone", "someone"],
];

/// The longest word that is indexed, in bytes; the rest of it is dropped.
const MAX_WORD_BYTES: usize = 40;

/// Calls `each` with every word of a text, stemmed, without stop words.
pub(super) fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    let mut previous = ' ';
    while let Some(c) = chars.next() {
        let next_is_lower = chars.peek().is_some_and(|next| next.is_lowercase());
        // `createStore` is two words, and so is the `API` of `listAPIKeys`.
        let is_boundary = c.is_uppercase()
            && (previous.is_lowercase()
                || previous.is_numeric()
                || (previous.is_uppercase() && next_is_lower));
        if is_boundary || !c.is_alphanumeric() || is_ideograph(c) || is_ideograph(previous) {
            end_word(&mut word, &mut each);
        }
        if c.is_alphanumeric() && word.len() < MAX_WORD_BYTES {
            word.extend(c.to_lowercase());
        }
        previous = c;
    }
    end_word(&mut word, &mut each);
}

/// Returns whether a character is a word of its own: such scripts have no spaces.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}')
}

fn end_word(word: &mut String, each: &mut impl FnMut(&str)) {
    if !word.is_empty() && STOP_WORDS.binary_search(&word.as_str()).is_err() {
        each(stem(word));
    }
    word.clear();
}

/// Removes the endings of the plural and of verbs. The same rules apply to tools and queries, so a
/// stem need not be a word.
fn stem(word: &mut String) -> &str {
    if word.is_ascii() {
        let ends = |word: &String, end: &str, left: usize| {
            word.len() >= left + end.len() && word.ends_with(end)
        };
        let cut = |word: &mut String, count: usize| word.truncate(word.len() - count);
        if ends(word, "ies", 2) {
            cut(word, 3);
            word.push('y');
        } else if ends(word, "sses", 1) {
            cut(word, 2);
        } else if ends(word, "s", 3) && !ends(word, "ss", 0) && !ends(word, "us", 0) {
            cut(word, 1);
        }
        for end in ["ing", "ed"] {
            if ends(word, end, 3) {
                cut(word, end.len());
                let bytes = word.as_bytes();
                // `submitting` becomes `submit`, `selling` stays `sell`.
                let is_doubled = match bytes {
                    [.., a, b] => a == b && !b"lsz".contains(b),
                    _ => false,
                };
                if is_doubled && word.len() > 3 {
                    cut(word, 1);
                } else if word.ends_with("at") {
                    word.push('e');
                }
                break;
            }
        }
        if ends(word, "ation", 4) {
            cut(word, 5);
        } else if ends(word, "ion", 3) || ends(word, "ate", 4) {
            cut(word, 3);
        }
        if ends(word, "e", 3) {
            cut(word, 1);
        }
    }
    word
}

/// Returns the stem of one word.
fn stem_of(word: &str) -> String {
    let mut word = word.to_owned();
    stem(&mut word).to_owned()
}

/// Returns the stems that mean the same as a stem, without itself.
pub(super) fn synonyms(stem: &str) -> Vec<String> {
    let mut found = Vec::new();
    for group in SYNONYMS {
        let stems: Vec<String> = group.iter().map(|word| stem_of(word)).collect();
        if stems.iter().any(|own| own == stem) {
            found.extend(stems.into_iter().filter(|own| own != stem));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn names_in_every_case_give_the_same_words() {
        let expected = ["creat", "vector", "stor", "fil"];
        assert_eq!(words("createVectorStoreFile"), expected);
        assert_eq!(words("create_vector-store files"), expected);
        assert_eq!(words("CreateVectorStoreFiles"), expected);
        assert_eq!(words("listAPIKeys"), ["list", "api", "key"]);
        assert_eq!(words("s3Bucket2"), ["s3", "bucket2"]);
    }

    #[test]
    fn endings_of_tools_and_queries_meet() {
        for (a, b) in [
            ("reservation", "reservations"),
            ("cancelling", "cancelling"),
            ("created", "create"),
            ("creating", "create"),
            ("submitting", "submit"),
            ("moderations", "moderate"),
            ("creation", "creating"),
            ("generated", "generation"),
            ("queries", "query"),
            ("uploaded", "upload"),
        ] {
            assert_eq!(words(a), words(b), "{a} and {b}");
        }
        assert_eq!(words("status"), ["status"]);
        assert_eq!(words("class"), ["class"]);
    }

    #[test]
    fn stop_words_are_sorted_and_dropped() {
        assert!(STOP_WORDS.is_sorted());
        assert_eq!(words("what is in the file"), ["fil"]);
        assert_eq!(words("天気 weather"), ["天", "気", "weather"]);
        assert_eq!(words(&"x".repeat(1_000))[0].len(), MAX_WORD_BYTES);
    }

    #[test]
    fn synonyms_are_stems_of_the_same_group() {
        let found = synonyms("delet");
        assert!(found.contains(&"remov".to_owned()) && !found.contains(&"delet".to_owned()));
        assert!(synonyms("weather").is_empty());
    }
}
