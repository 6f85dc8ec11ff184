//! A filtered and renamed view of a registry, for one agent.
//!
//! A view consists of predicates, so it also applies to tools that are added later.

use std::{fmt, sync::Arc};

use haft_core::ToolSpec;

use crate::policy::NameGlob;

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
    Rename(String, String),
    Hide(NameGlob),
    Filter(Arc<dyn Fn(&ToolSpec) -> bool + Send + Sync>),
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

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name under which a tool is shown, or `None` if it is hidden. Rules apply in the
    /// order they were added, each to the name that the ones before it produced.
    pub(crate) fn shown(&self, name: &str, spec: &ToolSpec) -> Option<String> {
        let mut name = name.to_owned();
        for rule in &self.0 {
            match rule {
                Rule::Prefix(prefix) => name.insert_str(0, prefix),
                Rule::Rename(from, to) if *from == name => name.clone_from(to),
                Rule::Hide(pattern) if pattern.matches(&name) => return None,
                // FAIL CLOSED: a filter that panics hides the tool.
                Rule::Filter(keep) if !crate::host_code::caught(|| keep(spec)).unwrap_or(false) => {
                    return None;
                }
                Rule::Rename(..) | Rule::Hide(_) | Rule::Filter(_) => {}
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
        let view = ToolView::all().prefix("fs_").rename("fs_read", "look").hide("fs_*");
        assert_eq!(view.shown("read", &spec).as_deref(), Some("look"));
        assert_eq!(view.shown("write", &spec), None);
        assert_eq!(ToolView::all().filter(ToolSpec::is_read_only).shown("read", &spec), None);
    }
}
