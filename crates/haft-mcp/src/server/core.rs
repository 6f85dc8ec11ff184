//! What all connections of a server share, and how a request becomes an answer.

#![expect(deprecated, reason = "clients of 2025-11-25 have logging, sampling and roots")]

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft::{
    FailureCode, Run, Runtime, ToolCall, ToolResult, Turn,
    host::RunBuilder,
    registry::{RegisteredTool, ToolView},
    tool::CallId,
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CreateTaskResult, InputRequest, InputRequiredResult, InputResponses, LoggingLevel,
        LoggingMessageNotification, LoggingMessageNotificationParam, ServerJsonRpcMessage,
        ServerNotification,
    },
    service::RequestContext,
};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    call,
    call_peer::{CallPeer, ClientSupport, LogEntry, LogLevel},
    changes::Changes,
    content_read::ContentLog,
    conversation::{Conversation, Principal},
    job::{Answer, Job, Step},
    parked::{Fetched, ParkedJobs},
    parked_call::JobCall,
    progress::ProgressReports,
    provider::{ContentProvider, ProviderError, ProviderRequest},
    request_streams::{RequestStreams, SESSION_HEADER},
    results::OffloadedResults,
    seal::{Binding, Sealer},
    tasks::Tasks,
    tool_list::ToolLists,
};

/// The state of a server.
pub(super) struct ServerCore {
    pub(super) runtime: Runtime,
    pub(super) settings: Settings,
    pub(super) provider: Option<Arc<dyn ContentProvider>>,
    pub(super) lists: ToolLists,
    pub(super) parked: Arc<ParkedJobs>,
    pub(super) tasks: Arc<Tasks>,
    pub(super) changes: Changes,
    pub(super) results: OffloadedResults,
    /// The conversations of callers that have no session.
    pub(super) shared: Mutex<HashMap<Principal, Arc<Conversation>>>,
    pub(super) calls: AtomicU64,
    pub(super) slots: Arc<Semaphore>,
}

/// What a host sets.
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) instructions: Option<String>,
    pub(super) view: Arc<dyn Fn(&str) -> ToolView + Send + Sync>,
    pub(super) run: Arc<dyn Fn(RunBuilder) -> RunBuilder + Send + Sync>,
    /// A call that takes longer is answered with a task, if the client knows tasks.
    pub(super) task_after: Duration,
    /// How long a question to a client may stay open.
    pub(super) question_timeout: Duration,
    /// Writes down reads of resources and prompts.
    pub(super) content_log: Option<ContentLog>,
}

/// Who makes a request, and what its client can do.
pub(super) struct Caller {
    pub(super) conversation: Arc<Conversation>,
    pub(super) support: ClientSupport,
    pub(super) log_level: Option<LogLevel>,
    /// Whether the request is of the protocol of 2026-07-28 or later.
    pub(super) is_modern: bool,
}

/// A job, and what a state for it belongs to.
pub(super) struct StartedJob {
    pub(super) job: Job,
    pub(super) binding: Binding,
}

/// How a request ends.
#[derive(Debug)]
pub(super) enum Ended {
    Done(Answer),
    InputRequired(InputRequiredResult),
    Task(CreateTaskResult),
}

/// The answers that a client sends with a repeated request.
#[derive(Debug, Default)]
pub(super) struct Retry {
    pub(super) state: Option<String>,
    pub(super) responses: Option<InputResponses>,
}

impl ServerCore {
    /// Opens a conversation.
    pub(super) fn open_conversation(&self, principal: &Principal) -> Arc<Conversation> {
        let id = Sealer::id().unwrap_or_default();
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let view = (self.settings.view)(principal.as_str());
        let run = (self.settings.run)(self.runtime.run_builder());
        Conversation::open(run, principal, view, &id)
    }

    /// Returns the conversation of a caller that has no session.
    pub(super) fn shared_conversation(&self, principal: &Principal) -> Arc<Conversation> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(conversation) = shared.get(principal) {
            return Arc::clone(conversation);
        }
        let conversation = self.open_conversation(principal);
        shared.insert(principal.clone(), Arc::clone(&conversation));
        conversation
    }

    /// Freezes the tools that a caller sees now.
    pub(super) async fn turn(&self, caller: &Caller) -> Result<Turn, ErrorData> {
        open_turn(&caller.conversation.run).await
    }

    /// Starts a tool call, or fetches the one that a state belongs to.
    pub(super) async fn call_job(
        self: &Arc<Self>,
        caller: &Caller,
        name: String,
        arguments: Value,
        retry: Retry,
    ) -> Result<StartedJob, ErrorData> {
        let mut turn = self.turn(caller).await?;
        let list = self.lists.of(turn.snapshot());
        let registered = list.export.tool_name(&name).unwrap_or(&name);
        let tool = turn.snapshot().get(registered).cloned();
        let definition = tool.as_ref().map(|tool| tool.hash()).unwrap_or_default();
        let principal = &caller.conversation.principal;
        let binding =
            call::binding(principal.as_str(), "tools/call", &name, &definition, &arguments);
        let waiting = match self.resume(&retry, binding)? {
            Some(Fetched::Job(job)) => return Ok(StartedJob { job: *job, binding }),
            Some(Fetched::Call(waiting)) => Some(waiting),
            None => None,
        };
        let refused =
            |code, why| Ok(StartedJob { job: Job::done(Ok(call::refused(code, why))), binding });
        let own = self.runtime.registry();
        let is_own = |tool: &Arc<RegisteredTool>| own.get(tool.registered().as_str()).is_some();
        let is_remote = tool.as_ref().is_some_and(|tool| !is_own(tool));
        let needs_person = tool.is_some_and(|tool| tool.spec().requires_user_interaction);
        if needs_person && !caller.support.form {
            let why = "this tool asks the user, and the MCP client cannot: it does not declare \
                       the capability `elicitation`";
            return refused(FailureCode::NeedsInteraction, why);
        }
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return refused(
                FailureCode::RateLimited,
                "too many calls are running; try again later",
            );
        };
        let remote = is_remote.then(|| caller.conversation.run_of_remote_call());
        let sub_run = match &waiting {
            Some(waiting) => Some(waiting.run(&caller.conversation)),
            None => remote.as_ref().and_then(|(run, _)| run.clone()),
        };
        if let Some(run) = &sub_run {
            turn = open_turn(run).await?;
        }
        let run = sub_run.unwrap_or_else(|| caller.conversation.run.clone());
        let held = (slot, remote);
        let job = match waiting {
            Some(waiting) => {
                let answers = retry.responses.unwrap_or_default();
                waiting.stop_if_refused(&turn, &answers).await;
                let id = waiting.call.id().clone();
                self.run_call(caller, (run, turn), id, held, |turn| turn.resume([waiting.call]))
                    .prepared(answers)
            }
            None => {
                let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
                let id = format!("{}-{number}", caller.conversation.call_prefix);
                let call = ToolCall::new(id.as_str(), registered, arguments);
                self.run_call(caller, (run, turn), id.into(), held, |turn| turn.run([call]))
            }
        };
        Ok(StartedJob { job, binding })
    }

    /// Makes the job of one call, which holds `held` until its end.
    fn run_call<F: Future<Output = Vec<ToolResult>> + Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        (run, turn): (Run, Turn),
        id: CallId,
        held: impl Send + 'static,
        work: impl FnOnce(Turn) -> F,
    ) -> Job {
        let (peer, messages) = CallPeer::new(caller.support, caller.log_level);
        let open_call = caller.conversation.peers.register(id.to_string(), peer.clone());
        let (core, principal) = (Arc::clone(self), caller.conversation.principal.clone());
        let call = JobCall { run: run.clone(), id, turn: turn.handle() };
        let work = work(turn);
        let job = Job::new(messages, async move {
            let _held = (open_call, held, run);
            let Some(result) = work.await.pop() else {
                return Err(ErrorData::internal_error("the call has no result", None));
            };
            if let Some(call) = result.parked() {
                return Ok(Answer::Parked(Box::new(call.clone())));
            }
            let link = call::offloaded(&result)
                .and_then(|id| core.results.link(core.runtime.artifacts(), id, &principal));
            call::answer(&result, &peer, link)
        });
        job.for_call(call)
    }

    /// Starts a request to the provider, or fetches the one that a state belongs to.
    pub(super) fn provider_job(
        self: &Arc<Self>,
        caller: &Caller,
        request: ProviderRequest,
        (method, name, arguments): (&str, &str, &Value),
        retry: Retry,
        convert: impl FnOnce(Value) -> Result<Answer, ErrorData> + Send + 'static,
    ) -> Result<StartedJob, ErrorData> {
        let principal = caller.conversation.principal.as_str();
        let binding = call::binding(principal, method, name, "", arguments);
        if let Some(Fetched::Job(job)) = self.resume(&retry, binding)? {
            return Ok(StartedJob { job: *job, binding });
        }
        let (peer, messages) = CallPeer::new(caller.support, caller.log_level);
        let (core, conversation) = (Arc::clone(self), Arc::clone(&caller.conversation));
        let job = Job::new(messages, async move {
            let Some(provider) = &core.provider else {
                return Err(ProviderError::invalid("the server has no such thing").to_sdk());
            };
            let answered = core.read_content(&conversation, &**provider, request, &peer).await;
            answered.map_err(|error| error.to_sdk()).and_then(convert)
        });
        Ok(StartedJob { job, binding })
    }

    /// Asks the provider for something that needs no questions.
    pub(super) async fn provide(
        &self,
        caller: &Caller,
        request: ProviderRequest,
    ) -> Result<Value, ErrorData> {
        let Some(provider) = &self.provider else { return Ok(Value::Array(Vec::new())) };
        let (peer, _messages) = CallPeer::new(ClientSupport::default(), caller.log_level);
        provider.handle(request, &peer).await.map_err(|error| error.to_sdk())
    }

    /// Fetches what waits for a state; a job gets the client's answers.
    fn resume(&self, retry: &Retry, binding: Binding) -> Result<Option<Fetched>, ErrorData> {
        let Some(state) = &retry.state else { return Ok(None) };
        let mut fetched = self
            .parked
            .fetch(state, binding)
            .map_err(|e| ErrorData::invalid_params(e.message(), None))?;
        if let Fetched::Job(job) = &mut fetched {
            job.answer(retry.responses.as_ref().unwrap_or(&BTreeMap::new()));
        }
        Ok(Some(fetched))
    }

    /// Works on a job until the request can be answered.
    pub(super) async fn drive(
        &self,
        started: StartedJob,
        caller: &Caller,
        cx: &RequestContext<RoleServer>,
    ) -> Result<Ended, ErrorData> {
        let StartedJob { mut job, binding } = started;
        if !job.open_requests().is_empty() {
            // Some answers are missing, so the questions are asked again.
            return self.ask_later(job, binding).await;
        }
        let mut progress = self.progress(job.call(), cx);
        let can_be_task = caller.support.tasks && caller.is_modern;
        let task_time = tokio::time::sleep(self.settings.task_after);
        tokio::pin!(task_time);
        loop {
            tokio::select! {
                biased;
                () = cx.ct.cancelled() => {
                    // Dropping the job cancels its work.
                    return Err(ErrorData::internal_error("the request was cancelled", None));
                }
                report = next_report(&mut progress) => {
                    let _ = cx.peer.notify_progress(report).await;
                }
                step = job.step() => match step {
                    Step::Done(answer) => {
                        while let Some(report) = progress.as_mut().and_then(|p| p.try_next()) {
                            let _ = cx.peer.notify_progress(report).await;
                        }
                        return answer.map(Ended::Done);
                    }
                    Step::Asked if caller.is_modern => return self.ask_later(job, binding).await,
                    Step::Asked => self.ask_session(&mut job, cx).await,
                    Step::Log(entry) => notify_log(cx, entry).await,
                    Step::BecomeTask if can_be_task => return self.start_task(job, caller),
                    Step::BecomeTask => {}
                },
                () = &mut task_time, if can_be_task => return self.start_task(job, caller),
            }
        }
    }

    fn progress(
        &self,
        call: Option<&JobCall>,
        cx: &RequestContext<RoleServer>,
    ) -> Option<ProgressReports> {
        let (token, call) = (cx.meta.get_progress_token()?, call?);
        let (run, id) = (call.run.id().clone(), call.id.clone());
        Some(ProgressReports::of(&self.runtime, run, id, token))
    }

    fn start_task(&self, job: Job, caller: &Caller) -> Result<Ended, ErrorData> {
        match self.tasks.start(job, &caller.conversation.principal) {
            Some(task) => Ok(Ended::Task(CreateTaskResult::new(task))),
            None => Err(ErrorData::internal_error("too many tasks are open", None)),
        }
    }

    /// Asks a client of the protocol of 2025-11-25, within the request.
    async fn ask_session(&self, job: &mut Job, cx: &RequestContext<RoleServer>) {
        for (key, request) in job.open_requests() {
            let answer = match request.to_sdk() {
                Ok(request) => tokio::select! {
                    () = cx.ct.cancelled() => None,
                    () = tokio::time::sleep(self.settings.question_timeout) => None,
                    answer = send_request(cx, request) => answer,
                },
                Err(_) => None,
            };
            if let Some(answer) = answer {
                job.answer(&BTreeMap::from([(key.clone(), answer)]));
            }
            job.abandon(&key);
        }
    }
}

/// Freezes the tools that a run sees now.
async fn open_turn(run: &Run) -> Result<Turn, ErrorData> {
    run.turn()
        .await
        .map_err(|e| ErrorData::internal_error(format!("the tools could not be loaded: {e}"), None))
}

async fn next_report(
    progress: &mut Option<ProgressReports>,
) -> rmcp::model::ProgressNotificationParam {
    match progress {
        Some(reports) => match reports.next().await {
            Some(report) => report,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn send_request(cx: &RequestContext<RoleServer>, request: InputRequest) -> Option<Value> {
    let to_value = |answer| serde_json::to_value(answer).ok();
    match request {
        InputRequest::Elicitation(request) => cx
            .peer
            .create_elicitation(request.params)
            .await
            .ok()
            .and_then(|a| serde_json::to_value(a).ok()),
        InputRequest::CreateMessage(request) => {
            cx.peer.create_message(request.params).await.ok().and_then(to_value)
        }
        InputRequest::ListRoots(_) => {
            cx.peer.list_roots().await.ok().and_then(|a| serde_json::to_value(a).ok())
        }
        _ => None,
    }
}

async fn notify_log(cx: &RequestContext<RoleServer>, entry: LogEntry) {
    let level = to_sdk_level(entry.level);
    let entry = LoggingMessageNotificationParam::new(level, entry.data).with_logger(entry.logger);
    // In a session over HTTP it belongs on the stream of its request.
    if let Some(parts) = cx.extensions.get::<http::request::Parts>()
        && let Some(streams) = parts.extensions.get::<Arc<RequestStreams>>()
        && let Some(session) = parts.headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok())
    {
        let entry = LoggingMessageNotification::new(entry.clone());
        let entry = ServerNotification::LoggingMessageNotification(entry);
        if streams.send(session, &cx.id, ServerJsonRpcMessage::notification(entry)) {
            return;
        }
    }
    let _ = cx.peer.notify_logging_message(entry).await;
}

pub(crate) fn to_sdk_level(level: LogLevel) -> LoggingLevel {
    match level {
        LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Notice => LoggingLevel::Notice,
        LogLevel::Warning => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
        LogLevel::Critical => LoggingLevel::Critical,
        LogLevel::Alert => LoggingLevel::Alert,
        LogLevel::Emergency => LoggingLevel::Emergency,
    }
}

pub(super) fn from_sdk_level(level: LoggingLevel) -> LogLevel {
    match level {
        LoggingLevel::Debug => LogLevel::Debug,
        LoggingLevel::Info => LogLevel::Info,
        LoggingLevel::Notice => LogLevel::Notice,
        LoggingLevel::Warning => LogLevel::Warning,
        LoggingLevel::Error => LogLevel::Error,
        LoggingLevel::Critical => LogLevel::Critical,
        LoggingLevel::Alert => LogLevel::Alert,
        LoggingLevel::Emergency => LogLevel::Emergency,
    }
}
