//! Partitions the calls of one turn into batches.
//!
//! In: the profile of each call, in the model's order; `None` for an invalid call. Out: for each
//! call its batch, and why. Pure: no clock, no I/O, no tool code. Ordering is decided here; mutual
//! exclusion in `gate`.
//!
//! INVARIANT: batches are consecutive ranges; calls of one batch may pairwise run concurrently.

use std::fmt;

use haft_core::{CallProfile, ConcurrencyClass};

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
    /// The claims of the current batch, the first one apart so that a batch of one needs no list;
    /// none when an unadmitted call stands there alone.
    first: Option<CallProfile>,
    more: Vec<CallProfile>,
}

impl Planner {
    /// Places the next call.
    pub(crate) fn place(&mut self, claim: Option<&CallProfile>) -> BatchSlot {
        let first = !std::mem::replace(&mut self.started, true);
        let why = match claim {
            _ if first => BatchReason::First,
            None => BatchReason::NotAdmitted,
            Some(claim) => self.why(claim),
        };
        let joins = matches!(why, BatchReason::ReadsShare | BatchReason::KeysDisjoint);
        if !joins && !first {
            self.batch += 1;
        }
        if !joins {
            self.first = None;
            self.more.clear();
        }
        if let Some(claim) = claim {
            self.join(claim);
        }
        BatchSlot { batch: self.batch, why }
    }

    /// Says whether a call joins the current batch, or why it does not.
    fn why(&self, claim: &CallProfile) -> BatchReason {
        if self.first.is_none() {
            return BatchReason::AfterExclusive;
        }
        let obstacle = self.members().find(|m| !m.may_share(claim));
        match obstacle {
            None if self
                .members()
                .chain([claim])
                .all(|m| m.class == ConcurrencyClass::ReadOnly) =>
            {
                BatchReason::ReadsShare
            }
            None => BatchReason::KeysDisjoint,
            Some(_) if claim.class == ConcurrencyClass::Unsafe => BatchReason::UnsafeAlone,
            Some(before) if before.class == ConcurrencyClass::Unsafe => BatchReason::AfterExclusive,
            Some(before) => match (claim.keys.is_empty(), before.keys.is_empty()) {
                (false, false) => BatchReason::KeysMeet,
                (true, _) if claim.class == ConcurrencyClass::WriteExclusive => {
                    BatchReason::WriteAlone
                }
                (_, true) if before.class == ConcurrencyClass::WriteExclusive => {
                    BatchReason::AfterExclusive
                }
                _ => BatchReason::UnnamedMeets,
            },
        }
    }

    /// Of many plain readers one stands for all: they differ in nothing that matters here.
    fn join(&mut self, claim: &CallProfile) {
        let plain = |m: &CallProfile| m.class == ConcurrencyClass::ReadOnly && m.keys.is_empty();
        if self.first.is_none() {
            self.first = Some(claim.clone());
        } else if !(plain(claim) && self.members().any(plain)) {
            self.more.push(claim.clone());
        }
    }

    fn members(&self) -> impl Iterator<Item = &CallProfile> {
        self.first.iter().chain(&self.more)
    }
}

#[cfg(test)]
mod tests {
    use haft_core::ResourceKey;
    use proptest::prelude::*;

    use super::*;

    fn claims() -> impl Strategy<Value = Vec<Option<CallProfile>>> {
        let class = prop_oneof![
            Just(ConcurrencyClass::ReadOnly),
            Just(ConcurrencyClass::WriteExclusive),
            Just(ConcurrencyClass::Unsafe)
        ];
        let keys = proptest::collection::vec(
            prop_oneof![Just("file:/a"), Just("file:/a/b"), Just("file:/c"), Just("table:/c")],
            0..3,
        );
        let claim = (class, keys).prop_map(|(class, keys)| CallProfile {
            class,
            keys: keys.iter().map(ResourceKey::new).collect(),
            ..CallProfile::strictest()
        });
        proptest::collection::vec(proptest::option::weighted(0.9, claim), 0..24)
    }

    fn plan(claims: &[Option<CallProfile>]) -> Vec<BatchSlot> {
        let mut planner = Planner::default();
        claims.iter().map(|c| planner.place(c.as_ref())).collect()
    }

    proptest! {
        #[test]
        fn batches_are_consecutive_and_keep_the_order(claims in claims()) {
            let places = plan(&claims);
            for (n, pair) in places.windows(2).enumerate() {
                prop_assert!(pair[1].batch == pair[0].batch || pair[1].batch == pair[0].batch + 1, "at {n}");
            }
            if let Some(first) = places.first() { prop_assert_eq!(first.batch, 0); }
        }

        #[test]
        fn calls_of_one_batch_may_pairwise_share(claims in claims()) {
            let places = plan(&claims);
            for a in 0..claims.len() {
                for b in a + 1..claims.len() {
                    if places[a].batch == places[b].batch {
                        let (Some(one), Some(two)) = (&claims[a], &claims[b]) else {
                            return Err(TestCaseError::fail("an unadmitted call shares"));
                        };
                        prop_assert!(one.may_share(two));
                        prop_assert!(one.class != ConcurrencyClass::Unsafe && two.class != ConcurrencyClass::Unsafe);
                    }
                }
            }
        }

        #[test]
        fn a_batch_ends_only_where_it_must(claims in claims()) {
            let places = plan(&claims);
            for n in 1..claims.len() {
                if places[n].batch != places[n - 1].batch {
                    let before = (0..n).filter(|m| places[*m].batch == places[n - 1].batch);
                    let blocked = claims[n].is_none()
                        || before.into_iter().any(|m| match (&claims[m], &claims[n]) {
                            (Some(a), Some(b)) => !a.may_share(b),
                            _ => true,
                        });
                    prop_assert!(blocked, "call {n} could have joined");
                }
            }
        }
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
