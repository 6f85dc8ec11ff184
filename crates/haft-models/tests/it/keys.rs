//! No key is in an error, in debug output, in an event or in a stored run, and none goes to another
//! address.

use haft::agent::{Agent, EndReason};
use haft_models::{Provider, ProviderModel, Retries};
use serde_json::json;

use crate::{
    kit::{KEY, PROVIDERS, failure, model, run, runner},
    server::{self, Answer, Server, Step},
};

/// Answers of a server that repeats the key wherever it can.
fn echoes() -> Vec<Answer> {
    let body = json!({"error": {"message": format!("the key {KEY} is wrong"), "code": KEY}});
    let stream =
        |text: String| vec![server::stream_head(), Step::Chunk(text.into_bytes()), Step::End];
    vec![
        server::json("401 Unauthorized", &[], &body),
        server::json("500 Internal Server Error", &[("retry-after", KEY)], &body),
        server::json("302 Found", &[("location", &format!("http://{KEY}.example/{KEY}"))], &body),
        server::json("200 OK", &[], &body),
        server::json("200 OK", &[], &json!({KEY: KEY})),
        stream(format!("event: error\ndata: {body}\n\n")),
        stream(format!("data: {{{KEY}}}\n\n")),
        stream(format!("{KEY}\n\n")),
        vec![server::head("200 OK", &[("content-type", &format!("text/html; {KEY}"))]), Step::End],
        vec![Step::Send(format!("HTTP/1.1 {KEY}\r\n\r\n").into_bytes())],
    ]
}

#[tokio::test]
async fn no_error_event_or_debug_output_has_the_key() {
    for provider in PROVIDERS {
        for (n, answer) in echoes().into_iter().enumerate() {
            let server = Server::start(vec![answer]).await;
            let builder = model(provider, &server).retries(Retries::none());
            let debug = format!("{builder:?} {builder:#?}");
            let model = builder.build().unwrap();
            let debug = format!("{debug} {model:?} {model:#?}");
            assert!(!debug.contains(KEY), "{debug}");
            let agent = Agent::new("a", model);
            let runner = runner();
            let mut stream = runner.run_stream(&agent, "x").unwrap();
            let mut events = String::new();
            while let Some(event) = stream.next().await {
                events.push_str(&serde_json::to_string(&event).unwrap());
                events.push_str(&format!("{event:?}"));
            }
            let result = stream.finish().await.unwrap();
            assert!(matches!(result.reason, EndReason::ModelFailed { .. }), "{provider} {n}");
            let text = format!("{result:?} {} {events}", result.reason);
            assert!(!text.contains(KEY), "{provider} {n}: {text}");
        }
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent"]
    {
        for provider in PROVIDERS {
            let other = Server::start(vec![Vec::new()]).await;
            let location = other.url("/v1/elsewhere");
            let answer = server::json(status, &[("location", &location)], &json!({}));
            let server = Server::start(vec![answer]).await;
            let (message, hints, _) = failure(&run(model(provider, &server)).await);
            assert!(message.contains(&format!("redirects to `{location}`")), "{message}");
            assert!(hints[0].contains("set the base URL to the final one"), "{hints:?}");
            assert!(other.requests().is_empty(), "the key went to another address");
        }
    }
}

#[test]
fn setup_mistakes_do_not_repeat_the_key() {
    let key = format!("{KEY}\nx");
    let error = ProviderModel::anthropic("m", key).build().unwrap_err();
    assert_eq!(error.message(), "the key has a character that no header may contain");
    let url = format!("https://me:{KEY}@host/v1");
    let error = ProviderModel::compatible(url, "m").build().unwrap_err();
    assert!(error.message().contains("contains a user or a password"), "{error}");
    let proxy = format!("socks://me:{KEY}@host:1");
    let error = ProviderModel::openai("m", KEY).proxy(proxy).build().unwrap_err();
    assert!(error.message().contains("is not the address of an HTTP proxy"), "{error}");
    let all = [
        ProviderModel::anthropic("m", format!("{KEY}\n")).build().unwrap_err(),
        ProviderModel::openai("m", KEY).proxy(format!("http://me:{KEY}@")).build().unwrap_err(),
        ProviderModel::openai("m", KEY)
            .base_url(format!("https://me:{KEY}@a/v1"))
            .build()
            .unwrap_err(),
    ];
    for error in &all {
        assert!(!format!("{error} {error:?}").contains(KEY), "{error}");
    }
}

#[test]
fn public_api_needs_a_key_and_an_own_server_needs_an_address() {
    for provider in [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiChat, Provider::Gemini]
    {
        let error = ProviderModel::builder(provider, "m").build().unwrap_err();
        assert_eq!(error.message(), format!("the model `{provider}:m` needs a key"));
        assert!(ProviderModel::builder(provider, "m").key(KEY).build().is_ok());
        assert!(
            ProviderModel::builder(provider, "m").base_url("http://localhost/v1").build().is_ok()
        );
    }
    let error = ProviderModel::builder(Provider::Compatible, "m").build().unwrap_err();
    assert_eq!(error.message(), "a compatible server has no address");
    for wrong in ["localhost:1/v1", "ftp://host/v1", "https://", "https://host/v1#x"] {
        assert!(ProviderModel::compatible(wrong, "m").build().is_err(), "{wrong}");
    }
    assert!(ProviderModel::compatible("http://localhost/v1", " ").build().is_err());
}
