//! A whole run with each provider, streamed and not: request, call, result, answer, usage, cost.

use haft::{
    Runtime,
    agent::{Agent, AgentEvent, RunStatus, Runner, Usage},
};
use haft_models::Provider;

use crate::{
    contract,
    kit::{PROVIDERS, model, run, runner},
    server::Server,
    wire,
};

#[tokio::test]
async fn every_provider_runs_a_call_and_answers() {
    for provider in PROVIDERS {
        for is_streaming in [true, false] {
            let answers = vec![
                wire::answer(provider, is_streaming, None),
                wire::answer(provider, is_streaming, Some("Oslo has 717710 people.")),
            ];
            let server = Server::start(answers).await;
            let result = run(model(provider, &server).streaming(is_streaming)).await;
            let at = format!("{provider} {is_streaming}");
            assert_eq!(result.state, RunStatus::Completed, "{at}: {}", result.reason);
            assert_eq!(result.text, "Oslo has 717710 people.", "{at}");
            assert_eq!(result.executions.len(), 1, "{at}");
            assert_eq!(result.executions[0].failed, None, "{at}");
            let requests = server.requests();
            assert_eq!(requests.len(), 2, "{at}");
            for request in &requests {
                contract::check(provider, is_streaming, request);
            }
            let text = contract::result_text(provider, &requests[1].body);
            assert!(text.contains("717710"), "{at}: {text}");
        }
    }
}

#[tokio::test]
async fn usage_and_cost_count_cached_tokens() {
    for provider in PROVIDERS {
        for is_streaming in [true, false] {
            let server = Server::start(vec![wire::answer(provider, is_streaming, Some("x"))]).await;
            let result = run(model(provider, &server).streaming(is_streaming)).await;
            let written = if provider == Provider::Anthropic { 100 } else { 0 };
            let wanted = Usage {
                input_tokens: 1_110,
                cached_input_tokens: 1_000,
                cache_write_tokens: written,
                output_tokens: 20,
            };
            assert_eq!(result.usage.tokens, wanted, "{provider} {is_streaming}");
            // Of the 110 other tokens, those that are written to the cache cost twice as much.
            let micros = 1_000 / 10 + 110 + written + 20 * 10;
            assert_eq!(result.usage.micros, micros, "{provider} {is_streaming}");
        }
    }
}

#[tokio::test]
async fn text_arrives_while_the_model_writes() {
    for provider in PROVIDERS {
        let server = Server::start(vec![wire::answer(provider, true, Some("Hello."))]).await;
        let agent = Agent::new("a", model(provider, &server).build().unwrap());
        let runner = runner();
        let mut stream = runner.run_stream(&agent, "Say hello.").unwrap();
        let mut text = String::new();
        while let Some(event) = stream.next().await {
            match event {
                AgentEvent::Text { text: more } => text.push_str(&more),
                AgentEvent::RunStarted { model, .. } => assert_eq!(model, "some-model"),
                _ => {}
            }
        }
        assert_eq!(text, "Hello.", "{provider}");
    }
}

#[tokio::test]
async fn server_that_ignores_streaming_is_understood() {
    for provider in PROVIDERS {
        let server = Server::start(vec![wire::answer(provider, false, Some("Whole."))]).await;
        let result = run(model(provider, &server)).await;
        assert_eq!((result.state, &*result.text), (RunStatus::Completed, "Whole."), "{provider}");
    }
}

#[tokio::test]
async fn extra_fields_are_merged_into_the_request() {
    let server = Server::start(vec![wire::answer(Provider::Gemini, true, Some("x"))]).await;
    let extra = serde_json::json!({"temperature": 0.5});
    run(model(Provider::Gemini, &server).extra("generationConfig", extra)).await;
    let config = server.requests()[0].body["generationConfig"].clone();
    assert_eq!(config["temperature"], 0.5);
    assert!(config["maxOutputTokens"].is_u64(), "{config}");
}

#[haft::arguments]
struct City {
    name: String,
    people: u64,
}

#[tokio::test]
async fn typed_run_asks_for_structured_output_where_the_provider_has_it() {
    let answer = r#"{"name": "Oslo", "people": 717710}"#;
    for provider in PROVIDERS {
        for has_tools in [true, false] {
            let server = Server::start(vec![wire::answer(provider, true, Some(answer))]).await;
            let agent = Agent::new("geographer", model(provider, &server).build().unwrap());
            let runner = match has_tools {
                true => runner(),
                false => Runner::new(Runtime::builder().build().unwrap()),
            };
            let typed = runner.run_typed::<City>(&agent, "How large is Oslo?").await.unwrap();
            let city = typed.output.map(|city| (city.name, city.people));
            assert_eq!(city, Some(("Oslo".to_owned(), 717_710)), "{provider}");
            let body = server.requests()[0].body.clone();
            let pointer = match provider {
                Provider::Anthropic => "/output_config/format/schema",
                Provider::OpenAi => "/text/format/schema",
                Provider::Gemini => "/generationConfig/responseJsonSchema",
                _ => "/response_format/json_schema/schema",
            };
            let is_asked = body.pointer(&format!("{pointer}/properties/people")).is_some();
            let writes_at_once = matches!(provider, Provider::Gemini | Provider::Compatible);
            assert_eq!(is_asked, !(has_tools && writes_at_once), "{provider}: {body}");
        }
    }
}
