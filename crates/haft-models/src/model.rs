//! A model of a provider, and the builder that sets it up.

use std::{fmt, sync::Arc};

use haft::{
    BoxFuture, Error, ErrorKind,
    agent::{Model, ModelInfo, ModelRequest, Price, Reply},
    secrets::Secret,
    turn::StopReason,
};
use reqwest::{Client, Url};
use serde_json::{Map, Value};

use crate::{
    PriceTable, Provider, Retries, Timeouts,
    failed::About,
    provider::{ModelName, without_user},
    transport::{self, ClientOptions},
};

/// A model of a provider. Clones share their connections.
#[derive(Clone)]
pub struct ProviderModel {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) provider: Provider,
    pub(crate) name: String,
    pub(crate) url: Url,
    pub(crate) client: Client,
    pub(crate) is_streaming: bool,
    pub(crate) timeouts: Timeouts,
    pub(crate) retries: Retries,
    pub(crate) extra: Map<String, Value>,
    pub(crate) about: About,
    info: ModelInfo,
}

impl ProviderModel {
    /// A model of Anthropic.
    pub fn anthropic(name: impl Into<String>, key: impl Into<Secret>) -> ProviderModelBuilder {
        Self::builder(Provider::Anthropic, name).key(key)
    }

    /// A model of OpenAI, through the Responses API.
    pub fn openai(name: impl Into<String>, key: impl Into<Secret>) -> ProviderModelBuilder {
        Self::builder(Provider::OpenAi, name).key(key)
    }

    /// A model of OpenAI, through the Chat Completions API.
    pub fn openai_chat(name: impl Into<String>, key: impl Into<Secret>) -> ProviderModelBuilder {
        Self::builder(Provider::OpenAiChat, name).key(key)
    }

    /// A model of Gemini.
    pub fn gemini(name: impl Into<String>, key: impl Into<Secret>) -> ProviderModelBuilder {
        Self::builder(Provider::Gemini, name).key(key)
    }

    /// A model of a server that is compatible with OpenAI Chat Completions. Its key is optional.
    ///
    /// ```
    /// use haft_models::ProviderModel;
    ///
    /// let model = ProviderModel::compatible("http://localhost:11434/v1", "llama3.2").build()?;
    /// # Ok::<(), haft::Error>(())
    /// ```
    pub fn compatible(
        base_url: impl Into<String>,
        name: impl Into<String>,
    ) -> ProviderModelBuilder {
        Self::builder(Provider::Compatible, name).base_url(base_url)
    }

    /// Parses `anthropic:NAME`, `openai:NAME`, `openai-chat:NAME`, `gemini:NAME`, or
    /// `http://HOST/v1#NAME` for a server that is compatible with OpenAI Chat Completions.
    ///
    /// # Errors
    /// Fails if it is none of these.
    pub fn parse(text: &str) -> Result<ProviderModelBuilder, Error> {
        let ModelName { provider, base_url, name } = ModelName::parse(text)?;
        let builder = Self::builder(provider, name);
        Ok(match base_url {
            Some(base_url) => builder.base_url(base_url),
            None => builder,
        })
    }

    /// A model of a provider.
    pub fn builder(provider: Provider, name: impl Into<String>) -> ProviderModelBuilder {
        ProviderModelBuilder {
            provider,
            name: name.into(),
            key: None,
            base_url: None,
            proxy: None,
            ca_roots: Vec::new(),
            timeouts: Timeouts::default(),
            retries: Retries::default(),
            is_streaming: true,
            prices: None,
            price: None,
            context_tokens: None,
            max_output_tokens: None,
            extra: Map::new(),
        }
    }

    /// Returns the provider.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.inner.provider
    }
}

impl Model for ProviderModel {
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<StopReason, Error>> {
        Box::pin(self.ask(request, reply))
    }

    fn info(&self) -> ModelInfo {
        self.inner.info.clone()
    }
}

impl fmt::Debug for ProviderModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderModel")
            .field("provider", &self.inner.provider)
            .field("name", &self.inner.name)
            .finish_non_exhaustive()
    }
}

/// Sets up a [`ProviderModel`].
#[derive(Clone)]
#[must_use = "call `build`"]
pub struct ProviderModelBuilder {
    provider: Provider,
    name: String,
    key: Option<Secret>,
    base_url: Option<String>,
    proxy: Option<String>,
    ca_roots: Vec<Vec<u8>>,
    timeouts: Timeouts,
    retries: Retries,
    is_streaming: bool,
    prices: Option<PriceTable>,
    price: Option<Price>,
    context_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    extra: Map<String, Value>,
}

impl ProviderModelBuilder {
    /// Returns the provider.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns the address of the API; `None` for a compatible server without one.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.base_url.as_deref().or(self.provider.default_base_url())
    }

    /// Sets the key. It is sent in a header and is never part of an error or of debug output.
    pub fn key(mut self, key: impl Into<Secret>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the address of the API, with its version: `https://gateway.example/v1`. The key is sent
    /// there.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Sets an HTTP proxy: `http://host:3128` or `http://user:password@host:3128`.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Trusts the certificates of an own authority, as PEM, besides the public ones.
    pub fn ca_root(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_roots.push(pem.into());
        self
    }

    /// Sets how long each part of a request may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how often a request is sent again.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Sets whether the response is streamed. The default is yes.
    pub fn streaming(mut self, on: bool) -> Self {
        self.is_streaming = on;
        self
    }

    /// Sets the table of prices and limits. The default is [`PriceTable::builtin`].
    pub fn prices(mut self, table: PriceTable) -> Self {
        self.prices = Some(table);
        self
    }

    /// Sets the price. It counts instead of the table's.
    pub fn price(mut self, price: Price) -> Self {
        self.price = Some(price);
        self
    }

    /// Sets how many tokens a request and its response may have together.
    pub fn context_tokens(mut self, tokens: u64) -> Self {
        self.context_tokens = Some(tokens);
        self
    }

    /// Sets how many tokens a response may have.
    pub fn max_output_tokens(mut self, tokens: u64) -> Self {
        self.max_output_tokens = Some(tokens);
        self
    }

    /// Sets a further field of the request, as in `extra("temperature", 0.2)`. An object is merged
    /// with what is there.
    pub fn extra(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(field.into(), value.into());
        self
    }

    /// Makes the model. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails if the address, the proxy, a certificate or the key cannot be used, or the key of a
    /// public API is missing.
    pub fn build(self) -> Result<ProviderModel, Error> {
        let wrong = |why: String| Error::new(ErrorKind::BadConfig, why);
        let provider = self.provider;
        if self.name.trim().is_empty() {
            return Err(wrong("the model has no name".to_owned()));
        }
        if self.key.is_none() && self.base_url.is_none() && provider != Provider::Compatible {
            let why = format!("the model `{provider}:{}` needs a key", self.name);
            return Err(Error::new(ErrorKind::Authentication, why).hint("set it with `key`"));
        }
        let default = provider.default_base_url().map(str::to_owned);
        let Some(base) = self.base_url.or(default) else {
            return Err(wrong("a compatible server has no address".to_owned())
                .hint("set it with `base_url`"));
        };
        transport::address(&base)?;
        let url = transport::address(&base)
            .and_then(|_| parse_url(&provider.url(&base, &self.name, self.is_streaming)))?;
        let client = transport::client(&ClientOptions {
            provider,
            key: self.key.as_ref(),
            proxy: self.proxy.as_deref(),
            ca_roots: &self.ca_roots,
            connect: self.timeouts.connect,
        })?;
        let about = About {
            provider,
            model: self.name.clone(),
            url: without_user(url.as_str()),
            proxy: self.proxy.as_deref().map(without_user),
            key: self.key,
        };
        let table = self.prices.unwrap_or_else(PriceTable::builtin);
        let known = table.find(provider, &self.name);
        let info = ModelInfo {
            name: self.name.clone(),
            dialect: provider.dialect(),
            price: self.price.or(known.map(crate::ModelEntry::price)),
            context_tokens: self.context_tokens.or(known.and_then(|e| e.context_tokens)),
            max_output_tokens: self.max_output_tokens.or(known.and_then(|e| e.max_output_tokens)),
        };
        let inner = Inner {
            provider,
            name: self.name,
            url,
            client,
            is_streaming: self.is_streaming,
            timeouts: self.timeouts,
            retries: self.retries,
            extra: self.extra,
            about,
            info,
        };
        Ok(ProviderModel { inner: Arc::new(inner) })
    }
}

fn parse_url(text: &str) -> Result<Url, Error> {
    Url::parse(text).map_err(|why| {
        Error::new(ErrorKind::BadConfig, format!("`{text}` is not an address: {why}"))
    })
}

impl fmt::Debug for ProviderModelBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderModelBuilder")
            .field("provider", &self.provider)
            .field("name", &self.name)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
