//! What only a runtime needs: the services behind a [`ToolContext`](crate::ToolContext), and
//! control over its call.
//!
//! A runtime implements [`Host`], makes one context for each call, and steers the call with the
//! methods of [`HostContext`]. Tool authors need nothing of this module.
//!
//! INVARIANT: what a host does not implement is refused: no secret, no spending, no path.

pub use crate::{
    call::{ArgumentMapping, CallOverrides, RestoreArguments},
    context::{
        BackgroundTask, Host, HostContext, PathRules, RunningWork, TaskSlot, WeakToolContext,
    },
    hashing::RandomState,
};
