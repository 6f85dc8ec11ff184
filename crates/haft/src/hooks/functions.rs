//! A hook made from a function, and a shared one behind an `Arc`.

use std::{sync::Arc, time::Duration};

use haft_core::{BoxFuture, Failure, Output};

use super::{
    AnsweredCall, CompletedCall, Hook, HookAnswer, HookEffects, PostCallResult, PreCallDecision,
    TurnInfo,
};
use crate::{registry::RegisteredTool, validate::ValidatedCall};

impl<H: Hook + ?Sized> Hook for Arc<H> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn timeout(&self) -> Option<Duration> {
        (**self).timeout()
    }

    fn applies_to(&self, tool: &RegisteredTool) -> bool {
        (**self).applies_to(tool)
    }

    fn before_turn<'a>(
        &'a self,
        turn: &'a TurnInfo,
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        (**self).before_turn(turn)
    }

    fn before_batch<'a>(
        &'a self,
        calls: &'a [&'a ValidatedCall],
    ) -> BoxFuture<'a, Result<Vec<HookAnswer>, Failure>> {
        (**self).before_batch(calls)
    }

    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        (**self).before(call)
    }

    fn after<'a>(
        &'a self,
        call: &'a CompletedCall,
        outcome: Result<Output, Failure>,
    ) -> BoxFuture<'a, PostCallResult> {
        (**self).after(call, outcome)
    }

    fn after_turn<'a>(
        &'a self,
        turn: &'a TurnInfo,
        answers: &'a [AnsweredCall<'a>],
    ) -> BoxFuture<'a, Result<HookEffects, Failure>> {
        (**self).after_turn(turn, answers)
    }
}

impl<F> Hook for F
where
    F: Fn(&ValidatedCall) -> Result<PreCallDecision, Failure> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "a hook function"
    }

    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        Box::pin(std::future::ready(self(call)))
    }
}

/// Makes a hook from a function that runs before each call.
///
/// ```
/// use haft::hooks::{PreCallDecision, before_fn};
///
/// let log = before_fn("log", |call| {
///     println!("{} is about to be authorized", call.tool().name());
///     Ok(PreCallDecision::proceed())
/// });
/// # let _ = haft::Runtime::builder().hook(log);
/// ```
pub fn before_fn<F>(name: impl Into<String>, before: F) -> impl Hook
where
    F: Fn(&ValidatedCall) -> Result<PreCallDecision, Failure> + Send + Sync + 'static,
{
    struct Function<F>(String, F);

    impl<F> Hook for Function<F>
    where
        F: Fn(&ValidatedCall) -> Result<PreCallDecision, Failure> + Send + Sync + 'static,
    {
        fn name(&self) -> &str {
            &self.0
        }

        fn before<'a>(
            &'a self,
            call: &'a ValidatedCall,
        ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
            Box::pin(std::future::ready((self.1)(call)))
        }
    }

    Function(name.into(), before)
}
