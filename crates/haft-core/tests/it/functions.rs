//! `#[tool]` on functions: what is generated, and what stays unchanged.

use std::sync::Arc;

use haft_core::{
    DynTool, Failure, FailureCode, RunScope, RunState, Scope, State, Tool, ToolContext, TypeMap,
    tool,
};
use serde_json::json;

use crate::host::{Quiet, call, call_in, cx, cx_of};

/// Returns the local time of a city.
///
/// Uses the zone when there is one:
///   - like this
#[tool(read_only, capabilities(network))]
async fn get_time(
    /// City name as people write it, e.g. `Paris`.
    city: String,
    /// IANA zone, when the name is ambiguous.
    zone: Option<String>,
    cx: &ToolContext,
) -> Result<String, Failure> {
    let _ = cx.call_id();
    Ok(format!("{city} {}", zone.as_deref().unwrap_or("local")))
}

#[tokio::test]
async fn the_function_can_still_be_called_directly() {
    let text = get_time("Paris".into(), None, &cx()).await.unwrap();
    assert_eq!(text, "Paris local");
}

#[test]
fn name_description_and_schema_come_from_the_function() {
    let manifest = GetTimeTool.manifest();
    assert_eq!(manifest.name, "get_time");
    assert_eq!(
        manifest.description,
        "Returns the local time of a city.\n\nUses the zone when there is one:\n  - like this"
    );
    assert_eq!(
        manifest.input_schema,
        json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City name as people write it, e.g. `Paris`."},
                "zone": {"type": ["string", "null"], "description": "IANA zone, when the name is ambiguous.", "default": null},
            },
            "required": ["city"],
            "additionalProperties": false,
        })
    );
    assert!(manifest.read_only && manifest.output_schema.is_none());
}

#[tokio::test]
async fn an_async_tool_is_called_with_decoded_arguments() {
    let tool = DynTool::of(GetTimeTool);
    let output = call(&tool, json!({"city": "Rome", "zone": "Europe/Rome"})).await.unwrap();
    assert_eq!(output.to_text(), "Rome Europe/Rome");
    let failure = call(&tool, json!({"zone": "x"})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::BadArguments);
}

/// Says where it runs.
#[tool]
fn where_am_i(prefix: &str, cx: ToolContext) -> String {
    assert_eq!(*cx.call_id(), "call");
    format!("{prefix}{:?}", std::thread::current().id())
}

#[tokio::test]
async fn a_sync_tool_runs_on_a_blocking_thread_of_the_host() {
    let here = format!("on {:?}", std::thread::current().id());
    let output =
        call(&DynTool::of(WhereAmITool), json!({"prefix": "on "})).await.unwrap().to_text();
    assert!(output.starts_with("on ThreadId") && output != here);
}

struct Db {
    rows: u32,
}
struct User(&'static str);
type Held<T> = State<T>;

/// Counts rows.
#[tool]
async fn count_rows(
    db: State<Db>,
    user: RunState<User>,
    #[inject] aliased: Held<Db>,
    #[inject] shared: Arc<Db>,
    #[inject] _: ToolContext,
    table: &str,
) -> String {
    format!("{} {} {} {} in {table}", user.0, db.rows, aliased.rows, shared.rows)
}

/// Counts rows, slowly.
#[tool]
fn count_slowly(db: State<Db>, _: &ToolContext, mut table: String) -> String {
    table.push('!');
    format!("{} in {table}", db.rows)
}

fn supplied() -> ToolContext {
    let mut state = TypeMap::default();
    state.insert(Db { rows: 7 });
    let mut side = TypeMap::default();
    side.insert(User("ann"));
    let scope = Scope::from(RunScope {
        state: Arc::new(state),
        run_state: Arc::new(side),
        ..RunScope::default()
    });
    cx_of(scope, Arc::new(Quiet::default()))
}

#[tokio::test]
async fn host_values_are_injected_and_not_in_the_schema() {
    let tool = DynTool::of(CountRowsTool);
    let properties = tool.input_schema()["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["table"]);
    let output = call_in(&tool, json!({"table": "t"}), &supplied()).await.unwrap();
    assert_eq!(output.to_text(), "ann 7 7 7 in t");
    let tool = DynTool::of(CountSlowlyTool);
    let output = call_in(&tool, json!({"table": "t"}), &supplied()).await.unwrap();
    assert_eq!(output.to_text(), "7 in t!");
}

#[tokio::test]
async fn each_dependency_is_declared_once_and_a_missing_one_fails() {
    let needs = CountRowsTool.manifest().needs;
    assert_eq!(needs.len(), 2, "{needs:?}");
    assert!(needs[0].ends_with("::Db") && needs[1].ends_with("::User"));
    let failure = call(&DynTool::of(CountRowsTool), json!({"table": "t"})).await.unwrap_err();
    assert!(failure.source().unwrap().to_string().contains("Db"));
}

/// Does nothing.
#[tool(name = "no-op", type_name = "Idle")]
pub(crate) async fn r#match() {}

#[tokio::test]
async fn a_tool_without_arguments_takes_none() {
    let tool = DynTool::of(Idle);
    assert_eq!(tool.spec().name, "no-op");
    let no_arguments = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(*tool.input_schema(), no_arguments);
    assert_eq!(call(&tool, json!({})).await.unwrap().to_text(), "done");
    let copied = Idle;
    let _: (Idle, Idle) = (copied, copied);
    assert_eq!(format!("{Idle:?}"), "Idle");
}

#[test]
fn a_tool_can_be_defined_inside_a_function() {
    fn decides(n: &u8) -> bool {
        *n == 1
    }
    /// Is local.
    #[tool(read_only = decides)]
    async fn inner(n: u8) -> u8 {
        n
    }
    let tool = DynTool::of(InnerTool);
    assert!(crate::host::profile(&tool, json!({"n": 1})).read_only);
}

mod elsewhere {
    /// Is seen from outside.
    #[haft_core::tool(crate = ::haft_core)]
    pub(crate) async fn seen(r#type: String) -> String {
        r#type
    }
}

#[tokio::test]
async fn visibility_follows_the_function_and_raw_identifiers_lose_their_prefix() {
    let tool = DynTool::of(elsewhere::SeenTool);
    assert!(tool.input_schema()["properties"].get("type").is_some());
    assert_eq!(call(&tool, json!({"type": "x"})).await.unwrap().to_text(), "x");
    assert_eq!(elsewhere::seen("y".into()).await, "y");
}
