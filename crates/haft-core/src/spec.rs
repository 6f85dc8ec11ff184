//! What a tool declares about itself, as plain data.
//!
//! Silence is strict: every option that is left out means the safest thing, and the methods here
//! that end in a plain answer (`is_read_only`, `interrupt_of`, …) are the one place that says so.

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
    /// Other names it answers to.
    pub aliases: Vec<String>,
    /// Leaves everything as it was.
    pub read_only: Option<bool>,
    /// Destroys what cannot be brought back.
    pub destructive: Option<bool>,
    /// Running it twice is the same as running it once.
    pub idempotent: Option<bool>,
    /// Reaches beyond a closed set of things.
    pub open_world: Option<bool>,
    /// How its calls may run concurrently.
    pub class: Option<ConcurrencyClass>,
    /// What its calls touch.
    pub effects: Effects,
    /// The resources its calls need for themselves.
    pub keys: Vec<ResourceKey>,
    /// What kinds of things it may reach.
    pub capabilities: Option<Capabilities>,
    /// Whether silence of all judges means asking.
    pub permission: Permission,
    /// What an interrupt does to it.
    pub interrupt: Option<Interrupt>,
    /// Cannot work without a person.
    pub requires_user_interaction: bool,
    /// Whether the model sees it from the start.
    pub exposure: Exposure,
    /// Decides per turn whether it is offered.
    pub enabled: Option<Enabled>,
    /// How many of its calls may run at once.
    pub concurrency: Option<usize>,
    /// Whether a failure of its body cancels the rest of the batch.
    pub abort_siblings: bool,
    /// Where its body must run.
    pub isolation: Isolation,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How long a call may take in all.
    pub deadline: Option<Duration>,
    /// How long a person may think about one of its calls.
    pub approval_timeout: Option<Duration>,
    /// How often it may run.
    pub rate: Option<Rate>,
    /// How long its results are kept.
    pub cache: Option<Cache>,
    /// How failed attempts are repeated.
    pub retry: Option<RetryPolicy>,
    /// How large a result may be.
    pub max_result: ResultLimit,
    /// Where its results come from.
    pub label: Label,
    /// What happens to unknown arguments.
    pub unknown: UnknownFields,
    /// Arguments that show how it is called.
    pub examples: Vec<Value>,
    /// What the host must supply.
    pub needs: Vec<Dependency>,
    /// Options that a function over the arguments decides per call.
    pub per_call: Vec<&'static str>,
}

/// One value a tool wants from the host.
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
    /// The run's side values; missing means the tool is not offered in that run.
    Side,
}

impl Dependency {
    /// Says that a tool wants `State<T>`.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>() -> Self {
        Self::new::<T>(DependencyKind::State)
    }

    /// Says that a tool wants `RunState<T>`.
    #[must_use]
    pub fn side<T: Send + Sync + 'static>() -> Self {
        Self::new::<T>(DependencyKind::Side)
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
    /// Declares a name and a description, and nothing else.
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
        }
    }

    /// Leaves everything as it was. Implies class `ReadOnly`, not destructive, idempotent.
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

    /// Adds another name it answers to.
    #[must_use]
    pub fn alias(mut self, alias: impl Into<String>) -> Self {
        self.aliases.push(alias.into());
        self
    }

    /// Declares what its calls touch; an empty list means nothing.
    #[must_use]
    pub fn effects(mut self, effects: impl Into<Effects>) -> Self {
        self.effects = effects.into();
        self
    }

    /// Declares the resources its calls need for themselves.
    #[must_use]
    pub fn keys<K: Into<ResourceKey>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.keys = keys.into_iter().map(Into::into).collect();
        self
    }

    /// Declares what kinds of things it may reach; the empty set means none.
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

    /// Adds arguments that show how it is called.
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
        /// Says whether it destroys what cannot be brought back.
        destructive: bool => destructive Some;
        /// Says whether running it twice is the same as running it once.
        idempotent: bool => idempotent Some;
        /// Says whether it reaches beyond a closed set of things.
        open_world: bool => open_world Some;
        /// Sets how its calls may run concurrently.
        class: ConcurrencyClass => class Some;
        /// Sets whether silence of all judges means asking.
        permission: Permission => permission std::convert::identity;
        /// Sets what an interrupt does to it.
        interrupt: Interrupt => interrupt Some;
        /// Says that it cannot work without a person.
        requires_user_interaction: bool => requires_user_interaction std::convert::identity;
        /// Sets whether the model sees it from the start.
        exposure: Exposure => exposure std::convert::identity;
        /// Sets how many of its calls may run at once.
        concurrency: usize => concurrency Some;
        /// Sets whether a failure of its body cancels the rest of the batch.
        abort_siblings: bool => abort_siblings std::convert::identity;
        /// Sets where its body must run.
        isolation: Isolation => isolation std::convert::identity;
        /// Sets how long one attempt may take.
        timeout: Duration => timeout Some;
        /// Sets how long a call may take in all.
        deadline: Duration => deadline Some;
        /// Sets how long a person may think about one of its calls.
        approval_timeout: Duration => approval_timeout Some;
        /// Sets how often it may run.
        rate: Rate => rate Some;
        /// Sets how long its results are kept.
        cache: Cache => cache Some;
        /// Sets how failed attempts are repeated.
        retry: RetryPolicy => retry Some;
        /// Sets where its results come from.
        label: Label => label std::convert::identity;
        /// Sets what happens to unknown arguments.
        unknown: UnknownFields => unknown std::convert::identity;
    }

    /// Returns whether it leaves everything as it was. Silence: no.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only.unwrap_or(false)
    }

    /// Returns whether judges must take it for destructive. Silence: yes.
    #[must_use]
    pub fn may_destroy(&self) -> bool {
        self.profile().may_destroy()
    }

    /// Returns whether running it twice is the same as running it once. Silence: no.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        self.idempotent.unwrap_or(self.is_read_only())
    }

    /// Returns whether it reaches beyond a closed set of things. Silence: yes.
    #[must_use]
    pub fn is_open_world(&self) -> bool {
        self.open_world.unwrap_or(true)
    }

    /// Returns what it may reach. Silence: everything.
    #[must_use]
    pub fn judged_capabilities(&self) -> Capabilities {
        self.capabilities.unwrap_or(Capabilities::ALL)
    }

    /// Returns what an interrupt does to a call of this class. Silence: block, and cancel for
    /// `Unsafe`, because a runaway call must be stoppable.
    #[must_use]
    pub fn interrupt_of(&self, class: ConcurrencyClass) -> Interrupt {
        self.interrupt.unwrap_or(match class {
            ConcurrencyClass::Unsafe => Interrupt::Cancel,
            ConcurrencyClass::ReadOnly | ConcurrencyClass::WriteExclusive => Interrupt::Block,
        })
    }

    /// Returns the claim of a call that adds nothing to what is declared here.
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
        .settled()
    }

    /// Lists contradictions and impossible values, in words for the author.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut say = |wrong: bool, what: &str| {
            if wrong {
                found.push(what.to_owned());
            }
        };
        let destroys = self.capabilities.is_some_and(|c| c.has(Capability::Destructive));
        say(
            self.description.trim().is_empty(),
            "it has no description; a model cannot choose a tool it is told nothing about",
        );
        say(
            self.is_read_only() && (self.destructive == Some(true) || destroys),
            "`read_only` and `destructive` contradict each other; keep one",
        );
        say(
            self.is_read_only()
                && matches!(&self.effects, Effects::Declared(_))
                && !self.profile().read_only,
            "`read_only` contradicts an effect that writes or executes; keep one",
        );
        say(
            self.cache.is_some() && !self.is_idempotent() && !self.per_call.contains(&"read_only"),
            "`cache` needs `read_only` or `idempotent`; a cached write would silently not happen",
        );
        say(
            self.retry.as_ref().is_some_and(|r| r.max_attempts == 0),
            "`retry` needs at least one attempt",
        );
        say(self.concurrency == Some(0), "`concurrency` of 0 would let no call run");
        say(self.rate.is_some_and(|rate| rate.count == 0), "`rate` of 0 would let no call run");
        say(
            self.cache.as_ref().is_some_and(|cache| cache.ttl.is_zero()),
            "`cache` needs a time above zero; it would keep nothing",
        );
        let limits = [self.timeout, self.deadline, self.approval_timeout];
        say(
            limits.into_iter().flatten().any(|limit| limit.is_zero()),
            "a time limit of zero would let no call finish",
        );
        say(
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

    // Silence is strict: one test for each row of the table of defaults.
    fn silent() -> ToolSpec {
        ToolSpec::new("t", "Does something.")
    }

    #[test]
    fn silent_about_class_is_unsafe() {
        assert_eq!(silent().profile().class, ConcurrencyClass::Unsafe);
    }

    #[test]
    fn silent_about_flags_is_not_read_only_maybe_destructive_not_idempotent_open_world() {
        let spec = silent();
        assert!(!spec.is_read_only() && !spec.is_idempotent() && spec.is_open_world());
        assert_eq!(spec.profile().destructive, None, "unknown");
        assert!(spec.may_destroy(), "judged as yes");
    }

    #[test]
    fn silent_about_permission_is_required() {
        assert_eq!(silent().permission, Permission::Required);
    }

    #[test]
    fn silent_about_capabilities_and_effects_is_judged_as_all() {
        assert_eq!(silent().judged_capabilities(), Capabilities::ALL);
        assert!(silent().profile().effects.may_change());
        assert!(silent().capabilities(Capabilities::NONE).judged_capabilities().is_empty());
    }

    #[test]
    fn silent_about_interrupt_blocks_and_unsafe_cancels() {
        assert_eq!(silent().interrupt_of(ConcurrencyClass::ReadOnly), Interrupt::Block);
        assert_eq!(silent().interrupt_of(ConcurrencyClass::WriteExclusive), Interrupt::Block);
        assert_eq!(silent().interrupt_of(ConcurrencyClass::Unsafe), Interrupt::Cancel);
    }

    #[test]
    fn silent_about_labels_is_untrusted_and_internal() {
        assert_eq!(silent().label.trust, Trust::Untrusted);
        assert_eq!(silent().label.confidentiality, Confidentiality::Internal);
    }

    #[test]
    fn silent_about_size_is_fifty_thousand_characters() {
        assert_eq!(silent().max_result, ResultLimit::Chars(50_000));
    }

    #[test]
    fn silent_about_unknown_arguments_refuses_them() {
        assert_eq!(silent().unknown, UnknownFields::Refuse);
    }

    #[test]
    fn silent_about_time_leaves_it_to_the_runtime() {
        assert_eq!((silent().timeout, silent().deadline), (None, None));
    }

    #[test]
    fn read_only_implies_class_not_destructive_and_idempotent() {
        let spec = silent().read_only();
        assert_eq!(spec.profile().class, ConcurrencyClass::ReadOnly);
        assert!(!spec.may_destroy() && spec.is_idempotent());
        assert_eq!(
            spec.class(ConcurrencyClass::WriteExclusive).profile().class,
            ConcurrencyClass::WriteExclusive
        );
    }

    #[test]
    fn contradictions_are_told() {
        assert!(silent().problems().is_empty());
        assert!(silent().read_only().destructive(true).problems()[0].contains("contradict"));
        let cached = silent().cache(Cache { ttl: Duration::from_secs(1), scope: None });
        assert!(cached.problems()[0].contains("`cache` needs"));
        assert!(ToolSpec::new("t", " ").problems()[0].contains("no description"));
    }
}
