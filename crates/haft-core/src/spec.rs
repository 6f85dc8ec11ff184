//! `ToolSpec`: what a tool declares about itself, as plain data.
//!
//! INVARIANT: every option that is not set has the strictest meaning. The methods that resolve an
//! option (`is_read_only`, `interrupt_of`, …) are the only place that defines these defaults.

use std::{any::TypeId, fmt, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    Cache, CallProfile, Capabilities, Capability, ConcurrencyClass, Effects, Exposure, Interrupt,
    Isolation, Label, Permission, Rate, ResourceKey, ResultLimit, RetryPolicy, Scope,
    UnknownFields,
};

/// Decides per turn whether a tool is offered.
pub type Enabled = Arc<dyn Fn(&Scope) -> bool + Send + Sync>;

/// Everything a tool declares. Build one with [`ToolSpec::new`] and the methods named for the
/// options.
///
/// ```
/// use haft_core::{Capabilities, ToolSpec};
///
/// let spec = ToolSpec::new("get_time", "Returns the local time of a city.")
///     .read_only()
///     .capabilities(Capabilities::NONE);
/// assert!(spec.is_read_only() && spec.is_idempotent() && !spec.may_destroy());
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The name the model calls.
    pub name: String,
    /// What the tool does, for the model.
    pub description: String,
    /// A short name for people.
    pub title: Option<String>,
    /// Aliases.
    pub aliases: Vec<String>,
    /// Changes nothing.
    pub read_only: Option<bool>,
    /// Destroys data that cannot be restored.
    pub destructive: Option<bool>,
    /// Running it twice has the same effect as running it once.
    pub idempotent: Option<bool>,
    /// Interacts with an open world, such as the web (MCP `openWorldHint`).
    pub open_world: Option<bool>,
    /// How its calls may run concurrently.
    pub class: Option<ConcurrencyClass>,
    /// The effects of its calls.
    pub effects: Effects,
    /// The resources that its calls lock exclusively.
    pub keys: Vec<ResourceKey>,
    /// What kinds of resources it may access.
    pub capabilities: Option<Capabilities>,
    /// Whether it needs approval when no rule and no guard decides.
    pub permission: Permission,
    /// What an interrupt does to it.
    pub interrupt: Option<Interrupt>,
    /// Needs a person to work.
    pub requires_user_interaction: bool,
    /// Whether the model sees it from the start.
    pub exposure: Exposure,
    /// Decides per turn whether it is offered.
    pub enabled: Option<Enabled>,
    /// How many of its calls may run concurrently.
    pub concurrency: Option<usize>,
    /// Whether a failure of its body cancels the rest of the batch.
    pub abort_siblings: bool,
    /// Where its body must run.
    pub isolation: Isolation,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long a call may take in all.
    pub deadline: Option<Duration>,
    /// How long an approval request for one of its calls may wait.
    pub approval_timeout: Option<Duration>,
    /// How often it may run.
    pub rate: Option<Rate>,
    /// How its results are cached.
    pub cache: Option<Cache>,
    /// How failed attempts are retried.
    pub retry: Option<RetryPolicy>,
    /// How large a result may be.
    pub max_result: ResultLimit,
    /// The taint label of its results.
    pub label: Label,
    /// What happens to unknown arguments.
    pub unknown: UnknownFields,
    /// Example arguments.
    pub examples: Vec<Value>,
    /// What the host must supply.
    pub needs: Vec<Dependency>,
    /// Options that a function over the arguments decides per call.
    pub per_call: Vec<&'static str>,
    /// What identifies the program behind it, if that is another one. It belongs to the definition:
    /// an approval counts only for this origin.
    pub origin: Option<String>,
}

/// One value that a tool needs from the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Runtime-wide or per run.
    pub kind: DependencyKind,
    /// Its type.
    pub type_id: TypeId,
    /// Its type's name, for messages.
    pub type_name: &'static str,
}

/// Where a needed value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DependencyKind {
    /// The runtime's state; missing is a build error.
    State,
    /// The run's values (`RunState`); missing means the tool is not offered in that run.
    RunState,
}

impl Dependency {
    /// Makes a dependency on `State<T>`.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>() -> Self {
        Self::new::<T>(DependencyKind::State)
    }

    /// Makes a dependency on `RunState<T>`.
    #[must_use]
    pub fn run_state<T: Send + Sync + 'static>() -> Self {
        Self::new::<T>(DependencyKind::RunState)
    }

    fn new<T: 'static>(kind: DependencyKind) -> Self {
        Self { kind, type_id: TypeId::of::<T>(), type_name: std::any::type_name::<T>() }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty => $field:ident $wrap:expr;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $type) -> Self {
            self.$field = ($wrap)($name);
            self
        })*
    };
}

impl ToolSpec {
    /// Makes a spec with a name and a description. All other options are unset.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            title: None,
            aliases: Vec::new(),
            read_only: None,
            destructive: None,
            idempotent: None,
            open_world: None,
            class: None,
            effects: Effects::Undeclared,
            keys: Vec::new(),
            capabilities: None,
            permission: Permission::Required,
            interrupt: None,
            requires_user_interaction: false,
            exposure: Exposure::Auto,
            enabled: None,
            concurrency: None,
            abort_siblings: false,
            isolation: Isolation::Auto,
            timeout: None,
            deadline: None,
            approval_timeout: None,
            rate: None,
            cache: None,
            retry: None,
            max_result: ResultLimit::default(),
            label: Label::default(),
            unknown: UnknownFields::Refuse,
            examples: Vec::new(),
            needs: Vec::new(),
            per_call: Vec::new(),
            origin: None,
        }
    }

    /// Declares that it changes nothing. Implies class `ReadOnly`, not destructive, idempotent.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = Some(true);
        self
    }

    /// Sets a short name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Adds an alias.
    #[must_use]
    pub fn alias(mut self, alias: impl Into<String>) -> Self {
        self.aliases.push(alias.into());
        self
    }

    /// Declares the effects of its calls; an empty list means none.
    #[must_use]
    pub fn effects(mut self, effects: impl Into<Effects>) -> Self {
        self.effects = effects.into();
        self
    }

    /// Declares the resources that its calls lock exclusively.
    #[must_use]
    pub fn keys<K: Into<ResourceKey>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Declares what kinds of resources it may access; the empty set means none.
    #[must_use]
    pub fn capabilities(mut self, capabilities: impl Into<Capabilities>) -> Self {
        self.capabilities = Some(capabilities.into());
        self
    }

    /// Decides per turn whether it is offered.
    #[must_use]
    pub fn enabled(mut self, enabled: impl Fn(&Scope) -> bool + Send + Sync + 'static) -> Self {
        self.enabled = Some(Arc::new(enabled));
        self
    }

    /// Sets how large a result may be.
    #[must_use]
    pub fn max_result(mut self, bound: impl Into<ResultLimit>) -> Self {
        self.max_result = bound.into();
        self
    }

    /// Adds example arguments.
    #[must_use]
    pub fn example(mut self, arguments: Value) -> Self {
        self.examples.push(arguments);
        self
    }

    /// Adds a value that the host must supply.
    #[must_use]
    pub fn need(mut self, need: Dependency) -> Self {
        self.needs.push(need);
        self
    }

    setters! {
        /// Sets whether it destroys data that cannot be restored.
        destructive: bool => destructive Some;
        /// Sets whether running it twice has the same effect as running it once.
        idempotent: bool => idempotent Some;
        /// Sets whether it interacts with an open world (MCP `openWorldHint`).
        open_world: bool => open_world Some;
        /// Sets how its calls may run concurrently.
        class: ConcurrencyClass => class Some;
        /// Sets whether it needs approval when no rule and no guard decides.
        permission: Permission => permission std::convert::identity;
        /// Sets what an interrupt does to it.
        interrupt: Interrupt => interrupt Some;
        /// Sets whether it needs a person to work.
        requires_user_interaction: bool => requires_user_interaction std::convert::identity;
        /// Sets whether the model sees it from the start.
        exposure: Exposure => exposure std::convert::identity;
        /// Sets how many of its calls may run concurrently.
        concurrency: usize => concurrency Some;
        /// Sets whether a failure of its body cancels the rest of the batch.
        abort_siblings: bool => abort_siblings std::convert::identity;
        /// Sets where its body must run.
        isolation: Isolation => isolation std::convert::identity;
        /// Sets how long one attempt may take.
        timeout: Duration => timeout Some;
        /// Sets how long a call may take in all.
        deadline: Duration => deadline Some;
        /// Sets how long an approval request for one of its calls may wait.
        approval_timeout: Duration => approval_timeout Some;
        /// Sets how often it may run.
        rate: Rate => rate Some;
        /// Sets how its results are cached.
        cache: Cache => cache Some;
        /// Sets how failed attempts are retried.
        retry: RetryPolicy => retry Some;
        /// Sets the taint label of its results.
        label: Label => label std::convert::identity;
        /// Sets what happens to unknown arguments.
        unknown: UnknownFields => unknown std::convert::identity;
    }

    /// Returns whether it changes nothing. Default: no.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only.unwrap_or(false)
    }

    /// Returns whether the policy must treat it as destructive. Default: yes.
    #[must_use]
    pub fn may_destroy(&self) -> bool {
        self.profile().may_destroy()
    }

    /// Returns whether running it twice has the same effect as running it once. Default: no.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.idempotent.unwrap_or(self.is_read_only())
    }

    /// Returns whether it interacts with an open world. Default: yes.
    #[must_use]
    pub fn is_open_world(&self) -> bool {
        self.open_world.unwrap_or(true)
    }

    /// Returns what it may access. Default: everything.
    #[must_use]
    pub fn effective_capabilities(&self) -> Capabilities {
        self.capabilities.unwrap_or(Capabilities::ALL)
    }

    /// Returns what an interrupt does to a call of this class. Default: block; for `Unsafe` cancel,
    /// because a runaway call must be stoppable.
    #[must_use]
    pub fn interrupt_of(&self, class: ConcurrencyClass) -> Interrupt {
        self.interrupt.unwrap_or(match class {
            ConcurrencyClass::Unsafe => Interrupt::Cancel,
            ConcurrencyClass::ReadOnly | ConcurrencyClass::WriteExclusive => Interrupt::Block,
        })
    }

    /// Returns the profile of a call that only uses what is declared here.
    #[must_use]
    pub fn profile(&self) -> CallProfile {
        let read_only = self.is_read_only();
        let destroys = self.capabilities.is_some_and(|c| c.has(Capability::Destructive));
        CallProfile {
            class: self.class.unwrap_or(if read_only {
                ConcurrencyClass::ReadOnly
            } else {
                ConcurrencyClass::Unsafe
            }),
            read_only,
            destructive: if destroys {
                Some(true)
            } else {
                self.destructive.or(read_only.then_some(false))
            },
            effects: self.effects.clone(),
            keys: self.keys.clone(),
            confinable: false,
        }
        .normalized()
    }

    /// Returns messages for the author about contradictions and impossible values.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut report = |is_wrong: bool, message: &str| {
            if is_wrong {
                found.push(message.to_owned());
            }
        };
        let destroys = self.capabilities.is_some_and(|c| c.has(Capability::Destructive));
        report(
            self.description.trim().is_empty(),
            "it has no description; a model cannot choose a tool without one",
        );
        report(
            self.is_read_only() && (self.destructive == Some(true) || destroys),
            "`read_only` and `destructive` contradict each other; keep one",
        );
        report(
            self.is_read_only()
                && matches!(&self.effects, Effects::Declared(_))
                && !self.profile().read_only,
            "`read_only` contradicts an effect that writes or executes; keep one",
        );
        report(
            self.cache.is_some() && !self.is_idempotent() && !self.per_call.contains(&"read_only"),
            "`cache` needs `read_only` or `idempotent`; a cached write would be silently skipped",
        );
        report(
            self.retry.as_ref().is_some_and(|r| r.max_attempts == 0),
            "`retry` needs at least one attempt",
        );
        report(self.concurrency == Some(0), "`concurrency` of 0 would let no call run");
        report(self.rate.is_some_and(|rate| rate.count == 0), "`rate` of 0 would let no call run");
        report(
            self.cache.as_ref().is_some_and(|cache| cache.ttl.is_zero()),
            "`cache` needs a time above zero; it would cache nothing",
        );
        let limits = [self.timeout, self.deadline, self.approval_timeout];
        report(
            limits.into_iter().flatten().any(|limit| limit.is_zero()),
            "a time limit of zero would let no call finish",
        );
        report(
            self.max_result == ResultLimit::Chars(0),
            "`max_result` of 0 would show the model nothing",
        );
        found
    }
}

impl fmt::Debug for ToolSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confidentiality, Trust};

    // Defaults are strict: one test for each row of the table of defaults.
    fn unset() -> ToolSpec {
        ToolSpec::new("t", "Does something.")
    }

    #[test]
    fn default_class_is_unsafe() {
        assert_eq!(unset().profile().class, ConcurrencyClass::Unsafe);
    }

    #[test]
    fn default_flags_are_not_read_only_maybe_destructive_not_idempotent_open_world() {
        let spec = unset();
        assert!(!spec.is_read_only() && !spec.is_idempotent() && spec.is_open_world());
        assert_eq!(spec.profile().destructive, None, "unknown");
        assert!(spec.may_destroy(), "counts as yes");
    }

    #[test]
    fn default_permission_is_required() {
        assert_eq!(unset().permission, Permission::Required);
    }

    #[test]
    fn undeclared_capabilities_and_effects_count_as_all() {
        assert_eq!(unset().effective_capabilities(), Capabilities::ALL);
        assert!(unset().profile().effects.may_change());
        assert!(unset().capabilities(Capabilities::NONE).effective_capabilities().is_empty());
    }

    #[test]
    fn default_interrupt_blocks_and_for_unsafe_cancels() {
        assert_eq!(unset().interrupt_of(ConcurrencyClass::ReadOnly), Interrupt::Block);
        assert_eq!(unset().interrupt_of(ConcurrencyClass::WriteExclusive), Interrupt::Block);
        assert_eq!(unset().interrupt_of(ConcurrencyClass::Unsafe), Interrupt::Cancel);
    }

    #[test]
    fn default_label_is_untrusted_and_internal() {
        assert_eq!(unset().label.trust, Trust::Untrusted);
        assert_eq!(unset().label.confidentiality, Confidentiality::Internal);
    }

    #[test]
    fn default_result_limit_is_fifty_thousand_characters() {
        assert_eq!(unset().max_result, ResultLimit::Chars(50_000));
    }

    #[test]
    fn unknown_arguments_are_rejected_by_default() {
        assert_eq!(unset().unknown, UnknownFields::Refuse);
    }

    #[test]
    fn timeout_and_deadline_are_unset_by_default() {
        assert_eq!((unset().timeout, unset().deadline), (None, None));
    }

    #[test]
    fn read_only_implies_class_not_destructive_and_idempotent() {
        let spec = unset().read_only();
        assert_eq!(spec.profile().class, ConcurrencyClass::ReadOnly);
        assert!(!spec.may_destroy() && spec.is_idempotent());
        assert_eq!(
            spec.class(ConcurrencyClass::WriteExclusive).profile().class,
            ConcurrencyClass::WriteExclusive
        );
    }

    #[test]
    fn contradictions_are_reported() {
        assert!(unset().problems().is_empty());
        assert!(unset().read_only().destructive(true).problems()[0].contains("contradict"));
        let cached = unset().cache(Cache { ttl: Duration::from_secs(1), scope: None });
        assert!(cached.problems()[0].contains("`cache` needs"));
        assert!(ToolSpec::new("t", " ").problems()[0].contains("no description"));
    }
}
