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

/// What a server becomes: the arguments of haft before its own, or why it stays as it is.
fn added_words(
    name: &str,
    command: Option<&str>,
    args: &[String],
) -> Result<Vec<String>, &'static str> {
    let Some(command) = command else { return Err("it is reached by a URL") };
    if args.first().is_some_and(|arg| arg == "mcp") && args.get(1).is_some_and(|arg| arg == "wrap")
    {
        return Err("it is behind haft already");
    }
    let name = server_name(name);
    Ok(["mcp", "wrap", "--name", &name, "--", command].map(str::to_owned).to_vec())
}

/// A name that rules can use.
pub(crate) fn server_name(name: &str) -> String {
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
    let mut changes = Vec::new();
    let servers = JSON_KEYS.iter().filter_map(|key| top.object_value(key));
    for entry in servers.flat_map(|servers| servers.properties()) {
        let name = entry.decoded_name().unwrap_or_default();
        let Some(server) = entry.object_value() else { continue };
        changes.push(json_server(&name, &server, program));
    }
    Ok((root.to_string(), changes))
}

fn json_server(name: &str, server: &CstObject, program: &str) -> Change {
    let command = server.get("command");
    let command_text = command.as_ref().and_then(|command| text_of(command.value()));
    let list = server.array_value("args");
    let args: Vec<String> = list
        .iter()
        .flat_map(|list| list.elements())
        .map(|arg| text_of(Some(arg)).unwrap_or_default())
        .collect();
    let added = match added_words(name, command_text.as_deref(), &args) {
        Ok(added) => added,
        Err(why) => return unchanged(name, why),
    };
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

fn toml_server(name: &str, server: &mut dyn TableLike, program: &str) -> Change {
    let command = server.get("command").and_then(Item::as_str).map(str::to_owned);
    let list = server.get("args").and_then(Item::as_array);
    let args: Vec<String> =
        list.into_iter().flatten().map(|arg| arg.as_str().unwrap_or_default().to_owned()).collect();
    let added = match added_words(name, command.as_deref(), &args) {
        Ok(added) => added,
        Err(why) => return unchanged(name, why),
    };
    // Only the value is replaced, so that a comment behind it stays.
    if let Some(value) = server.get_mut("command").and_then(Item::as_value_mut) {
        let decor = value.decor().clone();
        *value = program.into();
        *value.decor_mut() = decor;
    }
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
            [("github", "github"), ("my notes!", "my-notes"), ("a__b", "a--b"), ("é", "server")]
        {
            assert_eq!(server_name(name), safe);
            assert!(haft_mcp::client::is_server_name(&server_name(name)), "{name}");
        }
    }
}
