//! Partitions the calls of one turn into batches.
//!
//! In: the claim of each call, in the model's order; nothing for a call that was not admitted.
//! Out: for each call its batch, and why. Pure: no clock, no I/O, no tool code. Ordering lives
//! here; exclusion lives in `gate`.
//!
//! INVARIANT: batches are consecutive ranges; calls of one batch may pairwise share the floor.

use std::fmt;

use haft_core::{Claim, Class};

/// Where a call stands in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The batch, from 0.
    pub batch: usize,
    /// Why it is in this batch and not in the one before.
    pub why: Why,
}

/// Why a call joins a batch or starts one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It is the first call.
    First,
    /// It only reads, and so does everything in the batch.
    ReadsShare,
    /// Its resource keys are disjoint from those of the batch.
    KeysDisjoint,
    /// It runs alone: its class is `Unsafe`.
    UnsafeAlone,
    /// It writes and names no keys, so it meets everything.
    WriteAlone,
    /// It meets a resource that the batch before holds.
    KeysMeet,
    /// The batch before it is exclusive.
    AfterExclusive,
    /// It was not admitted, so nothing is known about it.
    NotAdmitted,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "first call",
            Self::ReadsShare => "reads share the floor",
            Self::KeysDisjoint => "its resources are its own",
            Self::UnsafeAlone => "unsafe: runs alone",
            Self::WriteAlone => "writes without naming resources: runs alone",
            Self::KeysMeet => "meets a resource of the batch before",
            Self::AfterExclusive => "waits for the exclusive call before it",
            Self::NotAdmitted => "not admitted: stands alone",
        })
    }
}

/// Plans call by call, so that a stream and a complete message are planned alike.
#[derive(Debug, Default)]
pub(crate) struct Planner {
    batch: usize,
    started: bool,
    /// The claims of the current batch; empty when an unadmitted call stands there alone.
    members: Vec<Claim>,
}

impl Planner {
    /// Places the next call.
    pub(crate) fn place(&mut self, claim: Option<&Claim>) -> Place {
        let first = !std::mem::replace(&mut self.started, true);
        let joins =
            !first && !self.members.is_empty() && claim.is_some_and(|c| self.shares_with_all(c));
        if !joins && !first {
            self.batch += 1;
        }
        let why = match claim {
            _ if first => Why::First,
            None => Why::NotAdmitted,
            Some(c) if joins && c.class == Class::ReadOnly && self.only_reads() => Why::ReadsShare,
            Some(_) if joins => Why::KeysDisjoint,
            Some(c) if c.class == Class::Unsafe => Why::UnsafeAlone,
            Some(c) if c.class == Class::WriteExclusive && c.keys.is_empty() => Why::WriteAlone,
            Some(c) if !c.keys.is_empty() && self.members.iter().any(|m| !m.keys.is_empty()) => {
                Why::KeysMeet
            }
            Some(_) => Why::AfterExclusive,
        };
        if !joins {
            self.members.clear();
        }
        // Of many plain readers one stands for all: they differ in nothing that matters here.
        if let Some(claim) = claim
            && !(claim.class == Class::ReadOnly
                && claim.keys.is_empty()
                && self.members.iter().any(|m| m.class == Class::ReadOnly && m.keys.is_empty()))
        {
            self.members.push(claim.clone());
        }
        Place { batch: self.batch, why }
    }

    fn shares_with_all(&self, claim: &Claim) -> bool {
        self.members.iter().all(|m| m.may_share(claim))
    }

    fn only_reads(&self) -> bool {
        self.members.iter().all(|m| m.class == Class::ReadOnly)
    }
}

#[cfg(test)]
mod tests {
    use haft_core::Key;
    use proptest::prelude::*;

    use super::*;

    fn claims() -> impl Strategy<Value = Vec<Option<Claim>>> {
        let class =
            prop_oneof![Just(Class::ReadOnly), Just(Class::WriteExclusive), Just(Class::Unsafe)];
        let keys = proptest::collection::vec(
            prop_oneof![Just("file:/a"), Just("file:/a/b"), Just("file:/c"), Just("table:/c")],
            0..3,
        );
        let claim = (class, keys).prop_map(|(class, keys)| Claim {
            class,
            keys: keys.iter().map(Key::new).collect(),
            ..Claim::strictest()
        });
        proptest::collection::vec(proptest::option::weighted(0.9, claim), 0..24)
    }

    fn plan(claims: &[Option<Claim>]) -> Vec<Place> {
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
                        prop_assert!(one.class != Class::Unsafe && two.class != Class::Unsafe);
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
        let of = |class| Some(Claim { class, ..Claim::strictest() });
        let read = of(Class::ReadOnly);
        let places = plan(&[read.clone(), read.clone(), of(Class::WriteExclusive), read]);
        let batches: Vec<usize> = places.iter().map(|p| p.batch).collect();
        assert_eq!(batches, [0, 0, 1, 2]);
        assert_eq!(places[1].why, Why::ReadsShare);
        assert_eq!(places[2].why, Why::WriteAlone);
        assert_eq!(places[3].why, Why::AfterExclusive);
    }
}
