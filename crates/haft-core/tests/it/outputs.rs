//! The return types of a function, and how each is converted.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context as Task, Poll},
};

use futures_core::Stream;
use haft_core::{
    Block, DynTool, Failure, FailureCode, IntoTools, Json, Output, Progress, Scope, StreamOutput,
    ToolContext, ToolError, UncheckedJson, output, private, tool,
};
use private::{schemars::JsonSchema, serde::Serialize};
use serde_json::{Value, json};

use crate::host::{Quiet, call, call_in, cx_of, only};

#[derive(Serialize, JsonSchema)]
#[serde(crate = "private::serde")]
#[schemars(crate = "private::schemars")]
struct Point {
    x: i32,
}

#[derive(Serialize)]
#[serde(crate = "private::serde")]
struct Plain {
    y: i32,
}

#[derive(Debug)]
struct OnlyDisplay;

impl fmt::Display for OnlyDisplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("top line\nsecret line")
    }
}

type Reply<T> = Result<T, Failure>;
type Answer = Result<Json<Point>, std::num::ParseIntError>;

/// Text.
#[tool]
async fn text() -> &'static str {
    "t"
}

/// Nothing.
#[tool]
fn nothing() {}

/// Blocks.
#[tool]
async fn blocks() -> Vec<Block> {
    vec![Block::text("a"), Block::text("b")]
}

/// A whole output.
#[tool]
async fn whole() -> Reply<Output> {
    Ok(Output::text("w"))
}

/// Data with a schema.
#[tool(type_name = "GetPoint")]
async fn point() -> Json<Point> {
    Json(Point { x: 1 })
}

/// Data with a schema, behind an alias.
#[tool]
fn aliased(x: String) -> Answer {
    Ok(Json(Point { x: x.parse()? }))
}

/// Data without a schema.
#[tool(type_name = "GetRaw")]
async fn raw() -> Reply<UncheckedJson<Plain>> {
    Ok(UncheckedJson(Plain { y: 2 }))
}

/// Data without a wrapper.
#[tool]
async fn wrapped() -> Plain {
    Plain { y: 3 }
}

/// Data without a wrapper, or an error.
#[tool]
async fn wrapped_reply() -> Reply<Vec<Plain>> {
    Ok(vec![Plain { y: 4 }])
}

/// A value.
#[tool(type_name = "GetValue")]
async fn value() -> Option<Value> {
    Some(json!({"v": 5}))
}

#[tokio::test]
async fn every_return_type_is_converted() {
    async fn read(tool: impl IntoTools) -> Output {
        call(&only(tool), json!({})).await.unwrap()
    }
    assert_eq!(read(TextTool).await, Output::text("t"));
    assert_eq!(read(NothingTool).await, Output::text("done"));
    assert_eq!(read(BlocksTool).await.to_text(), "a\nb");
    assert_eq!(read(WholeTool).await, Output::text("w"));
    assert_eq!(read(GetPoint).await.structured.as_deref(), Some(&json!({"x": 1})));
    assert_eq!(read(GetRaw).await, Output::json(json!({"y": 2})));
    assert_eq!(read(WrappedTool).await, Output::json(json!({"y": 3})));
    assert_eq!(read(WrappedReplyTool).await, Output::json(json!([{"y": 4}])));
    assert_eq!(read(GetValue).await, Output::json(json!({"v": 5})));
}

#[tokio::test]
async fn the_schema_of_json_is_exported_even_behind_an_alias() {
    let expected = json!({
        "type": "object",
        "properties": {"x": {"type": "integer", "format": "int32"}},
        "required": ["x"],
        "additionalProperties": false,
    });
    for tool in [DynTool::of(GetPoint), DynTool::of(AliasedTool)] {
        assert_eq!(tool.output_schema(), Some(&expected));
        assert_eq!(tool.manifest().output_schema.as_ref(), Some(&expected));
    }
    assert_eq!(DynTool::of(WrappedTool).output_schema(), None);
    let tool = DynTool::of(AliasedTool);
    let point = call(&tool, json!({"x": "7"})).await.unwrap();
    assert_eq!(point.structured.as_deref(), Some(&json!({"x": 7})));
    let failure = call(&tool, json!({"x": "seven"})).await.unwrap_err();
    assert_eq!(failure.message(), "invalid digit found in string");
}

/// Fails by `?`.
#[tool]
async fn by_question_mark(n: String) -> Reply<String> {
    let n: u8 = n.parse()?;
    Ok(n.to_string())
}

/// Fails with an error that only implements `Display`.
#[tool]
async fn shown() -> Result<String, OnlyDisplay> {
    Err(OnlyDisplay)
}

/// Fails with an error that only implements `Display`; the `Ok` type is data.
#[tool]
async fn shown_data() -> Result<Plain, OnlyDisplay> {
    Err(OnlyDisplay)
}

/// Fails with a text.
#[tool]
fn text_error() -> Result<(), String> {
    Err("no".into())
}

/// Fails with a `Failure`.
#[tool]
async fn own_failure() -> Reply<()> {
    Err(Failure::invalid("not this").with_next("that"))
}

/// Parses an address, with an error that `Failure` has no `From` for.
#[tool]
async fn any_error(address: String) -> Result<bool, ToolError> {
    if address.is_empty() {
        Err(Failure::invalid("no address").with_next("write one"))?;
    }
    Ok(address.parse::<std::net::IpAddr>()?.is_ipv4())
}

/// An error whose author decides what the model sees.
#[derive(Debug)]
struct OutOfPaper;

impl std::fmt::Display for OutOfPaper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("out of paper")
    }
}

impl std::error::Error for OutOfPaper {}

impl From<OutOfPaper> for Failure {
    fn from(error: OutOfPaper) -> Self {
        Failure::new(FailureCode::RateLimited, error.to_string()).with_next("try another printer")
    }
}

/// Prints.
#[tool]
async fn converted_by_its_author() -> Result<(), OutOfPaper> {
    Err(OutOfPaper)
}

/// Prints, in a body that returns `Failure`.
#[tool]
async fn converted_by_question_mark() -> Result<(), Failure> {
    Ok(Err(OutOfPaper)?)
}

/// Parses an address and returns data.
#[tool]
async fn data_or_any_error(address: String) -> Result<Vec<bool>, std::net::AddrParseError> {
    Ok(vec![address.parse::<std::net::IpAddr>()?.is_ipv4()])
}

#[tokio::test]
async fn errors_of_other_crates_become_failures() {
    let bad = || json!({"address": "here"});
    for tool in [only(AnyErrorTool), only(DataOrAnyErrorTool)] {
        let failure = call(&tool, bad()).await.unwrap_err();
        assert_eq!(failure.code(), FailureCode::ToolFailed);
        assert_eq!(failure.message(), "invalid IP address syntax");
        assert!(failure.error_type().unwrap().ends_with("AddrParseError"));
        assert!(failure.source().is_some(), "the operator sees the source");
    }
    let own = call(&only(AnyErrorTool), json!({"address": ""})).await.unwrap_err();
    assert_eq!((own.code(), own.next()), (FailureCode::InvalidValue, Some("write one")));
    for tool in [only(ConvertedByItsAuthorTool), only(ConvertedByQuestionMarkTool)] {
        let failure = call(&tool, json!({})).await.unwrap_err();
        assert_eq!(failure.code(), FailureCode::RateLimited);
        assert_eq!(failure.next(), Some("try another printer"));
    }
}

#[tokio::test]
async fn errors_become_failures() {
    async fn fail(tool: impl IntoTools, args: Value) -> Failure {
        call(&only(tool), args).await.unwrap_err()
    }
    let failure = fail(ByQuestionMarkTool, json!({"n": "x"})).await;
    assert_eq!(
        (failure.code(), failure.message()),
        (FailureCode::ToolFailed, "invalid digit found in string")
    );
    assert!(failure.source().is_some());
    assert_eq!(fail(ShownTool, json!({})).await.message(), "top line");
    assert_eq!(fail(ShownDataTool, json!({})).await.message(), "top line");
    assert_eq!(fail(TextErrorTool, json!({})).await.message(), "no");
    let failure = fail(OwnFailureTool, json!({})).await;
    assert_eq!((failure.code(), failure.next()), (FailureCode::InvalidValue, Some("that")));
}

struct Chunks(VecDeque<String>);

impl Stream for Chunks {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<Option<String>> {
        Poll::Ready(self.0.pop_front())
    }
}

/// Streams.
#[tool]
async fn streams(
    chunks: Vec<String>,
    _: &ToolContext,
) -> StreamOutput<impl Stream<Item = String> + use<>> {
    StreamOutput(Chunks(chunks.into()))
}

/// Streams, or fails.
#[tool]
fn streams_or_fails(chunks: Vec<String>) -> Reply<StreamOutput<Chunks>> {
    Ok(StreamOutput(Chunks(chunks.into())))
}

#[tokio::test]
async fn streams_send_each_chunk_and_return_all() {
    for tool in [DynTool::of(StreamsTool), DynTool::of(StreamsOrFailsTool)] {
        let host = Arc::new(Quiet::default());
        let cx = cx_of(Scope::default(), host.clone());
        let output = call_in(&tool, json!({"chunks": ["a", "b"]}), &cx).await.unwrap();
        assert_eq!(output.to_text(), "ab");
        let notes = host.notes.lock().unwrap();
        assert_eq!(*notes, [Progress::Partial("a".into()), Progress::Partial("b".into())]);
    }
}

#[tokio::test]
async fn a_closure_may_return_what_a_function_may_return() {
    use haft_core::ToolSpec;

    let spec = || ToolSpec::new("t", "Does it.");
    let tools = [
        (DynTool::new(spec(), json!({}), |_, _| async { "plain" }), "plain"),
        (DynTool::new(spec(), json!({}), |_, _| async { Ok::<_, Failure>("fine") }), "fine"),
        (DynTool::new(spec(), json!({}), |_, _| async {}), "done"),
        (DynTool::new(spec(), json!({}), |_, _| async { 7 }), "7"),
        (DynTool::new(spec(), json!({}), |_, _| async { UncheckedJson(vec![1, 2]) }), "[1,2]"),
        (DynTool::new(spec(), json!({}), |_, _| async { "3".parse::<u8>() }), "3"),
    ];
    for (tool, text) in tools {
        assert_eq!(call(&tool, json!({})).await.unwrap().to_text(), text);
    }
    let fails =
        DynTool::new(spec(), json!({}), |_, _| async { Ok::<_, ToolError>("x".parse::<u8>()?) });
    assert_eq!(call(&fails, json!({})).await.unwrap_err().code(), FailureCode::ToolFailed);
    let text = |error: &'static str| -> [DynTool; 3] {
        [
            DynTool::new(spec(), json!({}), move |_, _| async move {
                Err::<Output, _>(error.to_owned())
            }),
            DynTool::new(spec(), json!({}), move |_, _| async move { Err::<u8, _>(error) }),
            DynTool::new(spec(), json!({}), move |_, _| async move {
                let boxed: Box<dyn std::error::Error + Send + Sync> = error.into();
                Err::<(), _>(boxed)
            }),
        ]
    };
    for fails in text("no such city\nat line 3") {
        let failure = call(&fails, json!({})).await.unwrap_err();
        assert_eq!((failure.code(), failure.message()), (FailureCode::ToolFailed, "no such city"));
    }
    let found =
        DynTool::new(spec(), json!({}), |_, _| async { Ok::<_, String>(Json(Point { x: 1 })) });
    assert!(found.output_schema().is_some(), "the schema is that of the `Ok` type");
    assert_eq!(call(&found, json!({})).await.unwrap().to_text(), r#"{"x":1}"#);
    let point = DynTool::new(spec(), json!({}), |_, _| async { Json(Point { x: 1 }) });
    assert_eq!(point.output_schema().unwrap()["properties"]["x"]["type"], "integer");
    let point = call(&point, json!({})).await.unwrap();
    assert_eq!(point.structured.as_deref(), Some(&json!({"x": 1})));
}

#[tokio::test]
async fn background_work_may_return_what_a_function_may_return() {
    let cx = cx_of(Scope::default(), Arc::default());
    let plain = cx.spawn_background("counting", |_| async { "counted" }).await;
    assert_eq!(plain.unwrap().to_text(), "counted");
    let parsed =
        cx.spawn_background("parsing", |_| async { Ok::<_, ToolError>("3".parse::<u8>()?) }).await;
    assert_eq!(parsed.unwrap().to_text(), "3");
    let failed = cx.spawn_background("failing", |_| async { Err::<(), _>("no disk".to_owned()) });
    assert_eq!(failed.await.unwrap_err().message(), "no disk");
}

#[tokio::test]
async fn closures_return_options_lists_and_maps() {
    fn closure<T: haft_core::IntoOutput + 'static>(make: fn() -> T) -> DynTool {
        let body = move |_, _| async move { make() };
        DynTool::new(haft_core::ToolSpec::new("t", "Returns it."), json!({}), body)
    }
    let map = || std::collections::BTreeMap::from([("a", 1)]);
    for (tool, expected) in [
        (closure(|| vec![1, 2]), json!([1, 2])),
        (closure(|| vec!["a".to_owned()]), json!(["a"])),
        (closure(|| vec![vec![Some(1)], vec![None]]), json!([[1], [null]])),
        (closure(|| Some(Plain { y: 1 })), json!({"y": 1})),
        (closure(|| None::<u8>), json!(null)),
        (closure(map), json!({"a": 1})),
        (closure(|| Ok::<_, Failure>(vec![true])), json!([true])),
    ] {
        let output = call(&tool, json!({})).await.unwrap();
        assert_eq!(output.blocks, [Block::Json { json: expected }]);
    }
    let blocks = closure(|| vec![Block::text("a"), Block::text("b")]);
    assert_eq!(call(&blocks, json!({})).await.unwrap().blocks.len(), 2);
}

#[output]
struct City {
    name: &'static str,
}

#[output]
struct Paged<T> {
    items: Vec<T>,
}

/// Finds a city.
#[tool]
async fn find_city(name: String) -> Result<City, String> {
    if name == "Paris" { Ok(City { name: "Paris" }) } else { Err(format!("no city `{name}`")) }
}

/// An own type with `#[output]` is what `Json` of it is, for functions and closures alike.
#[tokio::test]
async fn own_output_type_is_returned_without_a_wrapper() {
    let spec = || haft_core::ToolSpec::new("t", "Returns it.");
    let city = || City { name: "Paris" };
    let closure = DynTool::new(spec(), json!({}), move |_, _| async move { city() });
    let fallible =
        DynTool::new(spec(), json!({}), move |_, _| async move { Ok::<_, String>(city()) });
    for (tool, arguments) in [
        (DynTool::of(FindCityTool), json!({"name": "Paris"})),
        (closure, json!({})),
        (fallible, json!({})),
    ] {
        assert_eq!(tool.output_schema().unwrap()["required"], json!(["name"]));
        let output = call(&tool, arguments).await.unwrap();
        assert_eq!(output.structured.as_deref(), Some(&json!({"name": "Paris"})));
    }
    let failure = call(&DynTool::of(FindCityTool), json!({"name": "X"})).await.unwrap_err();
    assert_eq!(failure.message(), "no city `X`");

    let list = DynTool::new(spec(), json!({}), move |_, _| async move { vec![city()] });
    assert_eq!(call(&list, json!({})).await.unwrap().to_text(), r#"[{"name":"Paris"}]"#);
    let paged =
        DynTool::new(spec(), json!({}), move |_, _| async move { Paged { items: vec![city()] } });
    let output = call(&paged, json!({})).await.unwrap();
    assert_eq!(output.structured.as_deref(), Some(&json!({"items": [{"name": "Paris"}]})));
}
