//! A stream buffers what it can, and reports each gap exactly.

use std::{sync::atomic::AtomicBool, task::Wake, time::Duration};

use haft_core::{CallId, Execution, RunId};
use proptest::prelude::*;

use super::*;

impl Hub {
    fn say(&self, event: Event) {
        let who = EventSource::of(&haft_core::Scope::default());
        let (clock, rank) = (crate::clock::ManualClock::new(), Rank::of(&event));
        let _emitted = self.emit((&clock, clock.now()), who, rank, &mut Some(event));
    }
}

fn note(text: &str) -> Event {
    Event::Progress { call: CallId::from("c"), note: Progress::Partial(text.to_owned()) }
}

fn plain() -> Event {
    Event::TurnFinished { run: RunId::from("run"), answers: 0 }
}

fn end() -> Event {
    Event::Finished {
        call: CallId::from("c"),
        tool_name: "t".into(),
        failed: None,
        cause: None,
        execution: Execution::Completed,
        elapsed: Duration::ZERO,
    }
}

/// Formats events as numbers, and gaps as `from-to`.
fn read(stream: &mut EventStream) -> Vec<String> {
    std::iter::from_fn(|| stream.try_next())
        .map(|received| match received {
            StreamItem::Event(received) => received.at.seq.to_string(),
            StreamItem::Lagged(m) => {
                format!(
                    "{}-{} ({} notes, {} ends)",
                    m.from_seq, m.to_seq, m.progress_events, m.terminal_events
                )
            }
        })
        .collect()
}

#[test]
fn full_queue_drops_progress_then_the_oldest_and_terminal_events_last() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.open(3);
    for event in [plain(), note("a"), end(), plain(), note("b"), end()] {
        hub.say(event);
    }
    assert_eq!(
        read(&mut stream),
        ["1-2 (1 notes, 0 ends)", "3", "4", "5-5 (1 notes, 0 ends)", "6"]
    );
    for _ in 0..5 {
        hub.say(end());
    }
    assert_eq!(read(&mut stream), ["7-8 (0 notes, 2 ends)", "9", "10", "11"]);
}

#[test]
fn gap_at_the_end_is_reported_without_waiting() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.open(1);
    hub.say(end());
    hub.say(note("dropped at once"));
    assert_eq!(read(&mut stream), ["1", "2-2 (1 notes, 0 ends)"]);
    assert!(stream.try_next().is_none(), "and only once");
}

#[test]
fn progress_text_is_bounded_by_bytes() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.open(1_000);
    let long = "x".repeat(MAX_PROGRESS_BYTES / 2);
    for _ in 0..4 {
        hub.say(note(&long));
    }
    assert_eq!(read(&mut stream), ["1-2 (2 notes, 0 ends)", "3", "4"]);
    hub.say(note(&"x".repeat(MAX_PROGRESS_BYTES + 1)));
    assert_eq!(read(&mut stream), ["5-5 (1 notes, 0 ends)"]);
}

#[test]
fn reader_sees_only_events_after_it_was_opened() {
    let hub = Arc::new(Hub::default());
    hub.say(plain());
    let mut late = hub.open(4);
    hub.say(plain());
    assert_eq!(read(&mut late), ["2"]);
}

#[test]
fn dropped_reader_is_unsubscribed() {
    let hub = Arc::new(Hub::default());
    let (one, two) = (hub.open(4), hub.open(4));
    assert!(hub.is_read());
    drop(one);
    assert!(hub.is_read());
    drop(two);
    assert!(!hub.is_read());
    assert!(lock(&hub.state).queues.is_empty());
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn waiting_reader_is_woken_by_an_event_and_by_the_end() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.open(4);
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut task = Context::from_waker(&waker);
    assert!(stream.poll(&mut task).is_pending());
    hub.say(plain());
    assert!(woken.0.swap(false, Ordering::SeqCst));
    assert!(matches!(stream.poll(&mut task), Poll::Ready(Some(StreamItem::Event(_)))));
    assert!(stream.poll(&mut task).is_pending());
    hub.close();
    assert!(woken.0.load(Ordering::SeqCst));
    assert!(matches!(stream.poll(&mut task), Poll::Ready(None)));
    drop(stream);
}

#[test]
fn buffered_events_are_read_after_the_end() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.open(4);
    hub.say(plain());
    hub.close();
    drop(hub);
    assert_eq!(read(&mut stream), ["1"]);
}

#[test]
fn queue_of_an_idle_reader_is_bounded() {
    let hub = Arc::new(Hub::default());
    let stream = hub.open(1_000);
    for n in 0..200_000 {
        hub.say(if n % 3 == 0 { end() } else { note("x") });
    }
    assert_eq!(stream.waiting(), 1_000);
    let waiting = lock(&stream.queue.0);
    assert!(waiting.lanes.iter().all(|lane| lane.capacity() <= 2_048), "and no lane grows");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Emit(u8),
    Read(usize, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..3u8).prop_map(Step::Emit),
        1 => (0..3usize, 0..6u8).prop_map(|(reader, times)| Step::Read(reader, times)),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    /// Every reader sees every number once, as an event or in a gap, in order; gaps have the right
    /// counts; and a terminal event is dropped only if nothing else is left to drop.
    #[test]
    fn every_reader_can_account_for_every_event(steps in steps(), capacity in 1..8usize) {
        let hub = Arc::new(Hub::default());
        let mut readers: Vec<(EventStream, Vec<StreamItem>)> =
            (0..3).map(|n| (hub.open(capacity + n), Vec::new())).collect();
        let mut kinds = Vec::new();
        for step in steps {
            match step {
                Step::Emit(kind) => {
                    kinds.push(kind);
                    hub.say(match kind { 0 => note("n"), 1 => plain(), _ => end() });
                }
                Step::Read(reader, times) => {
                    let (stream, received) = &mut readers[reader];
                    for _ in 0..times {
                        received.extend(stream.try_next());
                    }
                }
            }
            for (n, (stream, _)) in readers.iter().enumerate() {
                prop_assert!(stream.waiting() <= capacity + n);
            }
        }
        for (mut stream, mut received) in readers {
            received.extend(std::iter::from_fn(|| stream.try_next()));
            let mut next = 1;
            for received in received {
                match received {
                    StreamItem::Event(received) => {
                        prop_assert_eq!(received.at.seq, next);
                        next += 1;
                    }
                    StreamItem::Lagged(missed) => {
                        prop_assert_eq!(missed.from_seq, next);
                        prop_assert_eq!(missed.to_seq - missed.from_seq + 1, missed.count);
                        let range = usize::try_from(next - 1).unwrap()
                            ..usize::try_from(missed.to_seq).unwrap();
                        let of = |kind| kinds[range.clone()].iter().filter(|k| **k == kind).count();
                        prop_assert_eq!(of(0) as u64, missed.progress_events);
                        prop_assert_eq!(of(2) as u64, missed.terminal_events);
                        next = missed.to_seq + 1;
                    }
                }
            }
            prop_assert_eq!(next, kinds.len() as u64 + 1);
        }
    }
}

#[test]
fn event_is_serialized_flat_with_its_metadata() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.open(1);
    hub.say(note("half"));
    let json = serde_json::to_value(stream.try_next().unwrap()).unwrap();
    let expected = serde_json::json!({
        "at": {"seq": 1, "unix_us": 0, "run": "run", "cycle": 1},
        "event": "progress",
        "call": "c",
        "note": {"partial": "half"},
    });
    assert_eq!(json, expected);
    hub.say(plain());
    hub.say(plain());
    let json = serde_json::to_value(stream.try_next().unwrap()).unwrap();
    let expected = serde_json::json!({
        "lagged": 1, "from_seq": 2, "to_seq": 2, "progress_events": 0, "terminal_events": 0,
    });
    assert_eq!(json, expected);
}
