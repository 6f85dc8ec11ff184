//! `[mcp.servers.NAME]` of `haft.toml`. An unknown key is a mistake: a server with a typo must not
//! silently be trusted more.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use haft::{policy::SandboxSettings, secrets::Secret, tool::parse_duration};
use serde::Deserialize;
use serde_json::Value;

use super::{ConfigContext, FoundServer, env_file, expand::Variables, found};
use crate::client::{
    Era, OAuthSettings, Pinning, ServerConfig, ServerSandbox, ServerTransport, ServerTrust,
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
    /// A file with variables.
    env_file: Option<String>,
    cwd: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// A command that prints headers as JSON.
    headers_helper: Option<String>,
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
    /// `true`, or a table.
    sandbox: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SandboxTable {
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
    #[serde(default)]
    network: bool,
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
    if let Some(why) = config.mistake() {
        return Err(why);
    }
    // What is missing on this machine is not a mistake of the file: other servers start.
    let config = variables.missing.take().map_or(Ok(config), Err);
    let mut found = found(name, config, variables.notes);
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
    let is_http = table.token_env.is_some()
        || table.oauth.is_some()
        || table.headers_helper.is_some()
        || !table.headers.is_empty();
    if is_http {
        return Err("`token_env`, `oauth`, `headers` and `headers_helper` are for a server with \
                    `url`"
            .to_owned());
    }
    let mut command = variables.command(program, &table.args);
    command.environment = context.base_environment();
    command.sandbox = sandbox(table.sandbox.as_ref(), context, variables)?;
    if command.sandbox.is_some() {
        // It has a home directory of its own.
        command.environment.retain(|name, _| !OWN_IN_SANDBOX.contains(&name.as_str()));
    }
    if let Some(file) = &table.env_file {
        if let Err(why) = env_file::read(file, context, variables, &mut command.environment) {
            variables.missing = Some(why);
        }
        command.env_file = Some(file.clone());
    }
    pass(&table.pass_env, context, variables, &mut command.environment);
    for (name, value) in &table.env {
        command.environment.insert(name.clone(), variables.expand(value));
    }
    command.directory = Some(match &table.cwd {
        Some(directory) => context.workspace.join(variables.expand(directory)),
        None => context.workspace.clone(),
    });
    Ok(ServerTransport::Stdio(command))
}

/// Passes on variables of this program by name.
fn pass(
    names: &[String],
    context: &ConfigContext,
    variables: &mut Variables<'_>,
    environment: &mut BTreeMap<String, String>,
) {
    for name in names {
        match context.variables.get(name) {
            Some(value) => drop(environment.insert(name.clone(), value.clone())),
            None => variables.notes.push(format!("the variable `{name}` is not set")),
        }
    }
}

/// Variables that the sandbox sets, or that name directories of the host.
const OWN_IN_SANDBOX: &[&str] =
    &["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"];

/// Reads what a confined server may access. `false` is the same as no key.
fn sandbox(
    key: Option<&Value>,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
) -> Result<Option<ServerSandbox>, String> {
    let table = match key {
        None | Some(Value::Bool(false)) => return Ok(None),
        Some(Value::Bool(true)) => SandboxTable::default(),
        Some(table) => {
            SandboxTable::deserialize(table).map_err(|why| format!("`sandbox`: {why}"))?
        }
    };
    let home = context.home.as_ref().map(|home| home.canonicalize().unwrap_or(home.clone()));
    let mut paths = |key: &str, list: &[String]| {
        let mut found = Vec::new();
        for text in list {
            let expanded = variables.expand(text);
            let path = match (expanded.strip_prefix("~/"), &context.home) {
                (Some(below), Some(home)) => home.join(below),
                _ => context.workspace.join(&expanded),
            };
            // A symlink may lead to secrets.
            let path = path.canonicalize().unwrap_or(path);
            if let Some(why) = SandboxSettings::refuses(&path, home.as_deref()) {
                return Err(format!("`sandbox.{key}`: `{text}` is refused: {why}"));
            }
            if path.exists() {
                found.push(path);
            } else {
                variables.notes.push(format!("`sandbox.{key}`: there is no `{text}`"));
            }
        }
        Ok::<Vec<PathBuf>, String>(found)
    };
    let (read, write) = (paths("read", &table.read)?, paths("write", &table.write)?);
    let roots = read.iter().chain(&write);
    let hidden = roots
        .flat_map(|root| match &home {
            Some(home) => SandboxSettings::secrets_below(root, home),
            None => Vec::new(),
        })
        .collect();
    Ok(Some(ServerSandbox { read, write, hidden, network: table.network }))
}

fn http(
    url: &str,
    table: &Table,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
) -> Result<ServerTransport, String> {
    if !table.args.is_empty() || !table.env.is_empty() || table.env_file.is_some() {
        return Err("`args`, `env` and `env_file` are for a server with `command`".to_owned());
    }
    if !table.pass_env.is_empty() && table.headers_helper.is_none() {
        return Err("`pass_env` is for a server with `command` or `headers_helper`".to_owned());
    }
    if table.sandbox.is_some() {
        return Err("`sandbox` is for a server with `command`".to_owned());
    }
    let mut endpoint = variables.endpoint(url);
    let headers = table.headers.iter();
    endpoint.headers = headers
        .map(|(name, value)| (name.clone(), Secret::from(variables.expand(value).as_str())))
        .collect();
    if let Some(command) = &table.headers_helper {
        let mut helper = context.headers_helper(command);
        pass(&table.pass_env, context, variables, &mut helper.environment);
        endpoint.headers_helper = Some(helper);
    }
    let mut secret = |name: &String| {
        let value = context.variables.get(name).map(|value| Secret::from(value.as_str()));
        if value.is_none() {
            variables.missing = Some(format!("the variable `{name}` is not set"));
        }
        value
    };
    endpoint.token = table.token_env.as_ref().and_then(&mut secret);
    if let Some(oauth) = &table.oauth {
        endpoint.oauth = Some(OAuthSettings {
            client_id: oauth.client_id.clone(),
            client_secret: oauth.client_secret_env.as_ref().and_then(&mut secret),
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
    fn sandbox_lists_what_a_server_may_access_and_hides_secrets_below() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        for directory in ["work/notes", ".ssh", "cache"] {
            std::fs::create_dir_all(home.join(directory)).unwrap();
        }
        let variables = [("PATH", "/bin"), ("HOME", "/me"), ("LANG", "C")];
        let context = ConfigContext {
            home: Some(home.clone()),
            workspace: home.join("work"),
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..ConfigContext::default()
        };
        let of = |table: Value| read("s", &table, &context).map(|found| found.config.unwrap());
        let table = json!({"read": ["."], "write": ["~/cache", "missing"], "network": true});
        let config = of(json!({"command": "x", "sandbox": table})).unwrap();
        let ServerTransport::Stdio(command) = config.transport else { panic!("stdio") };
        let sandbox = command.sandbox.unwrap();
        assert_eq!(sandbox.read, [home.join("work")]);
        assert_eq!(sandbox.write, [home.join("cache")], "a missing directory is left out");
        assert!(sandbox.network);
        let names: Vec<&str> = command.environment.keys().map(String::as_str).collect();
        assert_eq!(names, ["LANG", "PATH"], "its home directory is its own");
        for secret in ["~/.ssh", "..", "~/.ssh/keys"] {
            let refused = of(json!({"command": "x", "sandbox": {"read": [secret]}}));
            assert!(refused.is_err(), "{secret}");
        }
        let plain = of(json!({"command": "x", "sandbox": true})).unwrap();
        let ServerTransport::Stdio(command) = plain.transport else { panic!("stdio") };
        assert_eq!(command.sandbox, Some(ServerSandbox::default()));
    }

    #[test]
    fn what_is_missing_on_this_machine_is_the_problem_of_one_server() {
        for (table, word) in [
            (json!({"url": "https://x/", "token_env": "T"}), "`T` is not set"),
            (json!({"command": "x", "args": ["${input:key}"]}), "`key`"),
            (json!({"command": "x", "env_file": ".env"}), "`.env`"),
        ] {
            let why = of(table.clone()).unwrap().config.unwrap_err();
            assert!(why.contains(word), "{table}: {why}");
        }
    }

    #[test]
    fn variables_of_a_file_are_weaker_than_those_of_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = std::fs::File::create(dir.path().join(".env")).unwrap();
        std::io::Write::write_all(&mut file, b"A=file\nB=file\nC=file\n").unwrap();
        let mut context =
            ConfigContext { workspace: dir.path().into(), ..ConfigContext::default() };
        context.files = super::super::ConfigFiles::All;
        context.variables.insert("B".into(), "passed".into());
        let table = json!({"command": "x", "env_file": ".env", "pass_env": ["B"],
            "env": {"A": "table"}});
        let config = read("s", &table, &context).unwrap().config.unwrap();
        let ServerTransport::Stdio(command) = config.transport else { panic!("stdio") };
        let values: Vec<&str> = command.environment.values().map(String::as_str).collect();
        assert_eq!(values, ["table", "passed", "file"]);
    }

    #[test]
    fn mistakes_are_errors() {
        for (table, word) in [
            (json!({"command": "x", "trsut": "annotations"}), "trsut"),
            (json!({"command": "x", "trust": "yes"}), "`trust`"),
            (json!({"command": "x", "url": "https://x/"}), "either"),
            (json!({"url": "https://x/", "args": ["a"]}), "`args`"),
            (json!({"command": "x", "token_env": "T"}), "`url`"),
            (json!({"command": "x", "headers_helper": "y"}), "`url`"),
            (json!({"url": "https://x/", "env_file": ".env"}), "`env_file`"),
            (json!({"url": "https://x/", "pass_env": ["A"]}), "`pass_env`"),
            (json!({"command": "x", "timeout": "soon"}), "`timeout`"),
            (json!({"command": "x", "timeout": "2m", "max_timeout": "1m"}), "shorter"),
            (json!({"command": "x", "prefix": "a b"}), "name"),
            (json!({"url": "https://x/", "sandbox": true}), "`sandbox`"),
            (json!({"command": "x", "sandbox": {"write": ["/"]}}), "whole file system"),
            (json!({"command": "x", "sandbox": {"writes": ["/tmp"]}}), "sandbox"),
        ] {
            let why = of(table.clone()).unwrap_err();
            assert!(why.contains(word), "{table}: {why}");
        }
    }
}
