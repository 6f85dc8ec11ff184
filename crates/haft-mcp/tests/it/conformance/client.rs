//! The client under the official conformance suite, which starts this program once per scenario:
//! `haft-mcp-conformance-client URL`, with the scenario in the environment.
//!
//! It does what haft does with any server: connect, log in if asked, list, call every tool.

#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program of the tests"
)]

use std::{
    collections::HashMap,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft::{
    BoxFuture, Runtime, ToolCall, ToolRegistry, policy::AllowAll, secrets::Secret, tool::BoxError,
};
use haft_mcp::client::{
    Browser, ClientHost, Credentials, ElicitationAnswer, ElicitationKind, ElicitationRequest,
    Elicitor, Era, HttpEndpoint, OAuthSettings, RemoteServer, ServerConfig, ServerState,
    ServerTransport,
};
use serde_json::{Map, Value, json};

/// The suite knows this document.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";
const PATIENCE: Duration = Duration::from_secs(25);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let scenario = variable("MCP_CONFORMANCE_SCENARIO");
    let context: Value =
        serde_json::from_str(&variable("MCP_CONFORMANCE_CONTEXT")).unwrap_or_default();
    let url = std::env::args().nth(1).unwrap_or_default();
    let is_modern = variable("MCP_CONFORMANCE_PROTOCOL_VERSION").as_str() >= "2026-07-28";
    let work = run(&scenario, &url, &context, is_modern);
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(why)) => {
            eprintln!("{scenario}: {why}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("{scenario}: no end within {PATIENCE:?}");
            ExitCode::FAILURE
        }
    }
}

async fn run(scenario: &str, url: &str, context: &Value, is_modern: bool) -> Result<(), String> {
    let mut endpoint = HttpEndpoint::new(url);
    let text = |key: &str| context[key].as_str().map(str::to_owned);
    let oauth = OAuthSettings {
        client_metadata_url: Some(CLIENT_METADATA.to_owned()),
        client_id: text("client_id"),
        client_secret: text("client_secret").map(|secret| Secret::from(secret.as_str())),
        ..OAuthSettings::default()
    };
    endpoint.oauth = Some(oauth);
    let config = ServerConfig {
        // This scenario's server speaks the legacy protocol only, and hangs at anything else.
        era: match (scenario, is_modern) {
            ("json-schema-ref-no-deref", _) | (_, false) => Era::Legacy,
            _ => Era::Modern,
        },
        start_wait: PATIENCE,
        ..ServerConfig::new("suite", ServerTransport::Http(endpoint))
    };
    let mut host = ClientHost::default();
    host.elicitor = Some(Arc::new(Defaults));
    host.credentials = Some(Arc::new(InMemory::default()));
    host.browser = Some(Arc::new(Headless));
    let server = RemoteServer::with(config, host).map_err(|why| why.to_string())?;
    let status = server.wait(PATIENCE).await;
    if status.state != ServerState::Ready {
        return Err(status.error.unwrap_or_default());
    }
    for tool in &status.withheld {
        eprintln!("withheld: {tool:?}");
    }
    call_all(&server, context).await;
    server.shut_down().await;
    Ok(())
}

/// Calls the tools that the scenario names, or every tool once.
async fn call_all(server: &RemoteServer, context: &Value) {
    let registry =
        ToolRegistry::builder().source(server.clone()).build().expect("it is one source");
    let runtime =
        Runtime::builder().registry(registry).policy(AllowAll).build().expect("it has a policy");
    let turn = runtime.run().turn().await.expect("there is a runtime");
    turn.snapshot().problems().iter().for_each(|problem| eprintln!("{problem}"));
    let named = context["toolCalls"].as_array().or(context["tool_calls"].as_array());
    let calls: Vec<(String, Value)> = match named {
        Some(named) => named
            .iter()
            .map(|call| {
                let name = call["name"].as_str().unwrap_or_default();
                (format!("suite__{name}"), call["arguments"].clone())
            })
            .collect(),
        None => turn
            .snapshot()
            .entries()
            .map(|tool| match tool.name().as_str() {
                // It gets back the schema that the client has of another tool.
                "suite__json_schema_echo" => {
                    let shown = turn.snapshot().get("suite__json_schema_2020_12_tool");
                    let schema = shown.map(|tool| tool.input_schema().clone());
                    (tool.name().to_string(), json!({"schema": schema}))
                }
                name => (name.to_owned(), example(tool.input_schema())),
            })
            .collect(),
    };
    for (name, arguments) in calls {
        let arguments = without_nulls(arguments);
        let turn = runtime.run().turn().await.expect("there is a runtime");
        let results = turn.run(vec![ToolCall::new("c", name.as_str(), arguments)]).await;
        results.iter().for_each(|result| eprintln!("{name}: {}", result.text()));
    }
}

/// An argument that is null is one that was left out: the tools of the suite have no other.
fn without_nulls(arguments: Value) -> Value {
    let mut arguments = arguments.as_object().cloned().unwrap_or_default();
    arguments.retain(|_, value| !value.is_null());
    Value::Object(arguments)
}

/// The smallest arguments that a schema of the suite accepts.
fn example(schema: &Value) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let values = required.iter().filter_map(Value::as_str).map(|name| {
        let value = match schema["properties"][name]["type"].as_str() {
            Some("number" | "integer") => json!(1),
            Some("string") => json!("test"),
            Some("boolean") => json!(true),
            _ => Value::Null,
        };
        (name.to_owned(), value)
    });
    Value::Object(values.collect::<Map<_, _>>())
}

/// A person who accepts every default.
struct Defaults;

impl Elicitor for Defaults {
    fn ask(&self, request: ElicitationRequest) -> BoxFuture<'_, ElicitationAnswer> {
        let answer = match request.kind {
            ElicitationKind::Form { schema } => {
                let properties = schema["properties"].as_object().cloned().unwrap_or_default();
                let defaults = properties
                    .into_iter()
                    .filter_map(|(name, property)| Some((name, property.get("default")?.clone())));
                ElicitationAnswer::Accept(Some(Value::Object(defaults.collect())))
            }
            _ => ElicitationAnswer::Decline,
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A browser that follows one redirect.
struct Headless;

impl Browser for Headless {
    fn redirect_uri(&self) -> String {
        "http://localhost:3000/callback".to_owned()
    }

    fn authorize(&self, url: String) -> BoxFuture<'_, Result<String, BoxError>> {
        Box::pin(async move {
            let none = reqwest::redirect::Policy::none();
            let client = reqwest::Client::builder().redirect(none).build()?;
            let response = client.get(url).send().await?;
            let location = response.headers().get("location").ok_or("no redirect")?;
            Ok(location.to_str()?.to_owned())
        })
    }
}

/// Credentials in memory.
#[derive(Default)]
struct InMemory(Mutex<HashMap<String, Secret>>);

impl Credentials for InMemory {
    fn load(&self, server: &str) -> Result<Option<Secret>, BoxError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned())
    }

    fn save(&self, server: &str, credentials: Option<Secret>) -> Result<(), BoxError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match credentials {
            Some(secret) => all.insert(server.to_owned(), secret),
            None => all.remove(server),
        };
        Ok(())
    }
}
