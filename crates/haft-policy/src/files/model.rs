//! `[model]`: the model of `haft run` and `haft chat`, how it is reached, and what it costs.
//!
//! In: the table of a file. Out: settings with their location. A key is only named here, as an
//! environment variable or a stored secret; a key that is written into the file is a mistake.
//! INVARIANT: the name, the address and the key come from one file, so that no file sends the key
//! of another to its own address.

use std::{path::PathBuf, time::Duration};

use super::{
    ConfigFile,
    amount::money,
    content::FileContent,
    node::{Fields, Node, Reader},
    relative_path::directory,
};
use crate::{pattern::PathBase, rule::SourceLocation};

const KEYS: &[&str] = &[
    "name",
    "base_url",
    "key",
    "proxy",
    "ca_file",
    "connect_timeout",
    "first_byte_timeout",
    "gap_timeout",
    "total_timeout",
    "max_retries",
    "streaming",
    "context_tokens",
    "max_output_tokens",
    "price",
];
const PRICE_KEYS: &[&str] = &["input", "output", "cached_input", "cache_write"];

/// The merged settings of the model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ModelSettings {
    /// The model, as in `anthropic:NAME`, with its address and its key.
    pub endpoint: Option<ModelEndpoint>,
    /// An HTTP proxy.
    pub proxy: Option<String>,
    /// A file with certificates of own authorities.
    pub ca_file: Option<PathBuf>,
    /// How long a connection may take.
    pub connect_timeout: Option<Duration>,
    /// How long the head of a response may take.
    pub first_byte_timeout: Option<Duration>,
    /// How long the time between two chunks of a response may be.
    pub gap_timeout: Option<Duration>,
    /// How long one model call may take in all.
    pub total_timeout: Option<Duration>,
    /// How often a request is sent again.
    pub max_retries: Option<u32>,
    /// Whether responses are streamed.
    pub streaming: Option<bool>,
    /// The location of the strongest section; `None` if no file has one.
    pub location: Option<SourceLocation>,
}

/// A model, its address, its key, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelEndpoint {
    /// The model, as in `anthropic:NAME`.
    pub name: String,
    /// The address of the API.
    pub base_url: Option<String>,
    /// Where the key is.
    pub key: Option<KeyReference>,
    /// Its price.
    pub price: Option<ModelPrice>,
    /// How many tokens a request and its response may have together.
    pub context_tokens: Option<u64>,
    /// How many tokens a response may have.
    pub max_output_tokens: Option<u64>,
    /// The location of its declaration.
    pub location: SourceLocation,
}

/// Where a key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyReference {
    /// In an environment variable.
    Variable(String),
    /// In the user's secrets: `secret://NAME`.
    Secret(String),
}

/// A price in millionths of the currency unit for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelPrice {
    /// Input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input from the provider's cache.
    pub cached_input: Option<u64>,
    /// Input that is written to the provider's cache.
    pub cache_write: Option<u64>,
}

impl ModelSettings {
    /// Adds the settings of a weaker file.
    pub(super) fn add(&mut self, weaker: Self) {
        let own = std::mem::take(self);
        *self = Self {
            endpoint: own.endpoint.or(weaker.endpoint),
            proxy: own.proxy.or(weaker.proxy),
            ca_file: own.ca_file.or(weaker.ca_file),
            connect_timeout: own.connect_timeout.or(weaker.connect_timeout),
            first_byte_timeout: own.first_byte_timeout.or(weaker.first_byte_timeout),
            gap_timeout: own.gap_timeout.or(weaker.gap_timeout),
            total_timeout: own.total_timeout.or(weaker.total_timeout),
            max_retries: own.max_retries.or(weaker.max_retries),
            streaming: own.streaming.or(weaker.streaming),
            location: own.location.or(weaker.location),
        };
    }
}

/// Reads `[model]`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    node: &Node,
    file: &ConfigFile,
    anchor: &PathBase,
    content: &mut FileContent,
) {
    let Some(fields) = reader.table(node, "`[model]`", KEYS) else { return };
    let own = &mut content.model;
    own.location = Some(reader.location(node.at));
    own.endpoint = endpoint(reader, node, &fields);
    own.proxy = fields.line(reader, "proxy");
    own.ca_file = fields.with(reader, "ca_file", |reader, node, what| {
        let text = reader.text(node, what)?;
        match directory(text, file, anchor) {
            Ok(path) => Some(path),
            Err(why) => {
                reader.wrong(
                    node.at,
                    format!("the file `{text}` was not found: {why}"),
                    "write an absolute path, as in `/etc/ssl/own.pem`, or start it with `~/`",
                );
                None
            }
        }
    });
    own.connect_timeout = fields.field(reader, "connect_timeout");
    own.first_byte_timeout = fields.field(reader, "first_byte_timeout");
    own.gap_timeout = fields.field(reader, "gap_timeout");
    own.total_timeout = fields.field(reader, "total_timeout");
    own.max_retries = fields.whole(reader, "max_retries", 0);
    own.streaming = fields.field(reader, "streaming");
}

fn endpoint(reader: &mut Reader<'_>, node: &Node, fields: &Fields<'_>) -> Option<ModelEndpoint> {
    let base_url = fields.line(reader, "base_url");
    let key = fields.with(reader, "key", key);
    let price = fields.with(reader, "price", price);
    let context_tokens = fields.whole(reader, "context_tokens", 1);
    let max_output_tokens = fields.whole(reader, "max_output_tokens", 1);
    let Some(name) = fields.entry("name") else {
        let about_one = ["base_url", "key", "price", "context_tokens", "max_output_tokens"];
        if let Some(entry) = about_one.iter().find_map(|key| fields.entry(key)) {
            reader.wrong(
                entry.at,
                format!("`{}` in `[model]` without `name`", entry.key),
                "these keys are about one model: name it, as in `name = \"anthropic:NAME\"`",
            );
        }
        return None;
    };
    let name = reader.line(&name.value, "`name`")?.to_owned();
    let location = reader.location(node.at);
    Some(ModelEndpoint { name, base_url, key, price, context_tokens, max_output_tokens, location })
}

fn key(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<KeyReference> {
    let text = reader.text(node, what)?;
    let is_variable = text.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    if is_variable {
        return Some(KeyReference::Variable(text.to_owned()));
    }
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    match text.strip_prefix("secret://") {
        Some(name) if is_name(name) => Some(KeyReference::Secret(name.to_owned())),
        _ => {
            // The text may be a key, so it is not repeated.
            reader.wrong(
                node.at,
                "`key` must name an environment variable or a secret, and not be the key itself",
                "write `key = \"ANTHROPIC_API_KEY\"`, or `key = \"secret://NAME\"`",
            );
            None
        }
    }
}

fn price(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<ModelPrice> {
    let fields = reader.table(node, what, PRICE_KEYS)?;
    let (input, output) =
        (fields.with(reader, "input", money), fields.with(reader, "output", money));
    let cached_input = fields.with(reader, "cached_input", money);
    let cache_write = fields.with(reader, "cache_write", money);
    for key in ["input", "output"] {
        if fields.entry(key).is_none() {
            reader.wrong(
                node.at,
                format!("`price` without `{key}`"),
                "write both, for a million tokens: `price = { input = 3, output = 15 }`",
            );
        }
    }
    Some(ModelPrice { input: input?, output: output?, cached_input, cache_write })
}

#[cfg(test)]
mod tests {
    use haft_core::Error;

    use super::{super::*, *};

    fn file(text: &str, layer: ConfigLayer) -> ConfigFile {
        ConfigFile {
            layer,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: "/me/work".into(),
            text: text.to_owned(),
        }
    }

    fn read(files: &[ConfigFile], trusted: bool) -> Result<PolicyConfig, Error> {
        let options = LoadOptions { home: Some("/me".into()), trusted, ..LoadOptions::default() };
        PolicyConfig::read(files, &options)
    }

    const ALL: &str = "[model]\nname = \"anthropic:claude\"\nbase_url = \"https://gateway/v1\"\n\
        key = \"secret://work\"\nproxy = \"http://proxy:3128\"\nca_file = \"~/ca.pem\"\n\
        connect_timeout = \"3s\"\nfirst_byte_timeout = \"1m\"\ngap_timeout = \"2m\"\n\
        total_timeout = \"1h\"\nmax_retries = 0\nstreaming = false\ncontext_tokens = 100_000\n\
        max_output_tokens = 8_000\nprice = { input = 3, output = 15, cached_input = 0.3 }\n";

    #[test]
    fn settings_of_a_trusted_file_apply() {
        let model = read(&[file(ALL, ConfigLayer::Project)], true).unwrap().model;
        let endpoint = model.endpoint.unwrap();
        assert_eq!(endpoint.name, "anthropic:claude");
        assert_eq!(endpoint.base_url.as_deref(), Some("https://gateway/v1"));
        assert_eq!(endpoint.key, Some(KeyReference::Secret("work".to_owned())));
        let price = endpoint.price.unwrap();
        assert_eq!((price.input, price.output), (3_000_000, 15_000_000));
        assert_eq!((price.cached_input, price.cache_write), (Some(300_000), None));
        assert_eq!(model.ca_file, Some("/me/ca.pem".into()));
        assert_eq!((model.max_retries, model.streaming), (Some(0), Some(false)));
        assert_eq!(model.total_timeout, Some(Duration::from_secs(3_600)));
    }

    #[test]
    fn untrusted_directory_chooses_no_model_server_or_key() {
        for text in [ALL, "[model]\nproxy = \"http://other:1\"\n", "[model]\nstreaming = false\n"] {
            let setup = read(&[file(text, ConfigLayer::Project)], false).unwrap();
            assert_eq!(setup.model, ModelSettings::default());
            let notes: Vec<&str> = setup.notes.iter().map(|note| &*note.message).collect();
            assert!(notes.iter().any(|note| note.contains("1 section `[model]`")), "{notes:?}");
        }
    }

    #[test]
    fn name_address_and_key_come_from_one_file() {
        let own = file(
            "[model]\nname = \"openai:a\"\nkey = \"WORK_KEY\"\nproxy = \"http://p:1\"\n",
            ConfigLayer::User,
        );
        let project = file(
            "[model]\nname = \"openai:b\"\nbase_url = \"https://other/v1\"\n",
            ConfigLayer::Project,
        );
        let model = read(&[own, project], true).unwrap().model;
        let endpoint = model.endpoint.unwrap();
        assert_eq!((endpoint.name.as_str(), endpoint.key), ("openai:b", None));
        assert_eq!(model.proxy.as_deref(), Some("http://p:1"), "how to connect is the user's");
    }

    #[test]
    fn mistakes_are_explained_and_a_key_is_not_repeated() {
        for (wrong, why) in [
            ("key = \"sk-ant-hidden\"\nname = \"a:b\"", "not be the key itself"),
            ("key = \"secret://../x\"\nname = \"a:b\"", "not be the key itself"),
            ("base_url = \"https://x/v1\"", "`base_url` in `[model]` without `name`"),
            ("name = 3", "`name` must be"),
            ("nme = \"a:b\"", "did you mean `name`?"),
            ("name = \"a:b\"\nprice = { input = 3 }", "`price` without `output`"),
            ("gap_timeout = 3", "gap_timeout"),
            ("max_retries = -1", "max_retries"),
            ("ca_file = \"ca.pem\"", "it is relative"),
        ] {
            let text = format!("[model]\n{wrong}\n");
            let error = read(&[file(&text, ConfigLayer::User)], true).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
            assert!(!error.contains("sk-ant-hidden"), "{error}");
        }
    }
}
