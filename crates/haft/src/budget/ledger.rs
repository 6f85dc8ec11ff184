//! Counts what a run uses and reserves what its calls may still use.
//!
//! A call's share is reserved before any body of its batch runs. The unused rest is released when
//! the call ends. The ledger of a sub-run charges its parents too: a share is taken from all of
//! them or from none.
//!
//! INVARIANT: for every limit, used plus reserved never exceeds it, except by what the host reports
//! as already spent. Locks are taken from the sub-run upwards, so there is no deadlock.

mod model_call;
mod time;

use std::{
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64},
    time::{Duration, Instant},
};

use haft_core::{Failure, FailureCode, RemainingBudget, ToolName, sync::lock};
use smallvec::SmallVec;

use super::{Budget, tool_globs::ToolGlobs};
use crate::{
    clock::Clock,
    event::{Event, EventSource, Events},
};

/// Counts what a run uses.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The run it belongs to.
    source: Arc<EventSource>,
    budget: Budget,
    globs: ToolGlobs,
    clock: Arc<dyn Clock>,
    began: Instant,
    /// The deadline of this run, without the time that does not count.
    until: Option<Instant>,
    /// Time that does not count; read while other fields are locked.
    idle_micros: AtomicU64,
    over: Option<Arc<Ledger>>,
    used: Mutex<Used>,
}

/// What is used or reserved.
#[derive(Debug, Default)]
struct Used {
    calls: u64,
    /// One counter for each limit of `calls_of`, in its order.
    of: Vec<u64>,
    bytes: u64,
    tokens: u64,
    micros: u64,
    cycles: u32,
    /// The kinds for which a warning was emitted, by index in [`KINDS`]; tools come after.
    warned: Vec<usize>,
}

const CALLS: usize = 0;
const WALL: usize = 1;
const BYTES: usize = 2;
const TOKENS: usize = 3;
const MICROS: usize = 4;
const CYCLES: usize = 5;
const KINDS: [&str; 6] = ["calls", "milliseconds", "bytes", "tokens", "micros", "cycles"];
/// A warning is emitted when 20% are left, early enough to react.
const WARN_AT: u8 = 80;

/// The reservation of one call. Dropping it counts the call as run with an empty result.
#[derive(Debug)]
#[must_use]
pub(crate) struct BudgetReservation {
    ledger: Arc<Ledger>,
    tool: ToolName,
    micros: u64,
    bytes: u64,
    /// Whether bytes are counted at all.
    counts_bytes: bool,
}

type Chain<'a> = SmallVec<[(&'a Ledger, MutexGuard<'a, Used>); 2]>;

impl Ledger {
    /// Opens the ledger of a run; `None` if there is nothing to count.
    pub(crate) fn open(
        source: Arc<EventSource>,
        budget: Budget,
        over: Option<Arc<Ledger>>,
        clock: &Arc<dyn Clock>,
    ) -> Option<Arc<Self>> {
        if !has_counted_limit(&budget) {
            return over;
        }
        // A price applies to all sub-runs.
        let budget = match &over {
            Some(over) => {
                let prices = Budget { price_of: over.budget.price_of.clone(), ..Budget::default() };
                budget.smaller(prices)
            }
            None => budget,
        };
        let began = clock.now();
        let own = budget.wall.map(|wall| crate::host_code::after(began, wall));
        let used = Used { of: vec![0; budget.calls_of.len()], ..Used::default() };
        let globs = ToolGlobs::of(&budget);
        Some(Arc::new(Self {
            source,
            budget,
            globs,
            clock: Arc::clone(clock),
            began,
            until: own,
            idle_micros: AtomicU64::new(0),
            over,
            used: Mutex::new(used),
        }))
    }

    /// Reserves the share of one call: one call, its price, and up to `bytes`, of which `among`
    /// calls that start together get equal parts. With `None`, bytes are not counted. A
    /// tool is counted by its own name and reported by the name that it is exported under.
    ///
    /// # Errors
    /// Fails when a limit that the call needs is used up.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        (tool, shown): (&ToolName, &ToolName),
        bytes: Option<usize>,
        among: usize,
        events: &Events,
    ) -> Result<BudgetReservation, Failure> {
        let micros = self.globs.price_of(tool);
        let mut chain = self.lock_all();
        self.has_time()?;
        for (ledger, used) in &chain {
            ledger.may_call(used, (tool, shown), micros)?;
        }
        let mut share = 0;
        let mut counts_bytes = false;
        if let Some(wanted) = bytes
            && let Some(left) = least_left(&chain, |ledger, used| {
                ledger.budget.bytes.map(|limit| limit.saturating_sub(used.bytes))
            })
        {
            if left == 0 {
                return Err(exhausted("the result bytes of this run are used up"));
            }
            let part = left / u64::try_from(among.max(1)).unwrap_or(u64::MAX);
            share = u64::try_from(wanted).unwrap_or(u64::MAX).min(part.max(1));
            counts_bytes = true;
        }
        for (ledger, used) in &mut chain {
            used.calls = used.calls.saturating_add(1);
            for (at, _) in ledger.globs.limits_of(tool) {
                used.of[at] = used.of[at].saturating_add(1);
            }
            used.micros = used.micros.saturating_add(micros);
            used.bytes = used.bytes.saturating_add(share);
        }
        warn(chain, events);
        let ledger = Arc::clone(self);
        Ok(BudgetReservation { ledger, tool: tool.clone(), micros, bytes: share, counts_bytes })
    }

    /// Counts a turn.
    ///
    /// # Errors
    /// Fails when no turn is left.
    pub(crate) fn cycle(&self, events: &Events) -> Result<(), Failure> {
        let mut chain = self.lock_all();
        for (ledger, used) in &chain {
            if let Some(limit) = ledger.budget.cycles
                && used.cycles >= limit
            {
                return Err(exhausted(format!(
                    "{} of {limit} turns are used, none is left for this run",
                    used.cycles
                )));
            }
        }
        chain.iter_mut().for_each(|(_, used)| used.cycles = used.cycles.saturating_add(1));
        warn(chain, events);
        Ok(())
    }

    /// Counts what has already been spent, even beyond the limit.
    pub(crate) fn spend(&self, tokens: u64, micros: u64, events: &Events) {
        let mut chain = self.lock_all();
        add(&mut chain, tokens, micros);
        warn(chain, events);
    }

    /// Counts what is about to be spent.
    ///
    /// # Errors
    /// Fails and counts nothing if that would exceed what is left.
    pub(crate) fn charge(&self, tokens: u64, micros: u64, events: &Events) -> Result<(), Failure> {
        let mut chain = self.lock_all();
        may_spend(&chain, tokens, micros)?;
        add(&mut chain, tokens, micros);
        warn(chain, events);
        Ok(())
    }

    /// Returns what is left, here and in the parents; for one tool also what is left of its own
    /// calls.
    pub(crate) fn remaining(&self, tool: Option<&ToolName>) -> RemainingBudget {
        let chain = self.lock_all();
        let wall = self.until().map(|until| until.saturating_duration_since(self.clock.now()));
        RemainingBudget {
            calls: least_left(&chain, |l, used| {
                l.budget.calls.map(|n| n.saturating_sub(used.calls))
            }),
            own_calls: tool.and_then(|tool| {
                least_left(&chain, |ledger, used| ledger.calls_of(used, tool).map(|(left, _)| left))
            }),
            wall,
            bytes: least_left(&chain, |l, used| {
                l.budget.bytes.map(|n| n.saturating_sub(used.bytes))
            }),
            tokens: least_left(&chain, |l, used| {
                l.budget.tokens.map(|n| n.saturating_sub(used.tokens))
            }),
            micros: least_left(&chain, |l, used| {
                l.budget.micros.map(|n| n.saturating_sub(used.micros))
            }),
            cycles: least_left(&chain, |l, used| {
                l.budget.cycles.map(|n| n.saturating_sub(used.cycles))
            }),
            depth: None,
        }
    }

    /// Refuses a call that exceeds a limit of this ledger.
    fn may_call(
        &self,
        used: &Used,
        (tool, shown): (&ToolName, &ToolName),
        price: u64,
    ) -> Result<(), Failure> {
        let budget = &self.budget;
        let calls = budget.calls.map(|limit| (limit.saturating_sub(used.calls), limit));
        let own = self.calls_of(used, tool);
        match (calls, own) {
            (Some((0, limit)), _) => {
                return Err(exhausted(format!("all {limit} calls of this run are used")));
            }
            (Some((left, limit)), Some((0, _))) => {
                return Err(exhausted(format!(
                    "{left} of {limit} calls are left for this run, but none for `{shown}`"
                )));
            }
            (None, Some((0, limit))) => {
                return Err(exhausted(format!("all {limit} calls of `{shown}` are used")));
            }
            _ => {}
        }
        if let Some(limit) = budget.tokens
            && used.tokens >= limit
        {
            return Err(exhausted(format!("all {limit} tokens of this run are used")));
        }
        if let Some(limit) = budget.micros {
            let left = limit.saturating_sub(used.micros);
            if left == 0 {
                return Err(exhausted("the money budget of this run is used up"));
            }
            if price > left {
                return Err(exhausted(format!(
                    "`{shown}` costs {price} micros a call, but only {left} of {limit} are left \
                     for this run"
                )));
            }
        }
        Ok(())
    }

    /// Returns how many calls of a tool are left, and the limit. Of several limits that apply, the
    /// one with the least left counts.
    fn calls_of(&self, used: &Used, tool: &ToolName) -> Option<(u64, u64)> {
        // A missing counter counts as used up.
        let left = |(at, limit): (usize, u64)| {
            (limit.saturating_sub(used.of.get(at).copied().unwrap_or(limit)), limit)
        };
        self.globs.limits_of(tool).map(left).min()
    }

    /// Locks this ledger and its parents, in that order.
    fn lock_all(&self) -> Chain<'_> {
        let mut chain = Chain::new();
        let mut next = Some(self);
        while let Some(ledger) = next {
            chain.push((ledger, lock(&ledger.used)));
            next = ledger.over.as_deref();
        }
        chain
    }

    /// Adds the warnings that are due, and marks them as emitted.
    fn low(&self, used: &mut Used, due: &mut Vec<(Arc<EventSource>, Event)>) {
        let budget = &self.budget;
        let at = u128::from(budget.warn_at.unwrap_or(WARN_AT));
        let mut look = |kind: usize, name: &dyn Fn() -> String, spent: u64, limit: Option<u64>| {
            let Some(of) = limit else { return };
            if u128::from(spent) * 100 < u128::from(of) * at || used.warned.contains(&kind) {
                return;
            }
            used.warned.push(kind);
            let (run, what) = (self.source.run.clone(), name());
            let low = Event::BudgetLow { run, what, left: of.saturating_sub(spent), of };
            due.push((Arc::clone(&self.source), low));
        };
        let kind = |kind: usize| move || KINDS[kind].to_owned();
        let elapsed = || self.clock.now().saturating_duration_since(self.began);
        let elapsed = budget.wall.map_or(0, |_| millis(elapsed().saturating_sub(self.idle())));
        look(CALLS, &kind(CALLS), used.calls, budget.calls);
        look(WALL, &kind(WALL), elapsed, budget.wall.map(millis));
        look(TOKENS, &kind(TOKENS), used.tokens, budget.tokens);
        look(MICROS, &kind(MICROS), used.micros, budget.micros);
        look(CYCLES, &kind(CYCLES), used.cycles.into(), budget.cycles.map(u64::from));
        for (at, (tool, limit)) in budget.calls_of.iter().enumerate() {
            let spent = used.of.get(at).copied().unwrap_or(*limit);
            look(KINDS.len() + at, &|| format!("calls of `{tool}`"), spent, Some(*limit));
        }
    }

    /// Counts bytes that the model was shown outside of call results, even beyond the limit.
    pub(crate) fn showed(&self, bytes: usize, events: &Events) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let (mut chain, mut due) = (self.lock_all(), Vec::new());
        for (ledger, used) in &mut chain {
            used.bytes = used.bytes.saturating_add(bytes);
            ledger.add_byte_warnings(used, &mut due);
        }
        drop(chain);
        due.into_iter().for_each(|(source, event)| events.emit_as(|| source, || event));
    }

    /// Warns about bytes. Only shown bytes count, because a call reserves far more than it shows.
    fn add_byte_warnings(&self, used: &mut Used, due: &mut Vec<(Arc<EventSource>, Event)>) {
        let Some(of) = self.budget.bytes else { return };
        let at = u128::from(self.budget.warn_at.unwrap_or(WARN_AT));
        if u128::from(used.bytes) * 100 >= u128::from(of) * at && !used.warned.contains(&BYTES) {
            used.warned.push(BYTES);
            let (run, what) = (self.source.run.clone(), KINDS[BYTES].to_owned());
            let low = Event::BudgetLow { run, what, left: of.saturating_sub(used.bytes), of };
            due.push((Arc::clone(&self.source), low));
        }
    }
}

/// Refuses tokens and money that exceed what is left.
fn may_spend(chain: &Chain<'_>, tokens: u64, micros: u64) -> Result<(), Failure> {
    for (ledger, used) in chain {
        let budget = &ledger.budget;
        for (what, wanted, limit, used) in [
            ("tokens", tokens, budget.tokens, used.tokens),
            ("micros", micros, budget.micros, used.micros),
        ] {
            if let Some(limit) = limit {
                let left = limit.saturating_sub(used);
                if wanted > left {
                    return Err(exhausted(format!(
                        "{wanted} {what} requested, but only {left} of {limit} are left for this \
                         run"
                    )));
                }
            }
        }
    }
    Ok(())
}

impl BudgetReservation {
    /// Returns how many bytes the result may have, up to `wanted`: the reserved bytes and what is
    /// still free. `None` means that bytes are not counted.
    pub(crate) fn room(&mut self, wanted: usize) -> Option<usize> {
        if !self.counts_bytes {
            return None;
        }
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        if wanted > self.bytes {
            let mut chain = self.ledger.lock_all();
            let free = least_left(&chain, |ledger, used| {
                ledger.budget.bytes.map(|limit| limit.saturating_sub(used.bytes))
            });
            let more = (wanted - self.bytes).min(free.unwrap_or(0));
            chain.iter_mut().for_each(|(_, used)| used.bytes = used.bytes.saturating_add(more));
            self.bytes = self.bytes.saturating_add(more);
        }
        Some(usize::try_from(self.bytes).unwrap_or(usize::MAX))
    }

    /// Releases what the call did not use.
    pub(crate) fn settle(mut self, ran: bool, shown: usize, events: &Events) {
        let shown = u64::try_from(shown).unwrap_or(u64::MAX).min(self.bytes);
        let unused = std::mem::take(&mut self.bytes) - shown;
        let ledger = Arc::clone(&self.ledger);
        let mut chain = ledger.lock_all();
        let mut due = Vec::new();
        for (ledger, used) in &mut chain {
            used.bytes = used.bytes.saturating_sub(unused);
            if !ran {
                used.calls = used.calls.saturating_sub(1);
                used.micros = used.micros.saturating_sub(self.micros);
                for (at, _) in ledger.globs.limits_of(&self.tool) {
                    used.of[at] = used.of[at].saturating_sub(1);
                }
            }
            ledger.add_byte_warnings(used, &mut due);
        }
        drop(chain);
        due.into_iter().for_each(|(source, event)| events.emit_as(|| source, || event));
    }
}

impl Drop for BudgetReservation {
    /// A lost call may have run, and has shown nothing.
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut chain = self.ledger.lock_all();
            let unused = self.bytes;
            chain.iter_mut().for_each(|(_, used)| used.bytes = used.bytes.saturating_sub(unused));
        }
    }
}

fn add(chain: &mut Chain<'_>, tokens: u64, micros: u64) {
    for (_, used) in chain {
        used.tokens = used.tokens.saturating_add(tokens);
        used.micros = used.micros.saturating_add(micros);
    }
}

/// Returns whether there is anything to count. Depth is not counted: each call knows its own.
fn has_counted_limit(budget: &Budget) -> bool {
    budget.calls.is_some()
        || !budget.calls_of.is_empty()
        || budget.wall.is_some()
        || budget.bytes.is_some()
        || budget.tokens.is_some()
        || budget.micros.is_some()
        || budget.cycles.is_some()
        // A parent or a sub-run may count the money.
        || !budget.price_of.is_empty()
}

fn least_left<T: Ord>(chain: &Chain<'_>, left: impl Fn(&Ledger, &Used) -> Option<T>) -> Option<T> {
    chain.iter().filter_map(|(ledger, used)| left(ledger, used)).min()
}

/// Unlocks the ledgers, then emits the warnings: an observer may query the budget.
fn warn(mut chain: Chain<'_>, events: &Events) {
    let mut due = Vec::new();
    for (ledger, used) in &mut chain {
        ledger.low(used, &mut due);
    }
    drop(chain);
    due.into_iter().for_each(|(source, event)| events.emit_as(|| source, || event));
}

fn exhausted(what: impl Into<String>) -> Failure {
    Failure::new(FailureCode::BudgetExhausted, what)
        .with_next("finish with the results you have, and report what is missing")
}

/// The failure of a call that exceeds the nesting limit.
pub(crate) fn too_deep(depth: u32) -> Failure {
    Failure::new(
        FailureCode::BudgetExhausted,
        format!("calls are already nested {depth} levels deep, which is the limit"),
    )
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use haft_core::Scope;
    use proptest::prelude::*;

    use super::*;
    use crate::clock::RuntimeClock;

    fn clock() -> Arc<dyn Clock> {
        Arc::new(RuntimeClock)
    }

    fn budget(calls: u64) -> Budget {
        Budget { calls: Some(calls), ..Budget::default() }
    }

    fn open(budget: Budget, over: Option<Arc<Ledger>>) -> Arc<Ledger> {
        Ledger::open(EventSource::of(&Scope::default()), budget, over, &clock()).unwrap()
    }

    fn silent() -> Events {
        Events::default()
    }

    #[test]
    fn no_ledger_without_a_limit() {
        let unlimited = Budget { depth: Some(3), warn_at: Some(1), ..Budget::default() };
        assert!(
            Ledger::open(EventSource::of(&Scope::default()), unlimited, None, &clock()).is_none()
        );
    }

    #[test]
    fn smaller_limit_and_higher_price_win() {
        let one = Budget {
            calls: Some(5),
            calls_of: [("a".to_owned(), 3)].into(),
            price_of: [("a".to_owned(), 3)].into(),
            ..Budget::default()
        };
        let two = Budget {
            calls: Some(9),
            bytes: Some(7),
            calls_of: [("a".to_owned(), 2), ("b".to_owned(), 1)].into(),
            price_of: [("a".to_owned(), 1)].into(),
            ..Budget::default()
        };
        let both = one.smaller(two);
        assert_eq!((both.calls, both.bytes), (Some(5), Some(7)));
        assert_eq!((both.calls_of["a"], both.calls_of["b"], both.price_of["a"]), (2, 1, 3));
    }

    #[test]
    fn budget_failure_names_what_is_left_and_requested() {
        let both = Budget {
            calls: Some(10),
            calls_of: [("mail_send".to_owned(), 0)].into(),
            ..Budget::default()
        };
        let ledger = open(both, None);
        let mail = ToolName::from("mail_send");
        let failure = ledger.reserve((&mail, &mail), None, 1, &silent()).unwrap_err();
        assert_eq!(
            failure.message(),
            "10 of 10 calls are left for this run, but none for `mail_send`"
        );
        let failure = open(Budget { tokens: Some(5), ..Budget::default() }, None)
            .charge(6, 0, &silent())
            .unwrap_err();
        assert_eq!(failure.message(), "6 tokens requested, but only 5 of 5 are left for this run");
    }

    #[test]
    fn sub_run_charges_both_ledgers_or_none() {
        let over = open(budget(2), None);
        let under = open(budget(5), Some(Arc::clone(&over)));
        let tool = ToolName::from("t");
        let held: Vec<BudgetReservation> =
            (0..2).map(|_| under.reserve((&tool, &tool), None, 1, &silent()).unwrap()).collect();
        assert!(under.reserve((&tool, &tool), None, 1, &silent()).is_err());
        assert_eq!(under.remaining(None).calls, Some(0), "what is left above is what is left");
        assert_eq!(under.used.lock().unwrap().calls, 2, "a refusal takes nothing");
        held.into_iter().for_each(|held| held.settle(false, 0, &silent()));
        assert_eq!((over.remaining(None).calls, under.remaining(None).calls), (Some(2), Some(2)));
    }

    #[test]
    fn spending_is_counted_beyond_the_limit_and_blocks_further_calls() {
        let ledger = open(Budget { micros: Some(10), ..Budget::default() }, None);
        ledger.spend(0, 25, &silent());
        assert_eq!(ledger.remaining(None).micros, Some(0));
        assert!(ledger.reserve((&"free".into(), &"free".into()), None, 1, &silent()).is_err());
    }

    #[test]
    fn price_applies_to_all_sub_runs() {
        let over = open(
            Budget {
                micros: Some(10),
                price_of: [("pay".to_owned(), 6)].into(),
                ..Budget::default()
            },
            None,
        );
        let under = open(budget(5), Some(Arc::clone(&over)));
        let pay = ToolName::from("pay");
        under.reserve((&pay, &pay), None, 1, &silent()).unwrap().settle(true, 0, &silent());
        let failure = under.reserve((&pay, &pay), None, 1, &silent()).unwrap_err();
        assert_eq!(
            failure.message(),
            "`pay` costs 6 micros a call, but only 4 of 10 are left for this run"
        );
    }

    #[test]
    fn concurrent_calls_share_bytes_and_may_use_what_others_left() {
        let ledger = open(Budget { bytes: Some(100), ..Budget::default() }, None);
        let tool = ToolName::from("t");
        let mut one = ledger.reserve((&tool, &tool), Some(1_000), 2, &silent()).unwrap();
        let mut two = ledger.reserve((&tool, &tool), Some(1_000), 1, &silent()).unwrap();
        assert_eq!((one.room(10), two.room(1_000)), (Some(50), Some(50)));
        one.settle(true, 10, &silent());
        assert_eq!(two.room(1_000), Some(90));
        two.settle(true, 90, &silent());
        assert_eq!(ledger.remaining(None).bytes, Some(0));
        assert!(ledger.reserve((&tool, &tool), Some(1), 1, &silent()).is_err());
    }

    proptest! {
        #[test]
        fn used_plus_left_is_the_limit(
            limits in prop::collection::vec((1u64..20, 1u64..500), 1..4),
            steps in prop::collection::vec((any::<bool>(), 0usize..200, 0usize..4, 0u8..3), 0..60),
        ) {
            let mut ledger: Option<Arc<Ledger>> = None;
            let mut all = Vec::new();
            for (calls, bytes) in &limits {
                let both = Budget { calls: Some(*calls), bytes: Some(*bytes), ..Budget::default() };
                let next = open(both, ledger.take());
                all.push(Arc::clone(&next));
                ledger = Some(next);
            }
            let ledger = ledger.unwrap();
            let (tool, silent) = (ToolName::from("t"), silent());
            let (mut ran_in_all, mut shown_in_all) = (0, 0);
            let mut held = Vec::new();
            for (ran, bytes, among, then) in steps {
                if let Ok(mut share) = ledger.reserve((&tool, &tool), Some(bytes), among, &silent) {
                    let room = share.room(bytes).unwrap();
                    let shown = if ran { bytes.min(room) } else { 0 };
                    match then {
                        0 => {
                            (ran_in_all, shown_in_all) = (ran_in_all + u64::from(ran), shown_in_all + shown);
                            share.settle(ran, shown, &silent);
                        }
                        1 => { ran_in_all += 1; drop(share); }
                        _ => held.push(share),
                    }
                }
                for ledger in &all {
                    let used = ledger.used.lock().unwrap();
                    prop_assert!(used.calls <= ledger.budget.calls.unwrap());
                    prop_assert!(used.bytes <= ledger.budget.bytes.unwrap());
                }
            }
            held.into_iter().for_each(|share| share.settle(false, 0, &silent));
            for ledger in &all {
                let used = ledger.used.lock().unwrap();
                prop_assert_eq!(used.calls, ran_in_all);
                prop_assert_eq!(used.bytes, shown_in_all as u64);
            }
        }
    }
}
