//! Concurrency slots: at most so many calls of a turn run at the same time.
//!
//! A free slot costs one atomic operation, and so does its release while no call waits. A turn with
//! no more calls than slots needs none.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// The slots of one turn.
pub(crate) struct Slots {
    /// Whether all calls of the turn are known, and there are no more than slots.
    suffice: AtomicBool,
    free: AtomicUsize,
    waiting: AtomicUsize,
    freed: Notify,
}

impl Slots {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            suffice: AtomicBool::new(false),
            free: AtomicUsize::new(slots),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        }
    }

    /// Says that the turn has no more calls than slots, and gets no more.
    pub(crate) fn set_sufficient(&self) {
        self.suffice.store(true, Ordering::Relaxed);
    }

    /// Returns whether a call needs no slot.
    pub(crate) fn are_sufficient(&self) -> bool {
        self.suffice.load(Ordering::Relaxed)
    }

    /// Takes a slot, if one is free.
    pub(crate) fn try_take(&self) -> bool {
        let take = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    /// Waits for a slot, and takes it.
    pub(crate) async fn take(&self) {
        // `put_back` adds a slot and then reads the number of waiting calls. A waiting call is
        // counted and registered, and then looks for a slot. So at least one side sees the other.
        let _waiting = Waiting::new(&self.waiting);
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if self.try_take() {
                return;
            }
            freed.await;
        }
    }

    /// Frees a slot.
    pub(crate) fn put_back(&self) {
        self.free.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_one();
        }
    }
}

/// Counts a waiting call.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize};

    use super::*;

    /// Threads take and free slots as fast as they can: never more than there are, none is lost,
    /// and no waiting task is forgotten.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[expect(clippy::disallowed_methods, reason = "the tasks of this test end before it does")]
    async fn slots_are_never_exceeded_and_never_lost() {
        const SLOTS: usize = 3;
        let slots = Arc::new(Slots::new(SLOTS));
        let running = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..16)
            .map(|_| {
                let (slots, running) = (Arc::clone(&slots), Arc::clone(&running));
                tokio::spawn(async move {
                    for _ in 0..2_000 {
                        if !slots.try_take() {
                            slots.take().await;
                        }
                        assert!(running.fetch_add(1, Ordering::SeqCst) < SLOTS);
                        tokio::task::yield_now().await;
                        running.fetch_sub(1, Ordering::SeqCst);
                        slots.put_back();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(slots.free.load(Ordering::SeqCst), SLOTS);
        assert_eq!(slots.waiting.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_waiting_call_that_is_cancelled_passes_its_turn_on() {
        let slots = Slots::new(1);
        assert!(slots.try_take() && !slots.try_take());
        let mut first = Box::pin(slots.take());
        let mut second = Box::pin(slots.take());
        let mut task = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(first.as_mut().poll(&mut task).is_pending());
        assert!(second.as_mut().poll(&mut task).is_pending());
        slots.put_back();
        drop(first);
        second.await;
        assert!(!slots.try_take());
    }
}
