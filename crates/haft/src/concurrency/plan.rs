//! Partitions the calls of one turn into batches.
//!
//! In: the profile of each call, in the model's order; `None` for an invalid call. Out: for each
//! call its batch, and why. Pure: no clock, no I/O, no tool code. Ordering is decided here; mutual
//! exclusion in `gate`.
//!
//! INVARIANT: batches are consecutive ranges; calls of one batch may pairwise run concurrently.

use std::fmt;

use haft_core::{CallProfile, ConcurrencyClass};

use super::key_set::KeySet;

/// The position of a call in the plan.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BatchSlot {
    /// The batch, from 0.
    pub batch: usize,
    /// Why it is in this batch and not in the one before.
    pub why: BatchReason,
}

/// Why a call joins a batch or starts one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BatchReason {
    /// It is the first call.
    First,
    /// It is read-only, and so is everything in the batch.
    ReadsShare,
    /// Its resource keys are disjoint from those of the batch.
    KeysDisjoint,
    /// It runs alone: its class is `Unsafe`.
    UnsafeAlone,
    /// It writes without resource keys, so it conflicts with everything.
    WriteAlone,
    /// It needs a resource that the previous batch uses.
    KeysMeet,
    /// One of the two writes and one has no resource keys, so they may conflict.
    UnnamedMeets,
    /// The previous call runs alone.
    AfterExclusive,
    /// It is invalid, so its profile is unknown.
    NotAdmitted,
}

impl fmt::Display for BatchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first call",
            Self::ReadsShare => "reads run concurrently",
            Self::KeysDisjoint => "its resources are disjoint",
            Self::UnsafeAlone => "unsafe: runs alone",
            Self::WriteAlone => "writes without resource keys: runs alone",
            Self::KeysMeet => "needs a resource that the previous batch uses",
            Self::UnnamedMeets => {
                "may conflict with the previous batch: not all calls declare resource keys"
            }
            Self::AfterExclusive => "waits for the previous call, which runs alone",
            Self::NotAdmitted => "invalid: runs alone",
        })
    }
}

/// Plans call by call, so that a stream and a complete message are planned alike.
#[derive(Debug, Default)]
pub(crate) struct Planner {
    batch: usize,
    started: bool,
    members: Members,
}

/// The calls of the current batch, as far as the next call depends on them. Each call costs
/// O(log n) in a batch of n.
#[derive(Debug, Default)]
struct Members {
    kind: BatchKind,
    /// The keys of its calls, once one has keys.
    keys: Option<Box<BatchKeys>>,
}

/// The keys of readers, and of writers.
#[derive(Debug, Default)]
struct BatchKeys {
    read: KeySet,
    written: KeySet,
}

/// What runs in a batch. A batch with a keyless reader has no writer, and a batch with a writer has
/// only calls with keys: calls of one batch may pairwise run concurrently.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum BatchKind {
    /// One invalid call.
    #[default]
    Invalid,
    /// One unsafe call.
    Unsafe,
    /// One writer without resource keys.
    KeylessWriter,
    /// Only readers, at least one of them without resource keys.
    Readers,
    /// Only readers, all with resource keys.
    KeyedReaders,
    /// At least one writer; all have resource keys.
    KeyedWriters,
}

impl Planner {
    /// Places the next call.
    #[inline(always)]
    pub(crate) fn place(&mut self, profile: Option<&CallProfile>) -> BatchSlot {
        let first = !std::mem::replace(&mut self.started, true);
        let why = match profile {
            _ if first => BatchReason::First,
            None => BatchReason::NotAdmitted,
            Some(profile) => self.members.why(profile),
        };
        let joins = matches!(why, BatchReason::ReadsShare | BatchReason::KeysDisjoint);
        if !joins && !first {
            self.batch += 1;
        }
        if !joins {
            self.members = Members::default();
        }
        if let Some(profile) = profile {
            self.members.add(profile, joins);
        }
        BatchSlot { batch: self.batch, why }
    }
}

impl Members {
    /// Returns why a call joins the batch, or why it does not.
    fn why(&self, profile: &CallProfile) -> BatchReason {
        let is_keyed = !profile.keys.is_empty();
        let conflicts = |of: fn(&BatchKeys) -> &KeySet| {
            self.keys
                .as_deref()
                .map(of)
                .is_some_and(|keys| profile.keys.iter().any(|key| keys.conflicts(key)))
        };
        match (profile.class, self.kind) {
            (_, BatchKind::Invalid) => BatchReason::AfterExclusive,
            (ConcurrencyClass::Unsafe, _) => BatchReason::UnsafeAlone,
            (_, BatchKind::Unsafe) => BatchReason::AfterExclusive,
            (ConcurrencyClass::WriteExclusive, _) if !is_keyed => BatchReason::WriteAlone,
            (_, BatchKind::KeylessWriter) => BatchReason::AfterExclusive,
            (ConcurrencyClass::ReadOnly, BatchKind::Readers | BatchKind::KeyedReaders) => {
                BatchReason::ReadsShare
            }
            (ConcurrencyClass::ReadOnly, BatchKind::KeyedWriters) if !is_keyed => {
                BatchReason::UnnamedMeets
            }
            (ConcurrencyClass::WriteExclusive, BatchKind::Readers) => BatchReason::UnnamedMeets,
            (ConcurrencyClass::WriteExclusive, _) if conflicts(|keys| &keys.read) => {
                BatchReason::KeysMeet
            }
            _ if conflicts(|keys| &keys.written) => BatchReason::KeysMeet,
            _ => BatchReason::KeysDisjoint,
        }
    }

    fn add(&mut self, profile: &CallProfile, joins: bool) {
        let is_keyed = !profile.keys.is_empty();
        self.kind = match profile.class {
            ConcurrencyClass::Unsafe => BatchKind::Unsafe,
            ConcurrencyClass::WriteExclusive if !is_keyed => BatchKind::KeylessWriter,
            ConcurrencyClass::WriteExclusive => BatchKind::KeyedWriters,
            ConcurrencyClass::ReadOnly if joins && self.kind == BatchKind::KeyedWriters => {
                BatchKind::KeyedWriters
            }
            ConcurrencyClass::ReadOnly if !is_keyed => BatchKind::Readers,
            ConcurrencyClass::ReadOnly if joins => self.kind,
            ConcurrencyClass::ReadOnly => BatchKind::KeyedReaders,
        };
        if !is_keyed {
            return;
        }
        let keys = self.keys.get_or_insert_default();
        let keys = match profile.class {
            ConcurrencyClass::ReadOnly => &mut keys.read,
            ConcurrencyClass::WriteExclusive | ConcurrencyClass::Unsafe => &mut keys.written,
        };
        profile.keys.iter().for_each(|key| keys.insert(key));
    }
}

#[cfg(test)]
mod tests {
    use haft_core::ResourceKey;
    use proptest::prelude::*;

    use super::*;

    fn profiles() -> impl Strategy<Value = Vec<Option<CallProfile>>> {
        let class = prop_oneof![
            Just(ConcurrencyClass::ReadOnly),
            Just(ConcurrencyClass::WriteExclusive),
            Just(ConcurrencyClass::Unsafe)
        ];
        let keys = proptest::collection::vec(
            prop_oneof![Just("file:/a"), Just("file:/a/b"), Just("file:/c"), Just("table:/c")],
            0..3,
        );
        let profile = (class, keys).prop_map(|(class, keys)| CallProfile {
            class,
            keys: keys.iter().map(ResourceKey::new).collect(),
            ..CallProfile::strictest()
        });
        proptest::collection::vec(proptest::option::weighted(0.9, profile), 0..24)
    }

    fn plan(profiles: &[Option<CallProfile>]) -> Vec<BatchSlot> {
        let mut planner = Planner::default();
        profiles.iter().map(|c| planner.place(c.as_ref())).collect()
    }

    proptest! {
        #[test]
        fn batches_are_consecutive_and_keep_the_order(profiles in profiles()) {
            let places = plan(&profiles);
            for (n, pair) in places.windows(2).enumerate() {
                prop_assert!(pair[1].batch == pair[0].batch || pair[1].batch == pair[0].batch + 1, "at {n}");
            }
            if let Some(first) = places.first() { prop_assert_eq!(first.batch, 0); }
        }

        #[test]
        fn calls_of_one_batch_may_pairwise_share(profiles in profiles()) {
            let places = plan(&profiles);
            for a in 0..profiles.len() {
                for b in a + 1..profiles.len() {
                    if places[a].batch == places[b].batch {
                        let (Some(one), Some(two)) = (&profiles[a], &profiles[b]) else {
                            return Err(TestCaseError::fail("an unadmitted call shares"));
                        };
                        prop_assert!(one.can_run_concurrently_with(two));
                        prop_assert!(one.class != ConcurrencyClass::Unsafe && two.class != ConcurrencyClass::Unsafe);
                    }
                }
            }
        }

        #[test]
        fn a_batch_ends_only_where_it_must(profiles in profiles()) {
            let places = plan(&profiles);
            for n in 1..profiles.len() {
                if places[n].batch != places[n - 1].batch {
                    let before = (0..n).filter(|m| places[*m].batch == places[n - 1].batch);
                    let blocked = profiles[n].is_none()
                        || before.into_iter().any(|m| match (&profiles[m], &profiles[n]) {
                            (Some(a), Some(b)) => !a.can_run_concurrently_with(b),
                            _ => true,
                        });
                    prop_assert!(blocked, "call {n} could have joined");
                }
            }
        }
    }

    /// The cost per call at 10 n is at most twice that at n.
    #[test]
    fn planning_keyed_writers_does_not_grow_quadratically() {
        let time = |n: usize| {
            let profiles: Vec<_> = (0..n)
                .map(|n| CallProfile {
                    class: ConcurrencyClass::WriteExclusive,
                    keys: vec![ResourceKey::new(format!("file:/work/src/{n}.rs"))],
                    ..CallProfile::strictest()
                })
                .collect();
            let took = (0..8).map(|_| {
                let mut planner = Planner::default();
                #[expect(clippy::disallowed_methods, reason = "this test measures time")]
                let began = std::time::Instant::now();
                let last = profiles.iter().map(|p| planner.place(Some(p))).last();
                let took = began.elapsed();
                assert_eq!(last.map(|slot| slot.batch), Some(0), "they share one batch");
                took
            });
            took.min().unwrap_or_default().as_nanos() / n as u128
        };
        // Other processes take the processor and its caches in some measurements, but not in all.
        // The larger set still fits into the first cache.
        let mut costs = Vec::new();
        for _ in 0..40 {
            let (few, many) = (time(50), time(500));
            if many <= 2 * few {
                return;
            }
            costs.push((few, many));
        }
        panic!("ns of a call among 50 and among 500: {costs:?}");
    }

    #[test]
    fn reads_on_both_sides_of_a_write_do_not_merge() {
        let of = |class| Some(CallProfile { class, ..CallProfile::strictest() });
        let read = of(ConcurrencyClass::ReadOnly);
        let places =
            plan(&[read.clone(), read.clone(), of(ConcurrencyClass::WriteExclusive), read]);
        let batches: Vec<usize> = places.iter().map(|p| p.batch).collect();
        assert_eq!(batches, [0, 0, 1, 2]);
        assert_eq!(places[1].why, BatchReason::ReadsShare);
        assert_eq!(places[2].why, BatchReason::WriteAlone);
        assert_eq!(places[3].why, BatchReason::AfterExclusive);
    }
}
