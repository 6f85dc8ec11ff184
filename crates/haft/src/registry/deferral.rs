//! Which tools of a snapshot are deferred: their definitions are left out of the request until
//! `tool_search` finds them.
//!
//! In: the offered tools with their exposure and size, and a budget of tokens. Out: the deferred
//! ones, and a compact list of their names. Nothing is deferred without the tool `tool_search`.
//! INVARIANT: a deferred tool is offered. It can be called, and it is validated and authorized as
//! every other tool.

use std::sync::{Arc, OnceLock};

use haft_core::{Exposure, ToolName};

use super::{RegisteredTool, search_index::SearchIndex};
use crate::text::shortened;

/// The name of the tool that searches.
pub(crate) const TOOL_SEARCH: &str = "tool_search";

/// The longest list of names, in bytes: about two thousand tokens.
const MAX_LISTING_BYTES: usize = 6_000;
/// How many groups of names a shortened list has.
const MAX_GROUPS: usize = 100;

/// The index of a tool set; made for the first search, and shared with the views of the set.
#[derive(Debug)]
pub(super) struct LazyIndex {
    pub(super) tools: Arc<[Arc<RegisteredTool>]>,
    index: OnceLock<SearchIndex>,
}

impl LazyIndex {
    pub(super) fn new(tools: Arc<[Arc<RegisteredTool>]>) -> Self {
        Self { tools, index: OnceLock::new() }
    }

    pub(super) fn get(&self) -> &SearchIndex {
        self.index.get_or_init(|| SearchIndex::new(&self.tools))
    }
}

/// The deferred tools among those that are offered.
#[derive(Debug)]
pub(super) struct DeferredSet {
    /// The budget it was computed for.
    pub(super) budget: Option<u64>,
    /// By position in the tool set.
    is_deferred: Vec<bool>,
    count: usize,
    /// The names, for the description of `tool_search`.
    listing: String,
}

impl DeferredSet {
    /// Decides for each tool. `is_offered` is asked by name.
    pub(super) fn new(
        tools: &[Arc<RegisteredTool>],
        own: usize,
        budget: Option<u64>,
        is_offered: impl Fn(&ToolName) -> bool,
    ) -> Self {
        let offered: Vec<bool> = tools.iter().map(|tool| is_offered(tool.name())).collect();
        let rows = || tools.iter().zip(&offered).enumerate();
        let tokens = |keep: &dyn Fn(usize, Exposure) -> bool| -> u64 {
            let counted =
                rows().filter(|(at, (tool, offered))| **offered && keep(*at, tool.spec().exposure));
            counted.map(|(_, (tool, _))| tool.definition_tokens()).sum()
        };
        let is_over = |tokens: u64| budget.is_some_and(|budget| tokens > budget);
        let all = tokens(&|_, exposure| exposure != Exposure::Deferred);
        let without_sources = tokens(&|at, exposure| match exposure {
            Exposure::Always => true,
            Exposure::Auto => at < own,
            Exposure::Deferred => false,
        });
        // The program's own tools are what its author chose, so tools of sources go first.
        let (defer_sources, defer_own) = (is_over(all), is_over(without_sources));
        let is_deferred: Vec<bool> = rows()
            .map(|(at, (tool, offered))| {
                *offered
                    && *tool.registered() != TOOL_SEARCH
                    && match tool.spec().exposure {
                        Exposure::Always => false,
                        Exposure::Auto => defer_own || (defer_sources && at >= own),
                        Exposure::Deferred => true,
                    }
            })
            .collect();
        let deferred = rows().filter(|(at, _)| is_deferred.get(*at) == Some(&true));
        let deferred: Vec<&RegisteredTool> = deferred.map(|(_, (tool, _))| &**tool).collect();
        let (count, listing) = (deferred.len(), list_names(&deferred));
        Self { budget, is_deferred, count, listing }
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.is_deferred.get(at).copied().unwrap_or(false)
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn listing(&self) -> &str {
        &self.listing
    }
}

/// Lists names in groups: the tools of each source once with their prefix, the program's own by
/// their first word where there are too many. A list that is too long has the number of tools and
/// the first names of each group.
fn list_names(tools: &[&RegisteredTool]) -> String {
    let by_source = groups(tools, |tool| {
        let name = tool.name().as_str();
        let prefix = tool.remote().and_then(|_| name.find("__")).map_or(0, |at| at + 2);
        &name[..prefix]
    });
    let whole = write_groups(&by_source, usize::MAX);
    if whole.len() <= MAX_LISTING_BYTES {
        return whole;
    }
    let by_word = groups(tools, |tool| {
        let name = tool.name().as_str();
        let prefix = match tool.remote() {
            Some(_) => name.find("__").map_or(0, |at| at + 2),
            None => name.find('_').map_or(0, |at| at + 1),
        };
        &name[..prefix]
    });
    let by_group = if by_word.len() <= MAX_GROUPS { by_word } else { by_source };
    let share = MAX_LISTING_BYTES / by_group.len().max(1);
    // Names are ASCII, so bytes are characters.
    shortened(&write_groups(&by_group, share.saturating_sub(40)), MAX_LISTING_BYTES)
}

/// The rest of the names of each group, in order of the first occurrence.
fn groups<'a>(
    tools: &[&'a RegisteredTool],
    prefix: impl Fn(&'a RegisteredTool) -> &'a str,
) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut at = std::collections::HashMap::new();
    for tool in tools.iter().copied() {
        let prefix = prefix(tool);
        let rest = &tool.name().as_str()[prefix.len()..];
        let position = *at.entry(prefix).or_insert_with(|| {
            groups.push((prefix, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, names)) = groups.get_mut(position) {
            names.push(rest);
        }
    }
    groups
}

/// One line for each group: the prefix, and as many names as fit.
fn write_groups(groups: &[(&str, Vec<&str>)], max_bytes: usize) -> String {
    let mut text = String::new();
    for (prefix, names) in groups {
        let mut line = String::new();
        let mut shown = 0;
        for name in names {
            if line.len() + name.len() + 2 > max_bytes {
                break;
            }
            if shown > 0 {
                line.push_str(", ");
            }
            line.push_str(name);
            shown += 1;
        }
        if shown < names.len() {
            let count = names.len();
            let more = if shown == 0 { "" } else { ", …" };
            line = format!("({count} tools) {line}{more}");
        }
        if !text.is_empty() {
            text.push('\n');
        }
        if !prefix.is_empty() {
            text.push_str(prefix);
            text.push_str("*: ");
        }
        text.push_str(&line);
    }
    text
}

#[cfg(test)]
mod tests {
    use haft_core::{DynTool, ToolSpec};
    use serde_json::json;

    use super::*;
    use crate::ToolRegistry;

    fn tools(specs: Vec<ToolSpec>) -> Vec<Arc<RegisteredTool>> {
        let tool = |spec| DynTool::new(spec, json!({}), |_, _| async { "" });
        let tools: Vec<DynTool> = specs.into_iter().map(tool).collect();
        ToolRegistry::builder().add(tools).build().unwrap().own().cloned().collect()
    }

    fn spec(name: &str, exposure: Exposure) -> ToolSpec {
        ToolSpec::new(name, "Does something.").exposure(exposure)
    }

    fn deferred(tools: &[Arc<RegisteredTool>], own: usize, budget: Option<u64>) -> Vec<&str> {
        let set = DeferredSet::new(tools, own, budget, |_| true);
        let names = tools.iter().enumerate().filter(|(at, _)| set.has(*at));
        let names: Vec<&str> = names.map(|(_, tool)| tool.name().as_str()).collect();
        assert_eq!(names.len(), set.count());
        names
    }

    #[test]
    fn budget_defers_auto_tools_and_never_those_that_are_always_shown() {
        let tools = tools(vec![
            spec("a", Exposure::Always),
            spec("b", Exposure::Auto),
            spec("c", Exposure::Deferred),
            spec("tool_search", Exposure::Auto),
        ]);
        assert_eq!(deferred(&tools, 4, None), ["c"]);
        assert_eq!(deferred(&tools, 4, Some(1_000)), ["c"]);
        assert_eq!(deferred(&tools, 4, Some(1)), ["b", "c"]);
    }

    #[test]
    fn tools_of_sources_are_deferred_before_own_tools() {
        let tools = tools(vec![
            spec("a", Exposure::Auto),
            spec("b", Exposure::Auto),
            spec("c", Exposure::Auto),
        ]);
        let one = tools[0].definition_tokens();
        assert_eq!(deferred(&tools, 2, Some(3 * one)), [""; 0]);
        assert_eq!(deferred(&tools, 2, Some(2 * one)), ["c"]);
        assert_eq!(deferred(&tools, 2, Some(one)), ["a", "b", "c"]);
    }

    #[test]
    fn long_list_of_names_is_shortened_by_group() {
        let named = |n: usize| spec(&format!("mail_{n:05}"), Exposure::Deferred);
        let few = tools((0..3).map(named).collect());
        let set = DeferredSet::new(&few, 3, None, |_| true);
        assert_eq!(set.listing(), "mail_00000, mail_00001, mail_00002");
        let mut specs: Vec<ToolSpec> = (0..5_000).map(named).collect();
        specs.push(spec("disk_usage", Exposure::Deferred));
        let many = tools(specs);
        let set = DeferredSet::new(&many, 5_001, None, |_| true);
        let listing = set.listing();
        assert!(listing.len() <= MAX_LISTING_BYTES + 3, "{}", listing.len());
        assert!(listing.contains("disk_*: usage"), "{listing:.200}");
        assert!(listing.contains("mail_*: (5000 tools) 00000, "), "{listing:.200}");
    }

    #[test]
    fn hidden_tools_are_not_listed() {
        let tools = tools(vec![spec("a", Exposure::Deferred), spec("b", Exposure::Deferred)]);
        let set = DeferredSet::new(&tools, 2, None, |name| *name != "b");
        assert_eq!((set.count(), set.listing()), (1, "a"));
    }
}
