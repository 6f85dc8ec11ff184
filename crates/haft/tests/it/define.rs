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

/// Greets a person.
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

struct Library(Vec<&'static str>);

#[tools]
impl Library {
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
#[haft::arguments]
struct i64Args {
    n: i64,
}

#[tokio::test]
async fn all_tool_definition_styles_use_the_same_pipeline() {
    let dynamic = DynTool::new(
        ToolSpec::new("echo", "Says it back.").read_only().capabilities(Capabilities::NONE),
        json!({"properties": {"text": {"type": "string"}}, "required": ["text"]}),
        |args, _| async move { args["text"].as_str().unwrap_or_default().to_owned() },
    );
    let registry = ToolRegistry::builder()
        .add(AddTool)
        .add(CountTool)
        .add(Greet::tool())
        .add(Library(vec!["Emma", "Ulysses"]))
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

fn short(text: &str, _: &Option<u32>) -> Result<(), String> {
    if text.len() < 10 { Ok(()) } else { Err("the text is too long".into()) }
}

/// Repeats a text.
#[tool(read_only, capabilities(), check = short)]
async fn repeat(text: String, #[param(strict)] times: Option<u32>) -> String {
    text.repeat(times.unwrap_or(1) as usize)
}

fn repeating() -> Runtime {
    let registry = ToolRegistry::builder().add(RepeatTool).build().unwrap();
    Runtime::builder().registry(registry).policy(AllowAll).build().unwrap()
}

#[tokio::test]
async fn a_check_stops_the_call_before_it_runs() {
    let runtime = repeating();
    let output = runtime.call("repeat", json!({"text": "ab", "times": 2})).await.unwrap();
    assert_eq!(output.to_text(), "abab");
    let failure = runtime.call("repeat", json!({"text": "0123456789"})).await.unwrap_err();
    assert_eq!(failure.code(), haft::FailureCode::InvalidValue);
    assert_eq!(failure.message(), "the text is too long");
    assert_eq!(failure.execution(), haft::tool::Execution::NotStarted);
}

#[tokio::test]
async fn a_strict_argument_is_not_repaired_and_others_are() {
    let runtime = repeating();
    let failure = runtime.call("repeat", json!({"text": "ab", "times": "2"})).await.unwrap_err();
    assert_eq!(failure.code(), haft::FailureCode::BadArguments);
    let registry = ToolRegistry::builder().add(AddTool).build().unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    let output = runtime.call("add", json!({"a": "1", "b": 2})).await.unwrap();
    assert_eq!(output.to_text(), "3");
}

/// Polls a future on this thread, without tokio.
fn block_on<F: Future>(future: F) -> F::Output {
    use std::task::{Context, Poll, Wake, Waker};

    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn outside_of_tokio_a_call_fails_and_says_so() {
    let runtime = repeating();
    let failure = block_on(runtime.call("repeat", json!({"text": "ab"}))).unwrap_err();
    assert_eq!(failure.code(), haft::FailureCode::NotRun);
    assert!(failure.message().contains("tokio runtime"), "{failure}");
    let error = block_on(runtime.run().turn()).unwrap_err();
    assert!(error.message().contains("tokio runtime"), "{error}");
}

#[test]
fn a_turn_that_is_polled_outside_of_tokio_answers_without_a_panic() {
    let waits = DynTool::new(
        ToolSpec::new("waits", "Waits.").read_only().capabilities(Capabilities::NONE),
        json!({}),
        |_, _: ToolContext| std::future::pending::<&str>(),
    );
    let registry = ToolRegistry::builder().add(waits).build().unwrap();
    let runtime = Runtime::builder().registry(registry).policy(AllowAll).build().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let turn = tokio.block_on(runtime.run().turn()).unwrap();
    let mut results = block_on(turn.run([haft::ToolCall::new("c1", "waits", json!({}))]));
    assert_eq!(results.len(), 1);
    results.remove(0).into_outcome().unwrap_err();
}
