//! Output of real commands as events: with call and stream, bounded, without secrets.
#![cfg(target_os = "linux")]

use std::time::Duration;

use haft::{
    Runtime, RuntimeBuilder, ToolCall, ToolRegistry, ToolResult,
    events::{Event, EventStream, StreamItem},
    policy::AllowAll,
    tool::Progress,
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;
use serde_json::json;
use tempfile::TempDir;

use crate::project::helper;

const SECRET: &str = "s3sam-open-42";

fn runtime() -> (RuntimeBuilder, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().canonicalize().unwrap();
    let workspace = Workspace::builder().root(base, Access::Write).build().unwrap();
    let tools = BuiltinTools::new(workspace).helper(helper());
    let registry = ToolRegistry::builder().add(tools).build().unwrap();
    (Runtime::builder().registry(registry).policy(AllowAll), directory)
}

async fn shell(runtime: &Runtime, directory: &TempDir, command: &str) -> ToolResult {
    let base = directory.path().canonicalize().unwrap();
    let run = runtime.run_builder().working_directory(base).start();
    let call = ToolCall::new("c7", "shell", json!({"command": command}));
    run.turn().await.unwrap().run(vec![call]).await.remove(0)
}

/// Drains a stream: output as call, stream and text, and the number of missed events.
fn pieces(events: &mut EventStream) -> (Vec<(String, String, String)>, u64) {
    let (mut pieces, mut missed) = (Vec::new(), 0);
    while let Some(item) = events.try_next() {
        match item {
            StreamItem::Lagged(gap) => missed += gap.progress_events,
            StreamItem::Event(item) => {
                if let Event::Progress { call, note: Progress::Keyed(stream, text) } = &item.event {
                    pieces.push((call.to_string(), stream.clone(), text.clone()));
                }
            }
        }
    }
    (pieces, missed)
}

#[tokio::test(flavor = "multi_thread")]
async fn output_event_has_its_call_and_stream() {
    let (runtime, directory) = runtime();
    let runtime = runtime.build().unwrap();
    let mut events = runtime.events(1000);
    shell(&runtime, &directory, "echo one; sleep 0.3; echo two >&2").await;
    let own = |stream: &str, text: &str| ("c7".to_owned(), stream.to_owned(), text.to_owned());
    let (pieces, missed) = pieces(&mut events);
    assert_eq!(pieces, [own("stdout", "one\n"), own("stderr", "two\n")]);
    assert_eq!(missed, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_split_across_chunks_is_redacted_in_events() {
    let (runtime, directory) = runtime();
    let runtime = runtime.secret("door", SECRET).build().unwrap();
    let mut events = runtime.events(1000);
    let (first, second) = SECRET.split_at(6);
    for stream in ["", " >&2"] {
        // Far apart, so that they are read and sent separately.
        let command =
            format!("(printf 'key {first}'; sleep 0.5; printf '{second}, end\n'){stream}");
        let answer = shell(&runtime, &directory, &command).await;
        assert!(!answer.is_error() && !answer.text().contains(second), "{}", answer.text());
        let (pieces, _) = pieces(&mut events);
        let whole: String = pieces.iter().map(|(.., text)| text.as_str()).collect();
        assert_eq!(whole, "key [REDACTED:secret/door:13], end\n");
        assert!(pieces.len() > 1, "it came in pieces: {pieces:?}");
        assert!(!pieces.iter().any(|(.., text)| text.contains(first) || text.contains(second)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_event_reader_causes_no_backpressure_and_bounded_memory() {
    let (runtime, directory) = runtime();
    let runtime = runtime.build().unwrap();
    let mut events = runtime.events(100_000);
    let command = "yes 0123456789012345678901234567890123456789 | head -c 50000000";
    let answer =
        tokio::time::timeout(Duration::from_secs(60), shell(&runtime, &directory, command)).await;
    assert!(!answer.unwrap().is_error());
    let (pieces, missed) = pieces(&mut events);
    let held: usize = pieces.iter().map(|(_, stream, text)| stream.len() + text.len()).sum();
    assert!(held > 0 && held <= 1 << 20, "{held} bytes are held");
    assert!(missed > 0, "the reader learns that output is missing");
}
