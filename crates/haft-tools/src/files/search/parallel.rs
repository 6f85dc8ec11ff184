//! Searches a folder with several threads of the runtime.
//!
//! Everybody takes a batch of entries from one walk, searches it, hands in what it had and comes
//! back. Whoever is alone does it all: no thread waits for another one to begin.

use std::{
    io::{self, Read},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::join_all;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use haft_core::{Failure, Operation, OtherNames, Output, ToolContext};
use haft_sandbox::{Entry, FileKind, OpenFile, PathError, ResolvedPath};

use super::{
    Args, LIMIT, ROOM, Start,
    lines::{Found, Outcome, Taker},
    report::{Report, Walked},
    wanted,
};
use crate::files::{
    place::{Files, check_other_names, other_names, shown, stopped},
    rules::Visit,
};

/// Entries of one batch: few enough to share the work, enough to be worth a lock.
const BATCH: usize = 32;
/// More searchers than this wait for the disk.
const MOST: usize = 8;
/// A line may have so many bytes; each searcher holds one.
const LONGEST_LINE: usize = 16 << 20;

/// One search.
pub(super) struct Hunt {
    files: Files,
    args: Args,
    matcher: RegexMatcher,
    limit: u64,
}

impl Hunt {
    pub(super) fn new(files: Files, args: Args, matcher: RegexMatcher) -> Self {
        let limit = args.limit.unwrap_or(LIMIT);
        Self { files, args, matcher, limit }
    }

    pub(super) async fn run(self, cx: &ToolContext) -> Result<Output, Failure> {
        let hunt = Arc::new(self);
        let first = Arc::clone(&hunt);
        let start =
            cx.spawn_blocking(move |cx| Start::find(&first.files, &first.args, cx)).await??;
        match start {
            Start::File(place) => cx.spawn_blocking(move |cx| hunt.one(&place, cx)).await?,
            Start::Folder(place) => hunt.folder(place, cx).await,
        }
    }

    /// Searches one file.
    fn one(&self, place: &ResolvedPath, cx: &ToolContext) -> Result<Output, Failure> {
        let opened = self.files.workspace().open(place)?;
        check_other_names(place, &opened.meta, Operation::Read, cx)?;
        let found = self.search(&mut self.searcher(), Ok(opened), place, cx);
        if cx.is_cancelled() {
            return Err(stopped());
        }
        let mut report = Report::new(self.args.mode, self.limit);
        report.take(0, 1, vec![found], cx);
        Ok(report.finish(&self.args.pattern, Walked::default()))
    }
}

impl Hunt {
    async fn folder(
        self: Arc<Self>,
        start: ResolvedPath,
        cx: &ToolContext,
    ) -> Result<Output, Failure> {
        let hunt = Arc::clone(&self);
        let ready = cx.spawn_blocking(move |cx| -> Result<_, Failure> {
            let wanted = Arc::new(wanted(&start, &hunt.args)?);
            Ok(Visit::new(hunt.files.workspace(), &start, wanted, cx)?)
        });
        let field = Arc::new(Field {
            way: Mutex::new(Way { visit: ready.await??, batch: 0 }),
            report: Mutex::new(Report::new(self.args.mode, self.limit)),
            enough: AtomicBool::new(false),
        });
        let searcher = |_| {
            let (hunt, field) = (Arc::clone(&self), Arc::clone(&field));
            cx.spawn_blocking(move |cx| hunt.search_batches(&field, cx))
        };
        for ended in join_all((0..searchers()).map(searcher)).await {
            ended?;
        }
        if cx.is_cancelled() {
            return Err(stopped());
        }
        let walked = lock(&field.way).visit.walked();
        let empty = Report::new(self.args.mode, self.limit);
        let report = std::mem::replace(&mut *lock(&field.report), empty);
        Ok(report.finish(&self.args.pattern, walked))
    }

    fn search_batches(&self, field: &Field, cx: &ToolContext) {
        let mut searcher = self.searcher();
        while !field.enough.load(Ordering::Relaxed) && !cx.is_cancelled() {
            let Some((batch, entries)) = lock(&field.way).next() else { return };
            let search = |entry: &Entry| {
                let found = self.search(&mut searcher, entry.open(), entry.place(), cx);
                let is_news = found.matches > 0 || found.outcome != Outcome::Searched;
                is_news.then_some(found)
            };
            let found = entries.iter().filter_map(search).collect();
            if lock(&field.report).take(batch, entries.len() as u64, found, cx) {
                field.enough.store(true, Ordering::Relaxed);
            }
        }
    }

    fn searcher(&self) -> Searcher {
        let context = self.args.context.unwrap_or(0);
        SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(LONGEST_LINE))
            // A map of a file that somebody shortens ends the program.
            .memory_map(MmapChoice::never())
            .build()
    }

    fn search(
        &self,
        searcher: &mut Searcher,
        opened: Result<OpenFile, PathError>,
        place: &ResolvedPath,
        cx: &ToolContext,
    ) -> Found {
        let mut found = Found::default();
        let stop = || cx.is_cancelled();
        let other_names = |opened: &OpenFile| other_names(place, &opened.meta, Operation::Read, cx);
        let searched = match opened {
            Err(_) => Err(io::Error::other("it was refused")),
            Ok(opened) if other_names(&opened) != OtherNames::Clear => {
                Err(io::Error::other("a rule keeps it under another name"))
            }
            Ok(opened) => {
                let taker = Taker {
                    found: &mut found,
                    matcher: &self.matcher,
                    mode: self.args.mode,
                    limit: self.limit,
                    room: ROOM,
                    stop: &stop,
                };
                let reader = Watched { from: opened.file, stop: &stop };
                searcher.search_reader(&self.matcher, reader, taker)
            }
        };
        if let Err(e) = searched {
            let too_long = e.to_string().contains("allocation limit");
            found.outcome = if too_long { Outcome::TooLong } else { Outcome::Unreadable };
        }
        if found.matches > 0 || found.outcome == Outcome::TooLong {
            found.path = shown(place);
        }
        found
    }
}

/// What the searchers of one search share.
struct Field {
    way: Mutex<Way>,
    report: Mutex<Report>,
    /// As much was found as is told.
    enough: AtomicBool,
}

impl Visit {
    /// How far it went.
    fn walked(&self) -> Walked {
        Walked {
            is_cut: self.is_cut,
            depth: self.depth(),
            too_deep: self.too_deep,
            trouble: self.trouble,
        }
    }
}

/// The way through a folder, batch by batch.
struct Way {
    visit: Visit,
    batch: usize,
}

impl Way {
    fn next(&mut self) -> Option<(usize, Vec<Entry>)> {
        let files = self.visit.by_ref().filter(|entry| entry.kind() == FileKind::File);
        let entries: Vec<Entry> = files.take(BATCH).collect();
        if entries.is_empty() {
            return None;
        }
        let batch = self.batch;
        self.batch += 1;
        Some((batch, entries))
    }
}

fn searchers() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a file early when somebody wants the call to end.
struct Watched<'a, R> {
    from: R,
    stop: &'a dyn Fn() -> bool,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() { Ok(0) } else { self.from.read(into) }
    }
}
