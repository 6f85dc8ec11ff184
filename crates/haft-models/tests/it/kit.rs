//! What the tests share: providers at a local server, and an agent with one tool.

use std::time::Duration;

use haft::{
    Failure, Runtime, ToolRegistry,
    agent::{Agent, EndReason, Price, RunResult, Runner},
    tool,
};
use haft_models::{Provider, ProviderModel, ProviderModelBuilder, Retries, Timeouts};

use crate::server::Server;

/// A key that no other text contains.
pub(crate) const KEY: &str = "key-8c1f77d2a94b4e0f";

pub(crate) const PROVIDERS: [Provider; 5] = [
    Provider::Anthropic,
    Provider::OpenAi,
    Provider::OpenAiChat,
    Provider::Gemini,
    Provider::Compatible,
];

/// Returns the population of a city.
#[tool(read_only, capabilities())]
async fn population(
    /// The city.
    city: String,
) -> Result<u64, Failure> {
    match city.as_str() {
        "Oslo" => Ok(717_710),
        _ => Err(Failure::failed(format!("`{city}` is not in the list"))),
    }
}

pub(crate) fn runner() -> Runner {
    let registry = ToolRegistry::builder().add(PopulationTool).build().unwrap();
    Runner::new(Runtime::builder().registry(registry).build().unwrap())
}

/// The base URL of a provider at a server.
pub(crate) fn base(provider: Provider, server: &Server) -> String {
    server.url(if provider == Provider::Gemini { "/v1beta" } else { "/v1" })
}

/// A model at a local server, with short waits.
pub(crate) fn model(provider: Provider, server: &Server) -> ProviderModelBuilder {
    let retries = Retries::default().first_wait(Duration::from_millis(5));
    let second = Duration::from_secs(1);
    let timeouts = Timeouts::default().connect(second).first_byte(second * 20).gap(second * 20);
    ProviderModel::builder(provider, "some-model")
        .key(KEY)
        .base_url(base(provider, server))
        .retries(retries)
        .timeouts(timeouts.total(second * 60))
        .price(Price {
            input: 1_000_000,
            output: 10_000_000,
            cached_input: Some(100_000),
            cache_write: Some(2_000_000),
        })
}

/// Runs an agent on a question.
pub(crate) async fn run(model: ProviderModelBuilder) -> RunResult {
    let agent = Agent::new("geographer", model.build().unwrap()).instructions("Look numbers up.");
    runner().run(&agent, "How large is Oslo?").await.unwrap()
}

/// What a failed run says: the message and the hints.
#[track_caller]
pub(crate) fn failure(result: &RunResult) -> (String, Vec<String>, haft::ErrorKind) {
    match &result.reason {
        EndReason::ModelFailed { message, kind, hints } => (message.clone(), hints.clone(), *kind),
        other => panic!("{other:?}: {}", result.text),
    }
}
