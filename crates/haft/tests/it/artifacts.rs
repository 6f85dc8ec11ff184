//! Oversized results (artifacts): what the model sees, what is stored, and how it is read in pages.

use std::sync::{Arc, Mutex};

use haft::{
    Config, FailureCode, Output, Run, Runtime, RuntimeBuilder, ToolCall, ToolRegistry, ToolResult,
    artifacts::{ArtifactMeta, Artifacts, ReadResult},
    events::Event,
    journal::MemoryJournal,
    taint::{Label, Trust},
    testing::ManualClock,
    tool::{Block, DynTool, Json, ResultLimit, StreamOutput, ToolSpec},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kit::{calls, read, settled};

/// A runtime with one tool that returns this output, and `read_result`.
fn giving(spec: ToolSpec, output: Output) -> RuntimeBuilder {
    let tool = DynTool::new(spec, json!({}), move |_, _| {
        let output = output.clone();
        async move { output }
    });
    Runtime::builder().registry(ToolRegistry::builder().add(tool).add(ReadResult).build().unwrap())
}

async fn first(run: &Run) -> ToolResult {
    run.turn().await.unwrap().run(calls("big")).await.pop().unwrap()
}

async fn ask(run: &Run, arguments: Value) -> ToolResult {
    let call = ToolCall::new("r", "read_result", arguments);
    run.turn().await.unwrap().run(vec![call]).await.pop().unwrap()
}

fn thousand_lines() -> String {
    (1..=1_000).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn large_text_is_truncated_in_the_middle_and_readable_from_there() {
    let runtime = giving(read("big").max_result(1_000), Output::text(thousand_lines()));
    let run = runtime.build().unwrap().run();
    let answer = first(&run).await;
    let id = answer.truncation().unwrap().artifact.unwrap();
    let shown = answer.text().replace(&id.to_string(), "ID");
    let (head, rest) = shown.split_once("[…").unwrap();
    let (notice, tail) = rest.split_once("…]\n").unwrap();
    assert!(head.starts_with("line 1\nline 2\n") && head.ends_with('\n'), "{head}");
    assert!(tail.starts_with("line ") && tail.ends_with("line 1000\n"), "{tail}");
    let next = head.lines().count() + 1;
    assert_eq!(
        notice.trim(),
        format!(
            "truncated: {} of 8893 characters shown; all (1000 lines) is stored as ID; \
             continue with read_result {{\"id\": \"ID\", \"offset\": {next}}}",
            answer.truncation().unwrap().shown_chars
        )
    );
    let page = ask(&run, json!({"id": id, "offset": next, "limit": 2})).await;
    assert_eq!(
        page.text(),
        format!(
            "line {next}\nline {}\n[{id}: lines {next} to {} of 1000; continue with offset {}]",
            next + 1,
            next + 1,
            next + 2
        )
    );
    let found = ask(&run, json!({"id": id, "pattern": "^line 99[89]$"})).await;
    assert_eq!(
        found.text(),
        format!("998: line 998\n999: line 999\n[{id}: 2 of 2 matching lines]")
    );
}

#[tokio::test]
async fn large_json_stays_json_and_is_readable_by_pointer() {
    let rows: Vec<Value> = (0..500).map(|n| json!({"id": n, "name": format!("row {n}")})).collect();
    for output in [Output::json(json!(rows)), Output::text(json!(rows).to_string())] {
        let run = giving(read("big").max_result(800), output).build().unwrap().run();
        let answer = first(&run).await;
        let text = answer.text();
        assert!(text.chars().count() <= 800);
        let (preview, notice) = text.split_once('\n').unwrap();
        let preview: Value = serde_json::from_str(preview).unwrap();
        assert_eq!(preview[0], rows[0]);
        assert_eq!(preview.as_array().unwrap().last(), rows.last());
        assert!(notice.contains("500 items on"), "{notice}");
        let id = answer.truncation().unwrap().artifact.unwrap();
        let part = ask(&run, json!({"id": id, "pointer": "/321/name"})).await;
        assert_eq!(part.text(), format!("\"row 321\"\n[{id}: `/321/name`: all of it]"));
    }
}

#[tokio::test]
async fn without_its_reader_a_result_is_kept_for_the_operator() {
    let tool =
        DynTool::new(read("big").max_result(600), json!({}), |_, _| async { "é".repeat(9_000) });
    let runtime = crate::kit::permissive(vec![tool]).build().unwrap();
    let answer = first(&runtime.run()).await;
    let id = answer.truncation().unwrap().artifact.unwrap();
    assert!(answer.text().contains(&format!("is stored for the operator as {id}")));
    assert!(!answer.text().contains("read_result"));
    let artifact = runtime.artifacts().open(id).unwrap();
    assert_eq!(artifact.facts().chars, Some(9_000));
}

#[tokio::test]
async fn artifact_reads_keep_the_taint_label() {
    let runtime = giving(read("big").max_result(500), Output::text(thousand_lines()));
    let run = runtime.build().unwrap().run();
    let answer = first(&run).await;
    assert_eq!(answer.label().trust, Trust::Untrusted);
    let id = answer.truncation().unwrap().artifact.unwrap();
    let page = ask(&run, json!({"id": id, "limit": 1})).await;
    assert_eq!(page.label(), answer.label());
    let none = ask(&run, json!({"id": "nothing"})).await;
    assert_eq!(none.label(), Label::CLEAN, "text of the runtime itself is clean");
}

#[tokio::test]
async fn run_with_the_name_of_another_cannot_read_its_artifacts() {
    let output = Output::text(thousand_lines());
    let runtime = giving(read("big").max_result(500), output).build().unwrap();
    let named = |id: &str| runtime.run_builder().id(id).start();
    let (one, same, below) = (named("acme"), named("acme"), named("acme.sales"));
    let id = first(&one).await.truncation().unwrap().artifact.unwrap();
    for other in [&same, &below] {
        let answer = ask(other, json!({"id": id})).await;
        assert!(answer.is_error(), "{}", answer.text());
    }
    let sub = one.sub_run().id("other").start();
    assert!(!ask(&sub, json!({"id": id})).await.is_error(), "one that it started does");
    assert!(!ask(&one, json!({"id": id})).await.is_error());
}

#[tokio::test]
async fn search_in_one_long_line_makes_progress() {
    let output = Output::text(format!("{}\nend x\n", "x ".repeat(400_000)));
    let run = giving(read("big").max_result(500), output).build().unwrap().run();
    let id = first(&run).await.truncation().unwrap().artifact.unwrap();
    let query = json!({"id": id, "pattern": "x", "limit": 1});
    let page = ask(&run, query.clone()).await;
    assert!(page.text().contains("continue with the same pattern and offset 2"), "{}", page.text());
    let mut next = query;
    next["offset"] = json!(2);
    let page = ask(&run, next).await;
    assert!(page.text().starts_with("2: end x\n"), "{}", page.text());
}

#[tokio::test]
async fn wrong_expired_and_foreign_artifact_ids_get_the_same_answer() {
    let clock = ManualClock::new();
    let runtime = giving(read("big").max_result(500), Output::text(thousand_lines()))
        .clock(clock.clone())
        .build()
        .unwrap();
    let run = runtime.run();
    let id = first(&run).await.truncation().unwrap().artifact.unwrap();
    let words = |answer: &ToolResult| {
        let failure = answer.failure().unwrap();
        assert_eq!(failure.code(), FailureCode::InvalidValue);
        failure.message().to_owned()
    };
    let foreign = words(&ask(&runtime.run(), json!({"id": id})).await);
    let wrong = words(&ask(&run, json!({"id": "../../etc/passwd"})).await);
    assert_eq!(foreign, format!("there is no result `{id}`, or it has expired"));
    assert_eq!(wrong, "there is no result `../../etc/passwd`, or it has expired");
    clock.advance(std::time::Duration::from_secs(3_601));
    assert_eq!(words(&ask(&run, json!({"id": id})).await), foreign);
    let both = ask(&run, json!({"id": id, "pattern": "x", "pointer": "/0"})).await;
    assert!(words(&both).contains("exclude each other"));
}

#[tokio::test]
async fn artifact_page_is_bounded_and_never_stored_itself() {
    let seen: Arc<Mutex<Vec<ArtifactMeta>>> = Arc::default();
    let kept = Arc::clone(&seen);
    let mut config = Config::default();
    config.max_result = 8_000;
    for config in [Config::default(), config] {
        let text = "x".repeat(300_000) + &"y\n".repeat(100_000);
        let kept = Arc::clone(&kept);
        let runtime = giving(read("big"), Output::text(text)).config(config.clone());
        let runtime = runtime.observer(move |event: &Event| {
            if let Event::ResultOffloaded { facts, .. } = event {
                kept.lock().unwrap().push(ArtifactMeta::clone(facts));
            }
        });
        let run = runtime.build().unwrap().run();
        let id = first(&run).await.truncation().unwrap().artifact.unwrap();
        for query in [json!({"id": id}), json!({"id": id, "pattern": "y", "limit": 10_000})] {
            let page = ask(&run, query).await;
            assert_eq!(page.truncation(), None);
            assert!(page.text().len() <= config.max_result);
            assert!(page.text().contains("; continue with "), "{}", page.text());
        }
    }
    assert_eq!(seen.lock().unwrap().len(), 2, "one for each large result, none for a page");
}

#[tokio::test]
async fn full_artifact_store_truncates_and_says_so() {
    let runtime = giving(read("big").max_result(500), Output::text(thousand_lines()))
        .artifacts(Artifacts::memory(5_000))
        .build()
        .unwrap();
    let answer = first(&runtime.run()).await;
    let text = answer.text();
    assert_eq!(answer.truncation().unwrap().artifact, None);
    assert!(text.contains("the rest is lost, because the result store is full"), "{text}");
    assert!(text.starts_with("line 1\n") && text.ends_with("line 1000\n"));
}

#[tokio::test]
async fn oversized_images_are_stored_whole_and_named() {
    let small = Block::Image { data: "AAAA".to_owned(), media_type: "image/png".to_owned() };
    let large = Block::Image { data: "AAAA".repeat(5_000), media_type: "image/png".to_owned() };
    let output = Output::text("two pictures").and(small.clone()).and(large);
    let runtime = giving(read("big").max_result(1_000), output).build().unwrap();
    let answer = first(&runtime.run()).await;
    let id = answer.truncation().unwrap().artifact.unwrap();
    let note = format!("[an image is omitted: image/png, 15000 bytes, stored as {id}]");
    assert_eq!(answer.blocks(), [Block::text("two pictures"), Block::text(note), small]);
    let artifact = runtime.artifacts().open(id).unwrap();
    assert_eq!((artifact.facts().bytes, artifact.facts().lines), (15_000, None));
}

#[tokio::test]
async fn large_json_next_to_a_small_text_is_stored_alone() {
    let mut output = Output::text("500 rows");
    output.structured = Some(Box::new(json!((0..500).collect::<Vec<_>>())));
    let run = giving(read("big").max_result(500), output).build().unwrap().run();
    let answer = first(&run).await;
    assert_eq!(answer.output().unwrap().structured, None);
    assert!(
        answer.text().starts_with("500 rows\n[the same as data (1891 characters) is stored as ")
    );
    let id = answer.truncation().unwrap().artifact.unwrap();
    let part = ask(&run, json!({"id": id, "pointer": "/499"})).await;
    assert!(part.text().starts_with("499\n"), "{}", part.text());
}

#[tokio::test]
async fn small_json_stays_next_to_a_truncated_text() {
    for (data, stays) in [(json!({"exit": 3}), true), (json!("x".repeat(200)), false)] {
        let mut output = Output::text(thousand_lines());
        output.structured = Some(Box::new(data.clone()));
        let runtime = giving(read("big").max_result(1_000), output).build().unwrap();
        let answer = first(&runtime.run()).await;
        assert!(answer.text().chars().count() <= 1_000, "{}", answer.text());
        assert_eq!(answer.output().unwrap().structured, stays.then_some(Box::new(data)));
        assert_eq!(answer.text().contains("the same as data"), !stays, "{}", answer.text());
        assert_eq!(runtime.artifacts().list().unwrap().len(), if stays { 1 } else { 2 });
    }
}

#[tokio::test]
async fn validated_output_is_stored_once_and_left_out_of_the_result() {
    let spec = read("big").max_result(300);
    let tool = DynTool::new(spec, json!({}), |_, cx| {
        let cx = cx.clone();
        async move {
            haft::tool::IntoOutput::into_output(Json((0..500).collect::<Vec<u32>>()), &cx).await
        }
    });
    let runtime = crate::kit::permissive(vec![tool]).build().unwrap();
    let answer = first(&runtime.run()).await;
    assert_eq!(answer.output().unwrap().structured, None);
    assert_eq!(runtime.artifacts().list().unwrap().len(), 1);
    assert!(matches!(answer.blocks().as_slice(), [Block::Json { .. }, Block::Text { .. }]));
}

#[tokio::test]
async fn record_and_event_name_the_artifact() {
    let journal = MemoryJournal::new(10);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&reported);
    let run = giving(read("big").max_result(500), Output::text(thousand_lines()))
        .journal(journal.clone())
        .observer(move |event: &Event| {
            if let Event::ResultOffloaded { call, facts, shown } = event {
                sink.lock().unwrap().push((call.to_string(), facts.id, facts.chars, *shown));
            }
        })
        .build()
        .unwrap()
        .run();
    let cut = first(&run).await.truncation().unwrap();
    assert_eq!(
        *reported.lock().unwrap(),
        [("c1".to_owned(), cut.artifact.unwrap(), Some(8_893), cut.shown_chars)]
    );
    let record = settled(&journal).pop().unwrap();
    assert_eq!(record.end.unwrap().truncation.as_deref(), Some(&cut));
}

#[tokio::test]
async fn endless_stream_is_limited_to_the_cap() {
    struct Endless(usize);
    impl futures_util::Stream for Endless {
        type Item = String;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<String>> {
            self.0 += 1;
            std::task::Poll::Ready((self.0 <= 1_000).then(|| "0123456789".repeat(100)))
        }
    }
    let spec = read("big").max_result(ResultLimit::Unbounded);
    let tool = DynTool::new(spec, json!({}), |_, _| async { StreamOutput(Endless(0)) });
    let mut config = Config::default();
    config.max_result = 10_000;
    let runtime = crate::kit::permissive(vec![tool]).config(config).build().unwrap();
    let answer = first(&runtime.run()).await;
    assert!(answer.text().len() <= 10_000);
    assert!(answer.text().ends_with("[… 990000 bytes more were not kept …]"), "{}", answer.text());
}

#[tokio::test]
async fn every_dialect_renders_every_block() {
    let output = Output::text("words")
        .and(Block::Json { json: json!({"n": 1}) })
        .and(Block::Image { data: "iVBORw0KGgo=".to_owned(), media_type: "image/png".to_owned() })
        .and(Block::Link {
            uri: "file:///x".to_owned(),
            name: "a file".to_owned(),
            media_type: None,
        });
    let run = giving(read("big"), output).build().unwrap().run();
    for dialect in haft::Dialect::ALL {
        let answer = first(&run).await;
        let message = dialect.render_results(std::slice::from_ref(&answer)).to_string();
        for part in ["words", "png", "file:///x"] {
            assert!(message.contains(part), "{dialect}: {message}");
        }
        assert!(message.contains(r#"{"n":1}"#) || message.contains(r#"{\"n\":1}"#), "{message}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn artifact_directory_outlives_the_runtime() {
    let directory = std::env::temp_dir().join(format!("haft-walk-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let store =
        || Artifacts::directory(&directory, haft::artifacts::ArtifactLimits::default()).unwrap();
    let giving = || giving(read("big").max_result(500), Output::text(thousand_lines()));
    let runtime = giving().artifacts(store()).build().unwrap();
    let run = runtime.run_builder().session("s").start();
    let id = first(&run).await.truncation().unwrap().artifact.unwrap();
    drop((run, runtime));
    let runtime = giving().artifacts(store()).build().unwrap();
    let same = runtime.run_builder().session("s").start();
    let page = ask(&same, json!({"id": id, "offset": 7, "limit": 1})).await;
    assert!(page.text().starts_with("line 7\n"), "{}", page.text());
    let other = runtime.run_builder().session("t").start();
    assert!(ask(&other, json!({"id": id})).await.is_error());
    std::fs::remove_dir_all(&directory).unwrap();
}

fn block() -> impl Strategy<Value = Block> {
    let text = "(é|a|漢|🦀|\n|e\u{301}|word ){0,120}";
    prop_oneof![
        text.prop_map(Block::text),
        prop::collection::vec(text, 0..6).prop_map(|list| Block::Json { json: json!(list) }),
        (0usize..400)
            .prop_map(|n| Block::Image { data: "A".repeat(n), media_type: "image/png".to_owned() }),
        text.prop_map(|uri| Block::Link { uri, name: "x".to_owned(), media_type: None }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn result_bound_holds_for_any_blocks_including_the_notice(
        blocks in prop::collection::vec(block(), 0..6),
        structured in any::<bool>(),
        limit in 1usize..500,
        quota in prop_oneof![Just(0usize), Just(1usize << 20)],
    ) {
        let mut output = Output { blocks: blocks.clone(), structured: None };
        output.structured = structured.then(|| Box::new(json!({"same": output.to_text()})));
        let runtime = giving(read("big").max_result(limit), output)
            .artifacts(Artifacts::memory(quota))
            .build()
            .unwrap();
        let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let answer = rt.block_on(async { first(&runtime.run()).await });
        let shown = answer.output().unwrap();
        let size: usize = shown.blocks.iter().map(|block| match block {
            Block::Text { text } => text.chars().count(),
            Block::Json { json } => json.to_string().chars().count(),
            Block::Image { data, .. } | Block::Audio { data, .. } => data.len(),
            Block::Link { uri, name, .. } => uri.chars().count() + name.len(),
        }).sum();
        match answer.truncation() {
            None => prop_assert_eq!(&shown.blocks, &blocks),
            Some(cut) => {
                prop_assert!(size <= limit, "{size} in {limit}: {:?}", shown.blocks);
                prop_assert!(cut.shown_chars <= cut.total_chars, "{cut:?}");
                prop_assert_eq!(quota == 0, cut.artifact.is_none());
            }
        }
    }
}
