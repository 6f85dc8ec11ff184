//! Calls that go on after their request was answered (extension `io.modelcontextprotocol/tasks`).
//!
//! INVARIANT: only the caller that started a task can read, answer or cancel it. A task that is not
//! its own looks like one that does not exist.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use haft::host::{Clock, RuntimeClock};
use rmcp::{
    ErrorData,
    model::{DetailedTask, JsonObject, Task, TaskPayload, TaskStatus},
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    conversation::Principal,
    job::{Answer, Job, Step},
    owned_task::OwnedTask,
    seal::Sealer,
    timestamp::rfc3339,
};

/// How long a task is kept, from its start.
const TASK_LIFETIME: Duration = Duration::from_secs(3_600);
/// How often a client should ask.
const POLL_INTERVAL_MS: u64 = 500;
/// How many tasks are kept, over all callers.
const MAX_TASKS: usize = 1_000;
/// How many groups of answers wait for a task.
const MAX_WAITING_ANSWERS: usize = 16;

/// The tasks of a server.
#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<String, Arc<RunningTask>>>);

struct RunningTask {
    id: String,
    owner: Principal,
    created: SystemTime,
    state: Mutex<TaskState>,
    answers: mpsc::Sender<BTreeMap<String, Value>>,
    driver: Mutex<Option<OwnedTask>>,
}

struct TaskState {
    payload: TaskPayload,
    updated: SystemTime,
}

impl Tasks {
    /// Lets a job go on as a task; `None` if there are too many, and the job is cancelled.
    pub(super) fn start(self: &Arc<Self>, job: Job, owner: &Principal) -> Option<Task> {
        let id = Sealer::id()?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let now = RuntimeClock.wall();
        let mut tasks = lock(&self.0);
        if tasks.len() >= MAX_TASKS {
            return None;
        }
        let (answers, answered) = mpsc::channel(MAX_WAITING_ANSWERS);
        let payload =
            if job.open_requests().is_empty() { TaskPayload::Working } else { open(&job) };
        let running = Arc::new(RunningTask {
            id: id.clone(),
            owner: owner.clone(),
            created: now,
            state: Mutex::new(TaskState { payload, updated: now }),
            answers,
            driver: Mutex::default(),
        });
        let (task, table) = (Arc::clone(&running), Arc::downgrade(self));
        let driver = OwnedTask::start(async move {
            let over = tokio::time::sleep(TASK_LIFETIME);
            tokio::pin!(over);
            tokio::select! {
                () = drive(&task, job, answered) => over.await,
                () = &mut over => {}
            }
            let expired = table.upgrade().and_then(|table| lock(&table.0).remove(&task.id));
            drop(expired);
        });
        *lock(&running.driver) = Some(driver);
        let task = running.describe();
        tasks.insert(id, running);
        Some(task.task)
    }

    /// Returns the state of a task.
    pub(super) fn get(&self, id: &str, caller: &Principal) -> Result<DetailedTask, ErrorData> {
        Ok(self.find(id, caller)?.describe())
    }

    /// Passes on answers to a task's questions.
    pub(super) async fn update(
        &self,
        id: &str,
        caller: &Principal,
        responses: BTreeMap<String, Value>,
    ) -> Result<(), ErrorData> {
        let task = self.find(id, caller)?;
        // A task that has ended needs no answers.
        let _ = task.answers.send(responses).await;
        Ok(())
    }

    /// Cancels a task. One that has ended stays as it is.
    pub(super) fn cancel(&self, id: &str, caller: &Principal) -> Result<(), ErrorData> {
        let task = self.find(id, caller)?;
        if task.end(TaskPayload::Cancelled) {
            // Dropping the driver drops the job, which cancels its work.
            let driver = lock(&task.driver).take();
            drop(driver);
        }
        Ok(())
    }

    fn find(&self, id: &str, caller: &Principal) -> Result<Arc<RunningTask>, ErrorData> {
        let task = lock(&self.0).get(id).cloned().filter(|task| task.owner == *caller);
        task.ok_or_else(|| ErrorData::invalid_params(format!("there is no task `{id}`"), None))
    }
}

/// Runs a task to its end.
async fn drive(
    task: &RunningTask,
    mut job: Job,
    mut answered: mpsc::Receiver<BTreeMap<String, Value>>,
) {
    loop {
        tokio::select! {
            step = job.step() => match step {
                Step::Done(Ok(answer)) => {
                    task.end(completed(answer));
                    return;
                }
                Step::Done(Err(error)) => {
                    task.end(TaskPayload::Failed { error: object(&error) });
                    return;
                }
                Step::Asked => task.set(open(&job)),
                Step::Log(_) | Step::BecomeTask => {}
            },
            Some(responses) = answered.recv() => {
                let is_complete = job.answer(&responses);
                task.set(if is_complete { TaskPayload::Working } else { open(&job) });
            }
        }
    }
}

fn open(job: &Job) -> TaskPayload {
    TaskPayload::InputRequired { input_requests: job.input_requests() }
}

fn completed(answer: Answer) -> TaskPayload {
    let result = match answer {
        Answer::Tool(mut result) => {
            result.result_type = None;
            object(&result)
        }
        Answer::Prompt(result) => object(&result),
        Answer::Resource(result) => object(&result),
        // A task is not written down.
        Answer::Parked(_) => JsonObject::new(),
    };
    TaskPayload::Completed { result }
}

fn object(value: &impl serde::Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        _ => JsonObject::new(),
    }
}

impl RunningTask {
    fn describe(&self) -> DetailedTask {
        let state = lock(&self.state);
        let times = [self.created, state.updated].map(rfc3339);
        let [created, updated] = times;
        let task = Task::new(&self.id, TaskStatus::Working, created, updated)
            .with_ttl_ms(u64::try_from(TASK_LIFETIME.as_millis()).unwrap_or(u64::MAX))
            .with_poll_interval_ms(POLL_INTERVAL_MS);
        DetailedTask::new(task, state.payload.clone())
    }

    fn set(&self, payload: TaskPayload) {
        let mut state = lock(&self.state);
        if !state.payload.status().is_terminal() {
            *state = TaskState { payload, updated: RuntimeClock.wall() };
        }
    }

    /// Ends the task, if it has not ended.
    fn end(&self, payload: TaskPayload) -> bool {
        let mut state = lock(&self.state);
        let is_running = !state.payload.status().is_terminal();
        if is_running {
            *state = TaskState { payload, updated: RuntimeClock.wall() };
        }
        is_running
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolResult, ContentBlock};
    use serde_json::json;

    use super::*;
    use crate::server::{
        call_peer::{CallPeer, ClientSupport},
        client_request::ClientRequest,
    };

    fn asking(alive: Arc<()>) -> Job {
        let support = ClientSupport { roots: true, ..ClientSupport::default() };
        let (peer, messages) = CallPeer::new(support, None);
        Job::new(messages, async move {
            let _alive = alive;
            let answer = peer.ask("roots", ClientRequest::roots()).await;
            let text = ContentBlock::text(answer.is_ok().to_string());
            Ok(Answer::Tool(CallToolResult::success(vec![text])))
        })
    }

    async fn wait_for(tasks: &Tasks, id: &str, status: TaskStatus) -> DetailedTask {
        loop {
            let task = tasks.get(id, &Principal::default()).unwrap();
            if task.status() == status {
                return task;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn task_is_only_for_its_owner_and_expires() {
        let tasks = Arc::<Tasks>::default();
        let (owner, other) = (Principal::default(), Principal::new("mallory"));
        let task = tasks.start(asking(Arc::default()), &owner).unwrap();
        wait_for(&tasks, &task.task_id, TaskStatus::InputRequired).await;
        let answers: BTreeMap<_, _> = [("roots".to_owned(), json!({"roots": []}))].into();
        assert!(tasks.get(&task.task_id, &other).is_err());
        assert!(tasks.cancel(&task.task_id, &other).is_err());
        assert!(tasks.update(&task.task_id, &other, answers.clone()).await.is_err());
        tasks.update(&task.task_id, &owner, answers).await.unwrap();
        let done = wait_for(&tasks, &task.task_id, TaskStatus::Completed).await;
        let TaskPayload::Completed { result } = done.payload else { panic!("{done:?}") };
        assert_eq!(result["content"][0]["text"], "true");
        tokio::time::sleep(TASK_LIFETIME + Duration::from_secs(1)).await;
        assert!(tasks.get(&task.task_id, &owner).is_err(), "removed after its time");
    }

    #[tokio::test]
    async fn cancelled_task_stops_its_work() {
        let tasks = Arc::<Tasks>::default();
        let (owner, alive) = (Principal::default(), Arc::new(()));
        let task = tasks.start(asking(Arc::clone(&alive)), &owner).unwrap();
        tasks.cancel(&task.task_id, &owner).unwrap();
        wait_for(&tasks, &task.task_id, TaskStatus::Cancelled).await;
        while Arc::strong_count(&alive) > 1 {
            tokio::task::yield_now().await;
        }
        tasks.cancel(&task.task_id, &owner).unwrap();
    }
}
