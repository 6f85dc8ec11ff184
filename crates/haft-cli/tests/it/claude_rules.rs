//! Rules of Claude Code about tools that haft does not have, through `haft explain`: the verdict
//! that its documents promise, or a stricter one with a reason. The table is that of `haft-tools`,
//! which tests the rows about haft's own tools.

use serde_json::{Value, json};

use crate::TempDir;

const TABLE: &str = include_str!("../../../haft-tools/tests/it/everyday/claude_rules.jsonl");

/// How strict a decision is.
fn strictness(decision: &str) -> usize {
    ["allow", "ask", "deny"].iter().position(|known| *known == decision).unwrap()
}

#[test]
fn stubs_of_claude_code_tools_are_judged_as_its_documents_say() {
    let dir = TempDir::new("claude-rules", &[("a.txt", "x"), ("secrets/key", "x")]);
    let rows: Vec<Value> = TABLE.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<&Value> = rows.iter().filter(|row| row.get("tool").is_some()).collect();
    assert!(rows.len() >= 60, "{}", rows.len());
    let mut wrong = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let mut permissions = json!({"defaultMode": row.get("mode").unwrap_or(&json!("default"))});
        for list in ["allow", "ask", "deny"] {
            permissions[list] = row.get(list).cloned().unwrap_or(json!([]));
        }
        let name = format!("row-{at}.json");
        dir.put(&name, &json!({"permissions": permissions}).to_string());
        let (tool, arguments) = (row["tool"].as_str().unwrap(), row["arguments"].to_string());
        let options = ["--config", &name, "--unconfined", "--quiet", "--json"];
        let ran = dir.run([&["explain", tool, "--args-json", &arguments][..], &options].concat());
        let ours = ran.json()["verdict"]["decision"].as_str().unwrap_or_default().to_owned();
        let promised = row["promised"].as_str().unwrap();
        let expected = row["ours"].as_str().unwrap_or(promised);
        let is_stricter = strictness(expected) > strictness(promised) && row["why"].is_string();
        if ours != expected || !(expected == promised || is_stricter) {
            wrong.push(format!("{row}\n    {ours}: {}", ran.json()["verdict"]["reason"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
