//! The four ways to define a tool, through the whole runtime and without a direct use of serde.

use haft::{
    Failure, Runtime, State, Tool, ToolContext, ToolRegistry,
    policy::AllowAll,
    tool,
    tool::{Capabilities, DynTool, Json, ToolSpec},
    tools,
};
use serde_json::json;

/// Adds two numbers.
#[tool(read_only, capabilities())]
async fn add(
    /// The first number.
    a: i64,
    /// The second number.
    #[default(10)]
    b: i64,
) -> String {
    (a + b).to_string()
}

/// Counts the letters of a text.
#[tool(read_only, capabilities(), alias = "letters")]
fn count(text: String, prefix: State<String>) -> Result<String, std::num::ParseIntError> {
    Ok(format!("{}{}", *prefix, text.chars().count()))
}

/// Greets somebody.
#[derive(Tool)]
#[tool(read_only, capabilities())]
struct Greet {
    /// Who.
    name: String,
}

impl Greet {
    async fn run(self, cx: &ToolContext) -> Result<String, Failure> {
        Ok(format!("hello {} from {}", self.name, cx.tool_name()))
    }
}

struct Shelf(Vec<&'static str>);

#[tools]
impl Shelf {
    /// Lists the books.
    #[tool(read_only, capabilities())]
    async fn list_books(&self) -> Json<Vec<&'static str>> {
        Json(self.0.clone())
    }

    /// Finds a book by its place.
    #[tool(read_only, capabilities())]
    fn book(&self, #[param(min = 1, max = 9)] place: usize) -> Result<&'static str, Failure> {
        self.0.get(place - 1).copied().ok_or_else(|| Failure::invalid("there is no such place"))
    }
}

struct Double;

impl Tool for Double {
    type Args = i64Args;
    type Output = String;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("double", "Doubles a number.").read_only().capabilities(Capabilities::NONE)
    }

    async fn call(&self, args: i64Args, _: &ToolContext) -> Result<String, Failure> {
        Ok((args.n * 2).to_string())
    }
}

#[expect(non_camel_case_types, reason = "reads like the type it holds")]
#[derive(haft::serde::Deserialize, haft::schemars::JsonSchema)]
#[serde(crate = "haft::serde")]
#[schemars(crate = "haft::schemars")]
struct i64Args {
    n: i64,
}

#[tokio::test]
async fn all_tool_definition_styles_use_the_same_pipeline() {
    let dynamic = DynTool::new(
        ToolSpec::new("echo", "Says it back.").read_only().capabilities(Capabilities::NONE),
        json!({"properties": {"text": {"type": "string"}}, "required": ["text"]}),
        |args, _| async move { Ok(args["text"].as_str().unwrap_or_default().to_owned()) },
    );
    let registry = ToolRegistry::builder()
        .add(AddTool)
        .add(CountTool)
        .add(Greet::tool())
        .add(Shelf(vec!["Emma", "Ulysses"]))
        .add(Double)
        .add(dynamic)
        .build()
        .unwrap();
    let runtime = Runtime::builder().registry(registry).state("n=".to_owned()).build().unwrap();
    for (name, arguments, wanted) in [
        ("add", json!({"a": 1, "b": 2}), "3"),
        ("add", json!({"a": 1}), "11"),
        ("letters", json!({"text": "four"}), "n=4"),
        ("greet", json!({"name": "Ada"}), "hello Ada from greet"),
        ("list_books", json!({}), r#"["Emma","Ulysses"]"#),
        ("book", json!({"place": 2}), "Ulysses"),
        ("double", json!({"n": 21}), "42"),
        ("echo", json!({"text": "hi"}), "hi"),
    ] {
        let output = runtime.call(name, arguments).await;
        assert_eq!(output.unwrap_or_else(|f| panic!("{name}: {f}")).to_text(), wanted);
    }
    let wrong = runtime.call("book", json!({"place": 0})).await.unwrap_err();
    assert_eq!(wrong.message(), "/place: expected an integer from 1 to 9; got 0 (integer)");
    let none = runtime.call("book", json!({"place": 7})).await.unwrap_err();
    assert_eq!(none.to_string(), "invalid_value: there is no such place");
    assert_eq!(add(1, 2).await, "3", "the function stays callable as itself");
}

/// Waits for ever, on a thread.
#[tool(timeout = "30ms")]
fn sit() {
    std::thread::park_timeout(std::time::Duration::from_secs(5));
}

#[tokio::test]
async fn sync_function_that_outlives_its_timeout_is_an_unknown_outcome() {
    let registry = ToolRegistry::builder().add(SitTool).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(AllowAll).build().unwrap();
    let failure = runtime.call("sit", json!({})).await.unwrap_err();
    assert_eq!(failure.code(), haft::FailureCode::UnknownOutcome);
    assert_eq!(failure.code().exit_code(), 8);
}
