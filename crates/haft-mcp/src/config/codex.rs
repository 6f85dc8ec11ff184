//! `[mcp_servers.*]` of codex's `config.toml`.

use std::time::Duration;

use haft::secrets::Secret;
use serde_json::Value;

use super::{ConfigContext, FoundServer, found, json};
use crate::client::{HttpEndpoint, ServerConfig, ServerTransport, StdioCommand};

const KEYS: &[&str] = &[
    "command",
    "args",
    "env",
    "env_vars",
    "cwd",
    "url",
    "bearer_token_env_var",
    "http_headers",
    "env_http_headers",
    "enabled",
    "enabled_tools",
    "disabled_tools",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "tool_timeout_sec",
    "required",
];

/// Reads the servers of a file. Other tables of the file belong to codex.
pub(super) fn read(text: &str, context: &ConfigContext) -> Result<Vec<FoundServer>, String> {
    let file: Value = toml::from_str(text).map_err(|why| format!("invalid TOML: {why}"))?;
    let Some(servers) = file.get("mcp_servers") else { return Ok(Vec::new()) };
    let servers = servers.as_object().ok_or("`mcp_servers` is not a table")?;
    Ok(servers.iter().map(|(name, entry)| server(name, entry, context)).collect())
}

fn server(name: &str, entry: &Value, context: &ConfigContext) -> FoundServer {
    let mut notes = Vec::new();
    let config = config(name, entry, context, &mut notes);
    let keys = entry.as_object().into_iter().flat_map(|fields| fields.keys());
    let unknown: Vec<&str> = keys.map(String::as_str).filter(|key| !KEYS.contains(key)).collect();
    if !unknown.is_empty() {
        notes.push(format!("not understood and not used: `{}`", unknown.join("`, `")));
    }
    let mut found = found(name, config, notes);
    found.is_enabled = entry.get("enabled").and_then(Value::as_bool) != Some(false);
    found
}

fn config(
    name: &str,
    entry: &Value,
    context: &ConfigContext,
    notes: &mut Vec<String>,
) -> Result<ServerConfig, String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let mut variable = |name: &str| {
        let value = context.variables.get(name).cloned();
        if value.is_none() {
            notes.push(format!("the variable `{name}` is not set"));
        }
        value
    };
    let transport = match (text("command"), text("url")) {
        (Some(program), None) => {
            let mut command = StdioCommand::new(program);
            command.args = json::texts(entry.get("args"), "args")?;
            let written = std::iter::once(program).chain(command.args.iter().map(String::as_str));
            command.written = written.map(|word| context.portable(word)).collect();
            command.environment = context.base_environment();
            for name in json::texts(entry.get("env_vars"), "env_vars")? {
                if let Some(value) = variable(&name) {
                    command.environment.insert(name, value);
                }
            }
            command.environment.extend(json::pairs(entry.get("env"), "env")?);
            command.directory = Some(match text("cwd") {
                Some(directory) => context.workspace.join(directory),
                None => context.workspace.clone(),
            });
            ServerTransport::Stdio(command)
        }
        (None, Some(url)) => {
            let mut endpoint = HttpEndpoint::new(url);
            let headers = json::pairs(entry.get("http_headers"), "http_headers")?;
            let secret = |(name, value): (String, String)| (name, Secret::from(value.as_str()));
            endpoint.headers.extend(headers.into_iter().map(secret));
            let named = json::pairs(entry.get("env_http_headers"), "env_http_headers")?;
            for (header, name) in named {
                let value = variable(&name);
                endpoint.headers.extend(value.map(|value| (header, Secret::from(value.as_str()))));
            }
            if let Some(name) = text("bearer_token_env_var") {
                endpoint.token = variable(name).map(|value| Secret::from(value.as_str()));
            }
            ServerTransport::Http(endpoint)
        }
        _ => return Err("it needs either `command` or `url`".to_owned()),
    };
    let mut config = ServerConfig::new(name, transport);
    let seconds = |key: &str| entry.get(key).and_then(Value::as_f64).filter(|n| *n > 0.0);
    let duration = |n: f64| Duration::try_from_secs_f64(n).ok();
    if let Some(limit) = seconds("tool_timeout_sec").and_then(duration) {
        config.timeout = limit;
        config.max_timeout = config.max_timeout.max(limit);
    }
    let milliseconds = seconds("startup_timeout_ms").map(|n| n / 1_000.0);
    if let Some(limit) = seconds("startup_timeout_sec").or(milliseconds).and_then(duration) {
        config.start_timeout = limit;
    }
    if entry.get("enabled_tools").is_some() {
        config.enabled_tools = Some(json::texts(entry.get("enabled_tools"), "enabled_tools")?);
    }
    config.disabled_tools = json::texts(entry.get("disabled_tools"), "disabled_tools")?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_servers_are_read() {
        let mut context = ConfigContext::default();
        context.variables.insert("GH".into(), "t0ken".into());
        let text = "model = \"x\"\n[mcp_servers.docs]\ncommand = \"npx\"\nargs = [\"-y\", \"docs\"]\n\
            env_vars = [\"GH\"]\nenabled = false\ndisabled_tools = [\"b\"]\n\
            [mcp_servers.hub]\nurl = \"https://hub/mcp\"\nbearer_token_env_var = \"GH\"\n\
            tool_timeout_sec = 30\nstartup_timeout_ms = 2500\nodd = 1\n";
        let found = read(text, &context).unwrap();
        let docs = found.iter().find(|server| server.name == "docs").unwrap();
        assert!(!docs.is_enabled);
        let config = docs.config.as_ref().unwrap();
        assert_eq!(config.disabled_tools, ["b"]);
        let ServerTransport::Stdio(command) = &config.transport else { panic!() };
        assert_eq!(command.environment["GH"], "t0ken");
        let hub = found.iter().find(|server| server.name == "hub").unwrap();
        assert!(hub.notes[0].contains("`odd`"));
        let config = hub.config.as_ref().unwrap();
        assert_eq!(config.timeout, Duration::from_secs(30));
        assert_eq!(config.start_timeout, Duration::from_millis(2_500));
        let ServerTransport::Http(endpoint) = &config.transport else { panic!() };
        assert_eq!(endpoint.token.as_ref().unwrap().reveal(), "t0ken");
        assert!(read("[", &context).is_err());
    }
}
