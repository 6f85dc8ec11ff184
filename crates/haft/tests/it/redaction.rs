//! Ways for a secret, a deceptive character or a forged marker to get out; each must be closed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    BoxFuture, Config, Failure, Output, Runtime, RuntimeBuilder, ToolCall, ToolRegistry,
    ToolResult,
    approval::{ApprovalRequest, ApprovalResponse, Approver, SuggestedRules},
    events::Event,
    journal::MemoryJournal,
    policy::{Policy, PolicyRequest, RuleStore, Verdict},
    tool::{Block, DynTool, Effect, Progress, ToolSpec},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kit::{open_schema, permissive, read};

const VALUE: &str = "s3sam-open-42";

/// A tool that returns exactly this output.
fn giving(spec: ToolSpec, give: impl Fn(&str) -> Output + Send + Sync + 'static) -> DynTool {
    DynTool::new(spec, open_schema(), move |args, _| {
        let output = give(args["x"].as_str().unwrap_or_default());
        async move { output }
    })
}

async fn one(builder: RuntimeBuilder, name: &str, arguments: Value) -> ToolResult {
    let run = builder.build().unwrap().run();
    let turn = run.turn().await.unwrap();
    turn.run([ToolCall::new("c1", name, arguments)]).await.remove(0)
}

/// Every event as text, with all its fields.
fn listener() -> (Arc<Mutex<Vec<String>>>, impl Fn(&Event) + Send + Sync + 'static) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    (lines, move |event: &Event| kept.lock().unwrap().push(format!("{event:?}")))
}

/// The value with invisible characters in it.
const HIDDEN: &[&str] = &[
    "s3sam-o\u{200b}pen-42",
    "s3\u{202e}sam-open\u{feff}-42",
    "s3sam\x1b[1m-open-\x1b[0m42",
    "\x1b s3sam-open-42",
    "\x1b]0;\x1b s3sam-open-42",
    "s3sam-\ropen-42",
    "s3sam-\nopen-42",
    "czNzYW0t\nb3Blbi00Mg==",
    "7333\u{200b}73616d2d6f70656e2d3432",
];

#[tokio::test]
async fn invisible_characters_do_not_hide_a_secret() {
    for hidden in HIDDEN {
        for how in ["text", "data", "key", "failure", "cause", "progress", "panic"] {
            let leak = DynTool::new(read("leak"), open_schema(), move |_, cx| async move {
                match how {
                    "data" => return Ok(Output::json(json!({"a": [hidden]}))),
                    "key" => return Ok(Output::json(json!({*hidden: 1}))),
                    "failure" => return Err(Failure::failed(format!("saw {hidden} there"))),
                    "cause" => return Err(Failure::hidden(format!("saw {hidden} there"))),
                    "progress" => cx.progress(0.5, *hidden),
                    "panic" => panic!("saw {hidden} there"),
                    _ => {}
                }
                Ok(Output::text(format!("saw {hidden} there")))
            });
            let (events, observer) = listener();
            let journal = MemoryJournal::new(10);
            let runtime = permissive(vec![leak])
                .secret("door", VALUE)
                .journal(journal.clone())
                .observer(observer);
            let answer = one(runtime, "leak", json!({})).await;
            let mut reported = events.lock().unwrap().join("\n");
            reported += &format!("{answer:?}{:?}{}", journal.records(), answer.model_text());
            // An escape sequence before it may consume the start of the marker, and nothing more.
            assert!(reported.contains("ACTED:secret/door:"), "{hidden:?} {how}: {reported}");
            for part in ["3sam", "pen-4", "czNz", "b3Bl", "73616d"] {
                assert!(!reported.contains(part), "{hidden:?} {how}: {part} in {reported}");
            }
        }
    }
}

#[tokio::test]
async fn json_preview_is_redacted_after_unescaping() {
    // The raw text has no secret: `\u0073` becomes `s` only after parsing.
    let text = format!(
        r#"{{"note": "\u00733sam-open-42 and gpj\u202eexe\u009b2J", "rows": [{}"end"]}}"#,
        "\"some row\",".repeat(500)
    );
    let big = giving(read("big").max_result(600), move |_| Output::text(text.clone()));
    let answer = one(permissive(vec![big]).secret("door", VALUE), "big", json!({})).await;
    let shown = answer.text().into_owned();
    assert!(shown.contains("[REDACTED:secret/door:13]") && !shown.contains("3sam"), "{shown}");
    assert!(shown.contains("gpj<U+202E>exe<U+009B>2J"), "{shown}");
    let Block::Text { text } = &answer.blocks()[0] else { panic!("{shown}") };
    let data: Value = serde_json::from_str(text).expect("a preview is JSON");
    assert_eq!(data["rows"][0], "some row");
}

#[tokio::test]
async fn image_that_contains_a_secret_is_dropped() {
    let picture = |bytes: &[u8]| Block::Image {
        data: data_encoding::BASE64.encode(bytes),
        media_type: "image/png".to_owned(),
    };
    let blocks = vec![picture(b"plain pixels"), picture(format!("tEXt{VALUE}!").as_bytes())];
    let show = giving(read("show"), move |_| Output { blocks: blocks.clone(), structured: None });
    let answer = one(permissive(vec![show]).secret("door", VALUE), "show", json!({})).await;
    let shown = answer.blocks();
    assert!(matches!(&shown[0], Block::Image { .. }), "{shown:?}");
    let left_out = Block::text("[an image or audio is omitted: it contains a secret]");
    assert_eq!(shown[1], left_out);
}

#[tokio::test]
async fn keyed_chunks_are_redacted_across_borders_and_terminal_safe() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&reported);
    let stream = DynTool::new(read("stream"), open_schema(), |_, cx| async move {
        for (key, piece) in [("a", "it is s3s"), ("b", "one "), ("a", "am-op"), ("b", "two")] {
            cx.partial_of(key, piece);
        }
        cx.partial_of("a", "en-42.");
        cx.partial("red \x1b[3");
        cx.partial("1m and \u{202e}");
        cx.partial_of("c", "s3sam-op");
        // More keys than are held open: the oldest are flushed.
        (0..100).for_each(|n| cx.partial_of(format!("k{n}"), "s3s"));
        "done"
    });
    let mut config = Config::default();
    config.progress_every = Duration::ZERO;
    let runtime = permissive(vec![stream]).config(config).secret("door", VALUE).observer(
        move |event: &Event| {
            if let Event::Progress { note, .. } = event {
                kept.lock().unwrap().push(note.clone());
            }
        },
    );
    one(runtime, "stream", json!({})).await;
    let reported = reported.lock().unwrap();
    let under = |key: &str| -> String {
        let own = reported.iter().filter_map(|note| match note {
            Progress::Keyed(k, text) if k == key => Some(text.as_str()),
            _ => None,
        });
        own.collect()
    };
    assert_eq!(under("a"), "it is [REDACTED:secret/door:13].");
    assert_eq!((under("b"), under("c")), ("one two".to_owned(), "s3sam-op".to_owned()));
    assert!((0..100).all(|n| under(&format!("k{n}")) == "s3s"), "nothing is lost");
    let plain = reported.iter().filter_map(|note| match note {
        Progress::Partial(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(plain.collect::<String>(), "red  and <U+202E>");
}

/// Asks about everything, with a secret in the reason.
struct Asks;

impl Policy for Asks {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        Verdict::ask(format!("it would send {VALUE}")).by(format!("rule {VALUE}"))
    }

    fn rule_store(&self) -> Option<&dyn RuleStore> {
        Some(self)
    }
}

impl RuleStore for Asks {
    fn suggest_for(&self, request: &PolicyRequest<'_>) -> Option<SuggestedRules> {
        let rules = vec![format!("{}(pin:{VALUE})", request.tool.name)];
        Some(SuggestedRules { rules, file: "haft.local.toml".into() })
    }

    fn save(&self, _: &SuggestedRules) -> Result<(), haft::Error> {
        unreachable!("nothing is suggested")
    }
}

/// Records what it was shown, and approves.
struct Person(Arc<Mutex<Vec<String>>>);

impl Approver for Person {
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        let shown = format!("{:?} {}", question.verdict, question.explanation);
        assert!(question.offer.is_none(), "a rule with a secret in it is not offered");
        self.0.lock().unwrap().push(shown);
        Box::pin(async { Ok(ApprovalResponse::allow()) })
    }
}

#[tokio::test]
async fn question_task_origin_and_repair_are_redacted() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let schema = json!({"properties": {"pin": {"type": "integer"}}});
    let spec = read("send").effects(vec![Effect::read(format!("https://x.example/?k={VALUE}"))]);
    let send = DynTool::new(spec, schema, |_, cx: haft::ToolContext| async move {
        let summary = format!("{} {VALUE}", "x".repeat(492));
        cx.spawn_background(summary, |_| async { "sent" }).await
    });
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(send).build().unwrap())
        .policy(Asks)
        .approver(Person(Arc::clone(&asked)))
        .secret("door", VALUE)
        .secret("pin", "12345678")
        .build()
        .unwrap();
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    let answer =
        turn.run([ToolCall::new("c1", "send", json!({"pin": "12345678"}))]).await.remove(0);
    assert_eq!(answer.repairs().len(), 1, "{answer:?}");
    let reported = [
        asked.lock().unwrap().join("\n"),
        serde_json::to_string(&answer).unwrap(),
        format!("{:?}", run.background_tasks()),
        format!("{:?} {}", answer.origin(), answer.model_text()),
    ];
    for reported in &reported {
        assert!(!reported.contains("s3sam") && !reported.contains("12345678"), "{reported}");
    }
    assert!(reported[0].contains("[REDACTED:secret/door:13]"), "{}", reported[0]);
    assert!(answer.origin().unwrap().what().unwrap().ends_with("k=[REDACTED:secret/door:13]"));
}

#[tokio::test]
async fn failure_text_is_sanitized_counted_and_bounded() {
    let fail = DynTool::new(read("fail"), open_schema(), |args, _| async move {
        let odd = if args["x"] == "much" { "\0".repeat(3_999) } else { "a\x1b[1mb\u{202e}".into() };
        Err::<(), _>(Failure::failed(odd).with_next("try \u{200b} again"))
    });
    let builder = || permissive(vec![fail.clone()]);
    let answer = one(builder(), "fail", json!({"x": "odd"})).await;
    let shown = answer.model_text();
    assert!(shown.lines().next().unwrap().ends_with("altered=3]"), "{shown}");
    assert!(shown.contains("ab<U+202E>") && shown.contains("try <U+200B> again"), "{shown}");
    let answer = one(builder(), "fail", json!({"x": "much"})).await;
    let message = answer.failure().unwrap().message();
    assert!(message.len() < 8_100 && message.ends_with("bytes in all)"), "{}", message.len());
}

#[tokio::test(start_paused = true)]
async fn interrupted_result_says_how_much_was_emitted() {
    let chatty = |bound: usize, size: usize| {
        DynTool::new(read("chatty").max_result(bound), open_schema(), move |_, cx| async move {
            (0..size / 10).for_each(|_| cx.partial("123456789\n"));
            cx.cancelled().await;
            Err::<(), _>(Failure::failed("it was stopped"))
        })
    };
    for (bound, size, is_cut) in
        [(50_000, 40_000, false), (50_000, 200_000, true), (300, 900, true)]
    {
        let mut config = Config::default();
        config.timeout = Duration::from_secs(1);
        let answer = one(permissive(vec![chatty(bound, size)]).config(config), "chatty", json!({}));
        let answer = answer.await;
        let output = answer.interrupted_output();
        assert!(
            output.starts_with("123456789\n") && output.chars().count() <= bound,
            "{}",
            output.len()
        );
        let notice = format!("\n[… truncated: {size} bytes in total …]");
        assert_eq!(output.ends_with(&notice), is_cut, "{}", &output[output.len() - 60..]);
    }
}

#[tokio::test]
async fn deeply_nested_json_is_shown_to_a_fixed_depth() {
    let deep = giving(read("deep"), |_| {
        let mut data = json!(VALUE);
        for _ in 0..50_000 {
            data = Value::Array(vec![data]);
        }
        Output::json(data)
    });
    let answer = one(permissive(vec![deep]).secret("door", VALUE), "deep", json!({})).await;
    let text = answer.text().into_owned();
    assert!(text.starts_with("[[[[") && text.contains("too-deep"), "{text}");
    assert!(!text.contains(VALUE) && text.len() < 400, "{}", text.len());
}

#[tokio::test]
async fn secret_added_later_is_redacted_from_existing_records() {
    let echo = giving(read("echo"), |text| Output::text(format!("say {text}")));
    let runtime = permissive(vec![echo]).journal(MemoryJournal::new(10).output(100));
    let runtime = runtime.build().unwrap();
    runtime.call("echo", json!({"x": VALUE})).await.unwrap();
    runtime.secrets().add("door", VALUE).unwrap();
    let records = format!("{:?}", runtime.records(&haft::journal::RecordQuery::default()));
    assert!(records.contains("say [REDACTED:secret/door:13]"), "{records}");
    assert!(!records.contains(VALUE), "{records}");
}

#[tokio::test]
async fn keys_that_collide_after_redaction_keep_both_values() {
    let same = giving(read("same"), |_| {
        Output::json(json!({"a\u{200b}": 1, "a<U+200B>": 2, "a<U+200B>'2": 3, "b": 4}))
    });
    let answer = one(permissive(vec![same]), "same", json!({})).await;
    let data: Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(data, json!({"a<U+200B>": 1, "a<U+200B>'2": 2, "a<U+200B>'2'2": 3, "b": 4}));
}

#[tokio::test]
async fn many_colliding_keys_cost_linear_time() {
    // Fourteen markers, each raw or escaped: all these keys collide.
    let keys = (0..1u32 << 14).map(|n| {
        let mark = |bit: u32| if n >> bit & 1 == 0 { "<s>" } else { "<U+003C>s>" };
        (0..14).map(mark).collect::<String>()
    });
    let data: Value =
        keys.map(|key| (key, Value::from(1))).collect::<serde_json::Map<_, _>>().into();
    let many = giving(read("many").max_result(haft::tool::ResultLimit::Unbounded), move |_| {
        Output::json(data.clone())
    });
    let answer = one(permissive(vec![many]), "many", json!({})).await;
    let blocks = answer.model_blocks();
    let found = blocks.iter().find_map(|block| match block {
        Block::Json { json } => json.as_object(),
        _ => None,
    });
    assert_eq!(found.unwrap().len(), 1 << 14);
}

/// What a model reads if its host joins texts without a separator.
fn joined_text(answer: &ToolResult) -> String {
    let text = |block: &Block| match block {
        Block::Text { text } => text.clone(),
        _ => String::new(),
    };
    answer.model_blocks().iter().map(text).collect()
}

/// Fragments that markers are made of.
fn marker_fragments() -> impl Strategy<Value = String> {
    let bit = prop::sample::select(vec![
        "[",
        "/",
        "ha",
        "ft ",
        "haft",
        "0000000000",
        "]",
        "<",
        "|",
        "im_",
        "start",
        "|>",
        "<|",
        "s>",
        "</",
        "INST",
        "\n\n",
        "Human",
        ":",
        "Assistant:",
        "[/",
        " ",
        "tool_call>",
        "é",
        "\u{200b}",
        "\x1b[0m",
        "\u{ff0f}",
    ]);
    prop::collection::vec(bit, 0..7).prop_map(|marker_fragments| marker_fragments.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_output_can_forge_a_marker_alone_or_combined(
        texts in prop::collection::vec(marker_fragments(), 1..4), fails in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tool = DynTool::new(read("t"), open_schema(), move |_, _| {
            let texts = texts.clone();
            async move {
                if fails {
                    return Err(Failure::failed(texts.concat()));
                }
                let blocks = texts.into_iter().map(Block::text).collect();
                Ok(Output { blocks, structured: None })
            }
        });
        let answer = runtime.block_on(one(permissive(vec![tool]), "t", json!({})));
        let row = joined_text(&answer);
        let open = row.find(']').unwrap();
        let close = "[/haft 0000000000]";
        let inside = row[open + 1..].strip_suffix(close).expect("the mark is the last").to_lowercase();
        for mark in ["[haft ", "[/haft ", "<|im_start|>", "<s>", "</s>", "[inst]", "[/inst]", "<tool_call>"] {
            prop_assert!(!inside.contains(mark), "{} in {}", mark, row);
        }
        prop_assert!(!inside.contains("\n\nhuman:") && !inside.contains("\n\nassistant:"), "{}", row);
        prop_assert!(!row.contains(['\x1b', '\u{200b}']), "{:?}", row);
    }

    #[test]
    fn json_preview_is_always_valid_json(
        rows in prop::collection::vec(("[a-z\"\\\\\u{202e}é<\\[]{0,30}", any::<i64>()), 1..60),
        bound in 1usize..400, as_text in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let data: Value = rows.iter().map(|(key, n)| json!({key.as_str(): n, "n": key})).collect();
        let output = if as_text { Output::text(data.to_string()) } else { Output::json(data) };
        let big = giving(read("big").max_result(bound), move |_| output.clone());
        let answer = runtime.block_on(one(permissive(vec![big]), "big", json!({})));
        // No space for any JSON; three characters are the minimum.
        prop_assume!(bound >= 3);
        let blocks = answer.blocks();
        match &blocks[0] {
            Block::Text { text } => {
                prop_assert!(serde_json::from_str::<Value>(text).is_ok(), "{} in {}", text, bound);
            }
            other => prop_assert!(matches!(other, Block::Json { .. }), "{:?}", other),
        }
        prop_assert!(answer.text().chars().count() <= bound, "{}", bound);
    }
}

#[tokio::test]
async fn truncated_value_in_a_message_shows_no_part_of_a_secret() {
    let number = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let tool =
        || DynTool::new(read("count"), number.clone(), |_, _| async { Output::text("never") });
    // Wherever the truncation falls, one of these has it inside of the value.
    for before in 0..130 {
        let text = format!("{}{VALUE}{}", "-".repeat(before), "-".repeat(200));
        let (lines, listen) = listener();
        let journal = MemoryJournal::new(10);
        let builder = permissive(vec![tool()]).secret("door", VALUE).observer(listen);
        let answer = one(builder.journal(journal.clone()), "count", json!({"x": text})).await;
        let message = answer.text().into_owned();
        assert!(message.contains("/x"), "{message}");
        let reported = lines.lock().unwrap().join("\n") + &format!("{:?}", journal.records());
        for text in [&message, &reported] {
            assert!(!text.contains("s3s"), "{before}: {text}");
        }
    }
}
