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
    task_store::{self, OtherTask, TaskStore},
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
pub(super) struct Tasks {
    running: Mutex<HashMap<String, Arc<RunningTask>>>,
    store: Option<Box<dyn TaskStore>>,
}

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
    pub(super) fn new(store: Option<Box<dyn TaskStore>>) -> Self {
        Self { running: Mutex::default(), store }
    }

    /// Lets a job go on as a task; `None` if there are too many, and the job is cancelled.
    pub(super) fn start(self: &Arc<Self>, job: Job, owner: &Principal) -> Option<Task> {
        let id = Sealer::id()?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let now = RuntimeClock.wall();
        let mut tasks = lock(&self.running);
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
                () = drive(&task, job, answered) => {
                    if let Some(table) = table.upgrade() {
                        table.write_down(&task);
                    }
                    over.await;
                }
                () = &mut over => {}
            }
            let expired = table.upgrade().and_then(|table| lock(&table.running).remove(&task.id));
            drop(expired);
        });
        *lock(&running.driver) = Some(driver);
        let task = running.describe();
        tasks.insert(id, Arc::clone(&running));
        drop(tasks);
        self.write_down(&running);
        Some(task.task)
    }

    /// Keeps the state of a task for other processes. If that fails, this one still knows it.
    fn write_down(&self, task: &RunningTask) {
        if let Some(store) = &self.store {
            let until = task.created + TASK_LIFETIME;
            let _ = task_store::write(&**store, &task.owner, task.describe(), until);
        }
    }

    /// A task of another process, which may have ended.
    fn of_another_process(&self, id: &str, caller: &Principal) -> Result<OtherTask, ErrorData> {
        let store = self.store.as_ref();
        let found = store.and_then(|s| task_store::read(&**s, id, caller, RuntimeClock.wall()));
        found.ok_or_else(|| missing(id))
    }

    /// Returns the state of a task.
    pub(super) fn get(&self, id: &str, caller: &Principal) -> Result<DetailedTask, ErrorData> {
        match self.find(id, caller) {
            Some(task) => Ok(task.describe()),
            None => Ok(self.of_another_process(id, caller)?.task),
        }
    }

    /// Passes on answers to a task's questions.
    pub(super) async fn update(
        &self,
        id: &str,
        caller: &Principal,
        responses: BTreeMap<String, Value>,
    ) -> Result<(), ErrorData> {
        let Some(task) = self.find(id, caller) else { return self.refuse(id, caller) };
        // A task that has ended needs no answers.
        let _ = task.answers.send(responses).await;
        Ok(())
    }

    /// Cancels a task. One that has ended stays as it is.
    pub(super) fn cancel(&self, id: &str, caller: &Principal) -> Result<(), ErrorData> {
        let Some(task) = self.find(id, caller) else { return self.refuse(id, caller) };
        if task.end(TaskPayload::Cancelled) {
            // Dropping the driver drops the job, which cancels its work.
            let driver = lock(&task.driver).take();
            drop(driver);
            self.write_down(&task);
        }
        Ok(())
    }

    /// Answers a change of a task that is not here. One that has ended needs no change.
    fn refuse(&self, id: &str, caller: &Principal) -> Result<(), ErrorData> {
        if self.of_another_process(id, caller)?.is_running {
            let why = format!("the task `{id}` runs in another process");
            return Err(ErrorData::invalid_params(why, None));
        }
        Ok(())
    }

    fn find(&self, id: &str, caller: &Principal) -> Option<Arc<RunningTask>> {
        lock(&self.running).get(id).cloned().filter(|task| task.owner == *caller)
    }
}

fn missing(id: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is no task `{id}`"), None)
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

pub(super) fn object(value: &impl serde::Serialize) -> JsonObject {
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

    /// Records that several processes share.
    #[derive(Clone, Default)]
    struct Shared {
        records: Arc<Mutex<HashMap<String, String>>>,
        has_ended: Arc<std::sync::atomic::AtomicBool>,
    }

    impl TaskStore for Shared {
        fn put(&self, id: &str, record: &str, _: SystemTime) -> Result<(), haft::tool::BoxError> {
            lock(&self.records).insert(id.to_owned(), record.to_owned());
            Ok(())
        }

        fn get(&self, id: &str) -> Result<Option<task_store::StoredTask>, haft::tool::BoxError> {
            let is_running = !self.has_ended.load(std::sync::atomic::Ordering::Relaxed);
            let record = lock(&self.records).get(id).cloned();
            Ok(record.map(|record| task_store::StoredTask::new(record, is_running)))
        }
    }

    fn process(store: &Shared) -> Arc<Tasks> {
        Arc::new(Tasks::new(Some(Box::new(store.clone()))))
    }

    #[tokio::test]
    async fn result_of_a_task_outlives_its_process_and_is_only_for_its_owner() {
        let store = Shared::default();
        let (first, second) = (process(&store), process(&store));
        let (owner, other) = (Principal::default(), Principal::new("mallory"));
        let id = first.start(asking(Arc::default()), &owner).unwrap().task_id;
        wait_for(&first, &id, TaskStatus::InputRequired).await;
        assert_eq!(second.get(&id, &owner).unwrap().status(), TaskStatus::Working);
        assert!(second.cancel(&id, &owner).is_err(), "it runs in another process");
        let answers: BTreeMap<_, _> = [("roots".to_owned(), json!({"roots": []}))].into();
        first.update(&id, &owner, answers.clone()).await.unwrap();
        let done = wait_for(&first, &id, TaskStatus::Completed).await;
        while second.get(&id, &owner).unwrap().status() == TaskStatus::Working {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(first);
        assert_eq!(second.get(&id, &owner).unwrap().payload, done.payload);
        assert!(second.get(&id, &other).is_err(), "of another caller");
        assert!(second.update(&id, &other, answers).await.is_err());
        assert!(second.cancel(&id, &other).is_err());
        assert!(second.cancel(&id, &owner).is_ok(), "it has ended");
        for wrong in ["", "../x", "no"] {
            assert!(second.get(wrong, &owner).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn task_of_a_process_that_ended_is_failed_with_an_unknown_outcome() {
        let store = Shared::default();
        let (first, second) = (process(&store), process(&store));
        let owner = Principal::default();
        let id = first.start(asking(Arc::default()), &owner).unwrap().task_id;
        drop(first);
        store.has_ended.store(true, std::sync::atomic::Ordering::Relaxed);
        let task = second.get(&id, &owner).unwrap();
        let TaskPayload::Failed { error } = task.payload else { panic!("{task:?}") };
        assert_eq!(error["data"]["dev.haft/failure"]["code"], "unknown_outcome");
        assert!(second.cancel(&id, &owner).is_ok(), "there is nothing to cancel");
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
