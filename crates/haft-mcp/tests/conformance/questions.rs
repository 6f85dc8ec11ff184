//! The tools that ask the client: forms, model responses, roots.

use haft::{Failure, Output, ToolContext, tool::DynTool};
use haft_mcp::server::{CallPeer, ClientRequest, RequestKind};
use serde_json::{Value, json};

use crate::tools::{no_arguments, peer, spec};

pub(crate) fn form(message: &str, properties: Value) -> ClientRequest {
    let required: Vec<String> =
        properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    let schema = json!({"type": "object", "properties": properties, "required": required});
    ClientRequest::form(message, schema)
}

fn name_form() -> ClientRequest {
    form("What is your name?", json!({"name": {"type": "string"}}))
}

fn sampling(prompt: &str) -> ClientRequest {
    let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
    ClientRequest::sampling(json!({"messages": [message], "maxTokens": 100}))
}

/// A tool that asks one question and shows the answer.
fn asking(
    name: &str,
    key: &'static str,
    request: impl Fn(&Value) -> ClientRequest + Send + Sync + 'static,
    schema: Value,
) -> DynTool {
    DynTool::new(spec(name, "Asks the client."), schema, move |args, cx| {
        let request = request(&args);
        async move {
            let answer = peer(&cx)?.ask(key, request).await?;
            Ok::<_, Failure>(Output::text(format!("state-ok: {answer}")))
        }
    })
}

pub(crate) fn all() -> Vec<DynTool> {
    let text = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let ok = || form("Please confirm", json!({"ok": {"type": "boolean"}}));
    vec![
        asking(
            "test_sampling",
            "sampling",
            |args| sampling(args["prompt"].as_str().unwrap_or_default()),
            text("prompt"),
        ),
        asking(
            "test_elicitation",
            "form",
            |args| {
                let properties = json!({
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                });
                form(args["message"].as_str().unwrap_or_default(), properties)
            },
            text("message"),
        ),
        asking(
            "test_elicitation_sep1034_defaults",
            "form",
            |_| ClientRequest::form("Please provide values", defaults()),
            no_arguments(),
        ),
        asking(
            "test_elicitation_sep1330_enums",
            "form",
            |_| ClientRequest::form("Please choose", enums()),
            no_arguments(),
        ),
        asking(
            "test_streaming_elicitation",
            "streaming_elicitation",
            |_| form("Provide a value", json!({"value": {"type": "string"}})),
            no_arguments(),
        ),
        asking(
            "test_input_required_result_elicitation",
            "user_name",
            |_| name_form(),
            no_arguments(),
        ),
        asking(
            "test_input_required_result_sampling",
            "capital_question",
            |_| sampling("What is the capital of France?"),
            no_arguments(),
        ),
        asking(
            "test_input_required_result_list_roots",
            "client_roots",
            |_| ClientRequest::roots(),
            no_arguments(),
        ),
        asking(
            "test_input_required_result_request_state",
            "confirm",
            move |_| ok(),
            no_arguments(),
        ),
        asking(
            "test_input_required_result_tampered_state",
            "confirm",
            move |_| ok(),
            no_arguments(),
        ),
        several("test_input_required_result_multiple_inputs", |_, _| true),
        several("test_input_required_result_capabilities", CallPeer::supports),
        rounds(),
    ]
}

/// A tool that asks several questions at once.
fn several(name: &str, is_asked: fn(&CallPeer, RequestKind) -> bool) -> DynTool {
    let spec = spec(name, "Asks the client several things.");
    DynTool::new(spec, no_arguments(), move |_, cx: ToolContext| async move {
        let peer = peer(&cx)?;
        let questions = [
            ("user_name", name_form()),
            ("greeting", sampling("Generate a greeting")),
            ("client_roots", ClientRequest::roots()),
        ];
        let questions = questions.into_iter().filter(|(_, q)| is_asked(&peer, q.kind()));
        let answers = peer.ask_all(questions.map(|(key, q)| (key.to_owned(), q))).await?;
        Ok::<_, Failure>(Output::text(format!("{} answers", answers.len())))
    })
}

fn rounds() -> DynTool {
    let spec = spec("test_input_required_result_multi_round", "Asks the client twice.");
    DynTool::new(spec, no_arguments(), |_, cx: ToolContext| async move {
        let peer = peer(&cx)?;
        peer.ask("step1", name_form()).await?;
        let colour = form("What is your favorite color?", json!({"color": {"type": "string"}}));
        peer.ask("step2", colour).await?;
        Ok::<_, Failure>(Output::text("Multi-round flow complete"))
    })
}

fn defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "User's name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User's age", "default": 30},
            "score": {"type": "number", "description": "User's score", "default": 95.5},
            "status": {
                "type": "string",
                "description": "User's status",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": {"type": "boolean", "description": "Verified?", "default": true},
        },
    })
}

fn enums() -> Value {
    let titled = |names: [&str; 3], word: &str| -> Value {
        let order = ["First", "Second", "Third"];
        names
            .iter()
            .zip(order)
            .map(|(name, at)| json!({"const": name, "title": format!("{at} {word}")}))
            .collect()
    };
    let options = ["option1", "option2", "option3"];
    let values = ["value1", "value2", "value3"];
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled(values, "Option")},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled(values, "Choice")}},
        },
    })
}
