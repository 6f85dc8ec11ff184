//! Reaches into a run from outside: messages of the user, interrupts, cancellation.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

use haft_core::sync::lock;
use tokio::sync::Notify;

/// Reaches into a run while it works. Clones are the same handle.
#[derive(Clone, Default)]
pub struct RunHandle(Arc<Control>);

#[derive(Default)]
struct Control {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    messages: VecDeque<String>,
    /// Whether a message must not wait for the end of the turn.
    hurry: bool,
    stop: Option<StopRequest>,
}

/// How a run is to be stopped. The later is the stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopRequest {
    Interrupt,
    Cancel,
}

/// What the loop must react to while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// A message of the user that does not wait.
    Message,
    Stop(StopRequest),
}

impl RunHandle {
    /// Sends a new message of the user. The model stops writing; tools that can be interrupted
    /// stop, and those that block finish first. Then the model reads the message.
    pub fn send(&self, message: impl Into<String>) {
        self.change(|state| {
            state.messages.push_back(message.into());
            state.hurry = true;
        });
    }

    /// Adds a message of the user that waits until the calls of this turn are answered.
    pub fn steer(&self, message: impl Into<String>) {
        self.change(|state| state.messages.push_back(message.into()));
    }

    /// Interrupts the run: the model stops writing, tools that can be interrupted stop, those that
    /// block finish, and the run ends as cancelled.
    pub fn interrupt(&self) {
        self.change(|state| state.stop = state.stop.max(Some(StopRequest::Interrupt)));
    }

    /// Cancels the run: everything stops, whatever its tools declare.
    pub fn cancel(&self) {
        self.change(|state| state.stop = Some(StopRequest::Cancel));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.0.state));
        self.0.changed.notify_waiters();
    }

    /// Takes the messages of the user that are not part of the conversation yet.
    pub(super) fn take_messages(&self) -> VecDeque<String> {
        let mut state = lock(&self.0.state);
        state.hurry = false;
        std::mem::take(&mut state.messages)
    }

    pub(super) fn has_messages(&self) -> bool {
        !lock(&self.0.state).messages.is_empty()
    }

    pub(super) fn stop(&self) -> Option<StopRequest> {
        lock(&self.0.state).stop
    }

    fn signal(&self) -> Option<Signal> {
        let state = lock(&self.0.state);
        match state.stop {
            Some(stop) => Some(Signal::Stop(stop)),
            None => state.hurry.then_some(Signal::Message),
        }
    }

    /// Waits for a signal that is not this one.
    pub(super) async fn next_signal(&self, known: Option<Signal>) -> Signal {
        loop {
            let changed = self.0.changed.notified();
            if let Some(signal) = self.signal().filter(|signal| Some(*signal) != known) {
                return signal;
            }
            changed.await;
        }
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("signal", &self.signal()).finish()
    }
}
