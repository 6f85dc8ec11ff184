//! `haft tools lint`: findings by name and location.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{DIALECTS, file, haft};

fn tools() -> String {
    let optional: serde_json::Map<String, Value> = (0..9)
        .map(|n| (format!("o{n}"), json!({"type": "string", "description": "An option."})))
        .collect();
    let tools = [
        json!({"name": "run", "input_schema": {"type": "object", "properties": {"a/b": {"type": "string"}}, "additionalProperties": false}}),
        json!({"name": "read_mail", "description": "Reads the mail.", "input_schema": {"type": "object", "additionalProperties": false}}),
        json!({"name": "search_mail", "description": "Finds mails that hold a text and returns their subjects.", "input_schema": {"type": "object", "properties": optional, "additionalProperties": false}}),
        json!({"name": "search_mail", "description": "Finds mails that hold a text, the other way.", "input_schema": {"type": "array"}}),
        json!({"name": "broken", "input_schema": 3}),
    ];
    tools.map(|tool| tool.to_string()).join("\n")
}

fn found(json: &Value) -> Vec<String> {
    let findings = json["findings"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    findings
        .iter()
        .map(|f| {
            assert!(!text(&f["note"]).is_empty() && !text(&f["fix"]).is_empty(), "{f}");
            let place = text(&f["pointer"]);
            let place = if place.is_empty() { "/" } else { &place };
            format!("{} {} {place}", text(&f["tool"]), text(&f["finding"]))
        })
        .collect()
}

#[test]
fn every_finding_has_a_name_a_location_and_a_fix() {
    let path = file("lint-tools.jsonl", tools());
    let ran = haft(&format!("tools lint --tools {path} --json"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_snapshot!(found(&ran.json()).join("\n"), @r"
    run vague_name name
    run no_description description
    run undescribed_parameter /properties/a~1b
    read_mail thin_description description
    search_mail many_optionals /properties
    search_mail same_name name
    search_mail left_out /
    broken unusable /
    ");
}

#[test]
fn deny_flag_exits_with_1_on_findings() {
    let bad = file("lint-bad.jsonl", tools());
    assert_eq!(haft(&format!("tools lint --tools {bad} --deny")).code, Some(1));
    let good = json!({"name": "add_numbers", "description": "Adds two numbers and returns the sum.", "input_schema": {
        "type": "object", "properties": {"a": {"type": "number", "description": "The first."}},
        "required": ["a"], "additionalProperties": false}});
    let good = file("lint-good.jsonl", good.to_string());
    let ran = haft(&format!("tools lint --tools {good} --deny"));
    assert_eq!(ran.code, Some(0), "{}", ran.out);
    assert!(ran.out.ends_with(&format!("\n0 findings in 1 tool of {good}\n")), "{}", ran.out);
}

#[test]
fn every_provider_is_counted_and_one_can_be_chosen() {
    let path = file("lint-providers.jsonl", tools());
    let json = haft(&format!("tools lint --tools {path} --json")).json();
    let providers = json["providers"].as_array().unwrap();
    let names: Vec<&Value> = providers.iter().map(|p| &p["provider"]).collect();
    assert_eq!(json!(names), json!(DIALECTS));
    for (at, provider) in providers.iter().enumerate() {
        assert_eq!((&provider["shown"], &provider["left_out"]), (&json!(3), &json!(2)));
        let tokens = json["tools"].as_array().unwrap().iter();
        let sum: u64 = tokens.map(|t| t["tokens_estimate"][DIALECTS[at]].as_u64().unwrap()).sum();
        assert_eq!(provider["tokens_estimate"], sum);
        assert!(sum > 50, "{provider}");
    }
    let one = haft(&format!("tools lint --tools {path} --dialect gemini --json")).json();
    assert_eq!(one["providers"].as_array().unwrap().len(), 1);
}

#[test]
fn builtin_tools_have_no_findings() {
    let json = haft("tools lint --json").json();
    let found = found(&json);
    assert_eq!(found, [] as [String; 0], "the built-in tools follow the advice");
    let page = haft("tools lint --dialect anthropic").out;
    let end: Vec<&str> = page.lines().skip_while(|l| !l.starts_with("provider")).collect();
    assert_snapshot!(end.join("\n"), @r"
    provider   exported  strict  left out  losses  tokens (estimate)  largest
    anthropic  11        0       0         none    2496               shell 584

    0 findings in 11 tools of haft
    ");
}
