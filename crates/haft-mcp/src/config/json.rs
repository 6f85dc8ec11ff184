//! `mcpServers` of Claude Code, Claude Desktop and Cursor, and `servers` of VS Code.

use std::time::Duration;

use haft::secrets::Secret;
use serde_json::{Map, Value};

use super::{ConfigContext, FoundServer, env_file, expand::Variables, found, jsonc};
use crate::client::{HttpEndpoint, OAuthSettings, ServerConfig, ServerTransport, StdioCommand};

/// Keys of a server that are understood.
const KEYS: &[&str] = &[
    "type",
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "headers",
    "headersHelper",
    "oauth",
    "timeout",
    "alwaysLoad",
    "disabled",
    "enabled",
    "description",
    "name",
];
/// Shorter timeouts are not used: they are mistakes of units.
const MIN_TIMEOUT_MS: u64 = 1_000;

/// Reads the servers of a file.
pub(super) fn read(text: &str, context: &ConfigContext) -> Result<Vec<FoundServer>, String> {
    servers(&jsonc::parse(text)?, context)
}

/// Reads `~/.claude.json`: the servers of the workspace, and then those of the user that have other
/// names. The whole entry counts.
pub(super) fn read_claude(text: &str, context: &ConfigContext) -> Result<Vec<FoundServer>, String> {
    let file = jsonc::parse(text)?;
    let workspace = context.workspace.to_str();
    let local = workspace.and_then(|path| file.get("projects")?.get(path));
    let mut found = match local {
        Some(project) => servers(project, context)?,
        None => Vec::new(),
    };
    for server in servers(&file, context)? {
        if found.iter().all(|known| known.name != server.name) {
            found.push(server);
        }
    }
    Ok(found)
}

fn servers(file: &Value, context: &ConfigContext) -> Result<Vec<FoundServer>, String> {
    let Some(top) = file.as_object() else { return Err("the file is not an object".to_owned()) };
    let servers = top.get("mcpServers").or_else(|| top.get("servers"));
    let Some(servers) = servers else { return Ok(Vec::new()) };
    let Some(servers) = servers.as_object() else {
        return Err("`mcpServers` is not an object".to_owned());
    };
    Ok(servers.iter().map(|(name, entry)| server(name, entry, context)).collect())
}

fn server(name: &str, entry: &Value, context: &ConfigContext) -> FoundServer {
    let mut variables = Variables::new(context);
    let config = match entry.as_object() {
        Some(fields) => config(name, fields, context, &mut variables),
        None => Err("it is not an object".to_owned()),
    };
    let config = match variables.missing.take() {
        Some(missing) => Err(missing),
        None => config,
    };
    let mut notes = variables.notes;
    let unknown: Vec<&str> = entry
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(String::as_str)
        .filter(|key| !KEYS.contains(key))
        .collect();
    if !unknown.is_empty() {
        notes.push(format!("not understood and not used: `{}`", unknown.join("`, `")));
    }
    let mut found = found(name, config, notes);
    found.is_enabled = entry.get("disabled").and_then(Value::as_bool) != Some(true)
        && entry.get("enabled").and_then(Value::as_bool) != Some(false);
    found
}

fn config(
    name: &str,
    fields: &Map<String, Value>,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
) -> Result<ServerConfig, String> {
    let kind = match fields.get("type").map(|kind| kind.as_str().unwrap_or_default()) {
        Some(kind) => kind,
        None if fields.contains_key("url") && !fields.contains_key("command") => {
            variables.notes.push("`url` without `type`: read as `http`".to_owned());
            "http"
        }
        None => "stdio",
    };
    let transport = match kind {
        "stdio" => ServerTransport::Stdio(command(fields, context, variables)?),
        "http" | "streamable-http" | "streamableHttp" => {
            ServerTransport::Http(endpoint(fields, context, variables)?)
        }
        "sse" => {
            return Err("the transport `sse` was replaced in 2025; use the server's streamable \
                        HTTP endpoint with `\"type\": \"http\"`"
                .to_owned());
        }
        other => return Err(format!("the transport `{other}` is not supported")),
    };
    let mut config = ServerConfig::new(name, transport);
    match fields.get("timeout").map(Value::as_u64) {
        None => {}
        Some(Some(ms)) if ms >= MIN_TIMEOUT_MS => {
            config.timeout = Duration::from_millis(ms);
            config.max_timeout = config.max_timeout.max(config.timeout);
        }
        Some(_) => variables.notes.push("`timeout` below 1000 ms is not used".to_owned()),
    }
    config.always_load = fields.get("alwaysLoad").and_then(Value::as_bool).unwrap_or(false);
    Ok(config)
}

fn command(
    fields: &Map<String, Value>,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
) -> Result<StdioCommand, String> {
    let program = fields.get("command").and_then(Value::as_str).ok_or("it has no `command`")?;
    let args = texts(fields.get("args"), "args")?;
    let mut command = variables.command(program, &args);
    command.environment = context.base_environment();
    command.directory = Some(match fields.get("cwd").and_then(Value::as_str) {
        Some(directory) => context.workspace.join(variables.expand(directory)),
        None => context.workspace.clone(),
    });
    if let Some(file) = text(fields, "envFile")? {
        env_file::read(file, context, variables, &mut command.environment)?;
        command.env_file = Some(file.to_owned());
    }
    // What the entry itself says is stronger.
    for (name, value) in pairs(fields.get("env"), "env")? {
        command.environment.insert(name, variables.expand(&value));
    }
    Ok(command)
}

fn endpoint(
    fields: &Map<String, Value>,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
) -> Result<HttpEndpoint, String> {
    let url = fields.get("url").and_then(Value::as_str).ok_or("it has no `url`")?;
    let mut endpoint = variables.endpoint(url);
    for (name, value) in pairs(fields.get("headers"), "headers")? {
        endpoint.headers.push((name, Secret::from(variables.expand(&value).as_str())));
    }
    if let Some(command) = text(fields, "headersHelper")? {
        endpoint.headers_helper = Some(context.headers_helper(command));
    }
    if let Some(oauth) = fields.get("oauth").and_then(Value::as_object) {
        let port = oauth.get("callbackPort").and_then(Value::as_u64);
        let scopes = oauth.get("scopes").and_then(Value::as_str).unwrap_or_default();
        let settings = OAuthSettings {
            client_id: oauth.get("clientId").and_then(Value::as_str).map(str::to_owned),
            callback_port: port.and_then(|port| u16::try_from(port).ok()),
            scopes: scopes.split_whitespace().map(str::to_owned).collect(),
            ..OAuthSettings::default()
        };
        endpoint.oauth = Some(settings);
    }
    Ok(endpoint)
}

/// A text. FAIL CLOSED: of another type it is a mistake, not a missing one.
fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{key}` is not a text")),
    }
}

/// A list of texts.
pub(super) fn texts(value: Option<&Value>, key: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("`{key}` is not a list of texts");
    let Some(value) = value else { return Ok(Vec::new()) };
    let list = value.as_array().ok_or_else(wrong)?;
    list.iter().map(|text| text.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

/// A table of texts. Numbers and booleans are texts as people mean them.
pub(super) fn pairs(value: Option<&Value>, key: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = || format!("`{key}` is not a table of texts");
    let Some(value) = value else { return Ok(Vec::new()) };
    let table = value.as_object().ok_or_else(wrong)?;
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err(wrong()),
    };
    table.iter().map(|(name, value)| Ok((name.clone(), text(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> ConfigContext {
        let mut context = ConfigContext { workspace: "/work".into(), ..ConfigContext::default() };
        for (name, value) in [("PATH", "/bin"), ("TOKEN", "t0ken"), ("AWS_SECRET", "no")] {
            context.variables.insert(name.into(), value.into());
        }
        context
    }

    fn one(entry: &str) -> FoundServer {
        let text = format!("{{\"mcpServers\": {{\"s\": {entry}}}}}");
        read(&text, &context()).unwrap().remove(0)
    }

    #[test]
    fn a_stdio_entry_gets_its_variables_and_no_others() {
        let found =
            one(r#"{"command": "srv", "args": ["${TOKEN}"], "env": {"K": "${TOKEN}", "N": 1}}"#);
        let ServerTransport::Stdio(command) = found.config.unwrap().transport else { panic!() };
        assert_eq!((command.program.as_str(), &*command.args), ("srv", &["t0ken".to_owned()][..]));
        let names: Vec<&String> = command.environment.keys().collect();
        assert_eq!(names, ["K", "N", "PATH"], "no secret of the environment");
        assert_eq!(command.directory.unwrap().to_str(), Some("/work"));
    }

    #[test]
    fn an_entry_with_a_url_and_no_type_is_http_with_a_note() {
        let found =
            one(r#"{"url": "https://host/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}"#);
        assert!(found.notes[0].contains("read as `http`"));
        let ServerTransport::Http(endpoint) = found.config.unwrap().transport else { panic!() };
        assert_eq!(endpoint.headers[0].1.reveal(), "Bearer t0ken");
    }

    #[test]
    fn servers_that_claude_code_has_for_one_project_come_first_and_only_there() {
        let text = r#"{"mcpServers": {"a": {"command": "user"}, "b": {"command": "user"}},
            "projects": {"/work": {"mcpServers": {"a": {"command": "local"}}},
                         "/other": {"mcpServers": {"c": {"command": "x"}}}}}"#;
        let found = read_claude(text, &context()).unwrap();
        let commands: Vec<(&str, String)> = found
            .iter()
            .map(|found| (&*found.name, found.config.as_ref().unwrap().transport.identity()))
            .collect();
        let named = |name, program: &str| (name, format!("stdio \"{program}\""));
        assert_eq!(commands, [named("a", "local"), named("b", "user")]);
        // A file of a project cannot have servers that its trust page does not list.
        assert_eq!(read(text, &context()).unwrap().len(), 2);
        assert!(read_claude("[]", &context()).is_err());
    }

    #[test]
    fn vs_code_files_have_another_key_comments_and_inputs() {
        let text = r#"{ // VS Code
            "inputs": [{"type": "promptString", "id": "key"}],
            "servers": {"s": {"type": "stdio", "command": "x", "env": {"K": "${input:key}"}}, } }"#;
        let found = read(text, &context()).unwrap();
        assert!(found[0].config.as_ref().unwrap_err().contains("`key`"));
        let mut context = context();
        context.inputs.insert("key".into(), "v".into());
        assert!(read(text, &context).unwrap()[0].config.is_ok());
    }

    #[test]
    fn what_is_not_understood_is_reported_and_what_changes_the_server_is_refused() {
        let found = one(r#"{"command": "x", "colour": "red", "timeout": 5}"#);
        assert!(found.config.is_ok());
        assert!(found.notes.iter().any(|note| note.contains("`colour`")), "{:?}", found.notes);
        assert!(found.notes.iter().any(|note| note.contains("`timeout`")));
        for bad in [
            r#"{"command": "x", "envFile": ".env"}"#,
            r#"{"command": "x", "envFile": 5}"#,
            r#"{"url": "https://x/", "headersHelper": ["/bin/true"]}"#,
            r#"{"type": "sse", "url": "https://x/"}"#,
            r#"{"type": "ws", "url": "https://x/"}"#,
            r#"{"args": []}"#,
            r#"{"command": "x", "args": "y"}"#,
            "5",
        ] {
            assert!(one(bad).config.is_err(), "{bad}");
        }
        assert!(!one(r#"{"command": "x", "disabled": true}"#).is_enabled);
        assert!(read("[]", &context()).is_err() && read("{}", &context()).unwrap().is_empty());
    }
}
