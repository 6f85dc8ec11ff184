//! Where the records of tasks are kept, so that a client gets an answer about its task also after
//! the process that ran it has ended.
//!
//! INVARIANT: a record is only for the caller that started the task. A task whose process ended in
//! the middle is failed with an unknown outcome, never working.

use std::time::{Duration, SystemTime};

use haft::tool::BoxError;
use rmcp::{
    ErrorData,
    model::{DetailedTask, TaskPayload},
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{conversation::Principal, tasks::object};

/// A longer record is kept without its result.
const MAX_RECORD_BYTES: usize = 4 << 20;

/// Keeps records of tasks. A record contains the result of a call; keep it like the conversation.
pub trait TaskStore: Send + Sync + 'static {
    /// Keeps the record of a task until a time, in place of an earlier one. The id has letters and
    /// digits.
    ///
    /// # Errors
    /// Fails if it cannot be kept. The task is then known to this process only.
    fn put(&self, id: &str, record: &str, until: SystemTime) -> Result<(), BoxError>;

    /// Returns a record; `None` if it is not there.
    ///
    /// # Errors
    /// Fails if the place cannot be read. The task is then not known.
    fn get(&self, id: &str) -> Result<Option<StoredTask>, BoxError>;
}

/// The record of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredTask {
    /// What was kept.
    pub record: String,
    /// Whether the process that kept it is still running.
    pub is_running: bool,
}

impl StoredTask {
    /// Makes a record.
    #[must_use]
    pub fn new(record: String, is_running: bool) -> Self {
        Self { record, is_running }
    }
}

/// What a record has.
#[derive(Serialize, Deserialize)]
struct TaskRecord {
    owner: String,
    /// Seconds since 1970.
    until: u64,
    task: DetailedTask,
}

/// A task of another process.
pub(super) struct OtherTask {
    pub(super) task: DetailedTask,
    /// Whether it goes on there.
    pub(super) is_running: bool,
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Writes down a task.
pub(super) fn write(
    store: &dyn TaskStore,
    owner: &Principal,
    mut task: DetailedTask,
    until: SystemTime,
) -> Result<(), BoxError> {
    let id = task.task.task_id.clone();
    let text = |task: &DetailedTask| {
        let owner = owner.as_str().to_owned();
        serde_json::to_string(&TaskRecord { owner, until: seconds(until), task: task.clone() })
    };
    let mut record = text(&task)?;
    if record.len() > MAX_RECORD_BYTES {
        task = DetailedTask::new(task.task, failed("its result is too large to be kept"));
        record = text(&task)?;
    }
    store.put(&id, &record, until)
}

/// Reads a task that another process has written down, if it is the caller's and not too old.
pub(super) fn read(
    store: &dyn TaskStore,
    id: &str,
    caller: &Principal,
    now: SystemTime,
) -> Option<OtherTask> {
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let stored = is_id.then(|| store.get(id).ok().flatten()).flatten()?;
    let record: TaskRecord = serde_json::from_str(&stored.record).ok()?;
    if record.owner != caller.as_str() || record.until <= seconds(now) {
        return None;
    }
    let has_ended = record.task.status().is_terminal();
    let task = if has_ended || stored.is_running {
        record.task
    } else {
        let why = "the server ended while the task was running; its outcome is unknown";
        DetailedTask::new(record.task.task, failed(why))
    };
    Some(OtherTask { task, is_running: stored.is_running && !has_ended })
}

fn failed(why: &'static str) -> TaskPayload {
    let failure = json!({"dev.haft/failure": {"code": "unknown_outcome"}});
    TaskPayload::Failed { error: object(&ErrorData::internal_error(why, Some(failure))) }
}
