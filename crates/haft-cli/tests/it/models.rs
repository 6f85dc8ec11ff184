//! `haft run` and `haft chat` with models of providers, against a local server.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::{Ran, TempDir, lines};

const KEY: &str = "key-4be1c0ffee5d2291";

/// A server that plays responses, one for each request; the last one is repeated.
struct Stub {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    #[expect(clippy::disallowed_methods, reason = "the server of a test has a thread of its own")]
    fn start(responses: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = seen.lock().unwrap().len();
                let response = responses.get(number).or(responses.last()).unwrap();
                if let Some(request) = read_request(&stream) {
                    seen.lock().unwrap().push(request);
                    let _ = (&stream).write_all(response.as_bytes());
                }
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

/// Reads a request; `None` if the client has gone.
fn read_request(mut stream: &TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}

fn response(status: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

/// The stream of an answer, in the format of OpenAI Chat.
fn chat(text: &str) -> String {
    let piece = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}});
    let events = [piece, end, usage].map(|event| format!("data: {event}\n\n")).concat();
    response("200 OK", "text/event-stream", &format!("{events}data: [DONE]\n\n"))
}

/// The stream of an answer, in the format of Anthropic.
fn anthropic(text: &str) -> String {
    let events = [
        json!({"type": "message_start", "message": {"role": "assistant", "content": [],
               "usage": {"input_tokens": 1000, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0,
               "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0,
               "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
               "usage": {"output_tokens": 10}}),
        json!({"type": "message_stop"}),
    ];
    let line =
        |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap());
    response("200 OK", "text/event-stream", &events.map(line).concat())
}

/// A command without the keys and proxies of the person who runs the tests.
fn command(dir: &TempDir, variables: &[(&str, &str)]) -> Command {
    let mut command = dir.command();
    for name in [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        "HTTPS_PROXY",
        "https_proxy",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
    ] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    command
}

fn ran(dir: &TempDir, variables: &[(&str, &str)], words: &[&str]) -> Ran {
    Ran::of(command(dir, variables).args(words).output().unwrap())
}

/// A section `[model]` with a key in an environment variable.
fn section(name: &str, url: &str) -> String {
    format!("[model]\nname = \"{name}\"\nbase_url = \"{url}\"\nkey = \"OWN_KEY\"\n")
}

#[test]
fn compatible_server_answers_without_a_key() {
    let server = Stub::start(vec![chat("Beans before nine.")]);
    let dir = TempDir::new("models-compatible", &[]);
    let model = format!("{}#small", server.url());
    // The key of another provider does not go there.
    let ran = ran(&dir, &[("OPENAI_API_KEY", KEY)], &["run", "What now?", "--model", &model]);
    assert_eq!(ran.page(), "exit 0\n--- stdout\nBeans before nine.\n");
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\"model\":\"small\"") && request.contains("What now?"), "{request}");
    assert!(!request.to_ascii_lowercase().contains("authorization:"), "{request}");
}

#[test]
fn model_of_the_configuration_is_used_by_run_chat_and_resume() {
    let answers =
        vec![anthropic("One."), anthropic("Two."), anthropic("Three."), anthropic("Four.")];
    let server = Stub::start(answers);
    let price = "price = { input = 3, output = 15 }\n";
    let config = section("anthropic:some-model", &server.url()) + price;
    let dir = TempDir::trusted("models-section", &[("haft.toml", &config)]);
    let own = [("OWN_KEY", KEY), ("ANTHROPIC_API_KEY", "another-key-of-another-account")];
    let first = ran(&dir, &own, &["run", "x"]);
    assert_eq!(first.page(), "exit 0\n--- stdout\nOne.\n");
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("x-api-key: {KEY}\r\n")), "{request}");
    assert!(request.contains("anthropic-version: 2023-06-01\r\n"), "{request}");
    assert!(request.contains("\"max_tokens\":16384"), "{request}");
    let json = ran(&dir, &own, &["run", "x", "--json", "--max-cost", "1"]);
    let last = lines(&json.out).pop().unwrap();
    assert_eq!((json.code, &last["text"]), (Some(0), &"Two.".into()), "{json:?}");
    assert_eq!(last["usage"]["micros"], 3_000 + 150);
    let limited = ran(&dir, &own, &["run", "x", "--max-tokens", "10"]);
    assert_eq!(limited.code, Some(5), "{limited:?}");
    assert!(!limited.err.contains("--model"), "the model is configured: {limited:?}");
    // Ids of one second have no order.
    let runs = dir.run(["runs", "list", "--json"]).json();
    let failed = runs.as_array().unwrap().iter().find(|run| run["state"] == "failed").unwrap();
    let run = failed["run"].as_str().unwrap().to_owned();
    let resumed = ran(&dir, &own, &["run", "--resume", &run]);
    assert_eq!(resumed.page(), "exit 0\n--- stdout\nThree.\n");
    let mut chat = command(&dir, &own);
    chat.args(["chat"]).stdin(std::process::Stdio::piped());
    chat.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = chat.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"Hello.\n").unwrap();
    let chat = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((chat.code, chat.out.as_str()), (Some(0), "Four.\n"), "{chat:?}");
    let missing = ran(&dir, &[], &["run", "x"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.err.contains("the environment variable `OWN_KEY` is not set"), "{missing:?}");
}

/// Fails against a server; returns what is printed, and the last event with `--json`.
fn fails(name: &str, response: String) -> (Ran, Value) {
    let server = Stub::start(vec![response]);
    let config = section("anthropic:some-model", &server.url());
    let dir = TempDir::trusted(name, &[("haft.toml", &config)]);
    let plain = ran(&dir, &[("OWN_KEY", KEY)], &["run", "x"]);
    let json = ran(&dir, &[("OWN_KEY", KEY)], &["run", "x", "--json"]);
    assert_eq!((plain.code, json.err.as_str()), (json.code, ""), "{json:?}");
    assert!(!format!("{plain:?} {json:?}").contains(KEY), "{plain:?}");
    (plain, lines(&json.out).pop().unwrap())
}

#[test]
fn wrong_key_is_one_sentence_and_the_next_step() {
    let body = json!({"type": "error", "error": {"type": "authentication_error",
        "message": format!("invalid x-api-key {KEY}")}});
    let (ran, last) =
        fails("models-401", response("401 Unauthorized", "application/json", &body.to_string()));
    assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{ran:?}");
    let mut said = ran.err.lines();
    assert_eq!(
        said.next(),
        Some(
            "error: failed: the model failed: anthropic does not accept the key (401): invalid \
              x-api-key (hidden)"
        ),
        "{ran:?}"
    );
    let hint = "check that the key is valid, belongs to this provider and may use the model";
    assert_eq!(said.next(), Some(&*format!("hint: {hint}")), "{ran:?}");
    let reason = &last["reason"];
    assert_eq!(
        (&reason["end"], &reason["kind"]),
        (&"model_failed".into(), &"authentication".into())
    );
    assert_eq!(reason["hints"], json!([hint]));
}

#[test]
fn unknown_model_is_one_sentence_and_the_next_step() {
    let body = json!({"error": {"message": "model: some-model"}});
    let (ran, last) =
        fails("models-404", response("404 Not Found", "application/json", &body.to_string()));
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), ""), "{ran:?}");
    let said = "anthropic has no model `some-model` (404): model: some-model";
    assert!(ran.err.contains(said), "{ran:?}");
    assert!(ran.err.contains("hint: check the name of the model"), "{ran:?}");
    assert_eq!(
        (&last["reason"]["kind"], &last["reason"]["message"]),
        (&"provider_error".into(), &said.into())
    );
}

#[test]
fn unreachable_server_is_one_sentence_and_the_next_step() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let dir = TempDir::new("models-unreachable", &[]);
    let model = format!("http://{address}/v1#small");
    let plain = ran(&dir, &[], &["run", "x", "--model", &model]);
    assert_eq!((plain.code, plain.out.as_str()), (Some(4), ""), "{plain:?}");
    assert!(plain.err.contains(&format!("cannot connect to {address}: ")), "{plain:?}");
    assert!(plain.err.contains("hint: check that the server runs, and its address"), "{plain:?}");
    assert!(plain.err.contains(&format!("--model {model}` continues it")), "{plain:?}");
}

#[test]
fn server_that_is_too_slow_exits_with_7() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let config = section("openai:m", &url)
        + "first_byte_timeout = \"200ms\"\nmax_retries = 0\nstreaming = false\n";
    let dir = TempDir::trusted("models-slow", &[("haft.toml", &config)]);
    let ran = ran(&dir, &[("OWN_KEY", KEY)], &["run", "x"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.err.contains("did not begin its response within 0.2 s"), "{ran:?}");
    assert!(ran.err.contains("hint: raise the timeout of the first byte"), "{ran:?}");
    drop(listener);
}

#[test]
fn untrusted_directory_cannot_redirect_the_model_or_choose_a_key() {
    let server = Stub::start(vec![anthropic("Mine now.")]);
    let proxy = Stub::start(vec![response("403 Forbidden", "text/plain", "")]);
    let planted =
        format!("{}proxy = \"{}\"\n", section("anthropic:some-model", &server.url()), server.url());
    let dir = TempDir::new("models-untrusted", &[("haft.toml", &planted)]);
    let proxy_url = format!("http://{}", proxy.address);
    let own = [("OWN_KEY", KEY), ("ANTHROPIC_API_KEY", KEY), ("HTTPS_PROXY", &*proxy_url)];
    let none = ran(&dir, &own, &["run", "x"]);
    assert_eq!((none.code, none.out.as_str()), (Some(1), ""), "{none:?}");
    assert!(none.err.contains("error: no model is configured"), "{none:?}");
    assert!(none.err.contains("1 section `[model]` of this directory does not apply"), "{none:?}");
    // The same name on the command line means the provider itself.
    let named = ran(&dir, &own, &["run", "x", "--model", "anthropic:some-model"]);
    assert_eq!(named.code, Some(4), "{named:?}");
    assert!(proxy.requests()[0].starts_with("CONNECT api.anthropic.com:443 "), "{named:?}");
    assert!(server.requests().is_empty(), "the conversation went to the planted address");
    let listed = dir.run(["trust", "--list"]);
    assert!(!listed.out.contains(KEY), "{listed:?}");
    let shown = dir.run(["trust", "--yes"]);
    assert!(shown.out.contains("anthropic:some-model at http://127.0.0.1:"), "{shown:?}");
    assert!(shown.out.contains("with the key OWN_KEY"), "{shown:?}");
    assert_eq!(ran(&dir, &own[..1], &["run", "x"]).code, Some(0), "after trust it applies");
}

#[test]
fn key_of_a_provider_is_not_sent_to_another_address_unless_it_is_named() {
    let server = Stub::start(vec![anthropic("Fine.")]);
    let config = format!("[model]\nname = \"anthropic:m\"\nbase_url = \"{}\"\n", server.url());
    let dir = TempDir::trusted("models-unnamed-key", &[("haft.toml", &config)]);
    let ran = ran(&dir, &[("ANTHROPIC_API_KEY", KEY)], &["run", "x"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!server.requests()[0].contains(KEY));
}

#[cfg(unix)]
#[test]
#[expect(clippy::disallowed_methods, reason = "the test writes the key of the user")]
fn key_is_read_from_a_private_file_of_the_user() {
    use std::os::unix::fs::PermissionsExt;
    let server = Stub::start(vec![anthropic("Fine.")]);
    let config = section("anthropic:m", &server.url()).replace("OWN_KEY", "secret://work");
    let dir = TempDir::trusted("models-secret", &[("haft.toml", &config)]);
    let missing = ran(&dir, &[], &["run", "x"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.err.contains("there is no secret `work`"), "{missing:?}");
    let secrets = dir.0.join("home/config/haft/secrets");
    std::fs::create_dir_all(&secrets).unwrap();
    let file = secrets.join("work");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    let set = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
    set(&file, 0o644).unwrap();
    let open = ran(&dir, &[], &["run", "x"]);
    assert!(open.err.contains("other users can read the secret"), "{open:?}");
    assert!(server.requests().is_empty());
    set(&file, 0o600).unwrap();
    let ran = ran(&dir, &[], &["run", "x"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(server.requests()[0].contains(&format!("x-api-key: {KEY}\r\n")));
}

#[test]
fn setup_mistakes_of_models_are_explained() {
    let dir = TempDir::new("models-mistakes", &[]);
    let said = |words: &[&str]| {
        let ran = ran(&dir, &[("OPENAI_API_KEY", KEY)], words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{ran:?}");
        ran.err
    };
    let key = said(&["run", "x", "--model", "anthropic:m"]);
    assert!(
        key.contains("the key of anthropic is missing: `ANTHROPIC_API_KEY` is not set"),
        "{key}"
    );
    assert!(key.contains("hint: set it, as in `export ANTHROPIC_API_KEY=…`"), "{key}");
    let gemini = said(&["chat", "--model", "gemini:m"]);
    assert!(gemini.contains("`GEMINI_API_KEY` is not set"), "{gemini}");
    let name = said(&["run", "x", "--model", "openai:"]);
    assert!(name.contains("`openai:` names no model"), "{name}");
    let other = said(&["run", "x", "--model", "gpt-5"]);
    assert!(
        other.contains("there is no model `gpt-5`") && other.contains("`openai:NAME`"),
        "{other}"
    );
    assert!(other.contains("`script:FILE`"), "{other}");
    let server = said(&["run", "x", "--model", "http://localhost:1/v1"]);
    assert!(server.contains("names a server and no model"), "{server}");
    let price = said(&["run", "x", "--model", "openai:unknown", "--max-cost", "1"]);
    assert!(price.contains("the price of `unknown` is unknown"), "{price}");
    assert!(price.contains("price = { input = 3, output = 15 }"), "{price}");
    let task = said(&["run", "--model", "openai:m"]);
    assert!(task.contains("error: the task is missing\n"), "{task}");
    dir.put("haft.toml", "[model]\nname = \"openai:m\"\nkey = \"sk-something-hidden\"\n");
    let literal = said(&["run", "x"]);
    assert!(literal.contains("haft.toml:3") && !literal.contains("hidden"), "{literal}");
    assert!(!dir.work().join(".haft").exists(), "nothing was stored");
}
