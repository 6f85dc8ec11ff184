//! A gateway: the tools, resources and prompts of several MCP servers behind one.
//!
//! Tools are those of the registry, under `server__tool`. Prompts are `server__prompt`. A resource
//! `file:///a` of the server `notes` is `haft://notes/file:///a`. Both ends of the protocol are
//! here: a client of one version can use a server of the other.

#![expect(deprecated, reason = "servers of 2025-11-25 have logging and subscriptions")]

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use haft::{
    BoxFuture,
    policy::{Policy, PolicyTool, ToolTraits},
    tool::{Scope, ToolName, ToolSpec},
};
use rmcp::{
    model::{
        ClientRequest, CompleteRequest, CompleteRequestParams, GetPromptRequest,
        GetPromptRequestParams, PaginatedRequestParams, ReadResourceRequest,
        ReadResourceRequestParams, ServerResult, SetLevelRequestParams, SubscribeRequestParams,
        UnsubscribeRequestParams,
    },
    service::ServiceError,
};
use serde_json::{Value, json};

use crate::{
    client::{RemoteServer, admit_listed},
    resource_uri::{SCHEME, uri},
    server::{
        CallPeer, ContentOrigin, ContentProvider, LogLevel, Offers, ProviderError, ProviderRequest,
    },
};

/// Between the name of a server and that of a prompt.
const SEPARATOR: &str = "__";
/// How long one server may take to list something.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many items of one list of one server are passed on.
const MAX_ITEMS: usize = 10_000;
/// How many pages of one list are read.
const MAX_PAGES: usize = 1_000;
/// The name of a tool that no server has and no rule names: a rule that denies it denies every tool
/// of the server.
const ANY_TOOL: &str = "any tool";

/// The resources and prompts of several MCP servers.
#[derive(Clone)]
pub struct Gateway {
    servers: Vec<RemoteServer>,
    /// Whether names are those of the only server, without a prefix.
    is_bare: bool,
    policy: Option<Arc<dyn Policy>>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Gateway {
    /// Passes on what these servers have, under their names.
    #[must_use]
    pub fn new(servers: impl IntoIterator<Item = RemoteServer>) -> Self {
        Self { servers: servers.into_iter().collect(), is_bare: false, policy: None }
    }

    /// Passes on what one server has, under its own names.
    #[must_use]
    pub fn bare(server: RemoteServer) -> Self {
        Self { servers: vec![server], is_bare: true, policy: None }
    }

    /// Hides the resources and prompts of a server whose tools this policy denies as a whole, such
    /// as by the rule `mcp__notes`.
    #[must_use]
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = Some(policy);
        self
    }

    /// The servers that the policy does not deny. It is asked each time, because rules may change.
    fn shown(&self) -> impl Iterator<Item = &RemoteServer> {
        self.servers.iter().filter(|server| !self.is_denied(server))
    }

    fn is_denied(&self, server: &RemoteServer) -> bool {
        let Some(policy) = &self.policy else { return false };
        let name = &server.config().name;
        let called = ToolName::from(self.name_of(server, ANY_TOOL).as_str());
        let (spec, schema, traits) =
            (ToolSpec::new(called.as_str(), ""), Value::Null, ToolTraits::default());
        let mut tool = PolicyTool::new(&called, &spec, &schema, &traits);
        tool.remote = Some((name, ANY_TOOL));
        // FAIL CLOSED: a policy that panics hides the server.
        let hides = || policy.hides(&tool, &Scope::default()).is_some();
        catch_unwind(AssertUnwindSafe(hides)).unwrap_or(true)
    }

    fn server(&self, name: &str) -> Option<&RemoteServer> {
        self.shown().find(|server| server.config().name == name)
    }

    /// The server that a prompt or a resource belongs to, whether or not it is denied.
    fn owner(&self, request: &ProviderRequest) -> Option<&RemoteServer> {
        if self.is_bare {
            return self.servers.first();
        }
        let name = match request {
            ProviderRequest::ReadResource { uri } => uri.strip_prefix(SCHEME)?.split_once('/')?.0,
            ProviderRequest::GetPrompt { name, .. } => name.split_once(SEPARATOR)?.0,
            _ => return None,
        };
        self.servers.iter().find(|server| server.config().name == name)
    }

    fn name_of(&self, server: &RemoteServer, name: &str) -> String {
        if self.is_bare {
            return name.to_owned();
        }
        format!("{}{SEPARATOR}{name}", server.config().name)
    }

    fn uri_of(&self, server: &RemoteServer, uri_of_server: &str) -> String {
        if self.is_bare {
            return uri_of_server.to_owned();
        }
        uri(&server.config().name, uri_of_server)
    }

    /// Finds the server of a prompt, and its own name for it.
    fn find_prompt<'a>(&'a self, name: &'a str) -> Option<(&'a RemoteServer, &'a str)> {
        if self.is_bare {
            return Some((self.shown().next()?, name));
        }
        let (server, own) = name.split_once(SEPARATOR)?;
        Some((self.server(server)?, own))
    }

    /// Finds the server of a resource, and its own URI for it.
    fn find_resource<'a>(&'a self, uri: &'a str) -> Option<(&'a RemoteServer, &'a str)> {
        if self.is_bare {
            return Some((self.shown().next()?, uri));
        }
        let (server, own) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        Some((self.server(server)?, own))
    }

    /// Lists something of all servers that are connected. A server that fails is left out.
    async fn list(&self, what: Listed) -> Value {
        let lists = self.shown().map(|server| async move {
            let Some(connection) = server.connection() else { return Vec::new() };
            let listed = tokio::time::timeout(LIST_TIMEOUT, what.of(&connection.peer)).await;
            let mut items = listed.ok().and_then(Result::ok).unwrap_or_default();
            // Texts of a server reach a model here too (tool poisoning).
            let name = &server.config().name;
            items.retain_mut(|item| admit_listed(item, name, server.known()));
            for item in &mut items {
                self.rename(server, item, what);
            }
            items
        });
        let lists = futures_util::future::join_all(lists).await;
        lists.into_iter().flatten().collect()
    }

    fn rename(&self, server: &RemoteServer, item: &mut Value, what: Listed) {
        let field = match what {
            Listed::Prompts => "name",
            Listed::Resources => "uri",
            Listed::Templates => "uriTemplate",
        };
        if let Some(Value::String(text)) = item.get_mut(field) {
            *text = match what {
                Listed::Prompts => self.name_of(server, text),
                Listed::Resources | Listed::Templates => self.uri_of(server, text),
            };
        }
    }

    async fn read(&self, uri: &str, peer: &CallPeer) -> Result<Value, ProviderError> {
        let Some((server, own)) = self.find_resource(uri) else {
            return Err(ProviderError::no_such_resource(uri));
        };
        let make = |state, responses| {
            let mut params = ReadResourceRequestParams::new(own);
            params.request_state = state;
            params.input_responses = responses;
            ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params))
        };
        let ServerResult::ReadResourceResult(result) =
            server.request(make, peer).await.map_err(error)?
        else {
            return Err(ProviderError::internal("the server answered with something else"));
        };
        let mut value = serde_json::to_value(result).map_err(malformed)?;
        let contents = value.get_mut("contents").and_then(Value::as_array_mut);
        for content in contents.into_iter().flatten() {
            self.rename(server, content, Listed::Resources);
        }
        Ok(value)
    }

    async fn prompt(
        &self,
        name: &str,
        arguments: &Value,
        peer: &CallPeer,
    ) -> Result<Value, ProviderError> {
        let Some((server, own)) = self.find_prompt(name) else {
            return Err(ProviderError::invalid(format!("there is no prompt `{name}`")));
        };
        let params = json!({"name": own, "arguments": arguments});
        let params: GetPromptRequestParams = serde_json::from_value(params).map_err(malformed)?;
        let make = |state, responses| {
            let mut params = params.clone();
            params.request_state = state;
            params.input_responses = responses;
            ClientRequest::GetPromptRequest(GetPromptRequest::new(params))
        };
        match server.request(make, peer).await.map_err(error)? {
            ServerResult::GetPromptResult(result) => {
                serde_json::to_value(result).map_err(malformed)
            }
            _ => Err(ProviderError::internal("the server answered with something else")),
        }
    }

    async fn complete(&self, mut params: Value, peer: &CallPeer) -> Result<Value, ProviderError> {
        let reference = params["ref"].clone();
        let found = match (reference["name"].as_str(), reference["uri"].as_str()) {
            (Some(name), _) => self.find_prompt(name).map(|found| ("name", found)),
            (None, Some(uri)) => self.find_resource(uri).map(|found| ("uri", found)),
            (None, None) => None,
        };
        let Some((field, (server, own))) = found else {
            return Err(ProviderError::invalid("there is nothing like that to complete"));
        };
        params["ref"][field] = Value::from(own);
        let params: CompleteRequestParams = serde_json::from_value(params).map_err(malformed)?;
        let make = |_, _| ClientRequest::CompleteRequest(CompleteRequest::new(params.clone()));
        match server.request(make, peer).await.map_err(error)? {
            ServerResult::CompleteResult(result) => serde_json::to_value(result).map_err(malformed),
            _ => Err(ProviderError::internal("the server answered with something else")),
        }
    }

    /// Follows a resource, or stops. A server that cannot do it is no error of the client.
    async fn follow(&self, uri: &str, is_wanted: bool) -> Result<Value, ProviderError> {
        let Some((server, own)) = self.find_resource(uri) else {
            return Err(ProviderError::no_such_resource(uri));
        };
        if let Some(connection) = server.connection() {
            let _ = if is_wanted {
                connection.peer.subscribe(SubscribeRequestParams::new(own)).await
            } else {
                connection.peer.unsubscribe(UnsubscribeRequestParams::new(own)).await
            };
        }
        Ok(Value::Null)
    }

    async fn set_level(&self, level: LogLevel) -> Result<Value, ProviderError> {
        for connection in self.servers.iter().filter_map(RemoteServer::connection) {
            let params = SetLevelRequestParams::new(crate::server::to_sdk_level(level));
            let _ = tokio::time::timeout(LIST_TIMEOUT, connection.peer.set_level(params)).await;
        }
        Ok(Value::Null)
    }
}

/// What is listed.
#[derive(Debug, Clone, Copy)]
enum Listed {
    Resources,
    Templates,
    Prompts,
}

impl Listed {
    async fn of(self, peer: &rmcp::Peer<rmcp::RoleClient>) -> Result<Vec<Value>, ServiceError> {
        let info = peer.peer_info();
        let capabilities = info.as_ref().map(|info| &info.capabilities);
        let is_offered = match self {
            Self::Resources | Self::Templates => {
                capabilities.is_some_and(|all| all.resources.is_some())
            }
            Self::Prompts => capabilities.is_some_and(|all| all.prompts.is_some()),
        };
        if !is_offered {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let (items, next) = self.page(peer, cursor.clone()).await?;
            all.extend(items);
            // A cursor that does not move would never end.
            if next.is_none() || next == cursor || all.len() >= MAX_ITEMS {
                break;
            }
            cursor = next;
        }
        all.truncate(MAX_ITEMS);
        Ok(all)
    }

    async fn page(
        self,
        peer: &rmcp::Peer<rmcp::RoleClient>,
        cursor: Option<String>,
    ) -> Result<(Vec<Value>, Option<String>), ServiceError> {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let params = Some(params);
        let (items, next) = match self {
            Self::Resources => {
                let page = peer.list_resources(params).await?;
                (serde_json::to_value(page.resources), page.next_cursor)
            }
            Self::Templates => {
                let page = peer.list_resource_templates(params).await?;
                (serde_json::to_value(page.resource_templates), page.next_cursor)
            }
            Self::Prompts => {
                let page = peer.list_prompts(params).await?;
                (serde_json::to_value(page.prompts), page.next_cursor)
            }
        };
        match items {
            Ok(Value::Array(items)) => Ok((items, next)),
            _ => Ok((Vec::new(), None)),
        }
    }
}

fn malformed(error: serde_json::Error) -> ProviderError {
    ProviderError::internal(format!("the answer of the server is malformed: {error}"))
}

fn error(error: ServiceError) -> ProviderError {
    match error {
        ServiceError::McpError(error) => {
            let passed = ProviderError::new(error.code.0, error.message.to_string());
            match error.data {
                Some(data) => passed.with_data(data),
                None => passed,
            }
        }
        _ => ProviderError::internal("the server cannot be reached"),
    }
}

impl ContentProvider for Gateway {
    fn offers(&self) -> Offers {
        Offers::all()
    }

    fn origin(&self, request: &ProviderRequest) -> ContentOrigin {
        match self.owner(request) {
            Some(server) => ContentOrigin {
                server: Some(server.config().name.clone()),
                is_denied: self.is_denied(server),
            },
            None => ContentOrigin::default(),
        }
    }

    fn handle<'a>(
        &'a self,
        request: ProviderRequest,
        peer: &'a CallPeer,
    ) -> BoxFuture<'a, Result<Value, ProviderError>> {
        Box::pin(async move {
            match request {
                ProviderRequest::ListResources => Ok(self.list(Listed::Resources).await),
                ProviderRequest::ListResourceTemplates => Ok(self.list(Listed::Templates).await),
                ProviderRequest::ListPrompts => Ok(self.list(Listed::Prompts).await),
                ProviderRequest::ReadResource { uri } => self.read(&uri, peer).await,
                ProviderRequest::GetPrompt { name, arguments } => {
                    self.prompt(&name, &arguments, peer).await
                }
                ProviderRequest::Complete(params) => self.complete(params, peer).await,
                ProviderRequest::Subscribe { uri } => self.follow(&uri, true).await,
                ProviderRequest::Unsubscribe { uri } => self.follow(&uri, false).await,
                ProviderRequest::SetLogLevel(level) => self.set_level(level).await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ServerConfig, ServerTransport, StdioCommand};

    fn server(name: &str) -> RemoteServer {
        let transport = ServerTransport::Stdio(StdioCommand::new("unused"));
        RemoteServer::new(ServerConfig::new(name, transport)).unwrap()
    }

    #[test]
    fn names_lead_back_to_their_server() {
        let gateway = Gateway::new([server("notes"), server("files")]);
        let (found, own) = gateway.find_prompt("notes__daily").unwrap();
        assert_eq!((found.config().name.as_str(), own), ("notes", "daily"));
        let (found, own) = gateway.find_resource("haft://files/file:///a/b").unwrap();
        assert_eq!((found.config().name.as_str(), own), ("files", "file:///a/b"));
        for other in ["file:///a", "haft://other/file:///a", "haft://files"] {
            assert!(gateway.find_resource(other).is_none(), "{other}");
        }
        assert!(gateway.find_prompt("daily").is_none());
        let bare = Gateway::bare(server("notes"));
        assert_eq!(bare.find_prompt("daily").unwrap().1, "daily");
        assert_eq!(bare.find_resource("file:///a").unwrap().1, "file:///a");
    }

    #[test]
    fn policy_that_panics_hides_every_server() {
        struct Panics;
        impl Policy for Panics {
            fn decide(&self, _: &haft::policy::PolicyRequest<'_>) -> haft::policy::Verdict {
                haft::policy::Verdict::allow("")
            }

            fn hides(&self, _: &PolicyTool<'_>, _: &Scope) -> Option<String> {
                panic!("a mistake in the policy")
            }
        }
        let gateway = Gateway::new([server("notes")]).policy(Arc::new(Panics));
        assert!(gateway.find_prompt("notes__daily").is_none());
        assert!(gateway.find_resource("haft://notes/file:///a").is_none());
    }
}
