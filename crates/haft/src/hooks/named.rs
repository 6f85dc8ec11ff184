//! Hooks with their names, as the runtime keeps them.
//!
//! A name is read once, when the runtime is built, with panics caught. Reading it during a call
//! would run the host's code where nothing catches its panic.

use std::time::Duration;

use haft_core::{BoxFuture, Error, ErrorKind, Failure};
use haft_policy::NameGlob;

use super::{Hook, HookEffects};
use crate::{
    clock::Clock,
    host_code::{caught, read_name, within},
    registry::RegisteredTool,
};

/// A hook from the builder, and the tools it was added for.
pub(crate) struct AddedHook {
    pub(crate) hook: Box<dyn Hook>,
    /// A glob over names; `None` means all tools.
    pub(crate) tools: Option<String>,
}

/// A hook with its name and timeout.
pub(crate) struct NamedHook {
    name: String,
    limit: Duration,
    tools: Option<NameGlob>,
    hook: Box<dyn Hook>,
}

impl NamedHook {
    /// Reads the hook's name and timeout.
    pub(crate) fn new(place: AddedHook, policy_timeout: Duration) -> Result<Self, Error> {
        let AddedHook { hook, tools } = place;
        let name = read_name("hook", || hook.name().to_owned())?;
        let own = caught(|| hook.timeout()).map_err(|panic| {
            Error::new(ErrorKind::BadConfig, format!("hook `{name}` panicked: {panic}"))
                .hint("`timeout` is called when the runtime is built and must only return a value")
        })?;
        if own.is_some_and(|own| own.is_zero()) {
            return Err(Error::new(
                ErrorKind::BadConfig,
                format!("a timeout of zero would let hook `{name}` stop every call"),
            ));
        }
        let (limit, tools) = (own.unwrap_or(policy_timeout), tools.map(NameGlob::new));
        Ok(Self { name, limit, tools, hook })
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns its timeout per invocation.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the hook itself.
    pub(crate) fn hook(&self) -> &dyn Hook {
        &*self.hook
    }

    /// Returns whether it applies to calls of this tool, or the message of its panic.
    pub(crate) fn applies_to(&self, tool: &RegisteredTool) -> Result<bool, String> {
        // Both names are matched, so that an alias in a view does not bypass the hook.
        if let Some(tools) = &self.tools
            && !tools.matches(tool.name().as_str())
            && !tools.matches(tool.registered().as_str())
        {
            return Ok(false);
        }
        caught(|| self.hook.applies_to(tool)).map_err(|panic| format!("it panicked: {panic}"))
    }
}

/// Runs all hooks for a turn, in order. Returns the effects of each, up to the first hook that
/// failed, and the error of that one.
pub(crate) async fn around_turn<'i: 'h, 'h>(
    hooks: &'i [NamedHook],
    clock: &dyn Clock,
    ask: impl Fn(&'i dyn Hook) -> BoxFuture<'h, Result<HookEffects, Failure>>,
) -> (Vec<(&'i str, HookEffects)>, Option<(&'i str, String)>) {
    let mut all = Vec::new();
    for named_hook in hooks {
        // Making the future runs the hook's code too, so it happens under supervision.
        let work = async { ask(named_hook.hook()).await };
        match within(clock, named_hook.limit(), work).await {
            Ok(Ok(effects)) if effects.is_nothing() => {}
            Ok(Ok(effects)) => all.push((named_hook.name(), effects)),
            Ok(Err(failure)) => return (all, Some((named_hook.name(), failure.to_string()))),
            Err(stopped) => return (all, Some((named_hook.name(), stopped.to_string()))),
        }
    }
    (all, None)
}
