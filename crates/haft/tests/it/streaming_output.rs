//! Streaming output and progress: what is emitted, what is kept, and how it is throttled.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context as Task, Poll},
    time::Duration,
};

use futures_util::Stream;
use haft::{
    Config, Failure, FailureCode, RuntimeBuilder, ToolResult,
    events::Event,
    tool::{Block, DynTool, Execution, Interrupt, IntoOutput, Progress, StreamOutput},
};

use crate::kit::*;

/// A stream of the given chunks, with a pause before each, that may hang at the end.
struct Pieces<T> {
    rest: std::vec::IntoIter<T>,
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
    every: Duration,
    hangs: bool,
}

fn pieces<T>(all: Vec<T>, millis: u64) -> Pieces<T> {
    let every = Duration::from_millis(millis);
    Pieces { rest: all.into_iter(), pause: None, every, hangs: false }
}

impl<T: Unpin> Stream for Pieces<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Option<T>> {
        let every = self.every;
        let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(every)));
        if pause.as_mut().poll(task).is_pending() {
            return Poll::Pending;
        }
        self.pause = None;
        match self.rest.next() {
            None if self.hangs => Poll::Pending,
            next => Poll::Ready(next),
        }
    }
}

fn streams<O>(make: impl Fn() -> O + Send + Sync + 'static, spec: haft::tool::ToolSpec) -> DynTool
where
    O: IntoOutput + 'static,
{
    let make = Arc::new(make);
    DynTool::new(spec, open_schema(), move |_, _| {
        let make = Arc::clone(&make);
        async move { make() }
    })
}

type Notes = Arc<Mutex<Vec<(u64, Progress)>>>;

/// Runs one call and returns its result and the emitted output, with the tenths of a second.
async fn reported(builder: RuntimeBuilder) -> (ToolResult, Vec<(u64, Progress)>) {
    let notes = Notes::default();
    let (keep, began) = (Arc::clone(&notes), tokio::time::Instant::now());
    let runtime = builder
        .observer(move |event: &Event| {
            if let Event::Progress { note, .. } = event {
                let at = began.elapsed().as_millis() / 100;
                keep.lock().unwrap().push((u64::try_from(at).unwrap(), note.clone()));
            }
        })
        .build()
        .unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let answer = turn.run(calls("t")).await.pop().unwrap();
    let notes = notes.lock().unwrap().clone();
    (answer, notes)
}

fn partial(text: &str) -> Progress {
    Progress::Partial(text.to_owned())
}

#[tokio::test(start_paused = true)]
async fn output_chunks_are_emitted_in_order_coalesced_and_complete() {
    let tool = streams(|| StreamOutput(pieces(vec!["1 ", "2 ", "3 ", "4 ", "5 "], 40)), read("t"));
    let (answer, notes) = reported(permissive(vec![tool])).await;
    assert_eq!(answer.text(), "1 2 3 4 5 ");
    assert_eq!(notes, [(0, partial("1 ")), (1, partial("2 3 ")), (2, partial("4 5 "))]);
}

#[tokio::test(start_paused = true)]
async fn possible_start_of_a_secret_is_held_back_and_not_lost() {
    let tool = streams(|| StreamOutput(pieces(vec!["x a", "b ", "c a"], 200)), read("t"));
    let (answer, notes) = reported(permissive(vec![tool])).await;
    assert_eq!(answer.text(), "x ab c a");
    let all: String = notes
        .iter()
        .map(|(_, note)| match note {
            Progress::Partial(text) => text.as_str(),
            Progress::Progress(..) | Progress::Keyed(..) => "",
        })
        .collect();
    assert_eq!(all, "x ab c a");
}

#[tokio::test(start_paused = true)]
async fn held_back_output_is_emitted_while_the_body_runs() {
    let tool = DynTool::new(read("t"), open_schema(), |_, cx| async move {
        // More at once than are sent one by one.
        for n in 1..=9 {
            cx.progress(0.0, n.to_string());
        }
        cx.progress(0.1, "one");
        cx.progress(0.2, "two");
        cx.progress(0.3, "three");
        tokio::time::sleep(Duration::from_secs(60)).await;
        cx.progress(0.9, "four");
        cx.progress(1.0, "five");
        "done"
    });
    let (_, notes) = reported(permissive(vec![tool])).await;
    let shown: Vec<(u64, &str)> = notes
        .iter()
        .map(|(at, note)| match note {
            Progress::Progress(_, text) => (*at, text.as_str()),
            _ => (*at, "?"),
        })
        .collect();
    let (burst, rest) = shown.split_at(9);
    assert!(burst.iter().all(|(at, _)| *at == 0), "{burst:?}");
    assert_eq!(rest, [(0, "one"), (1, "three"), (600, "four"), (600, "five")]);
}

#[tokio::test(start_paused = true)]
async fn progress_is_throttled_and_the_last_report_is_emitted() {
    let tool = DynTool::new(read("t"), open_schema(), |_, cx| async move {
        for n in 0..10_000 {
            cx.progress(0.0, n.to_string());
            if n % 1_000 == 999 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        "done"
    });
    let (_, notes) = reported(permissive(vec![tool])).await;
    // A burst of ten, and then one per interval of 100 ms for half a second.
    assert!(notes.len() <= 10 + 6, "{}", notes.len());
    assert_eq!(notes.last().unwrap().1, Progress::Progress(Some(0.0), "9999".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn unthrottled_progress_emits_every_report() {
    let mut config = Config::default();
    config.progress_every = Duration::ZERO;
    let tool = streams(|| StreamOutput(pieces(vec!["1 ", "2 "], 1)), read("t"));
    let (_, notes) = reported(permissive(vec![tool]).config(config)).await;
    assert_eq!(notes, [(0, partial("1 ")), (0, partial("2 "))]);
}

#[tokio::test(start_paused = true)]
async fn keyed_chunks_are_emitted_with_their_key_and_coalesced() {
    let all = || pieces(vec![("a", "1"), ("b", "2"), ("a", "3")], 200);
    let tool = streams(move || StreamOutput::keyed(all()), read("t"));
    let (answer, notes) = reported(permissive(vec![tool])).await;
    assert_eq!(answer.text(), "a:\n13\n\nb:\n2");
    let keyed = |key: &str, text: &str| Progress::Keyed(key.to_owned(), text.to_owned());
    assert_eq!(notes, [(2, keyed("a", "1")), (4, keyed("b", "2")), (6, keyed("a", "3"))]);

    let fold = |all: Vec<(String, String)>| {
        all.into_iter().map(|(k, t)| format!("{k}={t}")).collect::<Vec<_>>().join(" ")
    };
    let tool = streams(move || StreamOutput::fold(all(), fold), read("t"));
    assert_eq!(reported(permissive(vec![tool])).await.0.text(), "a=13 b=2");
}

#[tokio::test(start_paused = true)]
async fn streamed_blocks_keep_their_kind_and_text_is_joined() {
    let image = Block::Image { data: "aGk=".to_owned(), media_type: "image/png".to_owned() };
    let all = vec![Block::text("one "), Block::text("2 "), image.clone(), Block::text("three")];
    let tool = streams(move || StreamOutput::blocks(pieces(all.clone(), 200)), read("t"));
    let (answer, notes) = reported(permissive(vec![tool])).await;
    assert_eq!(answer.blocks(), [Block::text("one 2 "), image, Block::text("three")]);
    assert_eq!(notes[2].1, partial("[image image/png, 4 base64 bytes]\n"));
}

/// A stream that never ends by itself.
fn endless(spec: haft::tool::ToolSpec) -> DynTool {
    let make = || StreamOutput(Pieces { hangs: true, ..pieces(vec!["so ", "far"], 10) });
    streams(make, spec)
}

#[tokio::test(start_paused = true)]
async fn stopped_stream_keeps_its_partial_output() {
    let secs = Duration::from_secs;
    let (timed, _) = reported(permissive(vec![endless(read("t").timeout(secs(5)))])).await;
    let (late, _) = reported(permissive(vec![endless(read("t").deadline(secs(5)))])).await;
    let stopped = |force: bool| async move {
        let tool = endless(read("t").interrupt(Interrupt::Cancel));
        let turn = permissive(vec![tool]).build().unwrap().run().turn().await.unwrap();
        let control = turn.handle();
        let (mut answers, ()) = tokio::join!(turn.run(calls("t")), async {
            tokio::time::sleep(secs(1)).await;
            if force { control.abort() } else { control.interrupt() }
        });
        answers.pop().unwrap()
    };
    let tools = vec![
        endless(read("t")),
        DynTool::new(read("fails").abort_siblings(true), open_schema(), move |_, _| async move {
            tokio::time::sleep(secs(1)).await;
            Err::<(), _>(Failure::failed("no luck"))
        }),
    ];
    let turn = permissive(tools).build().unwrap().run().turn().await.unwrap();
    let aborted = turn.run(calls("t fails")).await.remove(0);
    for (answer, code) in [
        (timed, FailureCode::TimedOut),
        (late, FailureCode::DeadlinePassed),
        (stopped(false).await, FailureCode::Cancelled),
        (stopped(true).await, FailureCode::Cancelled),
        (aborted, FailureCode::SiblingAborted),
    ] {
        let failure = answer.failure().unwrap();
        assert_eq!((failure.code(), failure.execution()), (code, Execution::Completed));
        assert_eq!(answer.interrupted_output(), "so far", "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_stream_keeps_its_partial_output() {
    let all = || vec![Ok("so "), Ok("far"), Err(Failure::failed("the line went dead"))];
    let tool = streams(move || StreamOutput(pieces(all(), 10)), read("t"));
    let (answer, _) = reported(permissive(vec![tool])).await;
    assert_eq!(
        answer.text(),
        "tool_failed: the line went dead\nOutput before the interruption (6 characters):\nso far"
    );
    let tool = DynTool::new(read("t"), open_schema(), |_, cx| async move {
        cx.partial("1 to 5 ");
        if cx.attempt() > 0 {
            panic!("on purpose");
        }
        "never"
    });
    let (answer, notes) = reported(permissive(vec![tool])).await;
    assert_eq!(answer.failure().unwrap().code(), FailureCode::Panicked);
    assert_eq!((answer.interrupted_output(), notes.len()), ("1 to 5 ", 1));
}

/// A stream that is always ready and never yields to other tasks.
struct Flood<T>(T);

impl<T: Clone + Unpin> Stream for Flood<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<Option<T>> {
        Poll::Ready(Some(self.0.clone()))
    }
}

#[tokio::test]
async fn endless_output_times_out() {
    let time = Duration::from_millis(50);
    let spec = || read("t").timeout(time);
    let text = streams(|| StreamOutput(Flood("x")), spec());
    let keyed = streams(|| StreamOutput::keyed(Flood(("key", "x"))), spec());
    let blocks = streams(|| StreamOutput::blocks(Flood(haft::tool::Block::text("x"))), spec());
    for tool in [text, keyed, blocks] {
        let runtime = permissive(vec![tool]).build().unwrap();
        let answers = runtime.run().turn().await.unwrap().run(calls("t")).await;
        assert_eq!(ends(&answers), ["c1 timed_out"]);
        assert!(!answers[0].interrupted_output().is_empty());
    }
}
