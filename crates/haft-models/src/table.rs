//! Prices and limits of models, as data (`models.json`). A host can add a table of its own.

use haft::{Error, ErrorKind, agent::Price};
use serde::Deserialize;

use crate::Provider;

/// The table that comes with this crate.
const BUILTIN: &str = include_str!("../models.json");

/// Prices and limits by model. The first entry that matches counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceTable {
    entries: Vec<ModelEntry>,
}

/// What a table knows about some models.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelEntry {
    /// The provider; `None` matches every provider. `openai` is both APIs of OpenAI.
    #[serde(default)]
    pub provider: Option<String>,
    /// Names of models. A `*` at the end matches any ending.
    #[serde(rename = "match")]
    pub patterns: Vec<String>,
    /// The price of a million tokens of input, in currency units.
    pub input: f64,
    /// The price of a million tokens of output.
    pub output: f64,
    /// The price of a million tokens of input from the provider's cache.
    #[serde(default)]
    pub cached_input: Option<f64>,
    /// The price of a million tokens of input that is written to the provider's cache.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// How many tokens a request and its response may have together.
    #[serde(default)]
    pub context_tokens: Option<u64>,
    /// How many tokens a response may have.
    #[serde(default)]
    pub max_output_tokens: Option<u64>,
}

/// The form of a table as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    #[serde(default, rename = "note")]
    _note: String,
    models: Vec<ModelEntry>,
}

impl PriceTable {
    /// Returns the table that comes with this crate. Prices change: a host that limits money should
    /// check them.
    #[must_use]
    pub fn builtin() -> Self {
        // A test reads the file, so that it cannot be wrong here.
        Self::from_json(BUILTIN).unwrap_or_default()
    }

    /// Reads a table: `{"models": [{"match": ["name*"], "input": 3, "output": 15}]}`.
    ///
    /// # Errors
    /// Fails if it is not a table, or a price is negative or not a number.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let wrong =
            |why: String| Error::new(ErrorKind::BadConfig, format!("not a table of models: {why}"));
        let file: TableFile = serde_json::from_str(json).map_err(|e| wrong(e.to_string()))?;
        for entry in &file.models {
            let known =
                [Some(entry.input), Some(entry.output), entry.cached_input, entry.cache_write];
            if known.into_iter().flatten().any(|price| to_micros(price).is_none()) {
                let name = entry.patterns.first().map_or("", String::as_str);
                return Err(wrong(format!("a price of `{name}` is not a number of units")));
            }
        }
        Ok(Self { entries: file.models })
    }

    /// Adds another table. Its entries count first.
    #[must_use]
    pub fn overridden_by(mut self, first: Self) -> Self {
        self.entries.splice(0..0, first.entries);
        self
    }

    /// Returns what is known about a model.
    #[must_use]
    pub fn find(&self, provider: Provider, model: &str) -> Option<&ModelEntry> {
        let provider = match provider {
            Provider::OpenAiChat => Provider::OpenAi.as_str(),
            other => other.as_str(),
        };
        self.entries.iter().find(|entry| {
            entry.provider.as_deref().is_none_or(|own| own == provider)
                && entry.patterns.iter().any(|pattern| is_match(pattern, model))
        })
    }
}

impl ModelEntry {
    /// Returns the price, in the form that budgets use.
    #[must_use]
    pub fn price(&self) -> Price {
        // A table with other numbers cannot be read.
        let micros = |price: f64| to_micros(price).unwrap_or(u64::MAX);
        let mut price =
            Price { input: micros(self.input), output: micros(self.output), ..Price::default() };
        price.cached_input = self.cached_input.map(micros);
        price.cache_write = self.cache_write.map(micros);
        price
    }
}

/// Currency units as millionths; `None` for what is not a price.
pub(crate) fn to_micros(units: f64) -> Option<u64> {
    /// A price above this is a mistake of units.
    const MAX_UNITS: f64 = 1e6;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    (units.is_finite() && (0.0..=MAX_UNITS).contains(&units)).then(|| (units * 1e6).round() as u64)
}

fn is_match(pattern: &str, model: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => model.starts_with(start),
        None => model == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_table_is_read_and_every_pattern_finds_its_own_entry() {
        let table = PriceTable::from_json(BUILTIN).unwrap();
        assert_eq!(table, PriceTable::builtin());
        assert!(table.entries.len() > 10);
        for entry in &table.entries {
            let name = entry.provider.as_deref().unwrap();
            let provider = Provider::NAMED.into_iter().find(|p| p.as_str() == name).unwrap();
            for pattern in &entry.patterns {
                let model = pattern.replace('*', "-x");
                assert_eq!(table.find(provider, &model), Some(entry), "{model}");
            }
            assert!(entry.input < entry.output && entry.cached_input < Some(entry.input));
        }
    }

    #[test]
    fn price_is_in_millionths_and_similar_names_have_their_own() {
        let table = PriceTable::builtin();
        let price = table.find(Provider::Anthropic, "claude-sonnet-4-5-20250929").unwrap().price();
        assert_eq!((price.input, price.output), (3_000_000, 15_000_000));
        assert_eq!((price.cached_input, price.cache_write), (Some(300_000), Some(3_750_000)));
        let mini = table.find(Provider::OpenAiChat, "gpt-4o-mini").unwrap();
        assert_eq!(mini.price().input, 150_000);
        // A wrong price is worse than none.
        assert_eq!(table.find(Provider::OpenAi, "gpt-4o-audio-preview"), None);
        assert_eq!(table.find(Provider::Compatible, "gpt-4o"), None);
    }

    #[test]
    fn host_can_override_an_entry_and_mistakes_are_refused() {
        let own = r#"{"models": [{"match": ["gpt-4o"], "input": 1, "output": 2}]}"#;
        let table = PriceTable::builtin().overridden_by(PriceTable::from_json(own).unwrap());
        assert_eq!(table.find(Provider::OpenAi, "gpt-4o").unwrap().price().output, 2_000_000);
        for wrong in [
            "[]",
            r#"{"models": [{"match": ["a"], "input": 1}]}"#,
            r#"{"models": [{"match": ["a"], "input": -1, "output": 1}]}"#,
            r#"{"models": [{"match": ["a"], "input": 1, "output": 3000000}]}"#,
            r#"{"models": [{"match": ["a"], "input": 1, "output": 1, "price": 1}]}"#,
        ] {
            assert!(PriceTable::from_json(wrong).is_err(), "{wrong}");
        }
    }
}
