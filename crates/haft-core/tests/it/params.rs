//! Parameters: their schema, and how they are decoded.

use haft_core::{DynTool, arguments, tool};
use serde_json::json;

use crate::host::call;

#[arguments]
#[derive(Debug, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Quick.
    Fast,
    Slow,
}

/// Searches.
#[tool]
async fn search(
    /// What to look for.
    #[param(min_length = 1, max_length = 80, pattern = "^[a-z ]+$", example = "blue shoes")]
    query: String,
    #[param(min = 1, max = 100, description = "How many.")]
    #[default(10)]
    limit: u32,
    #[param(min = 0.5)] least: Option<f64>,
    #[default] exact: bool,
    #[default("en")] language: String,
    #[default(vec![1, 2])]
    #[param(max_length = 3)]
    pages: Vec<u8>,
    #[default(Mode::Slow)] mode: Mode,
    #[param(rename = "api-key", secret, strict)] key: Option<String>,
) -> String {
    format!("{query} {limit} {least:?} {exact} {language} {pages:?} {mode:?} {key:?}")
}

#[test]
fn constraints_and_defaults_are_in_the_schema() {
    let tool = DynTool::of(SearchTool);
    let schema = tool.input_schema();
    let of = |name: &str| &schema["properties"][name];
    assert_eq!(schema["required"], json!(["query"]));
    assert_eq!(
        *of("query"),
        json!({
            "type": "string", "description": "What to look for.", "examples": ["blue shoes"],
            "minLength": 1, "maxLength": 80, "pattern": "^[a-z ]+$",
        })
    );
    assert_eq!((&of("limit")["minimum"], &of("limit")["maximum"]), (&json!(1), &json!(100)));
    assert_eq!(
        (&of("limit")["default"], &of("limit")["description"]),
        (&json!(10), &json!("How many."))
    );
    assert_eq!(of("least")["minimum"], json!(0.5));
    assert_eq!(of("exact")["default"], json!(false));
    assert_eq!(of("language")["default"], json!("en"));
    assert_eq!((&of("pages")["default"], &of("pages")["maxItems"]), (&json!([1, 2]), &json!(3)));
    assert_eq!(
        (&of("api-key")["x-secret"], &of("api-key")["writeOnly"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(of("api-key")["x-strict"], json!(true));
    assert!(schema["properties"].get("key").is_none());
    assert_eq!(schema["$defs"]["Mode"]["description"], "`fast`: Quick.");
}

/// Copies, fetches and runs.
#[tool]
async fn many_things(
    #[param(path)] from: String,
    #[param(write_path)] to: Vec<String>,
    #[param(url, description = "Where.")] page: Option<String>,
    #[param(command)] run: String,
    plain: String,
) -> String {
    format!("{from} {to:?} {page:?} {run} {plain}")
}

#[test]
fn the_kind_of_an_argument_is_in_the_schema() {
    let tool = DynTool::of(ManyThingsTool);
    let about = |name: &str| tool.input_schema()["properties"][name].get("x-haft").cloned();
    assert_eq!(about("from"), Some(json!("read_path")));
    assert_eq!(about("to"), Some(json!("write_path")));
    assert_eq!(about("page"), Some(json!("url")));
    assert_eq!(about("run"), Some(json!("command")));
    assert_eq!(about("plain"), None);
}

#[tokio::test]
async fn a_missing_argument_gets_its_default() {
    let tool = DynTool::of(SearchTool);
    let output = call(&tool, json!({"query": "a"})).await.unwrap().to_text();
    assert_eq!(output, r#"a 10 None false en [1, 2] Slow None"#);
    let arguments = json!({
        "query": "b", "limit": 3, "least": 1.5, "exact": true, "language": "de", "pages": [],
        "mode": "fast", "api-key": "k",
    });
    let output = call(&tool, arguments).await.unwrap().to_text();
    assert_eq!(output, r#"b 3 Some(1.5) true de [] Fast Some("k")"#);
}

/// A place on a map.
#[arguments]
#[derive(Debug)]
struct Place {
    #[serde(rename = "lat")]
    latitude: f64,
    /// Other names of it.
    #[serde(default)]
    names: Vec<String>,
}

/// Names a place.
#[tool]
async fn name_place(place: Place, mode: Option<Mode>) -> String {
    format!("{} {:?} {mode:?}", place.latitude, place.names)
}

#[tokio::test]
async fn nested_argument_types_need_one_attribute() {
    let tool = DynTool::of(NamePlaceTool);
    let place = &tool.input_schema()["$defs"]["Place"];
    assert_eq!(place["required"], json!(["lat"]));
    assert_eq!(place["properties"]["names"]["description"], "Other names of it.");
    let output = call(&tool, json!({"place": {"lat": 1.5}, "mode": "fast"})).await.unwrap();
    assert_eq!(output.to_text(), "1.5 [] Some(Fast)");
}
