//! The answer of a hook that has nothing to say. It has no size, so boxing it takes no memory: hooks
//! that leave a moment alone cost next to nothing there.

use std::{
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use haft_core::{BoxFuture, Failure};

use super::effects::{HookAnswer, HookEffects, PreCallDecision};

/// Says nothing, at once.
struct Silent<T>(PhantomData<fn() -> T>);

/// Makes the answer of a hook that has nothing to say.
pub(super) fn silent<T: Nothing + Send + 'static>() -> BoxFuture<'static, Result<T, Failure>> {
    Box::pin(Silent(PhantomData))
}

impl<T: Nothing> Future for Silent<T> {
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(T::nothing()))
    }
}

/// What saying nothing is, at some moment.
pub(super) trait Nothing {
    /// Makes it.
    fn nothing() -> Self;
}

impl Nothing for HookEffects {
    fn nothing() -> Self {
        HookEffects::nothing()
    }
}

impl Nothing for PreCallDecision {
    fn nothing() -> Self {
        PreCallDecision::proceed()
    }
}

impl Nothing for Vec<HookAnswer> {
    fn nothing() -> Self {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_takes_no_memory() {
        assert_eq!(size_of::<Silent<HookEffects>>(), 0);
        assert_eq!(size_of::<Silent<PreCallDecision>>(), 0);
        assert_eq!(size_of::<Silent<Vec<HookAnswer>>>(), 0);
    }
}
