//! Finds tools by words: an inverted index with BM25 weights over names, descriptions and
//! parameters.
//!
//! In: the tools of a set, once. Out: the best matches of a query. The weight of each word in each
//! tool is computed when the index is built, so that a query only adds numbers.
//! Our own code: on the queries of the tests it finds more than the crate `bm25`, because fields
//! have weights of their own (`docs/design/tool-search.md`).
//!
//! INVARIANT: equal tool sets and queries give the same matches in the same order.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap, HashSet},
    sync::Arc,
};

use haft_core::host::RandomState;
use serde_json::{Map, Value};

use super::{
    RegisteredTool,
    words::{each_word, synonyms},
};
use crate::text::head;

/// How much a word counts in the name, in the description and among the parameters.
const NAME_WEIGHT: f32 = 3.0;
const DESCRIPTION_WEIGHT: f32 = 2.0;
const PARAMETER_WEIGHT: f32 = 0.25;
/// How much a synonym of a word of the query counts.
const SYNONYM_WEIGHT: f32 = 0.5;
/// The two constants of BM25: saturation of repeated words, and influence of the length.
const SATURATION: f32 = 1.2;
const LENGTH_INFLUENCE: f32 = 0.75;

/// How much of a description is indexed, in characters: the beginning says what the tool does.
const MAX_DESCRIPTION_CHARS: usize = 600;
/// How many parameters of a tool are indexed, and how deep they are nested.
const MAX_PARAMETERS: usize = 120;
const MAX_PARAMETER_DEPTH: usize = 3;
/// How many different words of a query count.
const MAX_QUERY_WORDS: usize = 32;

/// One occurrence of a word: the tool, and the weight of the word in it.
#[derive(Debug, Clone, Copy)]
struct Posting {
    tool: u32,
    weight: f32,
}

/// An index over tools. The position of a tool is its index in the list it was built from.
#[derive(Debug, Default)]
pub(crate) struct SearchIndex {
    /// The range of each word in `postings`.
    words: HashMap<Box<str>, (u32, u32), RandomState>,
    postings: Vec<Posting>,
    tools: usize,
}

impl SearchIndex {
    /// Indexes tools.
    pub(crate) fn new(tools: &[Arc<RegisteredTool>]) -> Self {
        let mut by_word: HashMap<Box<str>, Vec<Posting>, RandomState> = HashMap::default();
        let mut lengths = Vec::with_capacity(tools.len());
        let mut counts: HashMap<Box<str>, f32, RandomState> = HashMap::default();
        for (at, tool) in tools.iter().enumerate() {
            let Ok(at) = u32::try_from(at) else { break };
            count_words(tool, &mut counts);
            lengths.push(counts.values().sum::<f32>());
            for (word, weight) in counts.drain() {
                by_word.entry(word).or_default().push(Posting { tool: at, weight });
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a ranking needs no exact count")]
        let total = lengths.len() as f32;
        let average = (lengths.iter().sum::<f32>() / total.max(1.0)).max(f32::MIN_POSITIVE);
        let mut index = Self { tools: lengths.len(), ..Self::default() };
        index.words.reserve(by_word.len());
        index.postings.reserve_exact(by_word.values().map(Vec::len).sum());
        for (word, mut found) in by_word {
            #[expect(clippy::cast_precision_loss, reason = "a ranking needs no exact count")]
            let having = found.len() as f32;
            let rarity = (1.0 + (total - having + 0.5) / (having + 0.5)).ln();
            for posting in &mut found {
                let length = usize::try_from(posting.tool).ok().and_then(|at| lengths.get(at));
                let length = length.copied().unwrap_or(average) / average;
                let damping = SATURATION * (1.0 - LENGTH_INFLUENCE + LENGTH_INFLUENCE * length);
                let count = posting.weight;
                posting.weight = rarity * count * (SATURATION + 1.0) / (count + damping);
            }
            let from = u32::try_from(index.postings.len()).unwrap_or(u32::MAX);
            index.postings.extend(found);
            let to = u32::try_from(index.postings.len()).unwrap_or(u32::MAX);
            index.words.insert(word, (from, to));
        }
        index
    }

    /// Returns the positions of the best matches, best first; of equal ones, the first tool first.
    pub(crate) fn search(
        &self,
        query: &str,
        limit: usize,
        may_find: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut scores = vec![0.0_f32; self.tools];
        let mut touched: Vec<u32> = Vec::new();
        for (word, weight) in query_words(query) {
            for posting in self.postings_of(&word) {
                let Some(score) = usize_of(posting.tool).and_then(|at| scores.get_mut(at)) else {
                    continue;
                };
                if *score == 0.0 {
                    touched.push(posting.tool);
                }
                *score += weight * posting.weight;
            }
        }
        let mut best: BinaryHeap<Ranked> = BinaryHeap::with_capacity(limit.min(self.tools) + 1);
        for tool in touched {
            let Some(at) = usize_of(tool) else { continue };
            let score = scores.get(at).copied().unwrap_or_default();
            let ranked = Ranked { score, tool };
            // The worst of the best so far is on top.
            let is_better = best.len() < limit || best.peek().is_some_and(|worst| ranked < *worst);
            if is_better && may_find(at) {
                best.push(ranked);
                if best.len() > limit {
                    best.pop();
                }
            }
        }
        best.into_sorted_vec().into_iter().filter_map(|ranked| usize_of(ranked.tool)).collect()
    }

    fn postings_of(&self, word: &str) -> &[Posting] {
        let range = self
            .words
            .get(word)
            .and_then(|(from, to)| self.postings.get(usize_of(*from)?..usize_of(*to)?));
        range.unwrap_or_default()
    }

    /// Returns how many bytes of memory it takes, approximately.
    pub(crate) fn bytes(&self) -> usize {
        let word = size_of::<(Box<str>, (u32, u32))>() + 1;
        let texts: usize = self.words.keys().map(|word| word.len()).sum();
        texts + self.words.capacity() * word + self.postings.capacity() * size_of::<Posting>()
    }

    /// Returns how many different words it has.
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }
}

fn usize_of(number: u32) -> Option<usize> {
    usize::try_from(number).ok()
}

/// A match, ordered so that the best is the least.
#[derive(Debug, PartialEq)]
struct Ranked {
    score: f32,
    tool: u32,
}

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then_with(|| self.tool.cmp(&other.tool))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The words of a query with their weights: its own first, then their synonyms.
fn query_words(query: &str) -> Vec<(String, f32)> {
    let mut words: Vec<(String, f32)> = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    each_word(query, |word| {
        if words.len() < MAX_QUERY_WORDS && known.insert(word.to_owned()) {
            words.push((word.to_owned(), 1.0));
        }
    });
    for at in 0..words.len() {
        let Some((word, _)) = words.get(at) else { break };
        for synonym in synonyms(word) {
            if known.insert(synonym.clone()) {
                words.push((synonym, SYNONYM_WEIGHT));
            }
        }
    }
    words
}

/// Counts the words of a tool, each with the weight of where it occurs.
fn count_words(tool: &RegisteredTool, counts: &mut HashMap<Box<str>, f32, RandomState>) {
    let mut add = |text: &str, weight: f32| {
        each_word(text, |word| match counts.get_mut(word) {
            Some(count) => *count += weight,
            None => {
                counts.insert(word.into(), weight);
            }
        });
    };
    add(tool.registered().as_str(), NAME_WEIGHT);
    add(head(&tool.spec().description, MAX_DESCRIPTION_CHARS), DESCRIPTION_WEIGHT);
    let mut left = MAX_PARAMETERS;
    let schema = tool.input_schema();
    each_parameter(schema, schema, MAX_PARAMETER_DEPTH, &mut left, &mut |name| {
        add(name, PARAMETER_WEIGHT);
    });
}

/// Calls `each` with the names of properties, also behind references and in unions.
pub(super) fn each_parameter<'a>(
    root: &'a Value,
    schema: &'a Value,
    depth: usize,
    left: &mut usize,
    each: &mut dyn FnMut(&'a str),
) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let Some(map) = schema.as_object() else { return };
    if let Some(target) = referenced(root, map) {
        each_parameter(root, target, depth, left, each);
    }
    for (name, inner) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Some(less) = left.checked_sub(1) else { return };
        *left = less;
        each(name);
        each_parameter(root, inner, depth, left, each);
    }
    for union in ["anyOf", "oneOf", "allOf"] {
        for inner in map.get(union).and_then(Value::as_array).into_iter().flatten() {
            each_parameter(root, inner, depth, left, each);
        }
    }
    if let Some(items) = map.get("items") {
        each_parameter(root, items, depth, left, each);
    }
}

fn referenced<'a>(root: &'a Value, map: &Map<String, Value>) -> Option<&'a Value> {
    root.pointer(map.get("$ref")?.as_str()?.strip_prefix('#')?)
}

#[cfg(test)]
mod tests {
    use haft_core::{DynTool, ToolSpec};
    use serde_json::json;

    use super::*;
    use crate::ToolRegistry;

    fn tools(list: &[(&str, &str, Value)]) -> Vec<Arc<RegisteredTool>> {
        let tools: Vec<DynTool> = list
            .iter()
            .map(|(name, about, schema)| {
                DynTool::new(ToolSpec::new(*name, *about), schema.clone(), |_, _| async { "" })
            })
            .collect();
        ToolRegistry::builder().add(tools).build().unwrap().own().cloned().collect()
    }

    fn found<'a>(tools: &'a [Arc<RegisteredTool>], query: &str) -> Vec<&'a str> {
        let index = SearchIndex::new(tools);
        let hits = index.search(query, 5, |_| true);
        hits.into_iter().map(|at| tools[at].name().as_str()).collect()
    }

    fn sample() -> Vec<Arc<RegisteredTool>> {
        tools(&[
            ("archive_message", "Moves a message to the archive.", json!({})),
            ("delete_invoice", "Deletes an invoice.", json!({})),
            (
                "get_weather",
                "Returns the forecast of a city.",
                json!({"properties": {
                "city": {"type": "string"},
                "unit": {"$ref": "#/$defs/unit"},
            }, "$defs": {"unit": {"properties": {"fahrenheit": {"type": "boolean"}}}}}),
            ),
            ("list_invoices", "Lists invoices.", json!({})),
        ])
    }

    #[test]
    fn name_description_and_parameters_are_found() {
        let tools = sample();
        assert_eq!(found(&tools, "weather"), ["get_weather"]);
        assert_eq!(found(&tools, "forecast"), ["get_weather"]);
        assert_eq!(found(&tools, "fahrenheit"), ["get_weather"], "behind a reference");
        assert_eq!(found(&tools, "list invoices")[0], "list_invoices");
        assert_eq!(found(&tools, "remove an invoice")[0], "delete_invoice", "a synonym");
        assert!(found(&tools, "teleport").is_empty() && found(&tools, "").is_empty());
    }

    #[test]
    fn tools_that_may_not_be_found_are_left_out_and_do_not_use_up_the_limit() {
        let tools = sample();
        let index = SearchIndex::new(&tools);
        let best = index.search("invoice", 1, |_| true);
        let other = index.search("invoice", 1, |at| best != [at]);
        assert_eq!((best.len(), other.len()), (1, 1));
        assert_ne!(best, other);
        assert!(index.search("invoice", 5, |_| false).is_empty());
        assert!(index.search("invoice", 0, |_| true).is_empty());
    }

    #[test]
    fn empty_index_finds_nothing() {
        let index = SearchIndex::new(&[]);
        assert!(index.search("anything", 5, |_| true).is_empty());
        assert_eq!(index.words(), 0);
    }

    #[test]
    fn cyclic_references_end() {
        let tools = tools(&[(
            "walk",
            "Visits a tree.",
            json!({
                "properties": {"node": {"$ref": "#/$defs/node"}},
                "$defs": {"node": {"properties": {"children": {"items": {"$ref": "#/$defs/node"}}}}},
            }),
        )]);
        assert_eq!(found(&tools, "node"), ["walk"]);
    }
}
