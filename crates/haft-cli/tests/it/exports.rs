//! `haft tools export`: tools in every provider's format, from a file or from the registry.

use std::collections::HashSet;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{DIALECTS, corpus, file, haft, haft_fed, lines};

/// Tools in every accepted format, and invalid lines.
fn tools() -> String {
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
        "additionalProperties": false,
    });
    let tools = [
        json!({"id": "own", "name": "forecast", "description": "Forecasts the weather.", "input_schema": schema}).to_string(),
        json!({"name": "forecast_mcp", "inputSchema": schema, "annotations": {"readOnlyHint": true}}).to_string(),
        json!({"type": "function", "function": {"name": "forecast_chat", "parameters": schema}}).to_string(),
        json!({"type": "function", "name": "forecast_flat", "parameters": schema, "strict": true}).to_string(),
        json!({"toolSpec": {"name": "forecast_bedrock", "inputSchema": {"json": schema}}}).to_string(),
        "{not json".to_owned(),
        String::new(),
        json!({"id": 7, "name": "no_schema"}).to_string(),
        json!({"input_schema": schema}).to_string(),
        json!({"name": "wrong_schema", "input_schema": {"type": "objekt"}}).to_string(),
        json!({"name": "wrong_draft", "input_schema": {"$schema": "https://example.org/unknown", "type": "object"}}).to_string(),
        json!({"name": "never", "input_schema": false}).to_string(),
        "[1]".to_owned(),
        json!({"name": "weather.now", "input_schema": schema}).to_string(),
        json!({"name": "weather_now", "input_schema": schema}).to_string(),
        json!({"name": "weather now", "input_schema": schema}).to_string(),
        json!({"name": "weather_now", "input_schema": schema}).to_string(),
    ];
    tools.join("\n")
}

#[test]
fn every_tool_gets_one_line_in_every_dialect() {
    let path = file("export-tools.jsonl", tools());
    for dialect in DIALECTS {
        let ran = haft(&format!("tools export --dialect {dialect} --tools {path} --json"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{dialect}");
        let again = haft(&format!("tools export --dialect {dialect} --tools {path} --json"));
        assert_eq!(ran.out, again.out, "{dialect}: equal bytes");
        let lines = lines(&ran.out);
        let ids: Vec<&Value> = lines.iter().map(|line| &line["id"]).collect();
        let wanted = json!([
            "own",
            "forecast_mcp",
            "forecast_chat",
            "forecast_flat",
            "forecast_bedrock",
            6,
            7,
            9,
            "wrong_schema",
            "wrong_draft",
            "never",
            13,
            "weather.now",
            "weather_now",
            "weather now",
            "weather_now"
        ]);
        assert_eq!(json!(ids), wanted, "{dialect}");
        for (at, line) in lines.iter().enumerate() {
            let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["id", "provider", "tool", "strict", "name", "report"], "{dialect}");
            assert_eq!(line["provider"], dialect);
            let is_refused = (5..12).contains(&at);
            assert_eq!(line["tool"].is_null(), is_refused, "{dialect} {line}");
            let refused = line["report"].as_array().unwrap().iter().any(|l| l["kind"] == "refused");
            assert_eq!(refused, is_refused, "{dialect} {line}");
            let text = line["tool"].to_string();
            assert!(
                is_refused
                    || text.contains("\"city\"") && text.contains(line["name"].as_str().unwrap())
            );
        }
        let names: Vec<&str> = lines.iter().filter_map(|line| line["name"].as_str()).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{dialect}: {names:?}");
        assert_eq!(names.len(), 13, "all but the lines without a name");
    }
}

#[test]
fn invalid_tool_line_is_reported_with_the_reason() {
    let path = file("export-why.jsonl", tools());
    let ran = haft(&format!("tools export --dialect anthropic --tools {path} --json"));
    let notes: Vec<String> = lines(&ran.out)[5..12]
        .iter()
        .map(|line| format!("{}: {}", line["report"][0]["keyword"], line["report"][0]["note"]))
        .collect();
    assert_snapshot!(notes.join("\n"), @r#"
    "": "line 6 is not JSON: key must be a string at line 1 column 2"
    "input_schema": "the tool has no schema"
    "name": "the tool has no name"
    "": "the JSON Schema cannot be used: at `/type`: expected one of \"array\", \"boolean\", \"integer\", \"null\", \"number\", \"object\", \"string\"; got \"objekt\" (string). Did you mean \"object\"?"
    "": "the JSON Schema cannot be used: `https://example.org/unknown` is not a known draft of JSON Schema"
    "": "a tool's schema must be a JSON object"
    "": "line 13: this is a list; write each tool on its own line"
    "#);
}

#[test]
fn strict_mode_can_be_chosen() {
    let path = file("export-strict.jsonl", tools().lines().next().unwrap());
    let strict = |dialect: &str, how: &str| {
        let ran =
            haft(&format!("tools export --dialect {dialect} --strict {how} --tools {path} --json"));
        ran.json()["strict"].as_bool().unwrap()
    };
    assert!(!strict("anthropic", "auto") && strict("anthropic", "on"));
    assert!(strict("openai-responses", "auto") && !strict("openai-responses", "off"));
    assert!(!strict("ollama", "on"), "it has no strict mode");
    assert_eq!(haft("tools export --dialect mcp --strict yes").code, Some(1));
}

#[test]
fn tools_go_to_stdout_and_losses_to_stderr() {
    let two = [
        json!({"name": "set.alarm", "description": "Sets an alarm.", "input_schema": {"type": "object", "properties": {"at": {"type": "string", "pattern": "^x", "format": "time"}}}}),
        json!({"name": "broken", "input_schema": {"type": 3}}),
    ];
    let text = format!("{}\n{}\n", two[0], two[1]);
    assert_snapshot!(haft_fed("tools export --dialect gemini --tools -", text.as_bytes()).page(), @r#"
    exit 0
    --- stdout
    [{"functionDeclarations":[{"name":"set.alarm","description":"Sets an alarm.","parameters":{"type":"object","properties":{"at":{"type":"string","pattern":"^x","description":"(format: time)"}}}}]}]
    --- stderr
    set.alarm  widened  /properties/at  format  the format `time` is not supported
    broken     refused  /                       the JSON Schema cannot be used: at `/type`: expected one of "array", "boolean", "integer", "null", "number", "object", "string"; got 3 (integer)
    1 tool exported for gemini, 0 strict, 1 left out
    "#);
    assert_snapshot!(haft_fed("tools export --dialect mistral --strict on --tools -", two[0].to_string().as_bytes()).page(), @r#"
    exit 0
    --- stdout
    [{"type":"function","function":{"name":"set_alarm","description":"Sets an alarm.","parameters":{"type":"object","properties":{"at":{"type":"string","pattern":"^x","format":"time"}}}}}]
    --- stderr
    set.alarm  not strict  /        this dialect has no strict mode
    set.alarm  renamed     /  name  `set.alarm` is called `set_alarm` here
    1 tool exported for mistral, 0 strict, 0 left out
    "#);
}

#[test]
fn request_contains_every_tool_field() {
    let of = |line: &str| haft(&format!("tools export {line} --request --json")).json();
    let request = of("--dialect anthropic --choice shell --parallel false --cache 1h");
    let choice = json!({"type": "tool", "name": "shell", "disable_parallel_tool_use": true});
    assert_eq!(request["tool_choice"], choice);
    let tools = request["tools"].as_array().unwrap();
    assert_eq!(tools.last().unwrap()["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
    let request = of("--dialect bedrock --choice any --cache 5m");
    assert_eq!(request["toolConfig"]["toolChoice"], json!({"any": {}}));
    assert!(request["toolConfig"]["tools"].to_string().contains("cachePoint"));
    assert_eq!(of("--dialect openai-chat --choice any")["tool_choice"], "required");
    let ran = haft("tools export --dialect ollama --request --choice any --parallel true");
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.err.starts_with("note: `--choice` has no effect for ollama\nnote: `--parallel`"),
        "{}",
        ran.err
    );
    assert_snapshot!(haft("tools export --dialect mcp --request --choice shel").page(), @r"
    exit 1
    --- stderr
    error: there is no tool called `shel`
    hint: did you mean `shell`?
    hint: `--choice` takes auto, any, none or the name of a tool
    ");
    assert_snapshot!(haft("tools export --dialect mcp --choice shell").page(), @r"
    exit 1
    --- stderr
    error: the following required arguments were not provided:
      --request
    usage: haft tools export --request --dialect <DIALECT> --choice <auto|any|none|NAME>
    ");
}

#[test]
fn deferred_tools_use_a_tool_search() {
    let line = |name: &str, more: Value| {
        let mut line = json!({"name": name, "input_schema": {"type": "object"}});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line.to_string()
    };
    let text = [line("here", json!({})), line("there", json!({"defer_loading": true}))].join("\n");
    let ran =
        haft_fed("tools export --dialect anthropic --search regex --tools -", text.as_bytes());
    let tools = ran.json();
    assert_eq!(tools[0]["type"], "tool_search_tool_regex_20251119");
    assert_eq!(
        (&tools[1]["defer_loading"], &tools[2]["defer_loading"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(ran.err, "2 tools exported for anthropic, 0 strict, 0 left out\n");
}

#[test]
fn example_tools_are_exported_without_a_file() {
    for dialect in DIALECTS {
        let ran = haft(&format!("tools export --dialect {dialect}"));
        assert_eq!(ran.code, Some(0));
        assert!(ran.err.ends_with("0 left out\n"), "{}", ran.err);
        assert!(ran.json().to_string().contains("read_file"), "{dialect}");
    }
    assert_snapshot!(haft("tools export").page(), @r"
    exit 1
    --- stderr
    error: `--dialect` is missing
    hint: name it with `--dialect`: anthropic, openai-responses, openai-chat, gemini, gemini-json, bedrock, mistral, ollama or mcp
    ");
    file("export-nearby.jsonl", "");
    assert_snapshot!(haft("tools export --dialect mcp --tools export-nearbi.jsonl").page(), @r"
    exit 1
    --- stderr
    error: there is no file `export-nearbi.jsonl`
    hint: did you mean `export-nearby.jsonl`?
    ");
}

#[test]
fn real_tools_are_exported_except_unusable_ones() {
    let Some(dir) = corpus() else { return };
    let path = dir.join("tool-schemas/tools.jsonl");
    for dialect in DIALECTS {
        let words = ["tools", "export", "--dialect", dialect, "--json", "--tools"];
        let ran = crate::haft_words(
            words.map(Into::into).into_iter().chain([path.clone().into_os_string()]),
        );
        let lines = lines(&ran.out);
        assert_eq!((ran.code, lines.len()), (Some(0), 301), "{dialect}");
        assert_eq!(lines.iter().filter(|line| line["tool"].is_null()).count(), 6, "{dialect}");
        let names: HashSet<&Value> = lines.iter().map(|line| &line["name"]).collect();
        assert_eq!(names.len(), 301, "{dialect}");
    }
}

#[test]
fn inline_flag_writes_schemas_without_references() {
    let schema = json!({
        "type": "object",
        "properties": {"to": {"$ref": "#/$defs/place"}},
        "$defs": {"place": {"allOf": [{"type": "string"}, {"minLength": 1}]}},
    });
    let path = file(
        "export-inline.jsonl",
        json!({"name": "go", "description": "Goes.", "input_schema": schema}).to_string(),
    );
    for dialect in DIALECTS {
        let ran = haft(&format!("tools export --dialect {dialect} --tools {path} --inline --json"));
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{dialect}");
        for word in ["\"$ref\"", "\"$defs\"", "\"allOf\""] {
            assert!(!ran.out.contains(word), "{dialect}: {}", ran.out);
        }
    }
    let plain = haft(&format!("tools export --dialect mcp --tools {path} --json"));
    assert!(plain.out.contains("\"$ref\""), "{}", plain.out);
}
