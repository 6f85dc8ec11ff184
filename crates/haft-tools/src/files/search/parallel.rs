//! Parallel search of a directory on the runtime's blocking threads.
//!
//! Each thread takes a batch of entries from one shared walk, searches it and adds its matches to
//! one report. One thread alone can finish the search: no thread waits for another, so there is no
//! deadlock.

use std::{
    io::{self, Read},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::join_all;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use haft_core::{Failure, Operation, OtherNames, Output, ToolContext, sync::lock};
use haft_sandbox::{FileKind, OpenFile, PathError, ResolvedPath, WalkEntry};

use super::{
    Args, DEFAULT_LIMIT, MAX_TEXT_BYTES, Start,
    matches::{FileMatches, MatchSink, Outcome},
    report::{Report, WalkSummary},
    wanted,
};
use crate::files::{
    filtered_walk::FilteredWalk,
    paths::{Files, check_other_names, other_names, shown, stopped},
};

/// Entries of one batch: small enough to share the work, large enough to be worth a lock.
const BATCH_ENTRIES: usize = 32;
/// Maximum number of search threads; more would only wait for the disk.
const MAX_THREADS: usize = 8;
/// Maximum length of a line; each thread buffers one.
const MAX_LINE_BYTES: usize = 16 << 20;

/// One search.
pub(super) struct ParallelSearch {
    files: Files,
    args: Args,
    matcher: RegexMatcher,
    limit: u64,
}

impl ParallelSearch {
    pub(super) fn new(files: Files, args: Args, matcher: RegexMatcher) -> Self {
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
        Self { files, args, matcher, limit }
    }

    pub(super) async fn run(self, cx: &ToolContext) -> Result<Output, Failure> {
        let search = Arc::new(self);
        let first = Arc::clone(&search);
        let start =
            cx.spawn_blocking(move |cx| Start::find(&first.files, &first.args, cx)).await??;
        match start {
            Start::File(resolved) => cx.spawn_blocking(move |cx| search.one(&resolved, cx)).await?,
            Start::Directory(resolved) => search.directory(resolved, cx).await,
        }
    }

    /// Searches one file.
    fn one(&self, resolved: &ResolvedPath, cx: &ToolContext) -> Result<Output, Failure> {
        let opened = self.files.workspace().open(resolved)?;
        check_other_names(resolved, &opened.meta, Operation::Read, cx)?;
        let found = self.search(&mut self.searcher(), Ok(opened), resolved, cx);
        if cx.is_cancelled() {
            return Err(stopped());
        }
        let mut report = Report::new(self.args.mode, self.limit);
        report.take(0, 1, vec![found], cx);
        Ok(report.finish(&self.args.pattern, WalkSummary::default()))
    }
}

impl ParallelSearch {
    async fn directory(
        self: Arc<Self>,
        start: ResolvedPath,
        cx: &ToolContext,
    ) -> Result<Output, Failure> {
        let search = Arc::clone(&self);
        let ready = cx.spawn_blocking(move |cx| -> Result<_, Failure> {
            let wanted = Arc::new(wanted(&start, &search.args)?);
            Ok(FilteredWalk::new(search.files.workspace(), &start, wanted, cx)?)
        });
        let shared = Arc::new(SharedState {
            batches: Mutex::new(Batches { visit: ready.await??, batch: 0 }),
            report: Mutex::new(Report::new(self.args.mode, self.limit)),
            enough: AtomicBool::new(false),
        });
        let searcher = |_| {
            let (search, shared) = (Arc::clone(&self), Arc::clone(&shared));
            cx.spawn_blocking(move |cx| search.search_batches(&shared, cx))
        };
        for ended in join_all((0..searchers()).map(searcher)).await {
            ended?;
        }
        if cx.is_cancelled() {
            return Err(stopped());
        }
        let walked = lock(&shared.batches).visit.walked();
        let empty = Report::new(self.args.mode, self.limit);
        let report = std::mem::replace(&mut *lock(&shared.report), empty);
        Ok(report.finish(&self.args.pattern, walked))
    }

    fn search_batches(&self, shared: &SharedState, cx: &ToolContext) {
        let mut searcher = self.searcher();
        while !shared.enough.load(Ordering::Relaxed) && !cx.is_cancelled() {
            let Some((batch, entries)) = lock(&shared.batches).next() else { return };
            let search = |entry: &WalkEntry| {
                let found = self.search(&mut searcher, entry.open(), entry.resolved(), cx);
                let is_news = found.matches > 0 || found.outcome != Outcome::Searched;
                is_news.then_some(found)
            };
            let found = entries.iter().filter_map(search).collect();
            if lock(&shared.report).take(batch, entries.len() as u64, found, cx) {
                shared.enough.store(true, Ordering::Relaxed);
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
            .heap_limit(Some(MAX_LINE_BYTES))
            // Reading a memory map of a file that another process truncates raises SIGBUS.
            .memory_map(MmapChoice::never())
            .build()
    }

    fn search(
        &self,
        searcher: &mut Searcher,
        opened: Result<OpenFile, PathError>,
        resolved: &ResolvedPath,
        cx: &ToolContext,
    ) -> FileMatches {
        let mut found = FileMatches::default();
        let stop = || cx.is_cancelled();
        let other_names =
            |opened: &OpenFile| other_names(resolved, &opened.meta, Operation::Read, cx);
        let searched = match opened {
            Err(_) => Err(io::Error::other("it was refused")),
            Ok(opened) if other_names(&opened) != OtherNames::Allowed => {
                Err(io::Error::other("a rule keeps it under another name"))
            }
            Ok(opened) => {
                let sink = MatchSink {
                    found: &mut found,
                    matcher: &self.matcher,
                    mode: self.args.mode,
                    limit: self.limit,
                    max_bytes: MAX_TEXT_BYTES,
                    stop: &stop,
                };
                let reader = Watched { from: opened.file, stop: &stop };
                searcher.search_reader(&self.matcher, reader, sink)
            }
        };
        if let Err(e) = searched {
            let too_long = e.to_string().contains("allocation limit");
            found.outcome = if too_long { Outcome::TooLong } else { Outcome::Unreadable };
        }
        if found.matches > 0 || found.outcome == Outcome::TooLong {
            found.path = shown(resolved);
        }
        found
    }
}

/// State shared by the threads of one search.
struct SharedState {
    batches: Mutex<Batches>,
    report: Mutex<Report>,
    /// Whether the limit is reached.
    enough: AtomicBool,
}

impl FilteredWalk {
    /// Returns how far the walk went.
    fn walked(&self) -> WalkSummary {
        WalkSummary {
            is_cut: self.is_cut,
            depth: self.depth(),
            too_deep: self.too_deep,
            trouble: self.trouble,
        }
    }
}

/// The walk, batch by batch.
struct Batches {
    visit: FilteredWalk,
    batch: usize,
}

impl Batches {
    fn next(&mut self) -> Option<(usize, Vec<WalkEntry>)> {
        let files = self.visit.by_ref().filter(|entry| entry.kind() == FileKind::File);
        let entries: Vec<WalkEntry> = files.take(BATCH_ENTRIES).collect();
        if entries.is_empty() {
            return None;
        }
        let batch = self.batch;
        self.batch += 1;
        Some((batch, entries))
    }
}

fn searchers() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS))
}

/// A reader that ends early when the call is cancelled.
struct Watched<'a, R> {
    from: R,
    stop: &'a dyn Fn() -> bool,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() { Ok(0) } else { self.from.read(into) }
    }
}
