//! Secrets stay inside the body: not in results, events, records, prompts or panics.

use std::sync::{Arc, Mutex};

use haft::{
    BoxFuture, Failure, FailureCode, Runtime, ToolCall, ToolRegistry,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    events::Event,
    journal::MemoryJournal,
    secrets::Secrets,
    tool,
    tool::{Capability, DynTool, Execution, Progress, ToolSpec},
};
use serde_json::{Value, json};

use crate::kit::{open_schema, permissive, read};

const VALUE: &str = "s3sam/öpen+42";

fn with_secrets(name: &str) -> ToolSpec {
    ToolSpec::new(name, "Uses a secret.").read_only().capabilities([Capability::Secrets])
}

/// Every event as text, with all its fields.
fn listener() -> (Arc<Mutex<Vec<String>>>, impl Fn(&Event) + Send + Sync + 'static) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    (lines, move |event: &Event| kept.lock().unwrap().push(format!("{event:?}")))
}

/// Returns its argument, reversed as well, so that a test can see that it had the value.
fn echo(spec: ToolSpec) -> DynTool {
    DynTool::new(spec, open_schema(), |args, _| async move {
        let text = args["x"].as_str().unwrap_or_default().to_owned();
        let back: String = text.chars().rev().collect();
        format!("{text} {back}")
    })
}

#[tokio::test]
async fn secret_reference_is_resolved_only_for_the_body() {
    let (events, observer) = listener();
    let journal = MemoryJournal::new(10);
    let runtime = permissive(vec![echo(with_secrets("send"))])
        .secret("door", VALUE)
        .journal(journal.clone())
        .observer(observer)
        .build()
        .unwrap();
    let output = runtime.call("send", json!({"x": "secret://door"})).await.unwrap();
    let back: String = VALUE.chars().rev().collect();
    assert_eq!(output.to_text(), format!("[REDACTED:secret/door:{}] {back}", VALUE.len()));
    let reported = events.lock().unwrap().join("\n");
    assert!(reported.contains("secret://door") && !reported.contains(VALUE), "{reported}");
    let records = journal.records();
    assert_eq!(records[0].intent.as_ref().unwrap().arguments["x"], "secret://door");
}

#[tokio::test]
async fn body_gets_a_secret_by_name_and_cannot_leak_it_in_any_encoding() {
    let leak = DynTool::new(with_secrets("leak"), open_schema(), |args, cx| async move {
        let secret = cx.secret("door")?;
        let value = secret.reveal();
        let bytes = value.as_bytes();
        let text = match args["x"].as_str().unwrap_or_default() {
            "plain" => value.to_owned(),
            "hex" => bytes.iter().map(|b| format!("{b:02x}")).collect(),
            "url" => "s3sam%2F%C3%B6pen%2B42".to_owned(),
            "json" => json!({"k": [value]}).to_string(),
            "base64" => "eHMzc2FtL8O2cGVuKzQyeA==".to_owned(),
            "failure" => return Err(Failure::failed(format!("{value} was refused"))),
            "cause" => return Err(Failure::hidden(format!("{value} was refused"))),
            "panic" => panic!("{value} broke it"),
            _ => format!("{secret:?}"),
        };
        Ok(text)
    });
    let (events, observer) = listener();
    let journal = MemoryJournal::new(20);
    let runtime = permissive(vec![leak])
        .secret_for("le*", "door", VALUE)
        .journal(journal.clone())
        .observer(observer)
        .build()
        .unwrap();
    for way in ["plain", "hex", "url", "json", "base64", "failure", "cause", "panic"] {
        let shown = match runtime.call("leak", json!({"x": way})).await {
            Ok(output) => output.to_text(),
            Err(failure) => format!("{failure:?} {}", failure.cause().unwrap_or_default()),
        };
        assert!(shown.contains("[REDACTED:secret/door:"), "{way}: {shown}");
        assert!(!shown.contains("pen+42") && !shown.contains("70656e2b"), "{way}: {shown}");
    }
    let shown = runtime.call("leak", json!({"x": "debug"})).await.unwrap().to_text();
    assert_eq!(shown, "Secret(hidden)");
    let reported = events.lock().unwrap().join("\n") + &format!("{:?}", journal.records());
    assert!(!reported.contains("pen+42"), "{reported}");
    assert!(reported.contains("[REDACTED:secret/door:"));
}

#[tokio::test]
async fn tool_gets_only_its_own_secrets_and_does_not_learn_of_others() {
    let ask = |spec: ToolSpec| {
        DynTool::new(spec, open_schema(), |args, cx: haft::ToolContext| async move {
            let name = args["key"].as_str().unwrap_or("door").to_owned();
            cx.secret(&name).map(|_| "has it")
        })
    };
    let tools = vec![
        echo(with_secrets("mail_send")),
        echo(with_secrets("pay")),
        echo(read("look")),
        echo(ToolSpec::new("silent", "Says nothing of secrets.")),
        ask(with_secrets("ask_mail")),
        ask(read("ask_none")),
    ];
    let runtime = permissive(tools)
        .secret_for("*mail*", "door", VALUE)
        .secret("other", "another value")
        .build()
        .unwrap();
    let mut messages = Vec::new();
    for (tool, arguments) in [
        ("mail_send", json!({"x": "secret://door"})),
        ("pay", json!({"x": "secret://door"})),
        ("pay", json!({"x": "secret://window"})),
        ("look", json!({"x": "secret://door"})),
        ("silent", json!({"x": "secret://other"})),
        ("look", json!({"x": "see secret://door"})),
        ("ask_mail", json!({})),
        ("ask_mail", json!({"key": "window"})),
        ("ask_none", json!({})),
    ] {
        messages.push(match runtime.call(tool, arguments).await {
            Ok(_) => format!("{tool}: ok"),
            Err(failure) => {
                assert!(!failure.to_string().contains("other"), "{failure}");
                format!(
                    "{tool}: {} {:?}: {}",
                    failure.code(),
                    failure.execution(),
                    failure.message()
                )
            }
        });
    }
    insta::assert_snapshot!(messages.join("\n"), @"
    mail_send: ok
    pay: invalid_value NotStarted: `pay` has no secret called `door`
    pay: invalid_value NotStarted: `pay` has no secret called `window`
    look: denied NotStarted: `look` does not declare `capabilities(secrets)`, so it cannot use secrets
    silent: denied NotStarted: `silent` does not declare `capabilities(secrets)`, so it cannot use secrets
    look: ok
    ask_mail: ok
    ask_mail: invalid_value Completed: `ask_mail` has no secret called `window`
    ask_none: denied Completed: `ask_none` does not declare `capabilities(secrets)`, so it cannot use secrets
    ");
}

#[tokio::test]
async fn decoder_error_does_not_show_a_secret() {
    /// Knocks at a port.
    #[tool(read_only, capabilities(secrets))]
    async fn knock(port: Port) -> String {
        port.0
    }
    #[derive(haft::serde::Deserialize, haft::schemars::JsonSchema)]
    #[serde(crate = "haft::serde", try_from = "String")]
    #[schemars(crate = "haft::schemars")]
    struct Port(String);
    impl TryFrom<String> for Port {
        type Error = String;
        fn try_from(text: String) -> Result<Self, String> {
            if text.starts_with("secret://") {
                Ok(Self(text))
            } else {
                Err(format!("`{text}` is no port"))
            }
        }
    }
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(KnockTool).build().unwrap())
        .policy(haft::policy::AllowAll)
        .secret("door", VALUE)
        .build()
        .unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answers = turn.run([ToolCall::new("c1", "knock", json!({"port": "secret://door"}))]).await;
    let failure = answers[0].failure().unwrap();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::InvalidValue, Execution::NotStarted)
    );
    assert_eq!(failure.message(), "the value of a secret is invalid for its argument");
    let cause = failure.cause().unwrap();
    assert!(cause.contains("is no port") && !cause.contains(VALUE), "{cause}");
    assert_eq!(answers[0].origin(), None, "nothing ran");
}

#[tokio::test]
async fn a_guard_sees_the_reference_and_gets_no_secret() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let tool = echo(with_secrets("send")).with_guard(move |args, cx| {
        let got = cx.secret("door").map_err(|failure| failure.code());
        kept.lock().unwrap().push(format!("{} {got:?}", args["x"]));
        Ok(None)
    });
    let runtime = permissive(vec![tool]).secret("door", VALUE).build().unwrap();
    runtime.call("send", json!({"x": "secret://door"})).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["\"secret://door\" Err(Denied)"]);
}

#[tokio::test]
async fn secret_split_across_output_chunks_is_redacted() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&reported);
    let stream = DynTool::new(read("stream"), open_schema(), |_, cx| async move {
        for piece in ["it is s3s", "am/öp", "en+42, the key is ghp_", &"a1b2".repeat(9), " end pas"]
        {
            cx.partial(piece);
        }
        cx.progress(0.5, format!("at {VALUE}"));
        "done"
    });
    let runtime = permissive(vec![stream])
        .secret("door", VALUE)
        .observer(move |event: &Event| {
            if let Event::Progress { note, .. } = event {
                kept.lock().unwrap().push(note.clone());
            }
        })
        .build()
        .unwrap();
    runtime.call("stream", json!({})).await.unwrap();
    let reported = reported.lock().unwrap();
    let text: String = reported
        .iter()
        .filter_map(|note| match note {
            Progress::Partial(text) => Some(text.as_str()),
            Progress::Progress(..) | Progress::Keyed(..) => None,
        })
        .collect();
    assert_eq!(
        text,
        "it is [REDACTED:secret/door:14], the key is [REDACTED:github-token:40] end pas"
    );
    assert!(
        reported
            .contains(&Progress::Progress(Some(0.5), "at [REDACTED:secret/door:14]".to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn partial_output_before_an_interrupt_is_redacted() {
    let stuck = DynTool::new(read("stuck"), open_schema(), |_, cx| async move {
        cx.partial(format!("so far {VALUE} and p"));
        cx.cancelled().await;
        "late"
    });
    let config = {
        let mut config = haft::Config::default();
        config.timeout = std::time::Duration::from_secs(1);
        config
    };
    let runtime = permissive(vec![stuck]).config(config).secret("door", VALUE).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answers = turn.run([ToolCall::new("c1", "stuck", json!({}))]).await;
    let text = answers[0].text();
    assert!(!text.contains(VALUE), "{text}");
    if answers[0].is_error() {
        assert_eq!(answers[0].interrupted_output(), "so far [REDACTED:secret/door:14] and p");
    }
}

/// Records what it was shown, and approves.
struct Person(Arc<Mutex<Vec<String>>>);

impl Approver for Person {
    fn name(&self) -> &str {
        "a person"
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        let shown = format!("{}\n{}", question.call.redacted_arguments(), question.explanation);
        self.0.lock().unwrap().push(shown);
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

#[tokio::test]
async fn argument_marked_as_secret_is_redacted_everywhere() {
    /// Logs in.
    #[tool(capabilities(network))]
    async fn login(
        user: String,
        #[param(secret)] pin: u32,
        #[param(secret)] word: String,
    ) -> String {
        format!("{user} {pin} {word}")
    }
    let (events, observer) = listener();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let journal = MemoryJournal::new(10);
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(LoginTool).build().unwrap())
        .approver(Person(Arc::clone(&asked)))
        .journal(journal.clone())
        .observer(observer)
        .build()
        .unwrap();
    let arguments = json!({"user": "ada", "pin": 4711, "word": "tulip"});
    runtime.call("login", arguments).await.unwrap();
    let shown = json!({
        "user": "ada",
        "pin": "[REDACTED:secret-argument:4]",
        "word": "[REDACTED:secret-argument:5]",
    });
    let kept: Value = (*journal.records()[0].intent.as_ref().unwrap().arguments).clone();
    assert_eq!(kept, shown);
    let asked = asked.lock().unwrap().join("\n");
    assert!(
        asked.contains("ada") && !asked.contains("4711") && !asked.contains("tulip"),
        "{asked}"
    );
    let reported = events.lock().unwrap().join("\n");
    assert!(
        reported.contains("ada") && !reported.contains("4711") && !reported.contains("tulip"),
        "{reported}"
    );
    assert!(!format!("{journal:?}").contains("tulip"));
}

#[tokio::test]
async fn secret_written_by_the_model_is_not_recorded() {
    let key = format!("ghp_{}", "a1B2".repeat(9));
    let journal = MemoryJournal::new(10);
    let (events, observer) = listener();
    let runtime = permissive(vec![echo(read("look"))])
        .journal(journal.clone())
        .observer(observer)
        .build()
        .unwrap();
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    turn.run([ToolCall::new("c1", "look", json!({"x": key}))]).await;
    let reported = events.lock().unwrap().join("\n") + &format!("{:?}", journal.records());
    assert!(
        reported.contains("[REDACTED:github-token:40]") && !reported.contains(&key),
        "{reported}"
    );
}

#[tokio::test]
async fn secrets_may_be_added_while_the_runtime_runs() {
    let secrets = Secrets::new();
    let runtime = permissive(vec![echo(read("look"))]).secrets(secrets.clone()).build().unwrap();
    let say =
        || async { runtime.call("look", json!({"x": "open sesame"})).await.unwrap().to_text() };
    assert!(say().await.starts_with("open sesame"));
    secrets.add("late", "open sesame").unwrap();
    assert!(say().await.starts_with("[REDACTED:secret/late:11]"));
    assert!(!runtime.secrets().is_empty());
}

#[test]
fn secret_that_cannot_be_redacted_is_a_build_error() {
    let error = Runtime::builder().secret("pin", "1234").secret("ok", "long enough").build();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`pin`") && error.contains("shorter than 6"), "{error}");
    assert!(!error.contains("1234"));
}

#[tokio::test]
async fn results_are_redacted_in_every_block_and_key() {
    let tool = DynTool::new(read("data"), open_schema(), |_, _| async {
        let data = json!({"open sesame": [1, "open sesame"], "password": "hunter2x"});
        haft::Output {
            blocks: vec![
                haft::tool::Block::text("open sesame"),
                haft::tool::Block::Json { json: data.clone() },
                haft::tool::Block::Link {
                    uri: "https://u:hunter2x@h/open%20sesame".to_owned(),
                    name: "open sesame".to_owned(),
                    media_type: None,
                },
            ],
            structured: Some(Box::new(data)),
        }
    });
    let runtime = permissive(vec![tool]).secret("door", "open sesame").build().unwrap();
    let output = runtime.call("data", json!({})).await.unwrap();
    let all = serde_json::to_string(&output).unwrap();
    assert!(!all.contains("sesame") && !all.contains("hunter2x"), "{all}");
}

#[tokio::test]
async fn secret_split_by_invisible_characters_is_redacted_in_a_failure() {
    let (head, tail) = VALUE.split_at(5);
    let words = format!("the door said {head}\x1b[0m{tail}");
    let broken = DynTool::new(read("broken"), open_schema(), move |_, _| {
        let words = words.clone();
        async move { Err::<String, _>(Failure::failed(words)) }
    });
    let runtime = permissive(vec![broken]).secret("door", VALUE).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answer = turn.run(crate::kit::calls("broken")).await.pop().unwrap();
    for text in [answer.text().into_owned(), answer.model_text()] {
        assert!(!text.contains(VALUE) && !text.contains(tail), "{text}");
        assert!(text.contains("[REDACTED:secret/door:14]"), "{text}");
    }
}

#[tokio::test]
async fn panic_in_a_body_prints_no_secret_to_stderr() {
    let secrets = Secrets::new();
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&reported);
    let redactor = haft::secrets::Redactor::new(secrets.clone());
    // It stays installed: panics of other tests are printed as before.
    std::panic::set_hook(redactor.panic_hook(move |text| {
        eprintln!("{text}");
        kept.lock().unwrap().push(text.to_owned());
    }));
    secrets.add("door", VALUE).unwrap();
    let key = format!("ghp_{}", "a1B2".repeat(9));
    let words = format!("cannot open with {VALUE} or {key}\x1b[2J");
    let breaks = DynTool::new(ToolSpec::new("breaks", "Panics."), open_schema(), move |_, _| {
        let words = words.clone();
        async move {
            if !words.is_empty() {
                panic!("{words}");
            }
            ""
        }
    });
    let runtime = permissive(vec![breaks]).secrets(secrets).build().unwrap();
    let failure = runtime.call("breaks", json!({})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::Panicked);
    let reported = reported.lock().unwrap().clone();
    let own =
        reported.iter().find(|text| text.contains("cannot open with")).expect("it was printed");
    assert!(own.contains("panicked at ") && own.contains("secrets.rs"), "{own}");
    assert!(own.contains("[REDACTED:secret/door:") && own.contains("[REDACTED:github-token:40]"));
    assert!(!own.contains(VALUE) && !own.contains("ghp_") && !own.contains('\x1b'), "{own}");
}

#[tokio::test]
async fn large_result_is_redacted_off_the_executor() {
    use futures_util::FutureExt as _;

    let says = |name: &str, text: String| {
        DynTool::new(ToolSpec::new(name, "Says.").read_only(), open_schema(), move |_, _| {
            let text = text.clone();
            async move { text }
        })
    };
    let hostile = "password=".repeat(200_000);
    let tools = vec![says("large", hostile), says("small", "password=hunter2x".to_owned())];
    let runtime = permissive(tools).build().unwrap();
    // A call without a wait ends at its first poll; this one waits for a thread.
    let turn = runtime.run().turn().await.unwrap();
    let mut large = Box::pin(turn.run([ToolCall::new("a", "large", json!({}))]));
    assert!((&mut large).now_or_never().is_none(), "it was looked at in place");
    assert!(!large.await[0].is_error());
    let small = runtime.call("small", json!({})).await.unwrap();
    assert_eq!(small.to_text(), "password=[REDACTED:assigned:8]");
}
