//! Puts the servers of a client's file behind haft, in its text: comments, order and layout of a
//! JSON, JSONC or TOML file survive.
//!
//! INVARIANT: only the command and the arguments of a server change.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstNode, CstObject, CstRootNode},
};
use toml_edit::{DocumentMut, Item, TableLike};

use crate::error::Problem;

/// The keys of JSON files whose value has the servers.
const JSON_KEYS: [&str; 2] = ["mcpServers", "servers"];
/// The table of codex.
const TOML_TABLE: &str = "mcp_servers";

/// JSON with comments and trailing commas, and nothing else.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// What happened to one server.
#[derive(Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) server: String,
    /// Why it stays as it is.
    pub(crate) why_not: Option<&'static str>,
    /// The words of its new command.
    pub(crate) after: Option<Vec<String>>,
}

/// The format of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientFormat {
    /// With comments or without.
    Json,
    Toml,
}

/// Puts each server that is started by a command behind haft.
pub(crate) fn wrap_servers(
    text: &str,
    format: ClientFormat,
    program: &str,
) -> Result<(String, Vec<Change>), Problem> {
    match format {
        ClientFormat::Json => json(text, program),
        ClientFormat::Toml => toml(text, program),
    }
}

/// Takes haft away from in front of each server. Returns the new text and how many servers changed.
pub(crate) fn unwrap_servers(text: &str, format: ClientFormat) -> Result<(String, usize), Problem> {
    match format {
        ClientFormat::Json => unwrap_json(text),
        ClientFormat::Toml => unwrap_toml(text),
    }
}

/// How many arguments of haft are before the command of a server; `None` if it is not behind haft.
fn words_of_haft(args: &[String]) -> Option<usize> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["mcp", "wrap", "--name", _, "--", _, ..] => Some(5),
        ["mcp", "wrap", "--", _, ..] => Some(3),
        _ => None,
    }
}

/// What a server becomes: the arguments of haft before its own, or why it stays as it is.
fn added_words(
    name: &str,
    command: Option<&str>,
    args: Option<&[String]>,
) -> Result<Vec<String>, &'static str> {
    let Some(command) = command else { return Err("it is reached by a URL") };
    let Some(args) = args else { return Err("its `args` are not a list of texts") };
    if args.first().is_some_and(|arg| arg == "mcp") && args.get(1).is_some_and(|arg| arg == "wrap")
    {
        return Err("it is behind haft already");
    }
    let name = server_name(name);
    Ok(["mcp", "wrap", "--name", &name, "--", command].map(str::to_owned).to_vec())
}

/// A name that rules can use: its own, if it can.
pub(crate) fn server_name(name: &str) -> String {
    if haft_mcp::client::is_server_name(name) {
        return name.to_owned();
    }
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let safe: String = name.chars().map(|c| if is_safe(c) { c } else { '-' }).take(40).collect();
    let safe = safe.trim_matches('-');
    if safe.is_empty() { "server".to_owned() } else { safe.to_owned() }
}

fn change(server: &str, program: &str, added: &[String], args: &[String]) -> Change {
    let words = std::iter::once(program).chain(added.iter().chain(args).map(String::as_str));
    Change {
        server: server.to_owned(),
        why_not: None,
        after: Some(words.map(str::to_owned).collect()),
    }
}

fn unchanged(server: &str, why: &'static str) -> Change {
    Change { server: server.to_owned(), why_not: Some(why), after: None }
}

fn json(text: &str, program: &str) -> Result<(String, Vec<Change>), Problem> {
    let root = CstRootNode::parse(text, &OPTIONS)
        .map_err(|e| Problem::new(format!("the file is not JSON: {e}")))?;
    let top = root.object_value().ok_or_else(|| Problem::new("the file is not a JSON object"))?;
    let changes = json_servers(&top)
        .iter()
        .map(|(name, server)| match server {
            Some(server) => json_server(name, server, program),
            None => unchanged(name, "it is not an object"),
        })
        .collect();
    Ok((root.to_string(), changes))
}

/// The servers of a file, and those that Claude Code has for single projects.
fn json_servers(top: &CstObject) -> Vec<(String, Option<CstObject>)> {
    let projects = top.object_value("projects");
    let projects = projects.iter().flat_map(CstObject::properties);
    let local = projects.filter_map(|project| project.object_value()?.object_value(JSON_KEYS[0]));
    JSON_KEYS
        .iter()
        .filter_map(|key| top.object_value(key))
        .chain(local)
        .flat_map(|servers| servers.properties())
        .map(|entry| (entry.decoded_name().unwrap_or_default(), entry.object_value()))
        .collect()
}

/// The arguments of a server; `None` if they are not a list of texts.
fn json_args(server: &CstObject) -> Option<Vec<String>> {
    match server.get("args") {
        None => Some(Vec::new()),
        Some(_) => server
            .array_value("args")?
            .elements()
            .into_iter()
            .map(|arg| text_of(Some(arg)))
            .collect(),
    }
}

fn unwrap_json(text: &str) -> Result<(String, usize), Problem> {
    let root = CstRootNode::parse(text, &OPTIONS)
        .map_err(|e| Problem::new(format!("the file is not JSON: {e}")))?;
    let top = root.object_value().ok_or_else(|| Problem::new("the file is not a JSON object"))?;
    let mut count = 0;
    for (_, server) in json_servers(&top) {
        let Some(server) = server else { continue };
        let args = json_args(&server).unwrap_or_default();
        let Some(words) = words_of_haft(&args) else { continue };
        let (Some(program), Some(command)) = (args.get(words), server.get("command")) else {
            continue;
        };
        command.set_value(CstInputValue::String(program.clone()));
        let list = server.array_value("args");
        let elements = list.iter().flat_map(|list| list.elements());
        elements.take(words + 1).for_each(CstNode::remove);
        count += 1;
    }
    Ok((root.to_string(), count))
}

fn json_server(name: &str, server: &CstObject, program: &str) -> Change {
    let command = server.get("command");
    let command_text = command.as_ref().and_then(|command| text_of(command.value()));
    let list = server.array_value("args");
    let args = json_args(server);
    let added = match added_words(name, command_text.as_deref(), args.as_deref()) {
        Ok(added) => added,
        Err(why) => return unchanged(name, why),
    };
    let args = args.unwrap_or_default();
    if let Some(command) = &command {
        command.set_value(CstInputValue::String(program.to_owned()));
    }
    let values = added.iter().cloned().map(CstInputValue::String);
    match &list {
        Some(list) => values.enumerate().for_each(|(at, value)| drop(list.insert(at, value))),
        None => {
            let after = command.as_ref().map_or(0, |command| command.property_index() + 1);
            server.insert(after, "args", CstInputValue::Array(values.collect()));
        }
    }
    change(name, program, &added, &args)
}

fn text_of(node: Option<CstNode>) -> Option<String> {
    node?.as_string_lit()?.decoded_value().ok()
}

fn toml(text: &str, program: &str) -> Result<(String, Vec<Change>), Problem> {
    let mut document: DocumentMut =
        text.parse().map_err(|e| Problem::new(format!("the file is not TOML: {e}")))?;
    let mut changes = Vec::new();
    let servers = document.get_mut(TOML_TABLE).and_then(Item::as_table_like_mut);
    for (name, entry) in servers.into_iter().flat_map(|servers| servers.iter_mut()) {
        let name = name.get().to_owned();
        let Some(server) = entry.as_table_like_mut() else { continue };
        changes.push(toml_server(&name, server, program));
    }
    Ok((document.to_string(), changes))
}

fn toml_args(server: &dyn TableLike) -> Option<Vec<String>> {
    match server.get("args") {
        None => Some(Vec::new()),
        Some(args) => args.as_array()?.iter().map(|arg| arg.as_str().map(str::to_owned)).collect(),
    }
}

/// Replaces only the value, so that a comment behind it stays.
fn set_command(server: &mut dyn TableLike, program: &str) {
    if let Some(value) = server.get_mut("command").and_then(Item::as_value_mut) {
        let decor = value.decor().clone();
        *value = program.into();
        *value.decor_mut() = decor;
    }
}

fn unwrap_toml(text: &str) -> Result<(String, usize), Problem> {
    let mut document: DocumentMut =
        text.parse().map_err(|e| Problem::new(format!("the file is not TOML: {e}")))?;
    let mut count = 0;
    let servers = document.get_mut(TOML_TABLE).and_then(Item::as_table_like_mut);
    for (_, entry) in servers.into_iter().flat_map(|servers| servers.iter_mut()) {
        let Some(server) = entry.as_table_like_mut() else { continue };
        let args = toml_args(server).unwrap_or_default();
        let Some(words) = words_of_haft(&args) else { continue };
        let Some(program) = args.get(words) else { continue };
        set_command(server, program);
        if let Some(list) = server.get_mut("args").and_then(Item::as_array_mut) {
            (0..=words).for_each(|_| drop(list.remove(0)));
        }
        count += 1;
    }
    Ok((document.to_string(), count))
}

fn toml_server(name: &str, server: &mut dyn TableLike, program: &str) -> Change {
    let command = server.get("command").and_then(Item::as_str).map(str::to_owned);
    let args = toml_args(server);
    let added = match added_words(name, command.as_deref(), args.as_deref()) {
        Ok(added) => added,
        Err(why) => return unchanged(name, why),
    };
    let args = args.unwrap_or_default();
    set_command(server, program);
    match server.get_mut("args").and_then(Item::as_array_mut) {
        Some(list) => {
            added.iter().enumerate().for_each(|(at, word)| list.insert(at, word.as_str()));
        }
        None => {
            let list: toml_edit::Array = added.iter().map(String::as_str).collect();
            server.insert("args", toml_edit::value(list));
        }
    }
    change(name, program, &added, &args)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HAFT: &str = "/bin/haft";

    fn reasons(changes: &[Change]) -> Vec<bool> {
        changes.iter().map(|change| change.why_not.is_some()).collect()
    }

    #[test]
    fn json_keeps_everything_but_the_command() {
        let text = json!({
            "theme": "dark",
            "mcpServers": {
                "my notes": {"command": "npx", "args": ["-y", "notes"], "env": {"KEY": "secret"}},
                "remote": {"url": "https://mcp.example.com"},
                "done": {"command": "/bin/haft", "args": ["mcp", "wrap", "--", "x"]},
                "bare": {"command": "srv"},
            },
        });
        let (after, changes) = json(&format!("{text:#}"), HAFT).unwrap();
        assert_eq!(reasons(&changes), [false, true, true, false]);
        let config: serde_json::Value = serde_json::from_str(&after).unwrap();
        let notes = &config["mcpServers"]["my notes"];
        assert_eq!(notes["command"], HAFT);
        let words = ["mcp", "wrap", "--name", "my-notes", "--", "npx", "-y", "notes"];
        assert_eq!(notes["args"], json!(words));
        assert_eq!(changes[0].after.as_ref().unwrap()[1..], words.map(str::to_owned));
        assert_eq!(notes["env"], text["mcpServers"]["my notes"]["env"]);
        for same in ["remote", "done"] {
            assert_eq!(config["mcpServers"][same], text["mcpServers"][same]);
        }
        let bare = &config["mcpServers"]["bare"]["args"];
        assert_eq!(*bare, json!(["mcp", "wrap", "--name", "bare", "--", "srv"]));
        assert_eq!(config["theme"], "dark");
        let (again, changes) = json(&after, HAFT).unwrap();
        assert_eq!(again, after, "a second run changes nothing");
        assert!(changes.iter().all(|change| change.after.is_none()));
    }

    #[test]
    fn comments_and_trailing_commas_of_jsonc_survive() {
        let text = "// mine\n{\n  /* all of them */\n  \"servers\": {\n    // notes of the team\n    \
                    \"notes\": {\n      \"type\": \"stdio\",\n      \"command\": \"npx\", // slow\n      \
                    \"args\": [\"-y\", \"notes\"], // pinned\n    },\n  },\n}\n";
        let (after, changes) = json(text, HAFT).unwrap();
        assert_eq!(reasons(&changes), [false]);
        for comment in ["// mine", "/* all of them */", "// notes of the team", "// slow"] {
            assert!(after.contains(comment), "{after}");
        }
        assert!(after.contains("// pinned") && after.contains("\"command\": \"/bin/haft\""));
        let (again, _) = json(&after, HAFT).unwrap();
        assert_eq!(again, after);
    }

    #[test]
    fn toml_of_codex_keeps_comments_and_other_tables() {
        let text = "# mine\nmodel = \"o5\"   # best\n\n[mcp_servers.notes]\ncommand = \"npx\" # slow\n\
                    args = [\n  \"-y\", # yes\n  \"notes\",\n]\nenv = { KEY = \"s\" }\n\n\
                    [mcp_servers.bare]\ncommand = 'srv'\n\n[mcp_servers.hub]\n\
                    url = \"https://hub.example\"\n\n[profiles.x]\na = 1\n";
        let (after, changes) = toml(text, HAFT).unwrap();
        assert_eq!(reasons(&changes), [false, false, true]);
        for kept in ["# mine", "# best", "# slow", "# yes", "env = { KEY = \"s\" }", "[profiles.x]"]
        {
            assert!(after.contains(kept), "{kept}: {after}");
        }
        let parsed: DocumentMut = after.parse().unwrap();
        let notes = &parsed["mcp_servers"]["notes"];
        assert_eq!(notes["command"].as_str(), Some(HAFT));
        let words: Vec<&str> =
            notes["args"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
        assert_eq!(words, ["mcp", "wrap", "--name", "notes", "--", "npx", "-y", "notes"]);
        assert_eq!(parsed["mcp_servers"]["bare"]["args"].as_array().unwrap().len(), 6);
        let (again, _) = toml(&after, HAFT).unwrap();
        assert_eq!(again, after);
    }

    #[test]
    fn unwrapping_puts_the_commands_back_and_keeps_what_was_added_later() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "args": ["-y"]}, "b": {"command": "y"}},
            "projects": {"/p": {"mcpServers": {"c": {"command": "z"}}}}}"#;
        let (wrapped, changes) = json(text, HAFT).unwrap();
        assert_eq!(reasons(&changes), [false; 3], "servers of projects too");
        let later = wrapped.replacen("{", "{ // later\n", 1);
        let (after, count) = unwrap_servers(&later, ClientFormat::Json).unwrap();
        assert!(count == 3 && after.contains("// later"), "{after}");
        let value: serde_json::Value =
            serde_json::from_str(&after.replace("// later", "")).unwrap();
        let mut before: serde_json::Value = serde_json::from_str(text).unwrap();
        before["mcpServers"]["b"]["args"] = json!([]);
        before["projects"]["/p"]["mcpServers"]["c"]["args"] = json!([]);
        assert_eq!(value, before);
        let text = "[mcp_servers.a]\ncommand = \"x\" # mine\nargs = [\"-y\"]\n";
        let (wrapped, _) = toml(text, HAFT).unwrap();
        let (after, count) = unwrap_servers(&wrapped, ClientFormat::Toml).unwrap();
        assert!(count == 1 && after.contains("\"x\" # mine"), "{after}");
        assert!(after.contains("\"-y\"") && !after.contains("wrap"), "{after}");
    }

    #[test]
    fn a_server_whose_arguments_are_no_list_stays_as_it_is() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "args": "y"}, "b": 5}}"#;
        let (after, changes) = json(text, HAFT).unwrap();
        assert_eq!((after.as_str(), reasons(&changes)), (text, vec![true, true]));
        let text = "[mcp_servers.a]\ncommand = \"x\"\nargs = \"y\"\n";
        assert_eq!(toml(text, HAFT).unwrap().0, text);
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_refused() {
        for (text, format) in [
            ("{\"mcpServers\": }", ClientFormat::Json),
            ("[]", ClientFormat::Json),
            ("[mcp_servers", ClientFormat::Toml),
        ] {
            assert!(wrap_servers(text, format, HAFT).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_servers_are_safe_in_rules() {
        for (name, safe) in
            [("my_srv", "my_srv"), ("my notes!", "my-notes"), ("a__b", "a--b"), ("é", "server")]
        {
            assert_eq!(server_name(name), safe);
            assert!(haft_mcp::client::is_server_name(&server_name(name)), "{name}");
        }
    }
}
