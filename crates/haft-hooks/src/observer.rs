//! Hooks as observers: `PermissionDenied` when a call is denied, `Notification` when approval is
//! requested. They run in the background, a few at a time. Their answers are ignored.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft::{
    events::{Event, Observer},
    tool::{CallId, Scope, ToolName},
};
use haft_core::sync::lock;
use serde_json::{Map, Value, json};

use crate::{configured::ConfiguredHook, input, names::Names};

/// How many hooks run concurrently; further notifications are dropped.
const MAX_CONCURRENT_HOOKS: usize = 8;
/// How many calls are tracked from their start to their verdict.
const MAX_TRACKED_CALLS: usize = 256;

/// The last calls that started, the oldest first.
type StartedCalls = VecDeque<(CallId, ToolName, Arc<Value>)>;

/// Notifies hooks about events.
#[derive(Debug)]
pub struct ExternalObserver {
    hooks: Arc<Vec<ConfiguredHook>>,
    calls: Mutex<StartedCalls>,
    busy: Arc<AtomicUsize>,
}

impl ExternalObserver {
    pub(crate) fn new(hooks: Vec<ConfiguredHook>) -> Self {
        Self { hooks: Arc::new(hooks), calls: Mutex::default(), busy: Arc::default() }
    }

    fn calls(&self) -> MutexGuard<'_, StartedCalls> {
        lock(&self.calls)
    }

    fn call(&self, id: &CallId) -> Option<(Names, Arc<Value>)> {
        let calls = self.calls();
        let found = calls.iter().rev().find(|(own, ..)| own == id)?;
        Some((Names::from_name(found.1.as_str()), Arc::clone(&found.2)))
    }

    /// Calls one hook in the background.
    fn notify(&self, hook: &ConfiguredHook, input: Map<String, Value>) {
        let Ok(handle) = tokio::runtime::Handle::try_current() else { return };
        if self.busy.fetch_add(1, Ordering::AcqRel) >= MAX_CONCURRENT_HOOKS {
            self.busy.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let (hook, busy) = (hook.clone(), Arc::clone(&self.busy));
        handle.spawn(async move {
            hook.call(input).await;
            busy.fetch_sub(1, Ordering::AcqRel);
        });
    }

    fn on_denied(&self, id: &CallId, reason: &str) {
        let Some((names, arguments)) = self.call(id) else { return };
        for hook in self.hooks.iter().filter(|hook| hook.event == "PermissionDenied") {
            if hook.matches_tool(&names) && hook.condition_holds_for(&names.registered, &arguments)
            {
                let input = input::base(&hook.project_dir, &Scope::default(), &hook.event);
                let mut input = input::tool(input, &names, &arguments, id.as_str());
                input.insert("reason".to_owned(), json!(reason));
                self.notify(hook, input);
            }
        }
    }

    fn on_approval_requested(&self, id: &CallId, reason: &str) {
        let Some((names, _)) = self.call(id) else { return };
        for hook in self.hooks.iter().filter(|hook| hook.event == "Notification") {
            if hook.matches_value("permission_prompt") {
                let mut input = input::base(&hook.project_dir, &Scope::default(), &hook.event);
                input.insert("notification_type".to_owned(), json!("permission_prompt"));
                let message = format!("`{}` needs approval: {reason}", names.protocol);
                input.insert("message".to_owned(), json!(message));
                self.notify(hook, input);
            }
        }
    }
}

impl Observer for ExternalObserver {
    fn observe(&self, event: &Event) {
        match event {
            Event::Started { call, tool_name, arguments: Some(arguments), .. } => {
                let mut calls = self.calls();
                if calls.len() >= MAX_TRACKED_CALLS {
                    calls.pop_front();
                }
                calls.push_back((call.clone(), tool_name.clone(), Arc::clone(arguments)));
            }
            Event::Asked { call, verdict, .. } => self.on_approval_requested(call, &verdict.reason),
            Event::Refused { call, verdict, .. } => self.on_denied(call, &verdict.reason),
            Event::Finished { call, .. } => {
                let mut calls = self.calls();
                if let Some(at) = calls.iter().rposition(|(own, ..)| own == call) {
                    calls.remove(at);
                }
            }
            _ => {}
        }
    }
}
