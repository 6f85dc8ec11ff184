//! The default answer of a hook. It is zero-sized, so boxing it allocates nothing: hooks cost
//! almost nothing where they keep the defaults.

use std::{
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use haft_core::{BoxFuture, Failure};

use super::effects::{HookAnswer, HookEffects, PreCallDecision};

/// A future that is ready at once with the default answer.
struct DefaultAnswer<T>(PhantomData<fn() -> T>);

/// Makes the default answer of a hook.
pub(super) fn default_answer<T: DefaultValue + Send + 'static>()
-> BoxFuture<'static, Result<T, Failure>> {
    Box::pin(DefaultAnswer(PhantomData))
}

impl<T: DefaultValue> Future for DefaultAnswer<T> {
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(T::nothing()))
    }
}

/// The default answer of each hook method.
pub(super) trait DefaultValue {
    /// Makes it.
    fn nothing() -> Self;
}

impl DefaultValue for HookEffects {
    fn nothing() -> Self {
        HookEffects::nothing()
    }
}

impl DefaultValue for PreCallDecision {
    fn nothing() -> Self {
        PreCallDecision::proceed()
    }
}

impl DefaultValue for Vec<HookAnswer> {
    fn nothing() -> Self {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_answer_is_zero_sized() {
        assert_eq!(size_of::<DefaultAnswer<HookEffects>>(), 0);
        assert_eq!(size_of::<DefaultAnswer<PreCallDecision>>(), 0);
        assert_eq!(size_of::<DefaultAnswer<Vec<HookAnswer>>>(), 0);
    }
}
