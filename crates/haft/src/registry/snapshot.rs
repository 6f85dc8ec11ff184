//! The frozen set of tools that one turn sees.
//!
//! A tool set is all tools in their order; a snapshot is a tool set without the tools hidden
//! this turn. Both are immutable. Equal snapshots have equal fingerprints.
//!
//! INVARIANT: own tools come first, sorted by name; then each source's, sorted by name.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, OnceLock},
};

use haft_core::{DependencyKind, Scope, ToolName, host::RandomState, sync::lock};
use haft_dialect::{Dialect, ToolExport};
use haft_policy::{HidesRevision, Policy};
use sha2::{Digest, Sha256};

use super::{
    RegisteredTool, ToolView,
    deferral::{DeferredSet, LazyIndex, TOOL_SEARCH},
    export::Exports,
    hidden::{HiddenReason, unavailable},
    search_index::SearchIndex,
    view::ToolNames,
    withheld::{Further, Withheld},
};
use crate::{host_code::caught, near::NearIndex};

/// All tools in order, with their index.
#[derive(Debug)]
pub(crate) struct ToolSet {
    entries: Arc<[Arc<RegisteredTool>]>,
    by_name: HashMap<ToolName, usize, RandomState>,
    aliases: HashMap<String, usize, RandomState>,
    fingerprint: [u8; 32],
    /// How many of the entries, from the first, are this program's own.
    own: usize,
    /// The positions of the tools that must be checked each turn.
    conditional: Vec<usize>,
    exports: Exports,
    /// The index for unknown names; built for the first one.
    near: OnceLock<NearIndex>,
    /// What a policy hides that hides nothing.
    nothing_hidden: Withheld,
    /// What the policies hid that were asked last.
    hidden: Mutex<Vec<(HidesRevision, Arc<Withheld>)>>,
    /// The index for `tool_search`.
    search: Arc<LazyIndex>,
    /// In a view: the position here of each tool of the index.
    positions: Option<Vec<Option<usize>>>,
    /// The position of `tool_search`.
    search_tool: Option<usize>,
}

/// Number of policies whose answers a tool set keeps: runtimes may share a registry.
const MAX_HIDDEN_SETS: usize = 4;

impl ToolSet {
    /// Indexes entries that are already sorted and unique. Aliases count only for the first `own`
    /// entries: a tool from a source has no alias.
    pub(crate) fn new(entries: Vec<Arc<RegisteredTool>>, own: usize) -> Self {
        let mut hasher = Sha256::new();
        for entry in &entries {
            hasher.update(entry.name().as_str());
            hasher.update([0]);
            hasher.update(entry.raw_hash());
        }
        let by_name = entries.iter().enumerate().map(|(at, e)| (e.name().clone(), at)).collect();
        let aliases = entries
            .iter()
            .enumerate()
            .take(own)
            .flat_map(|(at, e)| e.spec().aliases.iter().map(move |alias| (alias.clone(), at)))
            .collect();
        let is_conditional = |(at, e): &(usize, &Arc<RegisteredTool>)| {
            let spec = e.spec();
            // The state that own tools need was checked when the runtime was built.
            let needs =
                |n: &haft_core::Dependency| n.kind == DependencyKind::RunState || *at >= own;
            spec.enabled.is_some() || spec.requires_user_interaction || spec.needs.iter().any(needs)
        };
        let conditional = entries.iter().enumerate().filter(is_conditional);
        let conditional = conditional.map(|(at, _)| at).collect();
        let fingerprint: [u8; 32] = hasher.finalize().into();
        let exports = Exports::default();
        let (near, hidden) = (OnceLock::new(), Mutex::default());
        let nothing_hidden = Withheld::new(HashMap::new(), fingerprint);
        let search_tool = entries.iter().take(own).position(|e| *e.registered() == TOOL_SEARCH);
        let entries: Arc<[_]> = entries.into();
        let search = Arc::new(LazyIndex::new(Arc::clone(&entries)));
        Self {
            entries,
            by_name,
            aliases,
            fingerprint,
            own,
            conditional,
            exports,
            near,
            nothing_hidden,
            hidden,
            search,
            positions: None,
            search_tool,
        }
    }

    pub(crate) fn entries(&self) -> &[Arc<RegisteredTool>] {
        &self.entries
    }

    /// Returns the tools from sources.
    pub(crate) fn brought(&self) -> &[Arc<RegisteredTool>] {
        self.entries.get(self.own..).unwrap_or_default()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.by_name.get(name).map(|at| &self.entries[*at])
    }

    pub(crate) fn same(&self, other: &[Arc<RegisteredTool>]) -> bool {
        self.entries.len() == other.len()
            && self.entries.iter().zip(other).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Returns what a policy hides. Each tool is asked about once for each revision of the policy;
    /// a policy without revisions is asked every time.
    ///
    /// `None` if it hides nothing.
    #[inline(always)]
    fn hidden_by(&self, policy: &dyn Policy, scope: &Scope) -> Option<Arc<Withheld>> {
        match caught(|| policy.hides_revision()).ok().flatten() {
            Some(HidesRevision::NOTHING) => None,
            revision => Some(self.hidden_at(revision, policy, scope)),
        }
    }

    /// Returns what a policy of this revision hides.
    #[inline(never)]
    fn hidden_at(
        &self,
        revision: Option<HidesRevision>,
        policy: &dyn Policy,
        scope: &Scope,
    ) -> Arc<Withheld> {
        if let Some(revision) = revision {
            let hidden = lock(&self.hidden);
            if let Some((_, known)) = hidden.iter().find(|(own, _)| *own == revision) {
                return Arc::clone(known);
            }
        }
        let (mut reasons, mut has_panicked) = (HashMap::new(), false);
        for entry in self.entries() {
            // FAIL CLOSED: a policy that panics hides the tool.
            let why = caught(|| policy.hides(&entry.policy_tool(), scope)).unwrap_or_else(|_| {
                has_panicked = true;
                Some("the policy failed".to_owned())
            });
            if let Some(why) = why {
                reasons.insert(entry.name().clone(), HiddenReason::Denied(why));
            }
        }
        let withheld = Arc::new(self.without(reasons));
        // If the rules were reloaded meanwhile, the answers may be a mixture.
        if let Some(revision) = revision
            && !has_panicked
            && caught(|| policy.hides_revision()).ok().flatten() == Some(revision)
        {
            let mut hidden = lock(&self.hidden);
            if hidden.len() >= MAX_HIDDEN_SETS {
                hidden.remove(0);
            }
            hidden.push((revision, Arc::clone(&withheld)));
        }
        withheld
    }

    /// Hashes the tools that are left.
    fn without(&self, reasons: HashMap<ToolName, HiddenReason>) -> Withheld {
        if reasons.is_empty() {
            return Withheld::new(reasons, self.fingerprint);
        }
        let mut hasher = Sha256::new();
        for entry in self.entries.iter().filter(|e| !reasons.contains_key(e.name())) {
            hasher.update(entry.name().as_str());
            hasher.update([0]);
            hasher.update(entry.raw_hash());
        }
        Withheld::new(reasons, hasher.finalize().into())
    }

    /// Returns which tools are deferred; `None` if there are none, or no tool to search them. The
    /// answer is computed once for each set of hidden tools.
    fn deferred(&self, withheld: &Withheld, budget: Option<u64>) -> Option<Arc<DeferredSet>> {
        let search = self.entries.get(self.search_tool?)?;
        if withheld.reasons.contains_key(search.name()) {
            return None;
        }
        let mut known = lock(&withheld.deferred);
        let set = match &*known {
            Some(set) if set.budget == budget => Arc::clone(set),
            _ => {
                let is_offered = |name: &ToolName| !withheld.reasons.contains_key(name);
                let set = Arc::new(DeferredSet::new(&self.entries, self.own, budget, is_offered));
                *known = Some(Arc::clone(&set));
                set
            }
        };
        (set.count() > 0).then_some(set)
    }

    /// Returns the index for searches; made once.
    pub(super) fn index(&self) -> &SearchIndex {
        self.search.get()
    }

    /// Returns the best matches among tools that may be found.
    pub(super) fn search_words(
        &self,
        words: &str,
        limit: usize,
        may_find: impl Fn(&RegisteredTool) -> bool,
    ) -> Vec<&Arc<RegisteredTool>> {
        let here = |at: usize| match &self.positions {
            Some(positions) => self.entries.get(positions.get(at).copied().flatten()?),
            None => self.entries.get(at),
        };
        let may_find = |at: usize| here(at).is_some_and(|tool| may_find(tool));
        let found = self.index().search(words, limit, may_find);
        found.into_iter().filter_map(here).collect()
    }

    /// Applies a view. A tool whose new name is taken or invalid is dropped and reported.
    pub(crate) fn through_view(&self, view: &ToolView, problems: &mut Vec<String>) -> Self {
        let mut shown: Vec<Arc<RegisteredTool>> = Vec::new();
        let mut taken: HashSet<ToolName, RandomState> = HashSet::default();
        let mut here = vec![None; self.entries.len()];
        let mut own = 0;
        for (at, entry) in self.entries.iter().enumerate() {
            if at == self.own {
                own = shown.len();
            }
            let names =
                ToolNames { known_as: entry.known_as(), is_remote: entry.remote().is_some() };
            let shown_as = view.shown(entry.name().as_str(), entry.spec(), names);
            let Some(name) = shown_as else { continue };
            let seen = if *entry.name() == *name {
                Arc::clone(entry)
            } else {
                Arc::new(entry.renamed(name.as_str().into()))
            };
            if ToolName::is_safe(&name) && taken.insert(seen.name().clone()) {
                if let Some(here) = here.get_mut(at) {
                    *here = Some(shown.len());
                }
                shown.push(seen);
            } else {
                problems.push(format!(
                    "the view shows `{}` as `{name}`, which is taken or invalid",
                    entry.name()
                ));
            }
        }
        if self.own >= self.entries.len() {
            own = shown.len();
        }
        let mut view = Self::new(shown, own);
        view.positions = Some(match &self.positions {
            Some(above) => above.iter().map(|at| here.get((*at)?).copied().flatten()).collect(),
            None => here,
        });
        view.search = Arc::clone(&self.search);
        view
    }
}

/// The frozen set of tools that one turn sees.
#[derive(Debug)]
pub struct ToolSnapshot {
    tool_set: Arc<ToolSet>,
    /// What is not offered; `None` if all tools of the set are.
    hidden: Option<Arc<Withheld>>,
    problems: Vec<String>,
    /// The tools whose definitions are left out of requests, before any was loaded.
    deferred: Option<Arc<DeferredSet>>,
    /// The deferred tools that the run has loaded; `None` if no tool is deferred.
    loaded: Option<Arc<Vec<ToolName>>>,
    /// The budget of tokens above which tools are deferred.
    budget: Option<u64>,
    /// What was asked of it; most turns ask nothing.
    asked: Mutex<Option<Box<Asked>>>,
}

/// What was asked of a snapshot.
#[derive(Debug, Default)]
struct Asked {
    /// The last export, in each dialect.
    exports: Vec<Arc<ToolExport>>,
    /// Unknown names that were searched, and the most similar tool.
    suggestions: HashMap<Box<str>, Option<usize>>,
}

/// Maximum number of unknown names per turn that get a suggestion; a model that invents more is not
/// helped by it.
const MAX_NEAR_SEARCHES: usize = 32;

/// The result of looking up a name.
pub(crate) enum Found<'a> {
    Entry(&'a Arc<RegisteredTool>),
    Withheld(&'a HiddenReason),
    Nothing(Option<&'a str>),
}

impl ToolSnapshot {
    pub(crate) fn take(
        tool_set: Arc<ToolSet>,
        scope: &Scope,
        policy: &dyn Policy,
        interactive: bool,
        problems: Vec<String>,
    ) -> Self {
        let mut hidden = tool_set.hidden_by(policy, scope);
        let why = |at: &usize| {
            let entry = tool_set.entries.get(*at)?;
            Some((*at, unavailable(entry, scope, interactive)?))
        };
        let unavailable: Vec<_> = tool_set.conditional.iter().filter_map(why).collect();
        if !unavailable.is_empty() {
            let before = hidden.as_deref().unwrap_or(&tool_set.nothing_hidden);
            hidden = Some(before.and(Further::Unavailable(unavailable), |further, mut reasons| {
                if let Further::Unavailable(list) = further {
                    let named = |(at, why): &(usize, HiddenReason)| {
                        Some((tool_set.entries.get(*at)?.name().clone(), why.clone()))
                    };
                    reasons.extend(list.iter().filter_map(named));
                }
                tool_set.without(reasons)
            }));
        }
        let (deferred, loaded, budget) = (None, None, None);
        Self { tool_set, hidden, problems, deferred, loaded, budget, asked: Mutex::default() }
    }

    /// Defers tools: those that say so, and above a budget of tokens those with `Auto` exposure.
    /// Tools that the run has loaded are shown again.
    pub(crate) fn defer(
        mut self,
        budget: Option<u64>,
        loaded: impl FnOnce() -> Arc<Vec<ToolName>>,
    ) -> Self {
        self.deferred = self.tool_set.deferred(self.hidden(), budget);
        self.budget = budget;
        self.loaded = self.deferred.is_some().then(loaded);
        self
    }

    /// Returns what is not offered.
    fn hidden(&self) -> &Withheld {
        self.hidden.as_deref().unwrap_or(&self.tool_set.nothing_hidden)
    }

    fn loaded_names(&self) -> &[ToolName] {
        self.loaded.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Withholds every tool that is not among these names.
    pub(crate) fn keep_only(&mut self, names: &[String]) {
        let selected = Further::NotSelected(names.to_vec());
        self.hidden = Some(self.hidden().and(selected, |_, mut reasons| {
            let names: HashSet<&str> = names.iter().map(String::as_str).collect();
            let others = self.tool_set.entries().iter().map(|entry| entry.name());
            for name in others.filter(|name| !names.contains(name.as_str())) {
                reasons.entry(name.clone()).or_insert(HiddenReason::NotSelected);
            }
            self.tool_set.without(reasons)
        }));
        self.deferred = self.tool_set.deferred(self.hidden(), self.budget);
    }

    /// Iterates over the tools that are offered, in their order.
    pub fn entries(&self) -> impl Iterator<Item = &Arc<RegisteredTool>> {
        self.tool_set.entries().iter().filter(|e| !self.hidden().reasons.contains_key(e.name()))
    }

    /// Iterates over the same with the position of each in the tool set.
    pub(super) fn entries_at(&self) -> impl Iterator<Item = (usize, &Arc<RegisteredTool>)> {
        let all = self.tool_set.entries().iter().enumerate();
        all.filter(|(_, e)| !self.hidden().reasons.contains_key(e.name()))
    }

    /// Returns an offered tool by its name or, for own tools, an alias.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        self.named(name).filter(|entry| !self.hidden().reasons.contains_key(entry.name()))
    }

    fn named(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        let at = self.tool_set.by_name.get(name).or_else(|| self.tool_set.aliases.get(name))?;
        self.tool_set.entries.get(*at)
    }

    /// Iterates over the tools that exist and are not offered, with the reason.
    pub fn withheld(&self) -> impl Iterator<Item = (&ToolName, &HiddenReason)> {
        self.tool_set
            .entries()
            .iter()
            .filter_map(|e| self.hidden().reasons.get(e.name()).map(|why| (e.name(), why)))
    }

    /// Returns the problems that occurred while the tools were collected; the other tools are
    /// available.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns a hash that is equal for equal sets of offered tools, and only for those.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.hidden().fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns whether a tool is offered but its definition is left out of requests, because it is
    /// deferred and the run has not loaded it. It can still be called.
    #[must_use]
    pub fn is_deferred(&self, tool: &RegisteredTool) -> bool {
        let Some(set) = &self.deferred else { return false };
        self.is_in(set, tool) && !self.loaded_names().contains(tool.name())
    }

    /// Returns whether an offered tool is in a set of deferred tools.
    pub(super) fn is_in(&self, set: &DeferredSet, tool: &RegisteredTool) -> bool {
        self.tool_set.by_name.get(tool.name()).is_some_and(|at| set.has(*at))
    }

    pub(super) fn deferral(&self) -> Option<(&DeferredSet, &[ToolName])> {
        Some((self.deferred.as_deref()?, self.loaded_names()))
    }

    pub(super) fn tool_set(&self) -> &ToolSet {
        &self.tool_set
    }

    pub(super) fn raw_fingerprint(&self) -> &[u8; 32] {
        &self.hidden().fingerprint
    }

    pub(super) fn remember(&self, export: Arc<ToolExport>) {
        let mut asked = lock(&self.asked);
        let exports = &mut asked.get_or_insert_default().exports;
        exports.retain(|earlier| earlier.dialect() != export.dialect());
        exports.push(export);
    }

    pub(super) fn shown_last(&self, dialect: Dialect) -> Option<Arc<ToolExport>> {
        let asked = lock(&self.asked);
        asked.as_ref()?.exports.iter().find(|export| export.dialect() == dialect).cloned()
    }

    pub(super) fn exports(&self) -> &Exports {
        &self.tool_set.exports
    }

    pub(crate) fn find(&self, name: &str) -> Found<'_> {
        match self.named(name) {
            Some(entry) => match self.hidden().reasons.get(entry.name()) {
                Some(why) => Found::Withheld(why),
                None => Found::Entry(entry),
            },
            None => Found::Nothing(self.suggestions(name).map(|entry| entry.name().as_str())),
        }
    }

    /// Returns the tool most similar to an unknown name. Each name is searched once.
    fn suggestions(&self, name: &str) -> Option<&Arc<RegisteredTool>> {
        let entries = self.tool_set.entries();
        let mut asked = lock(&self.asked);
        let suggestions = &mut asked.get_or_insert_default().suggestions;
        if let Some(at) = suggestions.get(name) {
            return at.and_then(|at| entries.get(at));
        }
        if suggestions.len() >= MAX_NEAR_SEARCHES {
            return None;
        }
        let index = self
            .tool_set
            .near
            .get_or_init(|| NearIndex::new(entries.iter().map(|entry| entry.name().as_str())));
        let is_offered = |at: usize| {
            entries.get(at).is_some_and(|e| !self.hidden().reasons.contains_key(e.name()))
        };
        let found = index.nearest(name, is_offered);
        suggestions.insert(name.into(), found);
        found.and_then(|at| entries.get(at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use haft_core::{DynTool, ToolSpec};
    use serde_json::json;

    use super::*;
    use crate::ToolRegistry;
    use crate::policy::{AllowAll, PolicyTool};

    fn tool_set(count: usize) -> Arc<ToolSet> {
        let tool = |n: usize| {
            let spec = ToolSpec::new(format!("service_{n}_lookup"), "Looks.");
            DynTool::new(spec, json!({"type": "object"}), |_, _| async { "" })
        };
        let tools: Vec<DynTool> = (0..count).map(tool).collect();
        let entries = ToolRegistry::builder().add(tools).build().unwrap().own().cloned().collect();
        Arc::new(ToolSet::new(entries, count))
    }

    fn snapshot(count: usize) -> ToolSnapshot {
        take(&tool_set(count), &AllowAll)
    }

    fn take(tool_set: &Arc<ToolSet>, policy: &dyn Policy) -> ToolSnapshot {
        ToolSnapshot::take(Arc::clone(tool_set), &Scope::default(), policy, true, Vec::new())
    }

    fn near<'a>(snapshot: &'a ToolSnapshot, name: &str) -> Option<&'a str> {
        match snapshot.find(name) {
            Found::Nothing(near) => near,
            _ => panic!("`{name}` is known"),
        }
    }

    #[test]
    fn unknown_names_of_a_turn_are_searched_a_bounded_number_of_times() {
        let snapshot = snapshot(3);
        for n in 0..MAX_NEAR_SEARCHES {
            assert_eq!(near(&snapshot, &format!("service_1_lookup{n}")), Some("service_1_lookup"));
        }
        assert_eq!(near(&snapshot, "service_1_lookupp"), None, "one too many");
        assert_eq!(near(&snapshot, "service_1_lookup0"), Some("service_1_lookup"), "known already");
    }

    #[test]
    fn unknown_name_costs_about_the_same_among_ten_times_as_many_tools() {
        let took = |count: usize| {
            let snapshot = snapshot(count);
            near(&snapshot, "service_lookup"); // makes the index
            let clock = tokio::time::Instant::now();
            for n in 0..20 {
                near(&snapshot, &format!("servce_{n}_lookp"));
            }
            clock.elapsed()
        };
        // Comparing with every name took ten times as long.
        let (few, many) = (took(400), took(4_000));
        assert!(many < few * 6, "{few:?} among 400, {many:?} among 4000");
    }

    /// Indexing the same tools is linear and uses the same memory, so it is the measure: times of
    /// few and of many tools would differ by what the caches of the processor hold.
    #[test]
    fn view_does_not_grow_quadratically() {
        let view = ToolView::all().hide("nothing_like_it");
        let tool_set = tool_set(4_000);
        let time = |make: &dyn Fn() -> ToolSet| {
            let clock = tokio::time::Instant::now();
            let made = make();
            let took = clock.elapsed();
            assert_eq!(made.entries().len(), tool_set.entries().len());
            took
        };
        let index = || ToolSet::new(tool_set.entries().to_vec(), tool_set.own);
        let look = || tool_set.through_view(&view, &mut Vec::new());
        // Another process may take the processor during one measurement, but not during all.
        let costs: Vec<_> = (0..10).map(|_| (time(&index), time(&look))).collect();
        assert!(
            costs.iter().any(|(index, look)| *look <= *index * 10),
            "indexing 4 000 tools, and a view of them: {costs:?}"
        );
    }

    #[test]
    fn search_index_is_made_once_for_a_tool_set_and_its_views() {
        let tool_set = tool_set(10);
        let view = tool_set.through_view(&ToolView::all().hide("service_3_*"), &mut Vec::new());
        let narrower = view.through_view(&ToolView::all().hide("service_4_*"), &mut Vec::new());
        assert!(std::ptr::eq(tool_set.index(), view.index()));
        assert!(std::ptr::eq(tool_set.index(), narrower.index()));
        let found = |set: &ToolSet| -> Vec<String> {
            let found = set.search_words("service lookup", 20, |_| true);
            found.iter().map(|tool| tool.name().to_string()).collect()
        };
        assert_eq!(
            (found(&tool_set).len(), found(&view).len(), found(&narrower).len()),
            (10, 9, 8)
        );
        assert!(!found(&narrower).iter().any(|name| name.contains('3') || name.contains('4')));
        let first = take(&tool_set, &AllowAll).defer(Some(0), Arc::default);
        let second = take(&tool_set, &AllowAll).defer(Some(0), Arc::default);
        assert!(std::ptr::eq(first.tool_set().index(), second.tool_set().index()));
    }

    /// Hides the tools of an even number, and counts how often it is asked.
    struct HidesEven {
        revision: Mutex<Option<HidesRevision>>,
        panics: bool,
        asked: AtomicUsize,
    }

    impl HidesEven {
        fn new(revision: Option<HidesRevision>) -> Self {
            Self { revision: Mutex::new(revision), panics: false, asked: AtomicUsize::new(0) }
        }

        fn asked(&self) -> usize {
            self.asked.swap(0, Ordering::Relaxed)
        }
    }

    impl Policy for HidesEven {
        fn decide(&self, _: &haft_policy::PolicyRequest<'_>) -> haft_core::Verdict {
            haft_core::Verdict::deny("a test")
        }

        fn hides(&self, tool: &PolicyTool<'_>, _: &Scope) -> Option<String> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            assert!(!self.panics, "a test");
            tool.name.as_str().contains(['0', '2', '4', '6', '8']).then(|| "even".to_owned())
        }

        fn hides_revision(&self) -> Option<HidesRevision> {
            *lock(&self.revision)
        }
    }

    #[test]
    fn policy_is_asked_once_for_each_tool_and_revision_and_not_in_every_turn() {
        let tool_set = tool_set(10);
        let policy = HidesEven::new(Some(HidesRevision::unique()));
        let first = take(&tool_set, &policy);
        assert_eq!((first.entries().count(), policy.asked()), (5, 10));
        let second = take(&tool_set, &policy);
        assert_eq!((second.entries().count(), policy.asked()), (5, 0));
        assert_eq!(first.fingerprint(), second.fingerprint());
        assert_eq!(take(&tool_set, &AllowAll).entries().count(), 10, "another policy");
        *lock(&policy.revision) = Some(HidesRevision::unique());
        assert_eq!((take(&tool_set, &policy).entries().count(), policy.asked()), (5, 10));
    }

    #[test]
    fn policy_without_a_revision_or_that_panics_is_asked_in_every_turn() {
        let tool_set = tool_set(10);
        let policy = HidesEven::new(None);
        for _ in 0..2 {
            assert_eq!((take(&tool_set, &policy).entries().count(), policy.asked()), (5, 10));
        }
        let mut policy = HidesEven::new(Some(HidesRevision::unique()));
        policy.panics = true;
        for _ in 0..2 {
            assert_eq!((take(&tool_set, &policy).entries().count(), policy.asked()), (0, 10));
        }
        policy.panics = false;
        assert_eq!(take(&tool_set, &policy).entries().count(), 5);
    }

    #[test]
    fn answers_of_a_bounded_number_of_policies_are_kept() {
        let tool_set = tool_set(2);
        let policies: Vec<_> = (0..3 * MAX_HIDDEN_SETS)
            .map(|_| HidesEven::new(Some(HidesRevision::unique())))
            .collect();
        policies.iter().for_each(|policy| drop(take(&tool_set, policy)));
        assert_eq!(lock(&tool_set.hidden).len(), MAX_HIDDEN_SETS);
    }
}
