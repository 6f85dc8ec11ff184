//! What differs between providers besides their formats: addresses, headers, and a few fields of a
//! request.

use std::fmt;

use haft::{Dialect, Error, ErrorKind};
use serde_json::{Map, Value, json};

/// The API that a model is asked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAi,
    /// OpenAI Chat Completions.
    OpenAiChat,
    /// Gemini.
    Gemini,
    /// A server that is compatible with OpenAI Chat Completions, such as Ollama or vLLM.
    Compatible,
}

/// The version of the API of Anthropic that requests are written for.
const ANTHROPIC_VERSION: &str = "2023-06-01";

impl Provider {
    /// The providers that have a name in [`ProviderModel::parse`](crate::ProviderModel::parse).
    pub const NAMED: [Self; 4] = [Self::Anthropic, Self::OpenAi, Self::OpenAiChat, Self::Gemini];

    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Gemini => "gemini",
            Self::Compatible => "compatible",
        }
    }

    /// Returns the format of its requests and responses.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Anthropic => Dialect::Anthropic,
            Self::OpenAi => Dialect::OpenAiResponses,
            Self::OpenAiChat | Self::Compatible => Dialect::OpenAiChat,
            Self::Gemini => Dialect::Gemini,
        }
    }

    /// Returns the address of its API; `None` for a server of the user.
    #[must_use]
    pub const fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("https://api.anthropic.com/v1"),
            Self::OpenAi | Self::OpenAiChat => Some("https://api.openai.com/v1"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com/v1beta"),
            Self::Compatible => None,
        }
    }

    /// The URL of a request.
    pub(crate) fn url(self, base: &str, model: &str, is_streaming: bool) -> String {
        let base = base.trim_end_matches('/');
        match self {
            // The SDKs of Anthropic take an address without the version.
            Self::Anthropic if !base.ends_with("/v1") => format!("{base}/v1/messages"),
            Self::Anthropic => format!("{base}/messages"),
            Self::OpenAi => format!("{base}/responses"),
            Self::OpenAiChat | Self::Compatible => format!("{base}/chat/completions"),
            Self::Gemini => {
                let model = model.strip_prefix("models/").unwrap_or(model);
                let method =
                    if is_streaming { "streamGenerateContent?alt=sse" } else { "generateContent" };
                format!("{base}/models/{}:{method}", escape_path(model))
            }
        }
    }

    /// The header that carries the key: its name, and the text before the key.
    pub(crate) const fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::Anthropic => ("x-api-key", ""),
            Self::OpenAi | Self::OpenAiChat | Self::Compatible => ("authorization", "Bearer "),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }

    /// The headers of every request, besides the key.
    pub(crate) const fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Anthropic => &[("anthropic-version", ANTHROPIC_VERSION)],
            _ => &[],
        }
    }

    /// Adds the model, the token limit and whether to stream to a body of the dialect.
    pub(crate) fn complete(
        self,
        body: &mut Map<String, Value>,
        model: &str,
        max_tokens: u64,
        is_streaming: bool,
    ) {
        if self == Self::Gemini {
            // The model and the way to answer are in the address.
            let config = body.entry("generationConfig").or_insert_with(|| json!({}));
            config["maxOutputTokens"] = max_tokens.into();
            return;
        }
        body.insert("model".to_owned(), model.into());
        let limit = match self {
            Self::OpenAi => "max_output_tokens",
            Self::OpenAiChat => "max_completion_tokens",
            // Servers that follow OpenAI accept the older name.
            _ => "max_tokens",
        };
        body.insert(limit.to_owned(), max_tokens.into());
        if is_streaming {
            body.insert("stream".to_owned(), true.into());
            if matches!(self, Self::OpenAiChat | Self::Compatible) {
                body.insert("stream_options".to_owned(), json!({"include_usage": true}));
            }
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A model as it is named in configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelName {
    pub(crate) provider: Provider,
    pub(crate) base_url: Option<String>,
    pub(crate) name: String,
}

impl ModelName {
    /// Parses `anthropic:NAME`, `openai:NAME`, `openai-chat:NAME`, `gemini:NAME`, or
    /// `http://HOST/v1#NAME` for a compatible server.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::new(ErrorKind::BadConfig, why);
        let has_name = |name: &str| !name.is_empty() && !name.chars().any(|c| c.is_control());
        if text.starts_with("http://") || text.starts_with("https://") {
            return match text.split_once('#') {
                Some((base, name)) if has_name(name) => Ok(Self {
                    provider: Provider::Compatible,
                    base_url: Some(base.to_owned()),
                    name: name.to_owned(),
                }),
                _ => Err(wrong(format!("`{}` names a server and no model", without_user(text)))
                    .hint("add the model after `#`, as in `http://localhost:11434/v1#llama3.2`")),
            };
        }
        let (provider, name) = text.split_once(':').unwrap_or((text, ""));
        let found = Provider::NAMED.into_iter().find(|known| known.as_str() == provider);
        match found {
            Some(provider) if has_name(name) => {
                Ok(Self { provider, base_url: None, name: name.to_owned() })
            }
            Some(provider) => Err(wrong(format!("`{text}` names no model"))
                .hint(format!("write `{provider}:NAME`, with a model of {provider}"))),
            None => Err(wrong(format!("there is no model `{}`", without_user(text))).hint(
                "a model is `anthropic:NAME`, `openai:NAME`, `openai-chat:NAME`, `gemini:NAME`, \
                 or `http://HOST/v1#NAME` for a server that is compatible with OpenAI",
            )),
        }
    }
}

/// A URL without a password: what is before `@` is left out.
pub(crate) fn without_user(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let host = authority.rsplit('@').next().unwrap_or(authority);
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

/// Escapes what may not be in one segment of a path, so that a name cannot choose another address
/// (path traversal).
fn escape_path(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(byte.into());
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_provider_or_an_address() {
        let parsed = |text: &str| ModelName::parse(text).unwrap();
        assert_eq!(parsed("anthropic:claude").provider, Provider::Anthropic);
        assert_eq!(parsed("openai:gpt").provider, Provider::OpenAi);
        assert_eq!(parsed("openai-chat:gpt").provider, Provider::OpenAiChat);
        assert_eq!(parsed("gemini:flash").name, "flash");
        let own = parsed("http://localhost:11434/v1#llama3.2:3b");
        assert_eq!(own.base_url.as_deref(), Some("http://localhost:11434/v1"));
        assert_eq!((own.provider, own.name.as_str()), (Provider::Compatible, "llama3.2:3b"));
        for (wrong, why) in [
            ("", "there is no model ``"),
            ("claude", "there is no model `claude`"),
            ("other:claude", "there is no model `other:claude`"),
            ("anthropic", "names no model"),
            ("anthropic:", "names no model"),
            ("http://localhost/v1", "names a server and no model"),
            ("https://localhost/v1#", "names a server and no model"),
        ] {
            let error = ModelName::parse(wrong).unwrap_err();
            assert!(error.message().contains(why), "{wrong}: {error}");
            assert_eq!(error.hints().len(), 1, "{wrong}");
        }
        let error = ModelName::parse("http://me:hidden@localhost/v1").unwrap_err().to_string();
        assert!(!error.contains("hidden"), "{error}");
    }

    #[test]
    fn model_name_cannot_choose_another_address() {
        let url = Provider::Gemini.url("https://host/v1beta/", "../../x?y#z", false);
        assert_eq!(url, "https://host/v1beta/models/..%2F..%2Fx%3Fy%23z:generateContent");
        let url = Provider::Gemini.url("https://host/v1beta", "models/flash", true);
        assert_eq!(url, "https://host/v1beta/models/flash:streamGenerateContent?alt=sse");
    }

    #[test]
    fn address_of_anthropic_may_leave_out_the_version() {
        for base in ["https://a", "https://a/", "https://a/v1", "https://a/v1/"] {
            assert_eq!(Provider::Anthropic.url(base, "m", true), "https://a/v1/messages");
        }
        assert_eq!(Provider::OpenAi.url("https://a/v1", "m", true), "https://a/v1/responses");
        assert_eq!(
            Provider::Compatible.url("http://a/v1/", "m", true),
            "http://a/v1/chat/completions"
        );
    }
}
