//! The circuit of one tool: closed, open, or half-open.
//!
//! A closed circuit costs a call one relaxed load. After too many failures within the cooldown the
//! circuit opens and calls are rejected at once. After the cooldown, one call at a time is let
//! through as a probe (half-open), and its success closes the circuit.
//!
//! Our own code, because it uses the runtime's clock and costs a call almost nothing while closed.
//!
//! INVARIANT: while a circuit is open, at most one call of the tool that started since then is
//! running.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use haft_core::sync::lock;

use crate::{clock::after, config::Breaker};

/// The circuit of one tool.
#[derive(Debug, Default)]
pub(crate) struct Circuit {
    /// Whether a failure is counted or the circuit is open. Without trouble there is nothing to
    /// check, and nothing to reset.
    trouble: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failed: VecDeque<Instant>,
    /// Until when all calls are rejected; `None` while the circuit is closed.
    open: Option<Instant>,
    /// The running probe.
    trying: Option<u64>,
    trials: u64,
}

/// The permission for one probe. If it is dropped without a result, the next call may probe.
#[derive(Debug)]
pub(crate) struct Trial {
    circuit: Arc<Circuit>,
    number: u64,
}

impl Drop for Trial {
    fn drop(&mut self) {
        let mut state = self.circuit.lock();
        if state.trying == Some(self.number) {
            state.trying = None;
        }
    }
}

impl Circuit {
    /// Returns whether no failure is counted and the circuit is closed.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.trouble.load(Ordering::Relaxed)
    }

    /// Lets a call start, or returns how long the circuit stays open.
    #[inline(always)]
    pub(crate) fn begin(
        self: &Arc<Self>,
        terms: &Breaker,
        now: Instant,
    ) -> Result<Option<Trial>, Duration> {
        let mut state = self.lock();
        match state.open {
            None => Ok(None),
            Some(until) if now < until => Err(until.saturating_duration_since(now)),
            // A probe is running; its result is known at the latest after a cooldown.
            Some(_) if state.trying.is_some() => Err(terms.cooldown),
            Some(_) => {
                state.trials += 1;
                state.trying = Some(state.trials);
                Ok(Some(Trial { circuit: Arc::clone(self), number: state.trials }))
            }
        }
    }

    /// Notes a success: the tool works.
    pub(crate) fn works(&self) {
        let mut state = self.lock();
        state.failed.clear();
        (state.open, state.trying) = (None, None);
        self.trouble.store(false, Ordering::Relaxed);
    }

    /// Notes a failure, and returns whether that opens the circuit.
    pub(crate) fn fails(&self, terms: &Breaker, trial: Option<&Trial>, now: Instant) -> bool {
        let mut state = self.lock();
        self.trouble.store(true, Ordering::Relaxed);
        if state.open.is_some() {
            // A call that began before the circuit opened is no new evidence.
            let was_trial = trial.is_some_and(|trial| state.trying == Some(trial.number));
            if was_trial {
                state.open = Some(after(now, terms.cooldown));
            }
            return was_trial;
        }
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= terms.cooldown;
        while state.failed.front().is_some_and(is_old) {
            state.failed.pop_front();
        }
        state.failed.push_back(now);
        if state.failed.len() < terms.failures.max(1) as usize {
            return false;
        }
        state.failed.clear();
        state.open = Some(after(now, terms.cooldown));
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock as _, ManualClock};

    const TERMS: Breaker = Breaker { failures: 3, cooldown: Duration::from_secs(30) };

    #[test]
    fn failures_within_the_cooldown_open_it_and_older_ones_do_not() {
        let (circuit, clock) = (Arc::new(Arc::new(Circuit::default())), ManualClock::new());
        for _ in 0..10 {
            assert!(!circuit.fails(&TERMS, None, clock.now()));
            clock.advance(TERMS.cooldown / 2);
        }
        assert!(circuit.begin(&TERMS, clock.now()).is_ok(), "never three within thirty seconds");
        circuit.works();
        assert!(circuit.is_quiet());
        assert!(!circuit.fails(&TERMS, None, clock.now()));
        assert!(!circuit.fails(&TERMS, None, clock.now()));
        assert!(circuit.fails(&TERMS, None, clock.now()));
        clock.advance(Duration::from_secs(10));
        assert_eq!(circuit.begin(&TERMS, clock.now()).unwrap_err(), Duration::from_secs(20));
    }

    fn opened(clock: &ManualClock) -> Arc<Circuit> {
        let circuit = Arc::new(Circuit::default());
        for _ in 0..TERMS.failures {
            circuit.fails(&TERMS, None, clock.now());
        }
        circuit
    }

    #[test]
    fn after_the_cooldown_one_tries_at_a_time() {
        let clock = ManualClock::new();
        let circuit = opened(&clock);
        clock.advance(TERMS.cooldown);
        let trial = circuit.begin(&TERMS, clock.now()).unwrap();
        assert!(trial.is_some());
        assert!(circuit.begin(&TERMS, clock.now()).is_err(), "a probe is running");
        drop(trial);
        let again = circuit.begin(&TERMS, clock.now()).unwrap();
        assert!(again.is_some(), "a trial without a verdict lets the next try");
        assert!(circuit.fails(&TERMS, again.as_ref(), clock.now()));
        drop(again);
        assert_eq!(circuit.begin(&TERMS, clock.now()).unwrap_err(), TERMS.cooldown);
        clock.advance(TERMS.cooldown);
        let last = circuit.begin(&TERMS, clock.now()).unwrap();
        circuit.works();
        drop(last);
        assert!(circuit.is_quiet() && circuit.begin(&TERMS, clock.now()).unwrap().is_none());
    }

    #[test]
    fn a_call_from_before_does_not_keep_it_open_for_longer() {
        let clock = ManualClock::new();
        let circuit = opened(&clock);
        clock.advance(TERMS.cooldown / 2);
        assert!(!circuit.fails(&TERMS, None, clock.now()));
        clock.advance(TERMS.cooldown / 2);
        assert!(circuit.begin(&TERMS, clock.now()).unwrap().is_some());
    }
}
