//! Deferred tools: which are left out of a request, how they are found and loaded, and what happens
//! to a call of one that is not loaded.

use haft::{
    Dialect, FailureCode, Runtime, RuntimeBuilder, ToolCall, ToolRegistry, Turn,
    agent::{Agent, DeferredApprovals, RunStatus, Runner, SavedRun, ScriptedModel},
    approval::ApprovalResponse,
    dialect::{ExportOptions, ToolChoice, ToolSearch},
    host::RunBuilder,
    policy::{AllowAll, Policy, PolicyRequest, PolicyTool},
    registry::{ToolQuery, ToolView},
    search::SearchTools,
    tool::{DynTool, Exposure, Scope, ToolSpec},
};
use haft_core::Verdict;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::kit::{read, write};

#[derive(Deserialize)]
struct KnownTool {
    name: String,
    description: String,
    parameters: Vec<String>,
}

#[derive(Deserialize)]
struct Labelled {
    query: String,
    tools: Vec<String>,
}

fn lines<T: for<'a> Deserialize<'a>>(text: &str) -> Vec<T> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Real definitions: 30 tools of two benchmarks and 271 operations of a public API.
fn published() -> Vec<DynTool> {
    let known: Vec<KnownTool> = lines(include_str!("tool_search/tools.jsonl"));
    let tool = |known: KnownTool| {
        let spec = ToolSpec::new(known.name, known.description).exposure(Exposure::Deferred);
        let mut properties = serde_json::Map::new();
        for name in known.parameters {
            properties.insert(name, json!({}));
        }
        DynTool::new(spec, json!({"type": "object", "properties": properties}), |_, _| async {})
    };
    known.into_iter().map(tool).collect()
}

fn runtime(tools: Vec<DynTool>) -> RuntimeBuilder {
    let registry = ToolRegistry::builder().add(tools).add(SearchTools).build().unwrap();
    Runtime::builder().registry(registry).policy(AllowAll)
}

fn weather() -> DynTool {
    let spec = ToolSpec::new("get_forecast", "Returns the weather of the next days.");
    let schema = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    });
    let spec = spec.read_only().capabilities(haft::tool::Capabilities::NONE);
    DynTool::new(spec.exposure(Exposure::Deferred), schema, |args, _| async move {
        format!("rain in {}", args["city"].as_str().unwrap_or_default())
    })
}

fn mail() -> DynTool {
    let spec = read("send_mail").exposure(Exposure::Deferred);
    DynTool::new(spec, json!({"properties": {"to": {"type": "string"}}}), |_, _| async { "sent" })
}

fn plain() -> DynTool {
    DynTool::new(read("clock"), json!({}), |_, _| async { "noon" })
}

fn names(turn: &Turn, dialect: Dialect, options: &ExportOptions) -> Vec<String> {
    let export = turn.snapshot().export_with(dialect, options);
    export.exported_tools().iter().map(|tool| tool.tool_name.clone()).collect()
}

fn shown(turn: &Turn) -> Vec<String> {
    names(turn, Dialect::OpenAiChat, &ExportOptions::default())
}

async fn call(turn: Turn, name: &str, arguments: Value) -> haft::ToolResult {
    turn.run(vec![ToolCall::new("c", name, arguments)]).await.pop().unwrap()
}

#[tokio::test]
async fn nine_of_ten_labelled_queries_find_their_tools_among_the_first_five() {
    let queries: Vec<Labelled> = lines(include_str!("tool_search/queries.jsonl"));
    assert_eq!(queries.len(), 200);
    let turn = runtime(published()).build().unwrap().run().turn().await.unwrap();
    let (mut recall, mut missed) = (0.0, Vec::new());
    for Labelled { query, tools } in &queries {
        for name in tools {
            assert!(turn.snapshot().get(name).is_some(), "`{query}` wants `{name}`");
        }
        let found = turn.snapshot().search(&ToolQuery::Words(query.clone()), 5).unwrap();
        let hits = tools.iter().filter(|t| found.iter().any(|f| *f.name() == t.as_str())).count();
        recall += hits as f64 / tools.len() as f64;
        if hits < tools.len() {
            missed.push(query.as_str());
        }
    }
    let recall = recall / queries.len() as f64;
    println!("recall at 5: {:.1} % of {} queries", recall * 100.0, queries.len());
    assert!(recall >= 0.94, "recall {recall:.3}; missed: {missed:#?}");
}

/// The bench measures the optimized build; this bounds the unoptimized one, generously.
#[tokio::test]
async fn ten_thousand_tools_are_searched_in_milliseconds() {
    let tool = |n: usize| {
        let (verb, noun) = (["list", "create", "cancel"][n % 3], ["order", "invoice"][n % 2]);
        let spec = ToolSpec::new(format!("{verb}_{noun}_{n}"), format!("{verb} one {noun} {n}."));
        DynTool::new(spec.exposure(Exposure::Deferred), json!({}), |_, _| async {})
    };
    let tools: Vec<DynTool> = (0..10_000).map(tool).collect();
    let turn = runtime(tools).build().unwrap().run().turn().await.unwrap();
    let cost = turn.snapshot().prompt_cost();
    assert!(cost.request_tokens < 3_000 && cost.all_tokens > 200_000, "{cost:?}");
    assert!(cost.index_bytes < 8 << 20, "{cost:?}");
    let mut times: Vec<std::time::Duration> = (0..21)
        .map(|n| {
            let query = ToolQuery::Words(format!("remove the invoice {}", 6 * n + 5));
            let clock = tokio::time::Instant::now();
            let found = turn.snapshot().search(&query, 5).unwrap();
            let took = clock.elapsed();
            assert_eq!(found.len(), 5);
            took
        })
        .collect();
    times.sort();
    println!("search among 10 000 tools: median {:?}; {cost:?}", times[10]);
    assert!(times[10] < std::time::Duration::from_millis(50), "{times:?}");
}

#[tokio::test]
async fn found_tool_is_shown_from_the_next_turn_on_and_stays() {
    let run = runtime(vec![weather(), mail(), plain()]).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    assert_eq!(shown(&turn), ["clock", "tool_search"]);
    let export = turn.snapshot().export(Dialect::OpenAiChat);
    assert!(export.as_str().contains("get_forecast, send_mail"), "{}", export.as_str());
    let answer = call(turn, "tool_search", json!({"query": "weather forecast"})).await;
    let text = answer.text();
    assert!(text.contains("get_forecast(city, days?): Returns the weather"), "{text}");
    for _ in 0..2 {
        let turn = run.turn().await.unwrap();
        assert_eq!(shown(&turn), ["clock", "tool_search", "get_forecast"]);
        assert!(!turn.snapshot().is_deferred(turn.snapshot().get("get_forecast").unwrap()));
    }
    let other = run.sub_run().start().turn().await.unwrap();
    assert_eq!(shown(&other), ["clock", "tool_search"], "loaded by the other run only");
}

#[tokio::test]
async fn loading_a_tool_keeps_the_beginning_of_the_request() {
    let run = runtime(vec![weather(), mail(), plain()]).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    let before = turn.snapshot().export(Dialect::Anthropic);
    call(turn, "tool_search", json!({"names": ["send_mail", "get_forecast"]})).await;
    let turn = run.turn().await.unwrap();
    let after = turn.snapshot().export(Dialect::Anthropic);
    let stable = before.as_str().trim_end_matches(']');
    assert!(after.as_str().starts_with(stable), "{}\n{}", before.as_str(), after.as_str());
    assert_eq!(shown(&turn), ["clock", "tool_search", "send_mail", "get_forecast"]);
}

#[tokio::test]
async fn search_by_pattern_and_by_name() {
    let run = runtime(vec![weather(), mail(), plain()]).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    let found = |query: ToolQuery| -> Vec<String> {
        let found = turn.snapshot().search(&query, 5).unwrap();
        found.iter().map(|tool| tool.name().to_string()).collect()
    };
    assert_eq!(found(ToolQuery::Pattern("^SEND_".into())), ["send_mail"]);
    assert_eq!(found(ToolQuery::Pattern("cit[iy]".into())), ["get_forecast"], "a parameter");
    assert_eq!(found(ToolQuery::Names(vec!["clock".into(), "none".into()])), ["clock"]);
    assert_eq!(found(ToolQuery::Words("send_mail".into()))[0], "send_mail");
    let long = "x".repeat(201);
    for pattern in ["(", &long, "(a{1000}){1000}"] {
        let refused = turn.snapshot().search(&ToolQuery::Pattern(pattern.into()), 5).unwrap_err();
        assert_eq!(refused.code(), FailureCode::InvalidValue, "{pattern:.10}");
    }
    let both = call(turn, "tool_search", json!({"query": "a", "pattern": "b"})).await;
    assert_eq!(both.failure().unwrap().code(), FailureCode::InvalidValue);
    let turn = run.turn().await.unwrap();
    let nothing = call(turn, "tool_search", json!({"query": "teleport"})).await;
    assert!(nothing.text().starts_with("No tool matches."), "{}", nothing.text());
}

#[tokio::test]
async fn deferred_tool_is_run_when_its_arguments_are_valid() {
    let run = runtime(vec![weather()]).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    let answer = call(turn, "get_forecast", json!({"city": "Oslo"})).await;
    assert_eq!(answer.text(), "rain in Oslo");
    assert_eq!(shown(&run.turn().await.unwrap()), ["tool_search", "get_forecast"]);
}

#[tokio::test]
async fn deferred_tool_is_answered_with_its_schema_when_its_arguments_are_invalid() {
    let run = runtime(vec![weather()]).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    let answer = call(turn, "get_forecast", json!({"town": "Oslo"})).await;
    let failure = answer.failure().unwrap();
    assert_eq!(failure.code(), FailureCode::BadArguments);
    let text = failure.message();
    assert!(text.contains("city") && text.contains("The schema of `get_forecast`: {"), "{text}");
    assert!(text.contains(r#""minimum":1"#), "{text}");
    // It is loaded now, so the model has the schema.
    let turn = run.turn().await.unwrap();
    let again = call(turn, "get_forecast", json!({"town": "Oslo"})).await;
    assert!(!again.failure().unwrap().message().contains("The schema of"), "{:?}", again.failure());
}

/// Hides one tool.
struct Hides(&'static str);

impl Policy for Hides {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        Verdict::allow("a test")
    }

    fn hides(&self, tool: &PolicyTool<'_>, _: &Scope) -> Option<String> {
        (*tool.name == self.0).then(|| "denied by a rule".to_owned())
    }
}

#[tokio::test]
async fn denied_disabled_and_hidden_tools_are_never_found() {
    let disabled = mail().with_spec(|spec| spec.enabled(|_| false));
    let runtime = runtime(vec![weather(), disabled, plain()]).policy(Hides("get_forecast"));
    let run = runtime.build().unwrap().run();
    let view = ToolView::all().hide("clock");
    let hidden = run.sub_run().view(view).start();
    for (run, absent) in [(&run, "get_forecast"), (&run, "send_mail"), (&hidden, "clock")] {
        let turn = run.turn().await.unwrap();
        let listed = turn.snapshot().export(Dialect::OpenAiChat).as_str().contains(absent);
        assert!(!listed, "`{absent}` is listed");
        for query in [
            ToolQuery::Words(format!("{absent} weather mail something")),
            ToolQuery::Words(absent.into()),
            ToolQuery::Pattern(".".into()),
            ToolQuery::Names(vec![absent.into()]),
        ] {
            let found = turn.snapshot().search(&query, 50).unwrap();
            assert!(found.iter().all(|tool| *tool.name() != absent), "{query:?} found `{absent}`");
        }
    }
    let turn = run.turn().await.unwrap();
    call(turn, "tool_search", json!({"names": ["get_forecast"]})).await;
    let turn = run.turn().await.unwrap();
    assert!(!shown(&turn).contains(&"get_forecast".to_owned()));
    let refused = call(turn, "get_forecast", json!({"city": "Oslo"})).await;
    assert_eq!(refused.failure().unwrap().code(), FailureCode::NotOffered);
}

#[tokio::test]
async fn auto_tools_are_deferred_above_the_budget_and_always_tools_never() {
    let tool = |n: usize| {
        let spec = read(&format!("tool_{n}"));
        let spec = if n == 0 { spec.exposure(Exposure::Always) } else { spec };
        DynTool::new(spec, json!({}), |_, _| async {})
    };
    let turn = |budget: Option<u64>| async move {
        let mut config = haft::Config::default();
        config.max_tool_tokens = budget;
        let runtime = runtime((0..20).map(tool).collect()).config(config).build().unwrap();
        runtime.run().turn().await.unwrap()
    };
    let all: Vec<String> = shown(&turn(None).await);
    assert_eq!(all.len(), 20, "nothing is deferred, so nothing has to be searched: {all:?}");
    assert_eq!(shown(&turn(Some(20_000)).await).len(), 20);
    let few = turn(Some(100)).await;
    assert_eq!(shown(&few), ["tool_0", "tool_search"]);
    let cost = few.snapshot().prompt_cost();
    assert_eq!((cost.tools, cost.deferred), (21, 19));
    assert!(cost.request_tokens < cost.all_tokens / 2, "{cost:?}");
    assert!(cost.index_bytes > 0 && cost.listing_tokens > 0, "{cost:?}");
}

#[tokio::test]
async fn provider_with_a_search_of_its_own_gets_marked_tools_instead() {
    let run = runtime(vec![weather(), mail(), plain()]).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    let options = ExportOptions::default().search(ToolSearch::Ranked);
    let export = turn.snapshot().export_with(Dialect::Anthropic, &options);
    let tools = export.tools().as_array().unwrap();
    assert_eq!(tools[0]["type"], "tool_search_tool_bm25_20251119");
    let of: Vec<_> = tools[1..].iter().map(|t| (t["name"].as_str(), &t["defer_loading"])).collect();
    let yes = json!(true);
    assert_eq!(
        of,
        [(Some("clock"), &Value::Null), (Some("get_forecast"), &yes), (Some("send_mail"), &yes)]
    );
    assert!(export.prompt_bytes() < export.as_str().len(), "deferred tools are not read");
    let responses = turn.snapshot().export_with(Dialect::OpenAiResponses, &options);
    assert_eq!(responses.tools()[3], json!({"type": "tool_search", "execution": "server"}));
    // A provider without one gets ours.
    assert_eq!(names(&turn, Dialect::Gemini, &options), ["clock", "tool_search"]);
    // Clients of MCP list everything.
    assert_eq!(names(&turn, Dialect::Mcp, &options).len(), 4);
    let chosen = ExportOptions::default().choice(ToolChoice::Tool("send_mail".into()));
    assert_eq!(names(&turn, Dialect::OpenAiChat, &chosen), ["clock", "tool_search", "send_mail"]);
}

#[tokio::test]
async fn registry_without_the_search_tool_shows_everything() {
    let registry = ToolRegistry::builder().add(vec![weather(), plain()]).build().unwrap();
    let run = Runtime::builder().registry(registry).build().unwrap().run();
    let turn = run.turn().await.unwrap();
    assert_eq!(shown(&turn), ["clock", "get_forecast"]);
    let registry = ToolRegistry::builder().add(vec![weather(), plain()]).add(SearchTools);
    let run = Runtime::builder().registry(registry.build().unwrap());
    let run = run.policy(Hides("tool_search")).build().unwrap().run();
    assert_eq!(shown(&run.turn().await.unwrap()), ["clock", "get_forecast"], "it is denied");
}

#[tokio::test]
async fn view_finds_its_tools_under_its_names() {
    let runtime = runtime(vec![weather(), mail(), plain()]).build().unwrap();
    let view = ToolView::all().hide("send_mail").rename("get_forecast", "weather_next_days");
    let start = |builder: RunBuilder| builder.view(view.clone()).start();
    let run = start(runtime.run_builder());
    let turn = run.turn().await.unwrap();
    let answer = call(turn, "tool_search", json!({"query": "forecast mail"})).await;
    assert!(answer.text().contains("\nweather_next_days("), "{}", answer.text());
    assert!(!answer.text().contains("send_mail"), "{}", answer.text());
    let turn = run.turn().await.unwrap();
    assert_eq!(shown(&turn), ["clock", "tool_search", "weather_next_days"]);
}

#[tokio::test]
async fn agent_searches_loads_and_calls_also_after_it_was_saved() {
    let later = DeferredApprovals::new();
    let post = DynTool::new(write("post"), json!({}), |_, _| async { "posted" });
    let registry = ToolRegistry::builder().add(vec![weather(), mail(), plain(), post]);
    let runtime = Runtime::builder().registry(registry.add(SearchTools).build().unwrap());
    let runtime = runtime.approver(later.clone()).build().unwrap();
    let model = ScriptedModel::parse(
        r#"{"calls": [{"id": "s", "name": "tool_search", "arguments": {"query": "weather"}}]}
           {"calls": [{"id": "w", "name": "get_forecast", "arguments": {"city": "Oslo"}}]}
           {"calls": [{"id": "p", "name": "post", "arguments": {}}]}
           {"text": "It says {{result:w}}, {{result:p}}."}"#,
    );
    let agent = Agent::new("a", model.unwrap()).export(ExportOptions::default());
    let runner = Runner::new(runtime).deferred_approvals(later);
    let result = runner.run(&agent, "Will it rain?").await.unwrap();
    assert_eq!(result.state, RunStatus::Waiting, "{:?}", result.reason);
    let saved = SavedRun::from_json(&result.saved.unwrap().to_json()).unwrap();
    assert_eq!(saved.loaded, ["get_forecast"]);
    let answers = [("p".into(), ApprovalResponse::allow())];
    let result = runner.resume(&agent, saved, answers).await.unwrap();
    assert_eq!(result.text, "It says rain in Oslo, posted.");
}
