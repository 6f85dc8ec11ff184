//! Ends the explanation of a value early: after a number of steps, or when a condition holds.
//!
//! A step is one pair of a schema node and a value. The condition (a deadline, a cancellation) is
//! checked every [`STEPS_PER_CHECK`] steps, because reading a clock costs more than a step.

use std::{cell::Cell, fmt};

/// How many steps are made between two checks of the condition.
const STEPS_PER_CHECK: u64 = 64;

/// When an explanation ends.
pub struct Stop<'a> {
    left: Cell<u64>,
    unchecked: Cell<u64>,
    is_over: Cell<bool>,
    condition: &'a dyn Fn() -> bool,
}

impl fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Stop<'static> {
    /// Never stops.
    pub fn never() -> Self {
        Self::after(u64::MAX)
    }

    /// Stops after this many steps.
    pub fn after(steps: u64) -> Self {
        Stop::new(steps, &|| false)
    }
}

impl<'a> Stop<'a> {
    /// Stops when a condition holds.
    pub fn when(condition: &'a dyn Fn() -> bool) -> Self {
        Self::new(u64::MAX, condition)
    }

    fn new(steps: u64, condition: &'a dyn Fn() -> bool) -> Self {
        Self {
            left: Cell::new(steps),
            // The first step checks: if the time is already over, no step is made.
            unchecked: Cell::new(STEPS_PER_CHECK),
            is_over: Cell::new(false),
            condition,
        }
    }

    /// Counts steps that are about to be made. Returns whether to stop before them.
    pub fn ends_before(&self, steps: u64) -> bool {
        if self.is_over.get() {
            return true;
        }
        let unchecked = self.unchecked.get().saturating_add(steps);
        let checks = unchecked >= STEPS_PER_CHECK;
        self.unchecked.set(if checks { 0 } else { unchecked });
        let left = self.left.get().checked_sub(steps);
        self.left.set(left.unwrap_or(0));
        self.is_over.set(left.is_none() || checks && (self.condition)());
        self.is_over.get()
    }

    /// Returns whether it has stopped early.
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanation_stops_after_its_steps_and_stays_stopped() {
        let stop = Stop::after(10);
        assert!(!stop.ends_before(10) && !stop.is_over());
        assert!(stop.ends_before(1) && stop.is_over());
        assert!(stop.ends_before(0));
    }

    #[test]
    fn condition_is_checked_at_the_first_step_and_then_periodically() {
        let asked = Cell::new(0);
        let condition = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        let stop = Stop::when(&condition);
        let made = (0..10_000).take_while(|_| !stop.ends_before(1)).count() as u64;
        assert_eq!((asked.get(), made), (3, 2 * STEPS_PER_CHECK));
    }
}
