//! Whole request bodies of every dialect, as a host would send them.
//!
//! Built with the real registry, runtime and history, and written to files; `scripts/vendor-types`
//! reads them with the vendors' own types. What can be checked without a vendor is asserted here:
//! each body pairs its calls, names no tool twice, and is identical when it is built again.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use haft::{
    BoxFuture, Dialect, Error, Output, Runtime, ToolRegistry,
    agent::{Agent, EndReason, Model, ModelInfo, ModelRequest, Reply, Runner, ScriptedModel},
    dialect::{
        ExportOptions, PromptCacheTtl, StrictMode, ToolChoice, ToolDefinition, ToolExport,
        ToolSearch,
    },
    history::{
        AssistantPart as Past, ContentPart, LastTurn, Media, MediaSource, Message, PastCall,
        PastResult, Transcript,
    },
    policy::AllowAll,
    tool::{Block, DynTool, Exposure, ToolSpec},
    turn::StopReason,
};
use serde_json::{Map, Value, json};

use crate::{
    kit::read,
    script::{ScriptPart, call, complete, endings, events, text},
};

/// A one-pixel image.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Bodies by name; the name starts with the dialect's directory.
type Bodies = BTreeMap<String, Value>;

fn dialects_with_history() -> impl Iterator<Item = Dialect> {
    Dialect::ALL.iter().copied().filter(|dialect| *dialect != Dialect::Mcp)
}

/// Schemas that caused a bug somewhere, each as one tool.
fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("nothing", json!({})),
        ("empty", json!({"type": "object", "properties": {}})),
        ("closed", json!({"type": "object", "additionalProperties": false})),
        (
            "optionals",
            json!({"type": "object", "required": ["a"], "properties": {
                "a": {"type": "string", "description": "Needed.", "minLength": 1},
                "b": {"type": ["integer", "null"], "default": 3, "minimum": 0},
                "c": {"anyOf": [{"type": "number"}, {"type": "null"}], "description": "Perhaps."},
            }}),
        ),
        (
            "shared",
            json!({"type": "object", "required": ["from", "to"], "properties": {
                "from": {"$ref": "#/$defs/place", "description": "Where it begins."},
                "to": {"$ref": "#/$defs/place"},
                "by": {"$ref": "#/properties/from"},
            }, "$defs": {"place": {"type": "object", "required": ["city"], "properties": {
                "city": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{4,5}$"},
            }}}}),
        ),
        (
            "tree",
            json!({"type": "object", "required": ["root"], "properties": {
                "root": {"$ref": "#/$defs/node"},
            }, "$defs": {"node": {"type": "object", "required": ["value"], "properties": {
                "value": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            }}}}),
        ),
        (
            "either",
            json!({"anyOf": [
                {"type": "object", "required": ["kind", "path"], "properties": {
                    "kind": {"const": "file"}, "path": {"type": "string"}}},
                {"type": "object", "required": ["kind", "url"], "properties": {
                    "kind": {"const": "page"}, "url": {"type": "string", "format": "uri"}}},
            ]}),
        ),
        (
            "whole",
            json!({"type": "object", "allOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {"oneOf": [{"type": "integer"}, {"type": "string"}]}}},
            ]}),
        ),
        (
            "map",
            json!({"type": "object", "required": ["headers"], "properties": {
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object"},
            }, "additionalProperties": {"type": "integer"}}),
        ),
        (
            "tuple",
            json!({"type": "object", "properties": {
                "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}],
                         "items": false, "minItems": 2},
                "bare": {"type": "array"},
                "set": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 9},
            }}),
        ),
        (
            "values",
            json!({"type": "object", "required": ["level"], "properties": {
                "level": {"type": "integer", "enum": [1, 2, 3]},
                "mixed": {"enum": ["a", 1, null, true]},
                "gone": {"const": null},
                "yes": {"const": true},
                "mode": {"type": "string", "enum": ["", "fast", "slow"]},
                "step": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
            }}),
        ),
        (
            "open",
            json!({"type": "object", "properties": {
                "anything": true, "empty": {}, "never": {"not": {}},
                "type": {"type": "string"}, "properties": {"type": "string"},
                "when": {"type": "string", "format": "date-time"},
            }, "if": {"required": ["when"]}, "then": {"required": ["anything"]}}),
        ),
        (
            "odd_keys",
            json!({"type": "object", "properties": {"$odd key": {"type": "string"}, "ünì": {"type": "string"}}}),
        ),
    ]
}

/// The schemas above as tools, and the tools that the conversation calls.
fn tools() -> Vec<DynTool> {
    let plain =
        |name: &str, schema: Value| DynTool::new(read(name), schema, |_, _| async { "done" });
    let mut tools: Vec<DynTool> =
        schemas().into_iter().map(|(name, schema)| plain(name, schema)).collect();
    let city = json!({"type": "object", "required": ["city"], "additionalProperties": false,
                      "properties": {"city": {"type": "string"}}});
    let warmth = read("warmth").title("How warm is it").example(json!({"city": "Oslo"}));
    tools.push(
        DynTool::new(warmth, city.clone(), |_, _| async {
            let mut output = Output::json(json!({"celsius": 7}));
            output.structured = Some(Box::new(json!({"celsius": 7})));
            output
        })
        .with_output_schema(json!({"type": "object", "required": ["celsius"], "properties": {
            "celsius": {"type": "number"}}})),
    );
    tools.push(DynTool::new(read("picture"), city, |_, _| async {
        Output::text("Here it is.")
            .and(Block::Image { data: PIXEL.into(), media_type: "image/png".into() })
            .and(Block::Link {
                uri: "file:///oslo.png".into(),
                name: "oslo.png".into(),
                media_type: Some("image/png".into()),
            })
    }));
    tools.push(DynTool::new(read("silent"), json!({}), |_, _| async {}));
    // A description of exactly the length at which some hosts truncate one.
    let long = "x".repeat(70);
    for name in ["seldom", "never_loaded"] {
        let spec = ToolSpec::new(name, long.clone()).exposure(Exposure::Deferred);
        tools.push(DynTool::new(
            spec,
            json!({"type": "object", "properties": {
            "x": {"type": "string"}}}),
            |_, _| async { "found" },
        ));
    }
    tools
}

fn runtime() -> Runtime {
    let registry = ToolRegistry::builder().add(tools()).build().unwrap();
    let nonces = haft::testing::Nonces::counting(0);
    Runtime::builder().registry(registry).policy(AllowAll).nonces(nonces).build().unwrap()
}

/// Export options, by name.
fn choices() -> Vec<(&'static str, ExportOptions)> {
    let default = ExportOptions::default;
    vec![
        ("default", default()),
        ("strict", default().strict(StrictMode::On)),
        ("plain", default().strict(StrictMode::Off).without_examples()),
        ("cache", default().cache(PromptCacheTtl::FiveMinutes)),
        ("cache-hour", default().cache(PromptCacheTtl::OneHour).search(ToolSearch::Ranked)),
        ("auto", default().choice(ToolChoice::Auto).parallel(true)),
        ("any", default().choice(ToolChoice::Any).parallel(false)),
        ("one", default().choice(ToolChoice::Tool("warmth".into())).parallel(false)),
        ("none", default().choice(ToolChoice::None).parallel(false)),
        ("one-at-a-time", default().parallel(false)),
        ("search-regex", default().search(ToolSearch::Regex)),
        ("search-own", default().search(ToolSearch::Own).strict(StrictMode::On)),
        ("output", default().output().eager()),
    ]
}

/// Returns the request key that holds the conversation.
fn key(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiResponses => "input",
        Dialect::Gemini | Dialect::GeminiJson => "contents",
        _ => "messages",
    }
}

/// Returns the user message.
fn question(dialect: Dialect) -> Value {
    let script = "How warm is it in Oslo?";
    match dialect {
        Dialect::Gemini | Dialect::GeminiJson => {
            json!({"role": "user", "parts": [{"text": script}]})
        }
        Dialect::Bedrock => json!({"role": "user", "content": [{"text": script}]}),
        _ => json!({"role": "user", "content": script}),
    }
}

/// Returns a request around a conversation and its tools.
fn body(dialect: Dialect, conversation: Map<String, Value>, tools: &Map<String, Value>) -> Value {
    let mut body = Map::new();
    match dialect {
        Dialect::Gemini | Dialect::GeminiJson => {}
        Dialect::Bedrock => drop(body.insert("modelId".into(), json!("some-model"))),
        _ => drop(body.insert("model".into(), json!("some-model"))),
    }
    match dialect {
        Dialect::Anthropic => drop(body.insert("max_tokens".into(), json!(1024))),
        Dialect::Ollama => drop(body.insert("stream".into(), json!(false))),
        _ => {}
    }
    body.extend(conversation);
    body.extend(tools.clone());
    Value::Object(body)
}

/// Returns a conversation of these messages; a list counts as several messages.
fn conversation(dialect: Dialect, messages: impl IntoIterator<Item = Value>) -> Map<String, Value> {
    let mut list = vec![question(dialect)];
    for message in messages {
        match message {
            Value::Array(several) => list.extend(several),
            one => list.push(one),
        }
    }
    Map::from_iter([(key(dialect).to_owned(), Value::Array(list))])
}

/// Returns the assistant message of a complete response, as a host would echo it.
fn echo(dialect: Dialect, response: &Value) -> Value {
    match dialect {
        Dialect::Anthropic => json!({"role": "assistant", "content": response["content"]}),
        Dialect::OpenAiResponses => response["output"].clone(),
        Dialect::OpenAiChat | Dialect::Mistral => response["choices"][0]["message"].clone(),
        Dialect::Gemini | Dialect::GeminiJson => response["candidates"][0]["content"].clone(),
        Dialect::Bedrock => response["output"]["message"].clone(),
        _ => response["message"].clone(),
    }
}

/// Several parallel calls: valid ones, invalid arguments, an unknown tool.
fn script() -> Vec<ScriptPart> {
    vec![
        text("Let me look."),
        call("callAaaa1", "warmth", json!({"city": "Oslo"})),
        call("callBbbb2", "warmth", json!({"town": 5})),
        call("callCccc3", "no_such_tool", json!({"x": [1, null, "ü"]})),
        call("callDddd4", "picture", json!({"city": "Oslo"})),
        call("callEeee5", "silent", json!({})),
    ]
}

/// Names that a registry would refuse but a server may have, some of them equal after sanitizing.
/// They have no description either.
const INVALID_NAMES: &[&str] = &[
    "files.read",
    "files/read",
    "files_read",
    "2nd",
    "name with spaces",
    "ünïcödé",
    "a_name_that_is_by_far_too_long_for_any_provider_to_take_it_as_it_is_and_goes_on_and_on_and_on",
    "a_name_that_is_by_far_too_long_for_any_provider_to_take_it_as_it_is_and_goes_on_and_on_and_so",
];

/// Exports the tools with every option.
async fn exports(bodies: &mut Bodies) {
    let turn = runtime().run().turn().await.unwrap();
    for dialect in dialects_with_history() {
        for (name, options) in choices() {
            let export = turn.snapshot().export_with(dialect, &options);
            let body = body(dialect, conversation(dialect, []), export.request());
            bodies.insert(format!("{dialect}/tools-{name}"), body);
        }
        let schemas = schemas();
        let odd = INVALID_NAMES.iter().zip(&schemas);
        let odd: Vec<_> = odd.map(|(name, (_, s))| ToolDefinition::new(name, "", s)).collect();
        let export = ToolExport::of(dialect, &odd, &ExportOptions::default());
        let body = body(dialect, conversation(dialect, []), export.request());
        bodies.insert(format!("{dialect}/odd-names"), body);
    }
    let listed = turn.snapshot().export(Dialect::Mcp);
    bodies.insert("mcp/tools-list".into(), Value::Object(listed.request().clone()));
}

/// Answers a complete response, a streamed one, and a truncated one.
async fn conversations(bodies: &mut Bodies) {
    for dialect in dialects_with_history() {
        let ending = endings(dialect)[0];
        let response = complete(dialect, &script(), ending);
        let turn = runtime().run().turn().await.unwrap();
        let export = turn.snapshot().export(dialect);
        let answer = turn.dispatch(dialect, &response).await.unwrap();
        let whole = conversation(dialect, [echo(dialect, &response), answer]);
        bodies.insert(format!("{dialect}/dispatched"), body(dialect, whole, export.request()));

        let mut without = response.clone();
        forget_ids(&mut without);
        let decoded =
            runtime().run().turn().await.unwrap().respond(dialect, &without).await.unwrap();
        let whole = conversation(dialect, [decoded.message, decoded.answer]);
        bodies.insert(format!("{dialect}/without-ids"), body(dialect, whole, export.request()));

        let events = events(dialect, &script(), ending, 3);
        // Inside the arguments of a call, where the provider streams arguments.
        let cut = events.len() * 2 / 3;
        for (name, events) in [("listened", events.as_slice()), ("cut", &events[..cut])] {
            let mut listening = runtime().run().turn().await.unwrap().stream(dialect);
            events.iter().for_each(|event| listening.event(event));
            let decoded = listening.finish().await;
            assert!(decoded.problem.is_none(), "{dialect}/{name}: {:?}", decoded.problem);
            let whole = conversation(dialect, [decoded.message, decoded.answer]);
            bodies.insert(format!("{dialect}/{name}"), body(dialect, whole, export.request()));
        }
    }
    for (at, one) in script().iter().enumerate().skip(1) {
        let requests = complete(Dialect::Mcp, std::slice::from_ref(one), "");
        let turn = runtime().run().turn().await.unwrap();
        let answer = turn.dispatch(Dialect::Mcp, &requests[0]).await.unwrap();
        bodies.insert(format!("mcp/tools-call-{at}"), answer);
    }
}

/// Removes the ids of calls from a response, including the keys, as some servers do.
fn forget_ids(response: &mut Value) {
    match response {
        Value::Object(map) => {
            map.retain(|_, value| !value.as_str().is_some_and(|id| id.starts_with("call")));
            map.values_mut().for_each(forget_ids);
        }
        Value::Array(list) => list.iter_mut().for_each(forget_ids),
        _ => {}
    }
}

/// A conversation with everything that a transcript can hold and every provider supports in some
/// form.
fn full_transcript() -> Transcript {
    let media = |media_type: &str, source: MediaSource, name: Option<&str>| ContentPart::Media {
        media: Media { media_type: media_type.into(), source, name: name.map(Into::into) },
        provider_fields: None,
    };
    let here = || MediaSource::Base64(PIXEL.into());
    let mut pictured = PastResult::new("b", "two things");
    pictured.parts.push(media("image/png", here(), None));
    pictured.parts.push(ContentPart::Json(json!({"n": [1, 2.5, null]})));
    let mut bare = PastResult::new("c", "");
    bare.parts.clear();
    Transcript {
        messages: vec![
            Message::System(vec![ContentPart::text("Be brief.")]),
            Message::User(vec![
                ContentPart::text("What is this?"),
                media("image/png", here(), None),
                media("image/jpeg", MediaSource::Url("https://example.com/a.jpg".into()), None),
                media("application/pdf", MediaSource::Base64("JVBERi0xLjQK".into()), Some("a.pdf")),
                media("audio/wav", MediaSource::Base64("UklGRg==".into()), None),
            ]),
            Message::Assistant(vec![
                ContentPart::text("I look.").into(),
                PastCall::new("a", "warmth", json!({"city": "Oslo"})).into(),
                PastCall::new("b", "picture", json!({"city": "Oslo"})).into(),
                Past::Call(PastCall::new("c", "a name with spaces", "{\"cut\": ")),
            ]),
            Message::Results(vec![PastResult::error("a", "no station"), pictured, bare]),
            Message::User(vec![ContentPart::text("And now?")]),
            Message::Assistant(vec![PastCall::new("d", "silent", json!({})).into()]),
            Message::Results(vec![PastResult::new("d", "")]),
            Message::Assistant(vec![ContentPart::text("Nothing more.").into()]),
            Message::User(vec![ContentPart::text("Thanks.")]),
        ],
    }
}

/// Adds provider-specific reasoning next to the calls.
fn thinking(dialect: Dialect, mut body: Value) -> Value {
    let messages = body[key(dialect)].as_array_mut().unwrap();
    let thought = match dialect {
        Dialect::Anthropic => json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}),
        Dialect::Bedrock => {
            json!({"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}})
        }
        Dialect::Gemini | Dialect::GeminiJson => {
            json!({"text": "Hm.", "thought": true, "thoughtSignature": "c2ln"})
        }
        Dialect::OpenAiResponses => {
            messages.insert(
                1,
                json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "c2ln",
                                      "summary": [{"type": "summary_text", "text": "Hm."}]}),
            );
            return body;
        }
        Dialect::Mistral => {
            messages[1]["content"] = json!([
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "Let me look."},
            ]);
            return body;
        }
        Dialect::Ollama => {
            messages[1]["thinking"] = json!("Hm.");
            return body;
        }
        _ => return body,
    };
    let field = if key(dialect) == "contents" { "parts" } else { "content" };
    messages[1][field].as_array_mut().unwrap().insert(0, thought);
    body
}

/// Converts every conversation to every provider.
async fn moved(bodies: &mut Bodies) {
    let turn = runtime().run().turn().await.unwrap();
    for to in dialects_with_history() {
        let export = turn.snapshot().export(to);
        let mut carry = |name: String, transcript: &Transcript| {
            let carried = transcript.write(to).unwrap().body.as_object().unwrap().clone();
            bodies.insert(format!("{to}/{name}"), body(to, carried, export.request()));
        };
        carry("everything".into(), &full_transcript());
        for from in dialects_with_history() {
            let response = complete(from, &script(), endings(from)[0]);
            let answer = runtime().run().turn().await.unwrap();
            let answer = answer.dispatch(from, &response).await.unwrap();
            let whole = conversation(from, [echo(from, &response), answer]);
            let history = thinking(from, Value::Object(whole));
            carry(format!("from-{from}"), &from.read_history(&history).unwrap());
        }
    }
}

/// A scripted model that keeps the bodies of the requests it would send to a provider.
struct KeepsBodies {
    script: ScriptedModel,
    dialect: Dialect,
    sent: Arc<Mutex<Vec<Value>>>,
}

impl Model for KeepsBodies {
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<StopReason, Error>> {
        let sent = body(self.dialect, request.body(self.dialect).unwrap(), &Map::new());
        self.sent.lock().unwrap().push(sent);
        self.script.respond(request, reply)
    }

    fn info(&self) -> ModelInfo {
        ModelInfo { dialect: self.dialect, ..self.script.info() }
    }
}

/// Every request of an agent whose run has everything: several calls at once, invalid and unknown
/// calls, an image, repeated ids, a cut message, an interrupted call, a steering message.
async fn agent_requests(bodies: &mut Bodies) {
    let script = [
        r#"{"text": "Let me look.", "calls": [{"id": "callAaaa1", "name": "warmth", "arguments": {"city": "Oslo"}}, {"id": "callBbbb2", "name": "warmth", "arguments": {"town": 5}}, {"id": "callCccc3", "name": "no_such_tool"}]}"#,
        r#"{"calls": [{"id": "callAaaa1", "name": "picture", "arguments": {"city": "Oslo"}}]}"#,
        r#"{"text": "One moment.", "calls": [{"id": "callDddd4", "name": "silent"}], "stop": "truncated"}"#,
        r#"{"text": "Done."}"#,
    ];
    for dialect in dialects_with_history() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let script = ScriptedModel::parse(&script.join("\n")).unwrap();
        let model = KeepsBodies { script, dialect, sent: Arc::clone(&sent) };
        let agent = Agent::new("tester", model).instructions("You are a weather service.");
        let runner = Runner::new(runtime());
        let mut stream = runner.run_stream(&agent, "How warm is it in Oslo?").unwrap();
        stream.handle().steer("In degrees Celsius, please.");
        while stream.next().await.is_some() {}
        let result = stream.finish().await.unwrap();
        assert_eq!(result.reason, EndReason::Answered, "{dialect}");
        let sent = std::mem::take(&mut *sent.lock().unwrap());
        assert_eq!(sent.len(), 4, "{dialect}");
        for (turn, body) in sent.into_iter().enumerate() {
            bodies.insert(format!("{dialect}/agent-{turn}"), body);
        }
    }
}

async fn bodies() -> Bodies {
    let mut bodies = Bodies::new();
    agent_requests(&mut bodies).await;
    exports(&mut bodies).await;
    conversations(&mut bodies).await;
    moved(&mut bodies).await;
    bodies
}

/// Returns the names of the tools in a request.
fn names(dialect: Dialect, body: &Value) -> Vec<String> {
    let tools = match dialect {
        Dialect::Bedrock => &body["toolConfig"]["tools"],
        Dialect::Gemini | Dialect::GeminiJson => &body["tools"][0]["functionDeclarations"],
        _ => &body["tools"],
    };
    let name = |tool: &Value| {
        ["/name", "/function/name", "/toolSpec/name"]
            .iter()
            .find_map(|at| tool.pointer(at)?.as_str().map(ToOwned::to_owned))
    };
    tools.as_array().into_iter().flatten().filter_map(name).collect()
}

/// Writes the bodies where the script finds them, and removes everything else there.
fn write_bodies(bodies: &Bodies) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bodies");
    if directory.exists() {
        fs::remove_dir_all(&directory).unwrap();
    }
    for (name, body) in bodies {
        let file = directory.join(format!("{name}.json"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "a build directory, for another program to read"
        )]
        fs::write(file, format!("{body:#}\n")).unwrap();
    }
}

#[tokio::test]
async fn recorded_bodies_decode_and_match_their_snapshot() {
    let first = bodies().await;
    write_bodies(&first);
    assert_eq!(
        serde_json::to_string(&first).unwrap(),
        serde_json::to_string(&bodies().await).unwrap(),
        "what is built again has equal bytes"
    );
    for (name, body) in &first {
        let (dialect, case) = name.split_once('/').unwrap();
        let dialect: Dialect = dialect.parse().unwrap();
        if dialect == Dialect::Mcp {
            continue;
        }
        let shown = names(dialect, body);
        let mut unique = shown.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), shown.len(), "{name}: {shown:?}");
        let expected = if case == "odd-names" { INVALID_NAMES.len() } else { tools().len() };
        assert!(shown.len() >= expected, "{name}: {shown:?}");
        let transcript = dialect.read_history(body).unwrap();
        transcript.check(LastTurn::Closed).unwrap_or_else(|error| panic!("{name}: {error}"));
        let calls = transcript.calls().count();
        match case {
            _ if case.starts_with("tools-") || case == "odd-names" => {
                assert_eq!(calls, 0, "{name}")
            }
            "cut" => assert!(calls >= 1, "{name}"),
            "agent-0" => assert_eq!(calls, 0, "{name}"),
            "agent-1" => assert_eq!(calls, 3, "{name}"),
            "agent-2" => assert_eq!(calls, 4, "{name}"),
            "agent-3" => assert_eq!(calls, 5, "{name}"),
            "everything" => assert_eq!(calls, 4, "{name}"),
            _ => assert_eq!(calls, 5, "{name}"),
        }
    }
    for dialect in Dialect::ALL {
        let of = |name: &&String| name.starts_with(&format!("{dialect}/"));
        assert!(first.keys().filter(of).count() >= 5, "{dialect}");
    }
}
