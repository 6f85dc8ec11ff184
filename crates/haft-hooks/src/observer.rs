//! Hooks that are only told: `PermissionDenied` when a judge refuses, `Notification` when somebody
//! is asked. They run beside the walk, a few at a time; nobody reads their answers.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft::{CallId, Event, Observer, Scope, ToolName};
use serde_json::{Map, Value, json};

use crate::{input, line::Line, names::Names};

/// So many hooks are told at once; past that, the newest are left out.
const AT_ONCE: usize = 8;
/// So many calls are remembered from their start to their verdict.
const REMEMBERED: usize = 256;

/// Tells hooks what happened.
#[derive(Debug)]
pub struct ExternalObserver {
    lines: Arc<Vec<Line>>,
    calls: Mutex<VecDeque<(CallId, ToolName, Arc<Value>)>>,
    busy: Arc<AtomicUsize>,
}

impl ExternalObserver {
    pub(crate) fn new(lines: Vec<Line>) -> Self {
        Self { lines: Arc::new(lines), calls: Mutex::default(), busy: Arc::default() }
    }

    fn call(&self, id: &CallId) -> Option<(Names, Arc<Value>)> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let found = calls.iter().rev().find(|(own, ..)| own == id)?;
        Some((Names::plain(found.1.as_str()), Arc::clone(&found.2)))
    }

    /// Tells one hook beside the walk.
    fn tell(&self, line: &Line, told: Map<String, Value>) {
        let Ok(handle) = tokio::runtime::Handle::try_current() else { return };
        if self.busy.fetch_add(1, Ordering::AcqRel) >= AT_ONCE {
            self.busy.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let (line, busy) = (line.clone(), Arc::clone(&self.busy));
        handle.spawn(async move {
            line.call(told).await;
            busy.fetch_sub(1, Ordering::AcqRel);
        });
    }

    fn refused(&self, id: &CallId, reason: &str) {
        let Some((names, arguments)) = self.call(id) else { return };
        for line in self.lines.iter().filter(|line| line.event == "PermissionDenied") {
            if line.is_about(&names) && line.holds_for(&names.own, &arguments) {
                let told = input::base(&line.place, &Scope::default(), &line.event);
                let mut told = input::tool(told, &names, &arguments, id.as_str());
                told.insert("reason".to_owned(), json!(reason));
                self.tell(line, told);
            }
        }
    }

    fn asked(&self, id: &CallId, reason: &str) {
        let Some((names, _)) = self.call(id) else { return };
        for line in self.lines.iter().filter(|line| line.event == "Notification") {
            if line.is_about_word("permission_prompt") {
                let mut told = input::base(&line.place, &Scope::default(), &line.event);
                told.insert("notification_type".to_owned(), json!("permission_prompt"));
                let message = format!("`{}` must be asked about: {reason}", names.shown);
                told.insert("message".to_owned(), json!(message));
                self.tell(line, told);
            }
        }
    }
}

impl Observer for ExternalObserver {
    fn observe(&self, event: &Event) {
        match event {
            Event::Started { call, tool_name: meant, arguments: Some(arguments), .. } => {
                let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
                if calls.len() >= REMEMBERED {
                    calls.pop_front();
                }
                calls.push_back((call.clone(), meant.clone(), Arc::clone(arguments)));
            }
            Event::Asked { call, verdict, .. } => self.asked(call, &verdict.reason),
            Event::Refused { call, verdict, .. } => self.refused(call, &verdict.reason),
            Event::Finished { call, .. } => {
                let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(at) = calls.iter().rposition(|(own, ..)| own == call) {
                    calls.remove(at);
                }
            }
            _ => {}
        }
    }
}
