//! The answer of a hook that has nothing to say. It has no size, so boxing it takes no memory: hooks
//! that leave a moment alone cost next to nothing there.

use std::{
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use haft_core::{BoxFuture, Failure};

use super::said::{Answered, Before, Said};

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

impl Nothing for Said {
    fn nothing() -> Self {
        Said::nothing()
    }
}

impl Nothing for Before {
    fn nothing() -> Self {
        Before::proceed()
    }
}

impl Nothing for Vec<Answered> {
    fn nothing() -> Self {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_takes_no_memory() {
        assert_eq!(size_of::<Silent<Said>>(), 0);
        assert_eq!(size_of::<Silent<Before>>(), 0);
        assert_eq!(size_of::<Silent<Vec<Answered>>>(), 0);
    }
}
