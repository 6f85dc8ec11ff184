//! The tool registry: every tool a runtime knows, under unique names.
//!
//! Built once and then frozen. Own tools are fixed; sources are queried between turns, and their
//! tools are appended as `source__tool`. Duplicate names of own tools are a build error that names
//! both places; of duplicate names from sources, the later tool is dropped and reported.

mod registered_tool;
mod fill;
mod source;
mod view;
mod hidden;
mod withheld;
mod snapshot;
mod words;
mod search_index;
mod deferral;
mod find;
mod export;

use std::{
    collections::HashMap,
    fmt,
    panic::Location,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_core::{
    BoxError, DynTool, Error, ErrorKind, IntoTools, ToolName, host::RandomState, sync::lock,
};
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;

pub(crate) use self::{
    deferral::TOOL_SEARCH,
    snapshot::{Found, ToolSet},
};
pub use self::{
    find::{PromptCost, ToolQuery},
    hidden::HiddenReason,
    registered_tool::RegisteredTool,
    snapshot::ToolSnapshot,
    source::ToolSource,
    view::ToolView,
};
use crate::{
    clock::{Clock, RuntimeClock},
    host_code::within,
};

/// Every tool a runtime knows.
///
/// ```
/// use haft::ToolRegistry;
/// use haft::tool::{DynTool, ToolSpec};
/// use serde_json::json;
///
/// let tool = |name: &str| DynTool::new(
///     ToolSpec::new(name, "Says nothing."), json!({}), |_, _| async {},
/// );
/// let registry = ToolRegistry::builder().add(tool("b")).add(tool("a")).build()?;
/// assert_eq!(registry.own().map(|e| e.name().as_str()).collect::<Vec<_>>(), ["a", "b"]);
/// assert!(registry.get("b").is_some() && registry.get("c").is_none());
/// assert!(ToolRegistry::builder().add(tool("a")).add(tool("a")).build().is_err());
/// # Ok::<(), haft::Error>(())
/// ```
pub struct ToolRegistry {
    base: Arc<ToolSet>,
    sources: Arc<Sources>,
    /// The tool set of the last refresh, so that an unchanged set costs nothing new.
    last: Mutex<Arc<ToolSet>>,
}

impl ToolRegistry {
    /// Starts an empty registry.
    pub fn builder() -> ToolRegistryBuilder {
        ToolRegistryBuilder {
            kept: Vec::new(),
            tools: Vec::new(),
            replaced: Vec::new(),
            sources: Arc::default(),
        }
    }

    /// Returns a new registry that has more tools. This one stays as it is. Compiled schemas are
    /// reused. Sources are shared: closing the one registry closes them for the other.
    ///
    /// ```
    /// use haft::ToolRegistry;
    /// use haft::tool::{DynTool, ToolSpec};
    /// use serde_json::json;
    ///
    /// let tool = |name: &str| DynTool::new(
    ///     ToolSpec::new(name, "Says nothing."), json!({}), |_, _| async {},
    /// );
    /// let small = ToolRegistry::builder().add(tool("a")).build()?;
    /// let large = small.with(tool("b"))?;
    /// assert_eq!((small.own().count(), large.own().count()), (1, 2));
    /// assert!(large.with(tool("a")).is_err(), "the name is taken");
    /// # Ok::<(), haft::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails as [`ToolRegistryBuilder::build`] does.
    #[track_caller]
    pub fn with(&self, tools: impl IntoTools) -> Result<Self, Error> {
        let mut builder = Self::builder();
        builder.kept = self.base.entries().to_vec();
        builder.sources = Arc::clone(&self.sources);
        builder.add(tools).build()
    }

    /// Iterates over this program's own tools, sorted by name.
    pub fn own(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.base.entries().iter()
    }

    /// Returns one of this program's own tools by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.base.get(name)
    }

    /// Returns the tools of a registry that has no sources: they never change.
    pub(crate) fn without_sources(&self) -> Option<&Arc<ToolSet>> {
        self.sources.list.is_empty().then_some(&self.base)
    }

    /// Queries the sources, and returns the current tool set and the problems that occurred.
    pub(crate) async fn refresh(
        &self,
        clock: &dyn Clock,
        limit: Duration,
    ) -> Result<(Arc<ToolSet>, Vec<String>), Error> {
        self.sources.opened.get_or_try_init(|| self.open(clock, limit)).await?;
        let last = Arc::clone(&self.last());
        let mut problems = Vec::new();
        let mut entries: Vec<Arc<RegisteredTool>> = self.base.entries().to_vec();
        let mut taken: HashMap<ToolName, usize, RandomState> =
            entries.iter().enumerate().map(|(at, e)| (e.name().clone(), at)).collect();
        for source in &self.sources.list {
            let label: Arc<str> = format!("source `{}`", source.name()).into();
            let mut brought = Vec::new();
            match list_tools(clock, limit, source).await {
                Ok(tools) => {
                    for tool in &tools {
                        match freeze_source_tool(source.name(), &label, tool, &last) {
                            Ok(entry) => brought.push(entry),
                            // One invalid tool does not affect the others.
                            Err(e) => problems.push(e.to_string()),
                        }
                    }
                    brought.sort_by(|a, b| a.name().cmp(b.name()));
                }
                Err(e) => {
                    problems.push(format!("{label} could not list its tools: {e}"));
                    // If a source fails, its last tools stay.
                    let before = last.entries().iter().filter(|e| e.source() == &*label);
                    brought.extend(before.cloned());
                }
            }
            for entry in brought {
                match taken.get(entry.name()).and_then(|at| entries.get(*at)) {
                    Some(first) => problems.push(clash(&entry, first).to_string()),
                    None => {
                        taken.insert(entry.name().clone(), entries.len());
                        entries.push(entry);
                    }
                }
            }
        }
        if last.same(&entries) {
            return Ok((last, problems));
        }
        let tool_set = Arc::new(ToolSet::new(entries, self.base.entries().len()));
        *self.last() = Arc::clone(&tool_set);
        Ok((tool_set, problems))
    }

    /// Returns whether the definition of a tool is unchanged since a turn froze it. A step of a
    /// running body has the definition of this program.
    pub(crate) fn still_has(&self, tool: &RegisteredTool) -> bool {
        if tool.is_step() {
            return true;
        }
        let last = Arc::clone(&self.last());
        last.get(tool.registered().as_str())
            .is_some_and(|e| e.source() == tool.source() && e.raw_hash() == tool.raw_hash())
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Arc<ToolSet>> {
        lock(&self.last)
    }

    /// Opens all sources in order; if one fails, those before it are closed in reverse order.
    async fn open(&self, clock: &dyn Clock, limit: Duration) -> Result<(), Error> {
        for (at, source) in self.sources.list.iter().enumerate() {
            let opened = within(clock, limit, async { source.open().await }).await;
            if let Err(e) = opened.unwrap_or_else(|stopped| Err(stopped.to_string().into())) {
                close_all(clock, &self.sources.list[..at]).await;
                return Err(Error::new(
                    ErrorKind::Source,
                    format!("source `{}` did not open: {e}", source.name()),
                )
                .because(e));
            }
        }
        Ok(())
    }

    /// Closes all sources, starting in reverse order, once.
    pub(crate) async fn close(&self, clock: &dyn Clock) {
        let Sources { list, opened, closed } = &*self.sources;
        if opened.initialized() && !closed.swap(true, Ordering::AcqRel) {
            close_all(clock, list).await;
        }
    }
}

/// Timeout of closing one source, so that it cannot block the others.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

async fn close_all(clock: &dyn Clock, sources: &[Arc<dyn ToolSource>]) {
    // They are closed in reverse order, and do not wait for each other: a hundred servers take no
    // longer than the slowest.
    let closes = sources.iter().rev().map(|source| async move {
        let _ = within(clock, CLOSE_TIMEOUT, async { source.close().await }).await;
    });
    futures_util::future::join_all(closes).await;
}

/// Queries a source for its tools, with timeout and panics caught.
async fn list_tools(
    clock: &dyn Clock,
    limit: Duration,
    source: &Arc<dyn ToolSource>,
) -> Result<Vec<DynTool>, BoxError> {
    let own = within(clock, limit, async { source.list_timeout() }).await;
    let limit = own.ok().flatten().unwrap_or(limit).max(limit);
    let tools = within(clock, limit, async { source.tools().await }).await;
    tools.unwrap_or_else(|stopped| Err(stopped.to_string().into()))
}

/// The sources of one registry, or of several that were made from it.
#[derive(Default)]
struct Sources {
    list: Vec<Arc<dyn ToolSource>>,
    opened: OnceCell<()>,
    closed: AtomicBool,
}

impl Drop for Sources {
    fn drop(&mut self) {
        if self.opened.initialized()
            && !*self.closed.get_mut()
            && let Ok(handle) = tokio::runtime::Handle::try_current()
        {
            let sources = std::mem::take(&mut self.list);
            handle.spawn(async move { close_all(&RuntimeClock, &sources).await });
        }
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRegistry")
            .field("own", &self.base.entries().len())
            .field("sources", &self.sources.list)
            .finish_non_exhaustive()
    }
}

/// Freezes a tool of a source, reusing the compiled form if it is unchanged.
fn freeze_source_tool(
    source: &str,
    label: &Arc<str>,
    tool: &DynTool,
    last: &ToolSet,
) -> Result<Arc<RegisteredTool>, Error> {
    let name = remote_name(source, &tool.spec().name);
    match last.get(name.as_str()) {
        Some(previous) if previous.source() == &**label => RegisteredTool::refreeze(previous, tool),
        _ => RegisteredTool::freeze(name, label, tool)
            .map(|entry| Arc::new(entry.brought_by(source))),
    }
}

/// Makes `source__tool`, a valid name for every provider. A longer name is truncated and gets a
/// hash of the original, so that two long names stay distinct.
fn remote_name(source: &str, tool: &str) -> ToolName {
    let whole = format!("{source}__{tool}");
    if ToolName::is_safe(&whole) {
        return whole.into();
    }
    let mut safe: String = whole
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect();
    if !safe.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        safe.insert(0, '_');
    }
    let digest = Sha256::digest(whole.as_bytes());
    let mark: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    safe.truncate(ToolName::MAX - 9);
    format!("{safe}_{mark}").into()
}

fn clash(second: &RegisteredTool, first: &RegisteredTool) -> Error {
    Error::new(
        ErrorKind::DuplicateName,
        format!(
            "two tools are called `{}`: one from {}, one from {}",
            second.name(),
            first.source(),
            second.source()
        ),
    )
}

/// Builds a [`ToolRegistry`]. Errors are reported by [`ToolRegistryBuilder::build`].
#[must_use]
pub struct ToolRegistryBuilder {
    /// Tools of the registry that is extended.
    kept: Vec<Arc<RegisteredTool>>,
    tools: Vec<(DynTool, Arc<str>)>,
    replaced: Vec<(DynTool, Arc<str>)>,
    sources: Arc<Sources>,
}

impl ToolRegistryBuilder {
    /// Adds a tool, or all tools of a `#[tools]` struct.
    #[track_caller]
    #[expect(clippy::should_implement_trait, reason = "`add` is the word people look for")]
    pub fn add(mut self, tools: impl IntoTools) -> Self {
        let place = place();
        self.tools.extend(tools.into_tools().into_iter().map(|t| (t, Arc::clone(&place))));
        self
    }

    /// Replaces the tool with the same name, which must exist.
    #[track_caller]
    pub fn replace(mut self, tools: impl IntoTools) -> Self {
        let place = place();
        self.replaced.extend(tools.into_tools().into_iter().map(|t| (t, Arc::clone(&place))));
        self
    }

    /// Adds a source of tools, which is queried between turns.
    pub fn source(mut self, source: impl ToolSource) -> Self {
        // Only a builder that extends a registry shares its sources, and it never adds one.
        if let Some(sources) = Arc::get_mut(&mut self.sources) {
            sources.list.push(Arc::new(source));
        }
        self
    }

    /// Freezes all tools.
    ///
    /// # Errors
    /// Fails for a duplicate name or alias (naming both places), an inconsistent definition, a
    /// schema that does not compile, or an option that this version does not support.
    pub fn build(self) -> Result<ToolRegistry, Error> {
        let freeze = |(tool, place): &(DynTool, Arc<str>)| {
            RegisteredTool::freeze(tool.spec().name.as_str().into(), place, tool).map(Arc::new)
        };
        let mut taken: HashMap<ToolName, usize> =
            self.kept.iter().enumerate().map(|(at, tool)| (tool.name().clone(), at)).collect();
        let mut entries = self.kept;
        for tool in &self.tools {
            let entry = freeze(tool)?;
            if let Some(first) = taken.get(entry.name()).and_then(|at| entries.get(*at)) {
                return Err(clash(&entry, first)
                    .hint("rename one of them, or use `replace` if the second should win"));
            }
            taken.insert(entry.name().clone(), entries.len());
            entries.push(entry);
        }
        for tool in &self.replaced {
            let entry = freeze(tool)?;
            match taken.get(entry.name()).and_then(|at| entries.get_mut(*at)) {
                Some(old) => *old = entry,
                None => {
                    return Err(Error::new(
                        ErrorKind::BadTool,
                        format!(
                            "cannot replace `{}`: no tool with this name was added",
                            entry.name()
                        ),
                    )
                    .hint("use `add`"));
                }
            }
        }
        let mut aliases: HashMap<&str, &Arc<RegisteredTool>> = HashMap::new();
        for entry in &entries {
            for alias in &entry.spec().aliases {
                let named = taken.get(alias.as_str()).and_then(|at| entries.get(*at));
                let owner = named.or(aliases.get(alias.as_str()).copied());
                if let Some(owner) = owner {
                    return Err(Error::new(
                        ErrorKind::DuplicateName,
                        format!(
                            "the alias `{alias}` of `{}` from {} is already a name of `{}` from {}",
                            entry.name(),
                            entry.source(),
                            owner.name(),
                            owner.source()
                        ),
                    ));
                }
                if !ToolName::is_safe(alias) {
                    return Err(Error::new(
                        ErrorKind::BadTool,
                        format!("the alias `{alias}` of `{}` is not a valid name", entry.name()),
                    ));
                }
                aliases.insert(alias, entry);
            }
        }
        let mut names: Vec<&str> = self.sources.list.iter().map(|s| s.name()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::new(
                ErrorKind::DuplicateName,
                format!("two sources are called `{}`", twice[0]),
            ));
        }
        drop(aliases);
        entries.sort_by(|a, b| a.name().cmp(b.name()));
        let own = entries.len();
        let base = Arc::new(ToolSet::new(entries, own));
        Ok(ToolRegistry { last: Mutex::new(Arc::clone(&base)), base, sources: self.sources })
    }
}

#[track_caller]
fn place() -> Arc<str> {
    let at = Location::caller();
    format!("{}:{}", at.file(), at.line()).into()
}

impl fmt::Debug for ToolRegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRegistryBuilder")
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use haft_core::ToolSpec;
    use serde_json::json;

    use super::*;

    fn tool(name: &str) -> DynTool {
        DynTool::new(ToolSpec::new(name, "Does it."), json!({}), |_, _| async {})
    }

    #[test]
    fn duplicate_name_error_names_both_places() {
        let error = ToolRegistry::builder().add(tool("a")).add(tool("a")).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateName);
        assert_eq!(error.to_string().matches("registry/mod.rs:").count(), 2, "{error}");
        let alias = tool("b").with_spec(|s| s.alias("a"));
        let error = ToolRegistry::builder().add(tool("a")).add(alias).build().unwrap_err();
        assert!(error.to_string().contains("the alias `a` of `b`"), "{error}");
    }

    #[test]
    fn replacing_is_explicit() {
        let again = tool("a").with_spec(|s| s.title("second"));
        let registry = ToolRegistry::builder().add(tool("a")).replace(again).build().unwrap();
        assert_eq!(registry.own().next().unwrap().spec().title.as_deref(), Some("second"));
        assert!(ToolRegistry::builder().replace(tool("a")).build().is_err());
    }

    #[test]
    fn remote_names_are_safe_distinct_and_stable() {
        assert_eq!(remote_name("github", "get_issue"), "github__get_issue");
        let long = remote_name("s", &"x".repeat(100));
        assert!(ToolName::is_safe(long.as_str()) && long.as_str().len() == 64);
        assert_ne!(long, remote_name("s", &"x".repeat(101)));
        assert_eq!(long, remote_name("s", &"x".repeat(100)));
        let odd = remote_name("1é", "a.b/c");
        assert!(ToolName::is_safe(odd.as_str()), "{odd}");
        assert_ne!(odd, remote_name("1é", "a_b/c"));
    }
}
