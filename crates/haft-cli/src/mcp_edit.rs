//! `haft mcp add` and `haft mcp remove`: change one configuration file, as the person asked.
//!
//! A TOML file keeps its text; only one table is added or removed. A JSON file is written again.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use haft::policy::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig};
use haft_mcp::{
    client::is_server_name,
    config::{self, ConfigContext, ConfigFormat},
};
use serde_json::{Map, Value, json};

use crate::{args, error::Problem, host_env::HostEnv, style, trust_file};

pub(crate) fn add(args: &args::AddServer, host: &HostEnv) -> Result<ExitCode, Problem> {
    if !is_server_name(&args.server) {
        return Err(Problem::new(format!("`{}` cannot be the name of a server", args.server))
            .hint("a name has 1 to 40 letters, digits, `-` and `_`, and no `__`"));
    }
    if args.url.is_none() && args.command.is_empty() {
        return Err(Problem::new("the server is missing")
            .hint("name a program after `--`, or a URL with `--url`"));
    }
    check_entry(args)?;
    let file = target(args.to.as_deref(), host)?;
    let before = haft::policy::read_config_file(&file)?;
    let text = if is_json(&file) {
        add_json(before.as_deref(), &args.server, json_entry(args)?)?
    } else {
        let text = before.unwrap_or_default();
        if has_table(&text, &args.server) {
            return Err(exists(&args.server));
        }
        let text = text + &toml_table(args);
        check_toml(&file, &text)?;
        text
    };
    write(&file, &text)?;
    report(&args.server, "added", "to", &file, args.output)
}

/// FAIL CLOSED: a server that no command could use is not written, because its file would stop
/// every command.
fn check_entry(args: &args::AddServer) -> Result<(), Problem> {
    if args.url.as_ref().is_some_and(|url| url.contains("${")) {
        return Ok(()); // known only when its variables are
    }
    let whole = json!({"mcpServers": {args.server.clone(): json_entry(args)?}}).to_string();
    let found = config::read(ConfigFormat::Json, &whole, &ConfigContext::default())?;
    match found.into_iter().next().map(|found| found.config) {
        Some(Err(why)) => Err(Problem::new(format!("`{}` cannot be added: {why}", args.server))),
        _ => Ok(()),
    }
}

pub(crate) fn remove(
    server: &str,
    from: Option<&Path>,
    host: &HostEnv,
    output: args::Output,
) -> Result<ExitCode, Problem> {
    let file = target(from, host)?;
    let missing = || {
        Problem::new(format!("`{}` has no MCP server called `{server}`", file.display()))
            .hint("`haft mcp list` shows which file names a server; give it with `--from`")
    };
    let before = haft::policy::read_config_file(&file)?.ok_or_else(missing)?;
    let text = if is_json(&file) {
        let mut whole = parse_json(&before)?;
        let key = servers_key(&whole);
        let servers = whole.get_mut(key).and_then(Value::as_object_mut);
        servers.and_then(|servers| servers.shift_remove(server)).ok_or_else(missing)?;
        pretty(&whole)
    } else {
        if !has_table(&before, server) {
            return Err(missing());
        }
        let text = without_table(&before, server);
        check_toml(&file, &text)?;
        text
    };
    write(&file, &text)?;
    report(server, "removed", "from", &file, output)
}

fn report(
    server: &str,
    what: &str,
    preposition: &str,
    file: &Path,
    output: args::Output,
) -> Result<ExitCode, Problem> {
    if output.json {
        style::print(format_args!("{}\n", json!({"server": server, what: true, "file": file})))?;
    } else {
        let file = style::visible(&file.display().to_string());
        style::print_page(format!("{what} {server} {preposition} {file}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The file to change.
fn target(named: Option<&Path>, host: &HostEnv) -> Result<PathBuf, Problem> {
    match (named, &host.user) {
        (Some(path), _) => Ok(host.here.join(path)),
        (None, Some(user)) => Ok(user.join("config.toml")),
        (None, None) => Err(Problem::new("there is no directory for your settings")
            .hint("set `HOME` or `XDG_CONFIG_HOME`, or name a file")),
    }
}

fn is_json(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "json")
}

fn exists(server: &str) -> Problem {
    Problem::new(format!("there is an MCP server called `{server}` in this file"))
        .hint(format!("remove it first: `haft mcp remove {server}`"))
}

fn write(file: &Path, text: &str) -> Result<(), Problem> {
    let cannot = |e| Problem::new(format!("cannot write `{}`: {e}", file.display()));
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).map_err(cannot)?;
    }
    trust_file::replace(file, text).map_err(cannot)
}

/// The keys of a server, for TOML.
fn toml_table(args: &args::AddServer) -> String {
    // A JSON string is a valid TOML string.
    let list = |texts: &[String]| json!(texts).to_string();
    let mut table = format!("\n[mcp.servers.{}]\n", args.server);
    if let Some(url) = &args.url {
        table.push_str(&format!("url = {}\n", json!(url)));
    }
    if let Some(name) = &args.token_env {
        table.push_str(&format!("token_env = {}\n", json!(name)));
    }
    if let Some((program, rest)) = args.command.split_first() {
        table.push_str(&format!("command = {}\n", json!(program)));
        if !rest.is_empty() {
            table.push_str(&format!("args = {}\n", list(rest)));
        }
    }
    if !args.pass_env.is_empty() {
        table.push_str(&format!("pass_env = {}\n", list(&args.pass_env)));
    }
    table
}

/// The same for JSON.
fn json_entry(args: &args::AddServer) -> Result<Value, Problem> {
    let mut entry = Map::new();
    match (&args.url, args.command.split_first()) {
        (Some(url), _) => {
            entry.insert("type".to_owned(), json!("http"));
            entry.insert("url".to_owned(), json!(url));
            if let Some(name) = &args.token_env {
                let header = json!({"Authorization": format!("Bearer ${{{name}}}")});
                entry.insert("headers".to_owned(), header);
            }
        }
        (None, Some((program, rest))) => {
            entry.insert("command".to_owned(), json!(program));
            entry.insert("args".to_owned(), json!(rest));
            let passed =
                args.pass_env.iter().map(|name| (name.clone(), json!(format!("${{{name}}}"))));
            let passed: Map<String, Value> = passed.collect();
            if !passed.is_empty() {
                entry.insert("env".to_owned(), Value::Object(passed));
            }
        }
        (None, None) => return Err(Problem::new("the server is missing")),
    }
    Ok(Value::Object(entry))
}

fn parse_json(text: &str) -> Result<Value, Problem> {
    let whole: Value = serde_json::from_str(text).map_err(|why| {
        Problem::new(format!("the file is not plain JSON: {why}"))
            .hint("a file with comments is not rewritten; edit it by hand")
    })?;
    if whole.is_object() { Ok(whole) } else { Err(Problem::new("the file is not a JSON object")) }
}

fn servers_key(whole: &Value) -> &'static str {
    if whole.get("servers").is_some() && whole.get("mcpServers").is_none() {
        "servers"
    } else {
        "mcpServers"
    }
}

fn add_json(before: Option<&str>, server: &str, entry: Value) -> Result<String, Problem> {
    let mut whole = match before {
        Some(text) if !text.trim().is_empty() => parse_json(text)?,
        _ => json!({"mcpServers": {}}),
    };
    let key = servers_key(&whole);
    let top = whole.as_object_mut().ok_or_else(|| Problem::new("the file is not a JSON object"))?;
    let servers = top.entry(key).or_insert_with(|| json!({}));
    let servers = servers
        .as_object_mut()
        .ok_or_else(|| Problem::new(format!("`{key}` of the file is not an object")))?;
    if servers.contains_key(server) {
        return Err(exists(server));
    }
    servers.insert(server.to_owned(), entry);
    Ok(pretty(&whole))
}

fn pretty(whole: &Value) -> String {
    format!("{whole:#}\n")
}

/// Whether a line is the header of a server's table, or of one below it.
fn is_header(line: &str, server: &str) -> bool {
    let Some(name) = line.trim().strip_prefix("[mcp.servers.") else { return false };
    let name = name.split('#').next().unwrap_or_default().trim().trim_end_matches(']');
    let name = name.trim_matches('"');
    name == server || name.strip_prefix(server).is_some_and(|rest| rest.starts_with(['.', '"']))
}

fn has_table(text: &str, server: &str) -> bool {
    text.lines().any(|line| is_header(line, server))
}

/// The text without the tables of a server.
fn without_table(text: &str, server: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_inside = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            is_inside = is_header(line, server);
            if is_inside && out.ends_with("\n\n") {
                out.pop(); // the blank line before the table
            }
        }
        if !is_inside {
            out.push_str(line);
        }
    }
    out
}

/// FAIL CLOSED: a file that could not be read afterwards is not written.
fn check_toml(file: &Path, text: &str) -> Result<(), Problem> {
    let file = ConfigFile {
        layer: ConfigLayer::User,
        form: FileFormat::Toml,
        path: file.to_owned(),
        anchor: file.parent().unwrap_or(Path::new("/")).to_owned(),
        text: text.to_owned(),
    };
    PolicyConfig::read(&[file], &LoadOptions::default())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_removed_and_the_rest_keeps_its_text() {
        let text = "# mine\n[defaults]\nmode = \"plan\" # [x]\n\n[mcp.servers.a]\ncommand = \"x\"\n\
                    [mcp.servers.a.env]\nK = \"v\"\n\n[mcp.servers.ab]\ncommand = \"y\"\n";
        assert!(has_table(text, "a") && !has_table(text, "b"));
        let after = without_table(text, "a");
        assert!(after.starts_with("# mine\n[defaults]\nmode = \"plan\" # [x]\n"), "{after}");
        assert!(after.contains("[mcp.servers.ab]") && !after.contains("\"x\""), "{after}");
        assert!(!after.contains("K ="), "{after}");
    }

    #[test]
    fn a_json_file_keeps_its_other_keys() {
        let text = add_json(Some("{\"inputs\": [], \"servers\": {}}"), "a", json!({})).unwrap();
        assert!(text.contains("\"inputs\"") && text.contains("\"a\""), "{text}");
        assert!(add_json(Some("{ // no\n}"), "a", json!({})).is_err());
        assert!(add_json(Some("{\"mcpServers\": {\"a\": {}}}"), "a", json!({})).is_err());
    }
}
