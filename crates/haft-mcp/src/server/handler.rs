//! One connection, session or request, as the SDK calls it.

#![expect(deprecated, reason = "clients of 2025-11-25 have logging, sampling and roots")]

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams,
        CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        Prompt, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, Resource, ResourceTemplate, ServerCapabilities, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};

use super::{
    call_peer::{ClientSupport, LogLevel},
    changes::{send_to_session, send_to_subscription},
    conversation::{Conversation, Principal},
    core::{Caller, Ended, Retry, ServerCore, from_sdk_level},
    job::Answer,
    owned_task::OwnedTask,
    pages::page,
    provider::{Offers, ProviderRequest},
    results::OffloadedResults,
};

/// How long a client may use a list without asking again. It also learns of changes.
const LIST_TTL_MS: u64 = 60_000;

/// One connection, session or request.
pub(super) struct Handler {
    core: Arc<ServerCore>,
    is_http: bool,
    /// The conversation of this connection or session.
    own: OnceLock<Arc<Conversation>>,
    /// The log level of this session, which `logging/setLevel` changes.
    log_level: Mutex<LogLevel>,
    subscribed: Arc<Mutex<HashSet<String>>>,
    /// Sends changes to a session.
    announcer: OnceLock<OwnedTask>,
}

impl Handler {
    pub(super) fn new(core: Arc<ServerCore>, is_http: bool) -> Self {
        Self {
            core,
            is_http,
            own: OnceLock::new(),
            log_level: Mutex::new(LogLevel::Info),
            subscribed: Arc::default(),
            announcer: OnceLock::new(),
        }
    }

    fn caller(&self, cx: &RequestContext<RoleServer>) -> Caller {
        let modern = ProtocolVersion::V_2026_07_28;
        let version = cx.protocol_version();
        let is_modern = version.is_some_and(|version| version.as_str() >= modern.as_str());
        let principal = principal(cx);
        let conversation = if self.is_http && is_modern {
            self.core.shared_conversation(&principal)
        } else {
            Arc::clone(self.own.get_or_init(|| self.core.open_conversation(&principal)))
        };
        let log_level = if is_modern {
            cx.meta.log_level().map(from_sdk_level)
        } else {
            Some(*lock(&self.log_level))
        };
        let support = ClientSupport::of(cx.client_capabilities().as_ref());
        Caller { conversation, support, log_level, is_modern }
    }

    fn offers(&self) -> Offers {
        self.core.provider.as_ref().map(|provider| provider.offers()).unwrap_or_default()
    }

    /// Lists something of the provider, in pages.
    async fn list<T: serde::de::DeserializeOwned + Clone>(
        &self,
        request: ProviderRequest,
        is_offered: bool,
        cursor: Option<PaginatedRequestParams>,
        cx: &RequestContext<RoleServer>,
        more: Vec<T>,
    ) -> Result<(Vec<T>, Option<String>), ErrorData> {
        let mut all: Vec<T> = if is_offered {
            let listed = self.core.provide(&self.caller(cx), request).await?;
            serde_json::from_value(listed).map_err(malformed)?
        } else {
            Vec::new()
        };
        all.extend(more);
        let cursor = cursor.and_then(|params| params.cursor);
        let page = page(&all, &format!("n{}", all.len()), cursor.as_deref())?;
        Ok((page.items, page.next))
    }
}

/// Who makes a request: what the HTTP server found out, or the local user.
fn principal(cx: &RequestContext<RoleServer>) -> Principal {
    let parts = cx.extensions.get::<http::request::Parts>();
    parts.and_then(|parts| parts.extensions.get::<Principal>()).cloned().unwrap_or_default()
}

fn malformed(error: serde_json::Error) -> ErrorData {
    ErrorData::internal_error(format!("the answer is malformed: {error}"), None)
}

fn unexpected() -> ErrorData {
    ErrorData::internal_error("the answer is of another kind", None)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let offers = self.offers();
        let mut capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_tasks()
            .build();
        if offers.subscriptions
            && let Some(resources) = &mut capabilities.resources
        {
            resources.subscribe = Some(true);
        }
        if offers.prompts {
            let builder = ServerCapabilities::builder();
            capabilities.prompts =
                builder.enable_prompts().enable_prompts_list_changed().build().prompts;
        }
        if offers.completions {
            capabilities.completions =
                ServerCapabilities::builder().enable_completions().build().completions;
        }
        let settings = &self.core.settings;
        let info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(&settings.name, &settings.version));
        match &settings.instructions {
            Some(instructions) => info.with_instructions(instructions),
            None => info,
        }
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        let (mut changes, subscribed) = (self.core.changes.follow(), Arc::clone(&self.subscribed));
        let peer = cx.peer;
        let is_subscribed = move |uri: &str| lock(&subscribed).contains(uri);
        self.announcer.get_or_init(|| {
            OwnedTask::start(async move {
                while let Some(group) = changes.next().await {
                    for change in group {
                        if !send_to_session(&peer, &change, &is_subscribed).await {
                            return;
                        }
                    }
                }
            })
        });
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.core.lists.find(name)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let turn = self.core.turn(&self.caller(&cx)).await?;
        let list = self.core.lists.of(turn.snapshot());
        let cursor = request.and_then(|params| params.cursor);
        let page = page(&list.tools, &list.version, cursor.as_deref())?;
        let result = ListToolsResult {
            tools: page.items,
            next_cursor: page.next,
            ..ListToolsResult::default()
        };
        Ok(result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&cx);
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let retry = Retry { state: request.request_state, responses: request.input_responses };
        let name = request.name.into_owned();
        let started = self.core.call_job(&caller, name, arguments, retry).await?;
        match self.core.drive(started, &caller, &cx).await? {
            Ended::Done(Answer::Tool(result)) => Ok(result.into()),
            Ended::Done(_) => Err(unexpected()),
            Ended::InputRequired(asked) => Ok(asked.into()),
            Ended::Task(task) => Ok(task.into()),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (what, is_offered) = (ProviderRequest::ListResources, self.offers().resources);
        let (resources, next_cursor) =
            self.list::<Resource>(what, is_offered, request, &cx, Vec::new()).await?;
        let result =
            ListResourcesResult { resources, next_cursor, ..ListResourcesResult::default() };
        Ok(result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let (what, is_offered) = (ProviderRequest::ListResourceTemplates, self.offers().resources);
        let own = vec![OffloadedResults::template()];
        let (resource_templates, next_cursor) =
            self.list::<ResourceTemplate>(what, is_offered, request, &cx, own).await?;
        let result = ListResourceTemplatesResult {
            resource_templates,
            next_cursor,
            ..ListResourceTemplatesResult::default()
        };
        Ok(result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (caller, uri) = (self.caller(&cx), request.uri);
        let artifacts = self.core.runtime.artifacts();
        let principal = &caller.conversation.principal;
        if let Some(read) = self.core.results.read(artifacts, &uri, principal) {
            return read.map(|result| private(result).into());
        }
        if !self.offers().resources {
            let message = format!("there is no resource `{uri}`");
            return Err(ErrorData::resource_not_found(message, Some(json!({"uri": uri}))));
        }
        let what = ProviderRequest::ReadResource { uri: uri.clone() };
        let retry = Retry { state: request.request_state, responses: request.input_responses };
        let convert = |value| {
            let mut result: ReadResourceResult =
                serde_json::from_value(value).map_err(malformed)?;
            result.result_type.get_or_insert_default();
            Ok(Answer::Resource(result))
        };
        let binding = ("resources/read", uri.as_str(), &Value::Null);
        let started = self.core.provider_job(&caller, what, binding, retry, convert)?;
        match self.core.drive(started, &caller, &cx).await? {
            Ended::Done(Answer::Resource(result)) => Ok(private(result).into()),
            Ended::InputRequired(asked) => Ok(asked.into()),
            Ended::Done(_) | Ended::Task(_) => Err(unexpected()),
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (what, is_offered) = (ProviderRequest::ListPrompts, self.offers().prompts);
        let (prompts, next_cursor) =
            self.list::<Prompt>(what, is_offered, request, &cx, Vec::new()).await?;
        let result = ListPromptsResult { prompts, next_cursor, ..ListPromptsResult::default() };
        Ok(result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (caller, name) = (self.caller(&cx), request.name);
        if !self.offers().prompts {
            return Err(ErrorData::invalid_params(format!("there is no prompt `{name}`"), None));
        }
        let arguments = serde_json::to_value(request.arguments.unwrap_or_default());
        let arguments = arguments.map_err(malformed)?;
        let what = ProviderRequest::GetPrompt { name: name.clone(), arguments: arguments.clone() };
        let retry = Retry { state: request.request_state, responses: request.input_responses };
        let convert = |value| {
            let mut result: GetPromptResult = serde_json::from_value(value).map_err(malformed)?;
            result.result_type.get_or_insert_default();
            Ok(Answer::Prompt(result))
        };
        let binding = ("prompts/get", name.as_str(), &arguments);
        let started = self.core.provider_job(&caller, what, binding, retry, convert)?;
        match self.core.drive(started, &caller, &cx).await? {
            Ended::Done(Answer::Prompt(result)) => Ok(result.into()),
            Ended::InputRequired(asked) => Ok(asked.into()),
            Ended::Done(_) | Ended::Task(_) => Err(unexpected()),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        if !self.offers().completions {
            return Ok(CompleteResult::default());
        }
        let params = serde_json::to_value(request).map_err(malformed)?;
        let what = ProviderRequest::Complete(params);
        let completed = self.core.provide(&self.caller(&cx), what).await?;
        let mut result: CompleteResult = serde_json::from_value(completed).map_err(malformed)?;
        result.result_type.get_or_insert_default();
        Ok(result)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let level = from_sdk_level(request.level);
        *lock(&self.log_level) = level;
        let what = ProviderRequest::SetLogLevel(level);
        self.core.provide(&self.caller(&cx), what).await.map(drop)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let uri = request.uri;
        let what = ProviderRequest::Subscribe { uri: uri.clone() };
        self.core.provide(&self.caller(&cx), what).await?;
        let mut subscribed = lock(&self.subscribed);
        if subscribed.len() >= MAX_SUBSCRIPTIONS {
            return Err(ErrorData::invalid_params("too many subscriptions", None));
        }
        subscribed.insert(uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let uri = request.uri;
        lock(&self.subscribed).remove(&uri);
        let what = ProviderRequest::Unsubscribe { uri };
        self.core.provide(&self.caller(&cx), what).await.map(drop)
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.core.changes.follow();
        let caller = self.caller(context.request_context());
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        for uri in uris.iter().take(MAX_SUBSCRIPTIONS).cloned() {
            self.core.provide(&caller, ProviderRequest::Subscribe { uri }).await?;
        }
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                group = changes.next() => {
                    let Some(group) = group else { return Ok(()) };
                    for change in group {
                        if !send_to_subscription(context.sink(), &change).await {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = self.core.tasks.get(&request.task_id, &principal(&cx))?;
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = principal(&cx);
        self.core.tasks.update(&request.task_id, &caller, request.input_responses).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.core.tasks.cancel(&request.task_id, &principal(&cx))
    }
}

/// How many resources one client follows.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// What a caller reads is not for others.
fn private(result: ReadResourceResult) -> ReadResourceResult {
    result.with_ttl_ms(0).with_cache_scope(CacheScope::Private)
}
