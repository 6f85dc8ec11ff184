//! Searches the tools of a snapshot, and says what they cost in a request.
//!
//! In: words, a regular expression or names. Out: tools that are offered.
//! INVARIANT: a tool that is hidden, disabled or denied by a rule is never found.

use std::sync::Arc;

use haft_core::{Failure, ToolName};
use regex::RegexBuilder;
use serde_json::Value;

use super::{RegisteredTool, ToolSnapshot, search_index::each_parameter};
use crate::text::estimate_tokens;

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolQuery {
    /// Words; the best matches first (BM25 over name, description and parameters).
    Words(String),
    /// A regular expression over name, description and parameter names, ignoring case.
    Pattern(String),
    /// Exact names.
    Names(Vec<String>),
}

/// The longest regular expression, in bytes, and the most memory that it may take when compiled.
const MAX_PATTERN_BYTES: usize = 200;
const MAX_PATTERN_MEMORY: usize = 1 << 20;
/// How many parameters of a tool a pattern is compared with.
const MAX_PATTERN_PARAMETERS: usize = 200;

/// What the tools of a turn cost, and what deferring some of them saves. Tokens are estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptCost {
    /// How many tools are offered.
    pub tools: usize,
    /// How many of them are deferred.
    pub deferred: usize,
    /// The tokens of all definitions.
    pub all_tokens: u64,
    /// The tokens of the definitions in a request: without the deferred ones, with `tool_search`.
    pub request_tokens: u64,
    /// The tokens of the list of deferred names, which is part of them.
    pub listing_tokens: u64,
    /// The memory of the search index, in bytes.
    pub index_bytes: usize,
    /// How many different words the search index has.
    pub index_words: usize,
}

impl ToolSnapshot {
    /// Searches the offered tools, deferred or not. Best matches come first.
    ///
    /// ```
    /// use haft::registry::ToolQuery;
    /// use haft::tool::{DynTool, ToolSpec};
    /// use haft::{Runtime, ToolRegistry};
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let tool = |name: &str, about: &str| {
    ///     DynTool::new(ToolSpec::new(name, about), json!({}), |_, _| async {})
    /// };
    /// let registry = ToolRegistry::builder()
    ///     .add(tool("get_forecast", "Returns the weather of the next days."))
    ///     .add(tool("send_mail", "Sends a mail."))
    ///     .build()?;
    /// let turn = Runtime::builder().registry(registry).build()?.run().turn().await?;
    /// let found = turn.snapshot().search(&ToolQuery::Words("weather".into()), 5).unwrap();
    /// assert_eq!(found[0].name().as_str(), "get_forecast");
    /// # Ok::<(), haft::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Fails if a pattern is not a valid regular expression, or too long.
    pub fn search(
        &self,
        query: &ToolQuery,
        limit: usize,
    ) -> Result<Vec<&Arc<RegisteredTool>>, Failure> {
        Ok(match query {
            ToolQuery::Words(words) => self.search_words(words, limit),
            ToolQuery::Pattern(pattern) => self.search_pattern(pattern, limit)?,
            ToolQuery::Names(names) => {
                names.iter().filter_map(|name| self.get(name)).take(limit).collect()
            }
        })
    }

    fn search_words(&self, words: &str, limit: usize) -> Vec<&Arc<RegisteredTool>> {
        // A query that is the name of a tool means that tool.
        let exact = self.get(words.trim());
        let is_other = |tool: &RegisteredTool| exact.is_none_or(|e| e.name() != tool.name());
        let may_find = |tool: &RegisteredTool| self.is_found(tool.name()) && is_other(tool);
        let found = self.tool_set().search_words(words, limit, may_find);
        exact.into_iter().chain(found).take(limit).collect()
    }

    fn search_pattern(
        &self,
        pattern: &str,
        limit: usize,
    ) -> Result<Vec<&Arc<RegisteredTool>>, Failure> {
        let refused = |why: &str| {
            Failure::invalid(format!("the pattern cannot be used: {why}"))
                .with_next("send a shorter regular expression, or words in `query`")
        };
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(refused(&format!("it is longer than {MAX_PATTERN_BYTES} bytes")));
        }
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(true)
            .size_limit(MAX_PATTERN_MEMORY)
            .build()
            .map_err(|error| refused(&error.to_string()))?;
        let is_match = |tool: &RegisteredTool| {
            let mut found = regex.is_match(&tool.spec().description);
            let schema: &Value = tool.input_schema();
            each_parameter(schema, schema, 2, &mut MAX_PATTERN_PARAMETERS.clone(), &mut |name| {
                found = found || regex.is_match(name);
            });
            found
        };
        let tools = || self.entries().filter(|tool| self.is_found(tool.name()));
        // A name says more than a description.
        let by_name = tools().filter(|tool| regex.is_match(tool.name().as_str()));
        let by_text = tools().filter(|tool| !regex.is_match(tool.name().as_str()));
        Ok(by_name.chain(by_text.filter(|tool| is_match(tool))).take(limit).collect())
    }

    /// Whether a search may return a tool: it is offered, and not the search itself.
    fn is_found(&self, name: &ToolName) -> bool {
        self.get(name.as_str())
            .is_some_and(|tool| *tool.name() == *name && *tool.registered() != super::TOOL_SEARCH)
    }

    /// Returns what the tools cost in a request, and the size of the search index.
    #[must_use]
    pub fn prompt_cost(&self) -> PromptCost {
        let tokens = |tool: &Arc<RegisteredTool>| tool.definition_tokens();
        let listing = self.deferral().map_or(0, |(set, _)| set.listing().len());
        let listing_tokens = estimate_tokens(listing);
        let is_shown = |tool: &&Arc<RegisteredTool>| {
            let is_search = *tool.registered() == super::TOOL_SEARCH;
            !self.is_deferred(tool) && (!is_search || self.deferral().is_some())
        };
        let index = self.tool_set().index();
        PromptCost {
            tools: self.entries().count(),
            deferred: self.entries().filter(|tool| self.is_deferred(tool)).count(),
            all_tokens: self.entries().map(tokens).sum(),
            request_tokens: self.entries().filter(is_shown).map(tokens).sum::<u64>()
                + listing_tokens,
            listing_tokens,
            index_bytes: index.bytes(),
            index_words: index.words(),
        }
    }
}
