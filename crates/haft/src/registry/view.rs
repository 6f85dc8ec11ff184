//! A filtered and renamed view of a registry, for one agent.
//!
//! A view consists of predicates, so it also applies to tools that are added later.

use std::{fmt, sync::Arc};

use haft_core::ToolSpec;
use haft_policy::NameGlob;

/// The tools of a registry that one agent sees.
///
/// ```
/// use haft::registry::ToolView;
///
/// let view = ToolView::all().filter(|spec| spec.is_read_only()).hide("debug_*").prefix("docs_");
/// ```
#[derive(Clone, Default)]
pub struct ToolView(Vec<Rule>);

#[derive(Clone)]
enum Rule {
    Prefix(String),
    StripPrefix(String),
    Rename(String, String),
    Hide(NameGlob),
    Filter(Arc<dyn Fn(&ToolSpec) -> bool + Send + Sync>),
    Only(Vec<NameGlob>),
    Without(Vec<NameGlob>),
}

/// The names of a tool that a view compares.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ToolNames<'a> {
    /// The names of equivalent tools in other programs, such as `Bash`.
    pub(crate) known_as: &'a [&'static str],
    /// Whether it comes from a source; other programs call it `mcp__` and its name.
    pub(crate) is_remote: bool,
}

impl ToolNames<'_> {
    fn match_one(self, name: &str, patterns: &[NameGlob]) -> bool {
        patterns.iter().any(|pattern| {
            pattern.matches(name)
                || self.known_as.iter().any(|known| pattern.matches(known))
                || self.is_remote && pattern.matches(&format!("mcp__{name}"))
        })
    }
}

impl ToolView {
    /// Shows all tools unchanged.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Adds a prefix to every name.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.0.push(Rule::Prefix(prefix.into()));
        self
    }

    /// Removes a prefix from the names that have it, such as that of a source: `notes__`. Other
    /// names stay as they are.
    #[must_use]
    pub fn strip_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.0.push(Rule::StripPrefix(prefix.into()));
        self
    }

    /// Shows one tool under another name.
    #[must_use]
    pub fn rename(mut self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.0.push(Rule::Rename(from.into(), to.into()));
        self
    }

    /// Hides tools by name; `*` matches any text, `?` one character.
    #[must_use]
    pub fn hide(mut self, pattern: impl Into<String>) -> Self {
        self.0.push(Rule::Hide(NameGlob::new(pattern)));
        self
    }

    /// Shows only the tools that the predicate accepts.
    #[must_use]
    pub fn filter(mut self, keep: impl Fn(&ToolSpec) -> bool + Send + Sync + 'static) -> Self {
        self.0.push(Rule::Filter(Arc::new(keep)));
        self
    }

    /// Shows only the tools whose name matches one of the patterns. Names of equivalent tools in
    /// other programs count too: `Bash` shows `shell`.
    #[must_use]
    pub fn only(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.push(Rule::Only(patterns.into_iter().map(NameGlob::new).collect()));
        self
    }

    /// Hides the tools whose name matches one of the patterns, compared as by
    /// [`only`](Self::only).
    #[must_use]
    pub fn without(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.push(Rule::Without(patterns.into_iter().map(NameGlob::new).collect()));
        self
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name under which a tool is shown, or `None` if it is hidden. Rules apply in the
    /// order they were added, each to the name that the ones before it produced.
    pub(crate) fn shown(
        &self,
        name: &str,
        spec: &ToolSpec,
        names: ToolNames<'_>,
    ) -> Option<String> {
        let mut name = name.to_owned();
        for rule in &self.0 {
            match rule {
                Rule::Prefix(prefix) => name.insert_str(0, prefix),
                Rule::StripPrefix(prefix) => {
                    let rest = name.strip_prefix(prefix.as_str()).filter(|rest| !rest.is_empty());
                    if let Some(rest) = rest.map(str::to_owned) {
                        name = rest;
                    }
                }
                Rule::Rename(from, to) if *from == name => name.clone_from(to),
                Rule::Hide(pattern) if pattern.matches(&name) => return None,
                // FAIL CLOSED: a filter that panics hides the tool.
                Rule::Filter(keep) if !crate::host_code::caught(|| keep(spec)).unwrap_or(false) => {
                    return None;
                }
                Rule::Only(patterns) if !names.match_one(&name, patterns) => return None,
                Rule::Without(patterns) if names.match_one(&name, patterns) => return None,
                Rule::Rename(..)
                | Rule::Hide(_)
                | Rule::Filter(_)
                | Rule::Only(_)
                | Rule::Without(_) => {}
            }
        }
        Some(name)
    }
}

impl fmt::Debug for ToolView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolView({} rules)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_apply_in_order() {
        let spec = ToolSpec::new("read", "Reads.");
        let names = ToolNames::default();
        let view = ToolView::all().prefix("fs_").rename("fs_read", "look").hide("fs_*");
        assert_eq!(view.shown("read", &spec, names).as_deref(), Some("look"));
        assert_eq!(view.shown("write", &spec, names), None);
        let view = ToolView::all().filter(ToolSpec::is_read_only);
        assert_eq!(view.shown("read", &spec, names), None);
        let view = ToolView::all().strip_prefix("notes__");
        assert_eq!(view.shown("notes__add", &spec, names).as_deref(), Some("add"));
        assert_eq!(view.shown("notes__", &spec, names).as_deref(), Some("notes__"));
        assert_eq!(view.shown("read", &spec, names).as_deref(), Some("read"));
    }

    #[test]
    fn names_of_other_programs_count_for_lists_of_tools() {
        let spec = ToolSpec::new("shell", "Runs.");
        let own = ToolNames { known_as: &["Bash"], is_remote: false };
        let remote = ToolNames { known_as: &[], is_remote: true };
        let only = ToolView::all().only(["Bash", "mcp__github__get_*"]);
        assert!(only.shown("shell", &spec, own).is_some());
        assert!(only.shown("github__get_issue", &spec, remote).is_some());
        assert!(only.shown("github__close_issue", &spec, remote).is_none());
        assert!(only.shown("github__get_issue", &spec, ToolNames::default()).is_none());
        let without = ToolView::all().without(["Bash"]);
        assert!(without.shown("shell", &spec, own).is_none());
        assert!(without.shown("read_file", &spec, ToolNames::default()).is_some());
    }
}
