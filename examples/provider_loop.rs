//! One question, two providers, a whole loop each.
//! Run it with `cargo run -p haft --example provider_loop`.
//!
//! What to notice:
//! - Each round does three things: `turn.snapshot().export(..)` gives the request fields about
//!   tools, `turn.stream_as(..)` or `turn.dispatch_as(..)` takes the response, and what they return
//!   is appended. The loop itself only knows where a request keeps its conversation.
//! - The exchanges are recorded, request and response. A request that differs from the recording
//!   ends the program, so ids, order and shapes are really checked.
//! - Each result is between markers that no tool can forge, and the system prompt explains them. A
//!   recording needs reproducible nonces, so they are counted here.
//! - OpenAI gets strict tools: there every argument is required, and an optional one may be null.
//!   The model writes `"most":null`, and the tool gets its own default.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Dialect, Failure, Runtime, ToolRegistry,
    serde_json::{self, Value, json},
    testing::Nonces,
    tool,
};

const QUESTION: &str = "When can I go from Lyon to Turin, and from which track?";

/// Finds the next trains between two cities.
#[tool(read_only, capabilities())]
async fn find_trains(
    /// Where the journey begins.
    from: String,
    /// Where it ends.
    to: String,
    /// How many trains to list.
    #[default(1)]
    #[param(min = 1, max = 9)]
    most: usize,
) -> Result<Vec<&'static str>, Failure> {
    match (from.as_str(), to.as_str()) {
        ("Lyon", "Turin") => {
            Ok(["TGV 9243 at 8:33", "TGV 9245 at 12:27"].into_iter().take(most).collect())
        }
        _ => Err(Failure::failed(format!("no train goes from {from} to {to}"))
            .with_next("try a larger city nearby")),
    }
}

/// Tells from which track a train leaves.
#[tool(read_only, capabilities())]
async fn find_track(
    /// The train, as `find_trains` names it.
    #[param(pattern = "^TGV [0-9]+$")]
    train: String,
) -> String {
    format!("{train} leaves from track 5")
}

/// One recorded request and its response.
struct Exchange {
    request: &'static str,
    response: Body,
}

enum Body {
    /// Server-sent events.
    Streamed(&'static str),
    /// One JSON object.
    Complete(&'static str),
}

/// What a host knows about a provider: the other fields of the request, and where messages go.
struct Provider {
    dialect: Dialect,
    base: Value,
    system: &'static str,
    conversation: &'static str,
    recorded: [Exchange; 3],
}

macro_rules! recorded {
    ($directory:literal) => {
        [
            Exchange {
                request: include_str!(concat!("recorded/", $directory, "/1-request.json")),
                response: Body::Streamed(include_str!(concat!(
                    "recorded/",
                    $directory,
                    "/1-response.sse"
                ))),
            },
            Exchange {
                request: include_str!(concat!("recorded/", $directory, "/2-request.json")),
                response: Body::Complete(include_str!(concat!(
                    "recorded/",
                    $directory,
                    "/2-response.json"
                ))),
            },
            Exchange {
                request: include_str!(concat!("recorded/", $directory, "/3-request.json")),
                response: Body::Complete(include_str!(concat!(
                    "recorded/",
                    $directory,
                    "/3-response.json"
                ))),
            },
        ]
    };
}

fn providers() -> [Provider; 2] {
    [
        Provider {
            dialect: Dialect::Anthropic,
            base: json!({"model": "claude-sonnet-4-5", "max_tokens": 1024}),
            system: "system",
            conversation: "messages",
            recorded: recorded!("anthropic"),
        },
        Provider {
            dialect: Dialect::OpenAiResponses,
            base: json!({"model": "gpt-5"}),
            system: "instructions",
            conversation: "input",
            recorded: recorded!("openai"),
        },
    ]
}

/// Talks with one provider until the model makes no more calls.
async fn converse(
    runtime: &Runtime,
    provider: &Provider,
) -> Result<(), Box<dyn std::error::Error>> {
    let run = runtime.run();
    let mut conversation = vec![json!({"role": "user", "content": QUESTION})];
    println!("user: {QUESTION}");
    for Exchange { request, response } in &provider.recorded {
        // One turn, one frozen set of tools, from the request to the results.
        let turn = run.turn().await?;
        let export = turn.snapshot().export(provider.dialect);
        let mut body = provider.base.clone();
        body[provider.system] = json!(runtime.system_text());
        body[provider.conversation] = json!(conversation);
        if matches!(response, Body::Streamed(_)) {
            body["stream"] = json!(true);
        }
        // The tools, and the other request fields about them.
        for (key, value) in export.request() {
            body[key] = value.clone();
        }

        // A real HTTP client belongs here. It posts `body` with your key, and passes on the
        // response: each chunk as it arrives, or the whole JSON. This one compares and plays back.
        let expected: Value = serde_json::from_str(request)?;
        if let Some(place) = difference(&expected, &body, "") {
            return Err(format!("this is not the recorded request: {place}").into());
        }

        let (message, answer, calls) = match response {
            Body::Streamed(events) => {
                let mut listening = turn.stream_as(export);
                // The network may split anywhere, also inside of a character.
                for chunk in events.as_bytes().chunks(23) {
                    listening.feed(chunk);
                }
                let decoded = listening.finish().await;
                if let Some(problem) = decoded.problem {
                    return Err(problem.into());
                }
                (decoded.message, decoded.answer, decoded.results.len())
            }
            Body::Complete(text) => {
                let response: Value = serde_json::from_str(text)?;
                let calls = provider.dialect.parse(&response)?.calls.len();
                let answer = turn.dispatch_as(&export, &response).await?;
                // The assistant message: an Anthropic message, or the output items of OpenAI.
                let message = match provider.dialect {
                    Dialect::Anthropic => {
                        json!({"role": "assistant", "content": response["content"]})
                    }
                    _ => response["output"].clone(),
                };
                (message, answer, calls)
            }
        };
        print_messages(&message);
        conversation.extend(items(message));
        if calls == 0 {
            return Ok(());
        }
        print_messages(&answer);
        conversation.extend(items(answer));
    }
    Err("the recording ends before the model does".into())
}

/// A message, or a list of them, as items to append.
fn items(message: Value) -> Vec<Value> {
    match message {
        Value::Array(items) => items,
        one => vec![one],
    }
}

/// Finds the first place where two values differ, and describes it.
fn difference(recorded: &Value, sent: &Value, place: &str) -> Option<String> {
    match (recorded, sent) {
        (Value::Object(a), Value::Object(b)) => {
            a.keys().chain(b.keys()).find_map(|key| match (a.get(key), b.get(key)) {
                (Some(a), Some(b)) => difference(a, b, &format!("{place}/{key}")),
                _ => Some(format!("only one of them has {place}/{key}")),
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a
            .iter()
            .zip(b)
            .enumerate()
            .find_map(|(n, (a, b))| difference(a, b, &format!("{place}/{n}"))),
        _ => (recorded != sent).then(|| format!("at {place} it has {recorded}, now {sent}")),
    }
}

/// Prints the messages of either provider, line by line.
fn print_messages(message: &Value) {
    let inside = message["content"].as_array().or(message.as_array());
    for part in inside.into_iter().flatten() {
        let text = |key: &str| part[key].as_str().unwrap_or_default();
        match text("type") {
            "text" | "output_text" => println!("model: {}", text("text")),
            "tool_use" => println!("model: {}({})", text("name"), part["input"]),
            "function_call" => println!("model: {}({})", text("name"), text("arguments")),
            "tool_result" => {
                println!("tools: {} {}", text("tool_use_id"), indented(text("content")))
            }
            "function_call_output" => {
                println!("tools: {} {}", text("call_id"), indented(text("output")))
            }
            "message" => print_messages(part),
            other => println!("model: ({other})"),
        }
    }
}

fn indented(text: &str) -> String {
    text.replace('\n', "\n       ")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for provider in providers() {
        let registry = ToolRegistry::builder().add(FindTrainsTool).add(FindTrackTool).build()?;
        let runtime = Runtime::builder().registry(registry).nonces(Nonces::counting(0)).build()?;
        println!("{}", provider.dialect);
        converse(&runtime, &provider).await?;
        println!();
    }
    Ok(())
}
