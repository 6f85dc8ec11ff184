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
use tokio::sync::OwnedSemaphorePermit;

use super::{authorize::AuthorizedCall, record::Parent, validate::ValidatedCall};
use crate::{
    call::{ConcurrencySlot, TurnCore},
    concurrency::{LockGuard, LockRequest, LockTable},
    host_code::after,
    registry::RegisteredTool,
};

/// Everything a call holds while it runs. Dropping it releases it, on every path.
#[derive(Default)]
pub(crate) struct CallLocks(Locks);

/// What a body that could not be cancelled goes on holding.
#[derive(Default)]
struct Locks {
    class: ClassLock,
    /// What few calls hold. A box, because the locks are moved with the call.
    more: Option<Box<MoreLocks>>,
}

/// The lock that separates concurrency classes within the run.
#[derive(Default)]
enum ClassLock {
    /// A nested call works under the lock of its parent.
    #[default]
    None,
    /// A counted reader of a turn that needs no concurrency slots. It has no reference to the turn,
    /// so `LockedCall` releases it.
    Counted,
    /// The lock, and the concurrency slot.
    Guard(LockGuard<ConcurrencySlot>),
}

/// What few calls hold.
#[derive(Default)]
struct MoreLocks {
    tool_slot: Option<OwnedSemaphorePermit>,
    keys: Option<LockGuard<Arc<LockTable>>>,
    /// A nested call works under the locks of its parent, which stay locked as long as this.
    _parent: Option<RunningWork>,
}

impl Locks {
    /// Marks the locks as held by a body that no call waits for any more. The concurrency slot is
    /// free from now on.
    fn abandon(mut self, cx: &ToolContext) -> Self {
        if let ClassLock::Counted = self.class
            && let Some(turn) = cx.host().and_then(|host| host.downcast::<TurnCore>().ok())
        {
            self.class =
                ClassLock::Guard(LockGuard::of_counted_reader(ConcurrencySlot::unneeded(turn)));
        }
        if let ClassLock::Guard(class) = &self.class {
            class.abandon(cx.tool_name());
            class.owner().iter().for_each(|slot| slot.release());
        }
        if let Some(keys) = self.more.as_ref().and_then(|more| more.keys.as_ref()) {
            keys.abandon(cx.tool_name());
        }
        self
    }

    /// Releases the locks.
    #[inline(always)]
    fn release(self, cx: &ToolContext) {
        if let ClassLock::Counted = self.class
            && let Some(turn) = cx.service::<TurnCore>()
        {
            turn.run.locks.release_reader();
        }
    }
}

/// What background work goes on holding when its call has been answered.
#[derive(Default)]
pub(crate) struct TaskLocks {
    _tool_slot: Option<OwnedSemaphorePermit>,
    _keys: Option<LockGuard<Arc<LockTable>>>,
}

impl CallLocks {
    /// Takes what background work goes on holding. The concurrency slot and the class lock are the
    /// call's alone.
    pub(crate) fn keep(&mut self) -> TaskLocks {
        let more = self.0.more.take();
        let (tool_slot, keys) = more.map_or((None, None), |more| (more.tool_slot, more.keys));
        TaskLocks { _tool_slot: tool_slot, _keys: keys }
    }
}

/// An authorized call with its locks. Dropping it ends the call and releases the locks, on every
/// path. If some work of the call still runs then, the locks are kept until that work ends.
pub(super) struct LockedCall {
    call: AuthorizedCall,
    locks: Option<CallLocks>,
}

impl LockedCall {
    pub(super) fn new(call: AuthorizedCall, locks: CallLocks) -> Self {
        Self { call, locks: Some(locks) }
    }

    pub(super) fn call(&self) -> &AuthorizedCall {
        &self.call
    }

    pub(super) fn call_mut(&mut self) -> &mut AuthorizedCall {
        &mut self.call
    }

    pub(super) fn locks_mut(&mut self) -> Option<&mut CallLocks> {
        self.locks.as_mut()
    }

    /// Ends the call and releases its locks.
    #[inline(always)]
    pub(super) fn release(&mut self) {
        if let Some(CallLocks(locks)) = self.locks.take() {
            let cx = self.call.validated().context();
            if let Some(locks) = cx.close(locks, |locks| locks.abandon(cx)) {
                locks.release(cx);
            }
        }
    }
}

impl Drop for LockedCall {
    fn drop(&mut self) {
        self.release();
    }
}

/// Acquires everything, if the call need not wait for anything. Otherwise returns the call.
#[inline(always)]
pub(super) fn try_acquire(
    turn: &Arc<TurnCore>,
    call: AuthorizedCall,
    parent: Option<&Parent>,
) -> Result<LockedCall, AuthorizedCall> {
    let validated = call.validated();
    let (tool, profile, cx) = (validated.tool(), validated.profile(), validated.context());
    let is_plain = parent.is_none() && tool.slots().is_none() && profile.keys.is_empty();
    if !is_plain || turn.is_stopped(cx) {
        return Err(call);
    }
    let class = if turn.slots.are_sufficient() && turn.run.locks.try_count_reader(profile) {
        ClassLock::Counted
    } else {
        match class_lock(turn, profile, cx) {
            Some(guard) => ClassLock::Guard(guard),
            None => return Err(call),
        }
    };
    Ok(LockedCall::new(call, CallLocks(Locks { class, more: None })))
}

/// Takes a concurrency slot and the class lock, if both are free.
#[inline(never)]
fn class_lock(
    turn: &Arc<TurnCore>,
    profile: &CallProfile,
    cx: &ToolContext,
) -> Option<LockGuard<ConcurrencySlot>> {
    match LockTable::request(turn.try_slot()?, profile, cx.tool_name()) {
        LockRequest::Acquired(guard) => Some(guard),
        LockRequest::Wait(..) | LockRequest::Abandoned(..) => None,
    }
}

/// Waits for everything the call needs.
pub(crate) async fn acquire(
    turn: &Arc<TurnCore>,
    call: &ValidatedCall,
    parent: Option<&Parent>,
    deadline: Instant,
) -> Result<CallLocks, Failure> {
    let (tool, profile, cx) = (call.tool(), call.profile(), call.context());
    if turn.is_stopped(cx) {
        return Err(turn.why_stopped(cx));
    }
    if let Some(parent) = parent {
        return nested(turn, call, parent, deadline).await;
    }
    let slot = match turn.try_slot() {
        Some(slot) => slot,
        None => turn.waiting(cx, deadline, turn.slot()).await?,
    };
    let class = lock(turn, slot, profile, cx, deadline).await?;
    let keys = if profile.keys.is_empty() {
        None
    } else {
        // Across the runtime only keys exclude, so a gateway does not serialize its clients.
        let keyed = CallProfile {
            class: match profile.class {
                ConcurrencyClass::Unsafe => ConcurrencyClass::WriteExclusive,
                other => other,
            },
            ..profile.clone()
        };
        Some(lock(turn, Arc::clone(&turn.run.inner.keys), &keyed, cx, deadline).await?)
    };
    // The tool slot comes last: a nested call of a call that has its lock may need it first.
    let tool_slot = tool_slot(turn, tool, cx, deadline).await?;
    let more = (tool_slot.is_some() || keys.is_some())
        .then(|| Box::new(MoreLocks { tool_slot, keys, _parent: None }));
    Ok(CallLocks(Locks { class: ClassLock::Guard(class), more }))
}

/// A nested call works under the locks of its parent.
async fn nested(
    turn: &Arc<TurnCore>,
    call: &ValidatedCall,
    parent: &Parent,
    deadline: Instant,
) -> Result<CallLocks, Failure> {
    let (tool, cx) = (call.tool(), call.context());
    covered(&parent.profile, call.profile())?;
    let work = parent.cx.begin_work().ok_or_else(|| {
        Failure::new(FailureCode::NotRun, "its outer call has ended, so the tool was not run")
    })?;
    // A tool that calls itself uses the slot it already has, for one nested call at a time.
    let lender = tool.slots().and_then(|_| turn.within(cx, tool.name()));
    let tool_slot = match lender {
        Some(outer) => {
            let slot = Arc::clone(outer.nested_slot()).acquire_owned();
            turn.waiting(cx, deadline, slot).await?.ok()
        }
        // The call that has the slot may wait for a lock of our parent, so the wait is short.
        None => {
            let limit = after(turn.run.inner.clock.now(), turn.run.inner.config.policy_timeout);
            tool_slot(turn, tool, cx, deadline.min(limit)).await?
        }
    };
    let more = MoreLocks { tool_slot, keys: None, _parent: Some(work) };
    Ok(CallLocks(Locks { class: ClassLock::None, more: Some(Box::new(more)) }))
}

async fn tool_slot(
    turn: &TurnCore,
    tool: &RegisteredTool,
    cx: &ToolContext,
    deadline: Instant,
) -> Result<Option<OwnedSemaphorePermit>, Failure> {
    let Some(slots) = tool.slots() else { return Ok(None) };
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        return Ok(Some(slot));
    }
    let slot = turn.waiting(cx, deadline, Arc::clone(slots).acquire_owned()).await?;
    slot.map(Some)
        .map_err(|_| Failure::new(FailureCode::NotRun, "the registry of the tool was dropped"))
}

async fn lock<O: AsRef<LockTable>>(
    turn: &TurnCore,
    mut owner: O,
    profile: &CallProfile,
    cx: &ToolContext,
    deadline: Instant,
) -> Result<LockGuard<O>, Failure> {
    loop {
        match LockTable::request(owner, profile, cx.tool_name()) {
            LockRequest::Acquired(guard) => return Ok(guard),
            LockRequest::Abandoned(_, tool) => {
                return Err(Failure::new(
                    FailureCode::NotRun,
                    format!(
                        "an earlier call of `{tool}` was abandoned and may still be running, \
                         so no call that writes is started"
                    ),
                )
                .with_next("read the current state, or ask the user how to continue"));
            }
            LockRequest::Wait(guard, signal) => {
                if turn.waiting(cx, deadline, signal).await?.is_ok() {
                    return Ok(guard);
                }
                // The call that it waited for was abandoned: the next request reports that.
                match guard.into_owner() {
                    Some(again) => owner = again,
                    None => return Err(turn.why_stopped(cx)),
                }
            }
        }
    }
}

/// A nested call works under its parent's locks, so it may do no more than the parent's profile.
fn covered(parent: &CallProfile, profile: &CallProfile) -> Result<(), Failure> {
    let alone = parent.class != ConcurrencyClass::ReadOnly && parent.keys.is_empty();
    let within = !profile.keys.is_empty()
        && profile.keys.iter().all(|key| parent.keys.iter().any(|own| own.covers(key)));
    let fits = match (parent.class, profile.class) {
        (ConcurrencyClass::Unsafe, _)
        | (ConcurrencyClass::ReadOnly, ConcurrencyClass::ReadOnly) => true,
        (ConcurrencyClass::WriteExclusive, ConcurrencyClass::ReadOnly) => {
            alone || profile.keys.is_empty() || within
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

    fn profile(class: ConcurrencyClass, keys: &[&str]) -> CallProfile {
        CallProfile {
            class,
            keys: keys.iter().map(ResourceKey::new).collect(),
            ..CallProfile::strictest()
        }
    }

    #[test]
    fn a_nested_call_may_do_no_more_than_its_parent_claimed() {
        let reader = profile(ConcurrencyClass::ReadOnly, &[]);
        let writer = profile(ConcurrencyClass::WriteExclusive, &[]);
        let keyed = profile(ConcurrencyClass::WriteExclusive, &["file:/a"]);
        assert!(covered(&reader, &reader).is_ok());
        assert!(covered(&reader, &writer).is_err());
        assert!(covered(&writer, &profile(ConcurrencyClass::Unsafe, &[])).is_ok());
        assert!(
            covered(&keyed, &profile(ConcurrencyClass::WriteExclusive, &["file:/a/b"])).is_ok()
        );
        assert!(covered(&keyed, &profile(ConcurrencyClass::WriteExclusive, &["file:/b"])).is_err());
        assert!(covered(&keyed, &writer).is_err());
        assert!(covered(&keyed, &reader).is_ok());
        assert!(covered(&keyed, &profile(ConcurrencyClass::ReadOnly, &["file:/a/b"])).is_ok());
        assert!(covered(&keyed, &profile(ConcurrencyClass::ReadOnly, &["file:/b"])).is_err());
    }
}
