//! Shows the output of running calls at a terminal while they run, and how long they have run.
//!
//! In: the events of a runtime. Out: lines on stderr, each with a prefix, and a status line below.
//! `live_lines` makes the text, `screen` writes it.
//!
//! The events wait in a bounded queue, and a thread of its own writes to the terminal. A slow
//! terminal or an open question therefore delays no call and holds no more than the queue; the
//! reader learns where output is missing.

use std::time::Duration;

use haft::{
    Runtime,
    events::{Event, EventRecord, EventStream, StreamItem},
    tool::Progress,
};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep},
};

pub(crate) use crate::live_lines::Shown;
use crate::{live_lines::Page, screen};

/// How many events may wait for the terminal.
const QUEUED_EVENTS: usize = 4096;
/// How often the status line and half lines are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How much text is put together for one write.
const WRITE_BYTES: usize = 64 << 10;

/// The events that a terminal shows. `None` where no person watches.
pub(crate) fn events(runtime: &Runtime, is_wanted: bool) -> Option<EventStream> {
    (is_wanted && screen::is_watched()).then(|| runtime.events(QUEUED_EVENTS))
}

/// Live output under way.
pub(crate) struct Live {
    thread: JoinHandle<Shown>,
    /// The thread ends when this is dropped.
    ending: oneshot::Sender<()>,
}

impl Live {
    /// Starts to show. Needs the async runtime.
    pub(crate) fn start(events: EventStream) -> Self {
        let (ending, ended) = oneshot::channel();
        let handle = tokio::runtime::Handle::current();
        let thread = tokio::task::spawn_blocking(move || handle.block_on(show(events, ended)));
        Self { thread, ending }
    }

    /// Shows the rest, erases the status line, and returns what was shown.
    async fn finish(self) -> Shown {
        drop(self.ending);
        self.thread.await.unwrap_or_default()
    }
}

/// Ends live output where there is some, and returns what was shown.
pub(crate) async fn finish(live: Option<Live>) -> Shown {
    match live {
        Some(live) => live.finish().await,
        None => Shown::default(),
    }
}

/// Shows events until the calls have ended. Runs on a blocking thread, because writes to a terminal
/// block.
async fn show(mut events: EventStream, mut ended: oneshot::Receiver<()>) -> Shown {
    let mut page = Page::new(Instant::now(), screen::line_width());
    let mut is_over = false;
    while !is_over {
        let is_asking = screen::has_question();
        tokio::select! {
            biased;
            _ = &mut ended => is_over = true,
            // The queue holds what comes while a question is open.
            item = events.next(), if !is_asking => match item {
                Some(item) => take(&mut page, &item),
                None => is_over = true,
            },
            () = sleep(TICK) => {}
        }
        while (is_over || !is_asking)
            && page.text().len() < WRITE_BYTES
            && let Some(item) = events.try_next()
        {
            take(&mut page, &item);
        }
        write(&mut page);
    }
    // What is still in the queue is no more than the queue holds.
    while let Some(item) = events.try_next() {
        take(&mut page, &item);
        if page.text().len() >= WRITE_BYTES {
            write(&mut page);
        }
    }
    page.end_calls();
    write(&mut page);
    screen::show("", "");
    page.into_shown()
}

/// Writes what there is to write. Text stays on the page while a question is open.
fn write(page: &mut Page) {
    page.set_width(screen::line_width());
    page.advance(Instant::now());
    if screen::show(page.text(), &page.status()) {
        page.clear_text();
    }
}

fn take(page: &mut Page, item: &StreamItem) {
    page.advance(Instant::now());
    match item {
        StreamItem::Event(item) => take_event(page, item),
        StreamItem::Lagged(missed) if missed.progress_events > 0 => page.miss(),
        StreamItem::Lagged(_) => {}
    }
}

/// Puts what an event says about a call's output onto a page.
pub(crate) fn take_event(page: &mut Page, record: &EventRecord) {
    let at = Instant::from_std(record.at.time);
    match &record.event {
        Event::Started { call, tool_name, .. } => page.name_call(call, tool_name.as_str()),
        // The event may have waited while a question was open.
        Event::Running { call } => page.start_call(call, at),
        Event::Progress { call, note: Progress::Partial(text) } => page.add(call, "stdout", text),
        Event::Progress { call, note: Progress::Keyed(key, text) } => page.add(call, key, text),
        Event::Finished { call, .. } => page.end_call(call),
        _ => {}
    }
}
