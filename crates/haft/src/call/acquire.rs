//! Acquires what a call needs before its body: concurrency slot, tool slot, scheduler lock,
//! resource keys.
//!
//! In: an authorized call. Out: the held locks, or why it may not start. Waiting here counts
//! against the call's deadline, never against its timeout.
//!
//! INVARIANT: a nested call takes no scheduler lock, and waits for a slot with a timeout only, so
//! that calls cannot deadlock.

use std::{sync::Arc, time::Instant};

use haft_core::{
    CallProfile, ConcurrencyClass, Failure, FailureCode, ToolContext,
    host::{HostContext, RunningWork},
};
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit};

use super::Parent;
use crate::{
    registry::RegisteredTool,
    turn::{Door, Floor, Pass, TurnCore},
    watch::after,
};

/// Everything a call holds while it works. Leaving is dropping it, on every path: if some work of
/// the call still lives then, it goes on holding the place.
pub(crate) struct Entered<'t> {
    _seat: Option<SemaphorePermit<'t>>,
    holds: Holds,
    cx: ToolContext,
}

/// What a body that could not be stopped goes on holding.
#[derive(Default)]
struct Holds {
    /// A place in the run, with those of the same floor.
    floor: Option<Pass>,
    /// What few calls hold besides. A box, because the place of a call is moved about.
    more: Option<Box<More>>,
}

/// What few calls hold.
#[derive(Default)]
struct More {
    slot: Option<OwnedSemaphorePermit>,
    keys: Option<Pass>,
    /// A nested call works in its parent's place, which stays taken as long as this.
    _parent: Option<RunningWork>,
}

impl Holds {
    /// Says that nobody waits for this body any more.
    fn abandon(&self) {
        let keys = self.more.iter().filter_map(|more| more.keys.as_ref());
        self.floor.iter().chain(keys).for_each(Pass::abandon);
    }
}

/// What late work goes on holding when its call has been answered.
pub(crate) struct Kept {
    _slot: Option<OwnedSemaphorePermit>,
    _keys: Option<Pass>,
}

impl Entered<'_> {
    /// Gives out what late work goes on holding. Seat and floor are the call's alone.
    pub(crate) fn keep(&mut self) -> Kept {
        let more = self.holds.more.take();
        let (slot, keys) = more.map_or((None, None), |more| (more.slot, more.keys));
        Kept { _slot: slot, _keys: keys }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.cx.close(std::mem::take(&mut self.holds), Holds::abandon);
    }
}

/// Enters if nothing has to be waited for and nothing has to be looked into.
pub(crate) fn at_once<'t>(
    turn: &'t TurnCore,
    entry: &RegisteredTool,
    claim: &CallProfile,
    cx: &ToolContext,
    parent: Option<&Parent>,
) -> Option<Entered<'t>> {
    let plain = parent.is_none() && entry.slots().is_none() && claim.keys.is_empty();
    if !plain || turn.is_stopped(cx) {
        return None;
    }
    let seat = turn.seats.try_acquire().ok()?;
    match turn.run.floor.enter(claim, cx.tool_name()) {
        Door::In(pass) => {
            let holds = Holds { floor: Some(pass), ..Holds::default() };
            Some(Entered { _seat: Some(seat), holds, cx: cx.clone() })
        }
        Door::Wait(..) | Door::Blocked(_) => None,
    }
}

/// Waits for everything the call needs.
pub(crate) async fn enter<'t>(
    turn: &'t TurnCore,
    entry: &RegisteredTool,
    claim: &CallProfile,
    cx: &ToolContext,
    parent: Option<&Parent>,
    deadline: Instant,
) -> Result<Entered<'t>, Failure> {
    if turn.is_stopped(cx) {
        return Err(turn.why_stopped(cx));
    }
    if let Some(parent) = parent {
        covered(&parent.claim, claim)?;
        let busy = parent.cx.begin_work().ok_or_else(|| {
            Failure::new(FailureCode::NotRun, "its outer call has ended, so the tool was not run")
        })?;
        // A tool that calls itself works in the slot it already has, one nested call at a time.
        let lender = entry.slots().and_then(|_| turn.within(cx, entry.name()));
        let slot = match lender {
            Some(outer) => {
                let lent =
                    turn.waiting(cx, deadline, Arc::clone(outer.nested_slot()).acquire_owned());
                lent.await?.ok()
            }
            // Whoever has the slot may be waiting for what our parent holds, so we do not wait long.
            None => {
                let patience = after(turn.inner.clock.now(), turn.inner.config.policy_timeout);
                slot(turn, entry, cx, deadline.min(patience)).await?
            }
        };
        let more = More { slot, keys: None, _parent: Some(busy) };
        let holds = Holds { floor: None, more: Some(Box::new(more)) };
        return Ok(Entered { _seat: None, holds, cx: cx.clone() });
    }
    let seat = match turn.seats.try_acquire() {
        Ok(seat) => seat,
        Err(_) => turn
            .waiting(cx, deadline, turn.seats.acquire())
            .await?
            .map_err(|_| Failure::new(FailureCode::NotRun, "the turn is over"))?,
    };
    let floor = stand(turn, &turn.run.floor, claim, cx, deadline).await?;
    let keys = match claim.keys.is_empty() {
        true => None,
        false => {
            // Across the runtime only keys exclude, so a gateway does not serialise its clients.
            let keyed = CallProfile {
                class: match claim.class {
                    ConcurrencyClass::Unsafe => ConcurrencyClass::WriteExclusive,
                    other => other,
                },
                ..claim.clone()
            };
            Some(stand(turn, &turn.inner.keys, &keyed, cx, deadline).await?)
        }
    };
    // The slot comes last: a nested call of somebody who stands on the floor may need it first.
    let slot = slot(turn, entry, cx, deadline).await?;
    let more =
        (slot.is_some() || keys.is_some()).then(|| Box::new(More { slot, keys, _parent: None }));
    let holds = Holds { floor: Some(floor), more };
    Ok(Entered { _seat: Some(seat), holds, cx: cx.clone() })
}

async fn slot(
    turn: &TurnCore,
    entry: &RegisteredTool,
    cx: &ToolContext,
    deadline: Instant,
) -> Result<Option<OwnedSemaphorePermit>, Failure> {
    let Some(slots) = entry.slots() else { return Ok(None) };
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Ok(Some(slot));
    }
    let slot = turn.waiting(cx, deadline, Arc::clone(slots).acquire_owned()).await?;
    slot.map(Some).map_err(|_| Failure::new(FailureCode::NotRun, "the tool is gone"))
}

async fn stand(
    turn: &TurnCore,
    floor: &Arc<Floor>,
    claim: &CallProfile,
    cx: &ToolContext,
    deadline: Instant,
) -> Result<Pass, Failure> {
    loop {
        match floor.enter(claim, cx.tool_name()) {
            Door::In(pass) => return Ok(pass),
            Door::Blocked(tool) => {
                return Err(Failure::new(
                    FailureCode::NotRun,
                    format!(
                        "an earlier call of `{tool}` was abandoned and may still be running, \
                         so no call that writes is started"
                    ),
                )
                .with_next("read the current state, or ask the user how to continue"));
            }
            Door::Wait(pass, signal) => {
                if turn.waiting(cx, deadline, signal).await?.is_ok() {
                    return Ok(pass);
                }
                // The one we waited for was abandoned: ask again, and be told so.
                drop(pass);
            }
        }
    }
}

/// A nested call works under its parent's place, so it may do no more than the parent claimed.
fn covered(parent: &CallProfile, claim: &CallProfile) -> Result<(), Failure> {
    let alone = parent.class != ConcurrencyClass::ReadOnly && parent.keys.is_empty();
    let within = !claim.keys.is_empty()
        && claim.keys.iter().all(|key| parent.keys.iter().any(|own| own.covers(key)));
    let fits = match (parent.class, claim.class) {
        (ConcurrencyClass::Unsafe, _)
        | (ConcurrencyClass::ReadOnly, ConcurrencyClass::ReadOnly) => true,
        (ConcurrencyClass::WriteExclusive, ConcurrencyClass::ReadOnly) => {
            alone || claim.keys.is_empty() || within
        }
        (ConcurrencyClass::WriteExclusive, ConcurrencyClass::WriteExclusive) => alone || within,
        (ConcurrencyClass::WriteExclusive, ConcurrencyClass::Unsafe) => alone,
        (
            ConcurrencyClass::ReadOnly,
            ConcurrencyClass::WriteExclusive | ConcurrencyClass::Unsafe,
        ) => false,
    };
    if fits {
        return Ok(());
    }
    Err(Failure::new(
        FailureCode::NotRun,
        "a nested call may not exceed the class and resource keys of its outer call",
    )
    .with_source("give the outer tool a class and keys that cover its nested calls"))
}

#[cfg(test)]
mod tests {
    use haft_core::ResourceKey;

    use super::*;

    fn claim(class: ConcurrencyClass, keys: &[&str]) -> CallProfile {
        CallProfile {
            class,
            keys: keys.iter().map(ResourceKey::new).collect(),
            ..CallProfile::strictest()
        }
    }

    #[test]
    fn a_nested_call_may_do_no_more_than_its_parent_claimed() {
        let reader = claim(ConcurrencyClass::ReadOnly, &[]);
        let writer = claim(ConcurrencyClass::WriteExclusive, &[]);
        let keyed = claim(ConcurrencyClass::WriteExclusive, &["file:/a"]);
        assert!(covered(&reader, &reader).is_ok());
        assert!(covered(&reader, &writer).is_err());
        assert!(covered(&writer, &claim(ConcurrencyClass::Unsafe, &[])).is_ok());
        assert!(covered(&keyed, &claim(ConcurrencyClass::WriteExclusive, &["file:/a/b"])).is_ok());
        assert!(covered(&keyed, &claim(ConcurrencyClass::WriteExclusive, &["file:/b"])).is_err());
        assert!(covered(&keyed, &writer).is_err());
        assert!(covered(&keyed, &reader).is_ok());
        assert!(covered(&keyed, &claim(ConcurrencyClass::ReadOnly, &["file:/a/b"])).is_ok());
        assert!(covered(&keyed, &claim(ConcurrencyClass::ReadOnly, &["file:/b"])).is_err());
    }
}
