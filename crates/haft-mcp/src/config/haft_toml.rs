//! `[mcp.servers.NAME]` of `haft.toml`. An unknown key is a mistake: a server with a typo must not
//! silently be trusted more.

use std::{collections::BTreeMap, time::Duration};

use haft::{secrets::Secret, tool::parse_duration};
use serde::Deserialize;
use serde_json::Value;

use super::{ConfigContext, FoundServer, expand::Variables, found};
use crate::client::{
    Era, HttpEndpoint, OAuthSettings, Pinning, ServerConfig, ServerTransport, ServerTrust,
    StdioCommand,
};

/// One table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Variables that are passed on, by name.
    #[serde(default)]
    pass_env: Vec<String>,
    cwd: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The variable that has the bearer token.
    token_env: Option<String>,
    oauth: Option<OAuth>,
    prefix: Option<String>,
    trust: Option<String>,
    pinning: Option<String>,
    era: Option<String>,
    enabled: Option<bool>,
    enabled_tools: Option<Vec<String>>,
    #[serde(default)]
    disabled_tools: Vec<String>,
    timeout: Option<String>,
    max_timeout: Option<String>,
    start_timeout: Option<String>,
    start_wait: Option<String>,
    concurrency: Option<usize>,
    #[serde(default)]
    always_load: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OAuth {
    client_id: Option<String>,
    client_secret_env: Option<String>,
    client_metadata_url: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    callback_port: Option<u16>,
}

/// Reads one table.
pub(super) fn read(
    name: &str,
    table: &Value,
    context: &ConfigContext,
) -> Result<FoundServer, String> {
    let table = Table::deserialize(table).map_err(|why| why.to_string())?;
    let is_enabled = table.enabled.unwrap_or(true);
    let mut variables = Variables::new(context);
    let config = config(name, table, context, &mut variables)?;
    config.check().map_err(|why| why.to_string())?;
    let mut found = found(name, Ok(config), variables.notes);
    found.is_enabled = is_enabled;
    Ok(found)
}

fn config(
    name: &str,
    table: Table,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
) -> Result<ServerConfig, String> {
    let transport = match (&table.command, &table.url) {
        (Some(program), None) => stdio(program, &table, context, variables)?,
        (None, Some(url)) => http(url, &table, context, variables)?,
        _ => return Err("it needs either `command` or `url`".to_owned()),
    };
    let mut config = ServerConfig::new(table.prefix.as_deref().unwrap_or(name), transport);
    config.trust = choice(
        "trust",
        table.trust.as_deref(),
        &[("none", ServerTrust::Untrusted), ("annotations", ServerTrust::Annotations)],
    )?;
    config.pinning = choice(
        "pinning",
        table.pinning.as_deref(),
        &[("pin", Pinning::Pin), ("warn", Pinning::Warn), ("off", Pinning::Off)],
    )?;
    config.era = choice(
        "era",
        table.era.as_deref(),
        &[("auto", Era::Auto), ("2025-11-25", Era::Legacy), ("2026-07-28", Era::Modern)],
    )?;
    config.enabled_tools = table.enabled_tools;
    config.disabled_tools = table.disabled_tools;
    config.concurrency = table.concurrency;
    config.always_load = table.always_load;
    set(&mut config.timeout, "timeout", table.timeout.as_deref())?;
    config.max_timeout = config.max_timeout.max(config.timeout);
    set(&mut config.max_timeout, "max_timeout", table.max_timeout.as_deref())?;
    if config.max_timeout < config.timeout {
        return Err("`max_timeout` is shorter than `timeout`".to_owned());
    }
    set(&mut config.start_timeout, "start_timeout", table.start_timeout.as_deref())?;
    set(&mut config.start_wait, "start_wait", table.start_wait.as_deref())?;
    Ok(config)
}

fn stdio(
    program: &str,
    table: &Table,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
) -> Result<ServerTransport, String> {
    if table.token_env.is_some() || table.oauth.is_some() || !table.headers.is_empty() {
        return Err("`token_env`, `oauth` and `headers` are for a server with `url`".to_owned());
    }
    let mut command = StdioCommand::new(variables.expand(program));
    command.args = table.args.iter().map(|arg| variables.expand(arg)).collect();
    command.environment = context.base_environment();
    for name in &table.pass_env {
        match context.variables.get(name) {
            Some(value) => drop(command.environment.insert(name.clone(), value.clone())),
            None => variables.notes.push(format!("the variable `{name}` is not set")),
        }
    }
    for (name, value) in &table.env {
        command.environment.insert(name.clone(), variables.expand(value));
    }
    command.directory = Some(match &table.cwd {
        Some(directory) => context.workspace.join(variables.expand(directory)),
        None => context.workspace.clone(),
    });
    Ok(ServerTransport::Stdio(command))
}

fn http(
    url: &str,
    table: &Table,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
) -> Result<ServerTransport, String> {
    if !table.args.is_empty() || !table.env.is_empty() || !table.pass_env.is_empty() {
        return Err("`args`, `env` and `pass_env` are for a server with `command`".to_owned());
    }
    let mut endpoint = HttpEndpoint::new(variables.expand(url));
    let headers = table.headers.iter();
    endpoint.headers = headers
        .map(|(name, value)| (name.clone(), Secret::from(variables.expand(value).as_str())))
        .collect();
    let secret = |name: &String| match context.variables.get(name) {
        Some(value) => Ok(Secret::from(value.as_str())),
        None => Err(format!("the variable `{name}` is not set")),
    };
    endpoint.token = table.token_env.as_ref().map(secret).transpose()?;
    if let Some(oauth) = &table.oauth {
        endpoint.oauth = Some(OAuthSettings {
            client_id: oauth.client_id.clone(),
            client_secret: oauth.client_secret_env.as_ref().map(secret).transpose()?,
            client_metadata_url: oauth.client_metadata_url.clone(),
            scopes: oauth.scopes.clone(),
            callback_port: oauth.callback_port,
        });
    }
    Ok(ServerTransport::Http(endpoint))
}

fn choice<T: Copy + Default>(
    key: &str,
    value: Option<&str>,
    choices: &[(&str, T)],
) -> Result<T, String> {
    let Some(value) = value else { return Ok(T::default()) };
    match choices.iter().find(|(name, _)| *name == value) {
        Some((_, choice)) => Ok(*choice),
        None => {
            let names: Vec<String> =
                choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            Err(format!("`{key}` is \"{value}\"; it takes {}", names.join(", ")))
        }
    }
}

fn set(limit: &mut Duration, key: &str, value: Option<&str>) -> Result<(), String> {
    if let Some(text) = value {
        *limit = parse_duration(text).map_err(|why| format!("`{key}`: {why}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(table: Value) -> Result<FoundServer, String> {
        read("s", &table, &ConfigContext::default())
    }

    #[test]
    fn every_key_is_read() {
        let found = of(json!({
            "command": "srv", "args": ["-x"], "env": {"A": "1"}, "prefix": "p",
            "trust": "annotations", "pinning": "warn", "era": "2025-11-25", "enabled": false,
            "enabled_tools": ["a"], "disabled_tools": ["b"], "timeout": "30s",
            "max_timeout": "2m", "start_timeout": "5s", "start_wait": "1s", "concurrency": 2,
            "always_load": true,
        }));
        let found = found.unwrap();
        assert!(!found.is_enabled);
        let config = found.config.unwrap();
        assert_eq!((config.name.as_str(), config.trust), ("p", ServerTrust::Annotations));
        assert_eq!((config.pinning, config.era), (Pinning::Warn, Era::Legacy));
        assert_eq!(config.max_timeout, Duration::from_secs(120));
    }

    #[test]
    fn mistakes_are_errors() {
        for (table, word) in [
            (json!({"command": "x", "trsut": "annotations"}), "trsut"),
            (json!({"command": "x", "trust": "yes"}), "`trust`"),
            (json!({"command": "x", "url": "https://x/"}), "either"),
            (json!({"url": "https://x/", "args": ["a"]}), "`args`"),
            (json!({"command": "x", "token_env": "T"}), "`url`"),
            (json!({"url": "https://x/", "token_env": "T"}), "not set"),
            (json!({"command": "x", "timeout": "soon"}), "`timeout`"),
            (json!({"command": "x", "timeout": "2m", "max_timeout": "1m"}), "shorter"),
            (json!({"command": "x", "prefix": "a b"}), "name"),
        ] {
            let why = of(table.clone()).unwrap_err();
            assert!(why.contains(word), "{table}: {why}");
        }
    }
}
