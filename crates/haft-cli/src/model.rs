//! The model of `haft run` and `haft chat`: a script, or a model of a provider.
//!
//! In: `--model`, the section `[model]` of the configuration, the environment. Out: a model.
//! FAIL CLOSED: a key is sent only to the provider's own address, or to the address of the section
//! that names the key. The section of an untrusted directory is not here.

use std::{path::Path, sync::Arc};

use haft::{
    agent::{Model, Price, ScriptedModel},
    policy::{KeyReference, ModelEndpoint, ModelSettings},
    secrets::Secret,
};
use haft_models::{Provider, ProviderModel, ProviderModelBuilder, Retries, Timeouts};

use crate::{error::Problem, host_env::HostEnv, input, model_key, proxy};

/// How many tokens one message of a model of a provider may have, if nothing else is known.
const MAX_TOKENS: u64 = 16_384;
/// The same for a server of the user: many have a small context window.
const MAX_TOKENS_OF_OWN_SERVER: u64 = 4_096;

/// A model that is ready to be asked.
pub(crate) struct LoadedModel {
    pub(crate) model: Arc<dyn Model>,
    /// Whether it plays a script.
    pub(crate) is_script: bool,
    /// The task that a script names.
    pub(crate) task: Option<String>,
    /// The key, so that it can be redacted everywhere.
    pub(crate) key: Option<Secret>,
    /// How many tokens one message may have; `None` for the default of the loop.
    pub(crate) max_tokens: Option<u64>,
}

/// Loads the model that an option or the configuration names.
pub(crate) fn load(
    option: Option<&str>,
    settings: &ModelSettings,
    host: &HostEnv,
) -> Result<LoadedModel, Problem> {
    let configured = settings.endpoint.as_ref();
    let Some(name) = option.or(configured.map(|endpoint| endpoint.name.as_str())) else {
        return Err(Problem::new("no model is configured")
            .hint(
                "name one: `--model anthropic:NAME`, `openai:NAME`, `openai-chat:NAME`, \
                 `gemini:NAME`, `http://localhost:11434/v1#NAME`, or `script:FILE`",
            )
            .hint("or set `name` in the section `[model]` of haft.toml")
            .hint("`haft demo` shows an agent at work without a model of your own"));
    };
    if let Some(path) = name.strip_prefix("script:").filter(|path| !path.is_empty()) {
        return script(path);
    }
    // What the section says about one model does not apply to another.
    let endpoint = configured.filter(|endpoint| endpoint.name == name);
    let builder = ProviderModel::parse(name).map_err(|error| {
        let problem = Problem::from(error);
        match Path::new(name).is_file() {
            true => Problem::new(format!("there is no model `{name}`"))
                .hint(format!("did you mean `--model script:{name}`?")),
            false => problem.hint("`script:FILE` plays a file with one message per line"),
        }
    })?;
    provider(builder, endpoint, settings, host)
}

fn provider(
    mut builder: ProviderModelBuilder,
    endpoint: Option<&ModelEndpoint>,
    settings: &ModelSettings,
    host: &HostEnv,
) -> Result<LoadedModel, Problem> {
    let provider = builder.provider();
    let mut max_tokens = match provider {
        Provider::Compatible => MAX_TOKENS_OF_OWN_SERVER,
        _ => MAX_TOKENS,
    };
    if let Some(endpoint) = endpoint {
        if let Some(url) = &endpoint.base_url {
            builder = builder.base_url(url);
        }
        if let Some(price) = endpoint.price {
            let mut own = Price { input: price.input, output: price.output, ..Price::default() };
            (own.cached_input, own.cache_write) = (price.cached_input, price.cache_write);
            builder = builder.price(own);
        }
        if let Some(tokens) = endpoint.context_tokens {
            builder = builder.context_tokens(tokens);
        }
        if let Some(tokens) = endpoint.max_output_tokens {
            builder = builder.max_output_tokens(tokens);
            max_tokens = tokens;
        }
    }
    let key = key(provider, endpoint, host)?;
    if let Some(key) = &key {
        builder = builder.key(key.clone());
    }
    if let Some(path) = &settings.ca_file {
        let pem = std::fs::read(path).map_err(|error| {
            Problem::new(format!("cannot read `{}`: {error}", path.display()))
                .hint("`ca_file` in `[model]` names a file with certificates in PEM")
        })?;
        builder = builder.ca_root(pem);
    }
    let address = builder.address().unwrap_or_default();
    let proxy = settings.proxy.clone().or_else(|| proxy::of_environment(address, &host.variables));
    if let Some(proxy) = proxy {
        builder = builder.proxy(proxy);
    }
    let model = builder
        .timeouts(timeouts(settings))
        .retries(settings.max_retries.map_or_else(Retries::default, |n| Retries::default().max(n)))
        .streaming(settings.streaming.unwrap_or(true))
        .build()?;
    let (model, task) = (Arc::new(model), None);
    Ok(LoadedModel { model, is_script: false, task, key, max_tokens: Some(max_tokens) })
}

fn timeouts(settings: &ModelSettings) -> Timeouts {
    let mut timeouts = Timeouts::default();
    timeouts.connect = settings.connect_timeout.unwrap_or(timeouts.connect);
    timeouts.first_byte = settings.first_byte_timeout.unwrap_or(timeouts.first_byte);
    timeouts.gap = settings.gap_timeout.unwrap_or(timeouts.gap);
    timeouts.total = settings.total_timeout.unwrap_or(timeouts.total);
    timeouts
}

/// The key of a model.
fn key(
    provider: Provider,
    endpoint: Option<&ModelEndpoint>,
    host: &HostEnv,
) -> Result<Option<Secret>, Problem> {
    if let Some(named) = endpoint.and_then(|endpoint| endpoint.key.as_ref()) {
        return match named {
            KeyReference::Variable(name) => model_key::of_variable(name, host)
                .ok_or_else(|| {
                    Problem::new(format!("the environment variable `{name}` is not set"))
                        .hint("`key` in `[model]` names it as the key of the model")
                })
                .map(Some),
            KeyReference::Secret(name) => model_key::of_secret(name, host).map(Some),
        };
    }
    // FAIL CLOSED: the key of a provider is not sent to another address, unless it is named.
    if endpoint.is_some_and(|endpoint| endpoint.base_url.is_some()) {
        return Ok(None);
    }
    let names = variables(provider);
    let Some(first) = names.first() else { return Ok(None) };
    match names.iter().find_map(|name| model_key::of_variable(name, host)) {
        Some(key) => Ok(Some(key)),
        None => {
            Err(Problem::new(format!("the key of {provider} is missing: `{first}` is not set"))
                .hint(format!("set it, as in `export {first}=…`"))
                .hint("or name another one with `key` in the section `[model]` of haft.toml"))
        }
    }
}

/// The environment variables that have the key of a provider, by convention.
pub(crate) fn variables(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Anthropic => &["ANTHROPIC_API_KEY"],
        Provider::OpenAi | Provider::OpenAiChat => &["OPENAI_API_KEY"],
        Provider::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        _ => &[],
    }
}

/// Loads a script.
fn script(path: &str) -> Result<LoadedModel, Problem> {
    let text = input::file(Path::new(path))?;
    let model = ScriptedModel::parse(&text).map_err(|error| {
        let mut problem = Problem::new(format!("`{path}` is not a script: {}", error.message()));
        for hint in error.hints() {
            problem = problem.hint(hint.clone());
        }
        problem.hint(
            "a message is a line such as {\"text\": \"Hello.\"}; the guide lists the keys \
             (docs/guide/agents.md, Scripts)",
        )
    })?;
    if model.is_empty() {
        let why = format!("`{path}` has no message of the model");
        return Err(Problem::new(why).hint("a message is a line such as {\"text\": \"Hello.\"}"));
    }
    let task = model.task().map(str::to_owned);
    Ok(LoadedModel { model: Arc::new(model), is_script: true, task, key: None, max_tokens: None })
}
