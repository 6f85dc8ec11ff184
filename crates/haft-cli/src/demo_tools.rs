//! The tools of `haft demo`: a small notebook, and a few tools that fail.
//!
//! Everything is in memory and deterministic, so `haft demo` always prints the same. No tool here
//! reads a file, a clock or the network, and no other command offers them.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft::{Error, Failure, ToolContext, ToolRegistry, policy::Verdict, tool, tools};

use crate::style;

/// Notes that no call may delete, also with approval.
const PINNED: [&str; 1] = ["garden"];

/// How long one page of a report takes.
const PAGE_DELAY: Duration = Duration::from_millis(50);

/// How long `fetch_page` takes: a little more than two pages of a report.
const FETCH_DELAY: Duration = Duration::from_millis(120);

/// Returns the registry. Each call of a note tool takes as long as `pace`.
pub(crate) fn registry(pace: Duration) -> Result<ToolRegistry, Error> {
    ToolRegistry::builder()
        .add(Notes::new(pace))
        .add(FetchPageTool)
        .add(SlowReportTool)
        .add(CrashTool)
        .build()
}

/// A notebook in memory.
struct Notes {
    pages: Mutex<BTreeMap<String, String>>,
    pace: Duration,
}

#[tools]
impl Notes {
    fn new(pace: Duration) -> Self {
        let pages = [
            ("garden", "Water the beans before nine.\nNo rain until Friday."),
            ("ideas", "A kettle that hums in tune."),
            ("trip", "Night bus to Lisbon, seat 61.\nTake a rain coat."),
        ];
        let pages = pages.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned()));
        Self { pages: Mutex::new(pages.collect()), pace }
    }

    fn pages(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the names of all notes, one per line.
    #[tool(read_only, capabilities(), keys("note:/"), max_result = 10_000, trust = "workspace")]
    async fn list_notes(&self) -> String {
        tokio::time::sleep(self.pace).await;
        self.pages().keys().cloned().collect::<Vec<_>>().join("\n")
    }

    /// Returns the text of one note.
    #[tool(
        read_only,
        capabilities(),
        keys = Self::key,
        max_result = 10_000,
        trust = "workspace",
        examples(r#"{"name": "garden"}"#)
    )]
    async fn read_note(
        &self,
        /// Name of the note, as `list_notes` gives it.
        name: String,
    ) -> Result<String, Failure> {
        tokio::time::sleep(self.pace).await;
        self.pages().get(&name).cloned().ok_or_else(|| no_note(&name))
    }

    /// Finds the lines of all notes that hold a text, whatever its case.
    #[tool(read_only, capabilities(), keys("note:/"), max_result = 10_000, trust = "workspace")]
    async fn search_notes(
        &self,
        /// Text to look for.
        #[param(min_length = 1)]
        query: String,
        /// How many lines to return at most.
        #[default(10)]
        #[param(min = 1, max = 50)]
        limit: usize,
    ) -> String {
        tokio::time::sleep(self.pace).await;
        let query = query.to_lowercase();
        let pages = self.pages();
        let lines = pages.iter().flat_map(|(name, text)| text.lines().map(move |l| (name, l)));
        let found: Vec<String> = lines
            .filter(|(_, line)| line.to_lowercase().contains(&query))
            .take(limit)
            .map(|(name, line)| format!("{name}: {line}"))
            .collect();
        if found.is_empty() { "nothing found".to_owned() } else { found.join("\n") }
    }

    /// Writes a note, over the old one if there is one of this name.
    #[tool(
        class = WriteExclusive,
        read_only = false,
        destructive = false,
        idempotent,
        capabilities(),
        keys = Self::key_of_two,
        max_result = 200,
        trust = "workspace"
    )]
    async fn write_note(
        &self,
        /// Name of the note.
        #[param(pattern = "^[a-z][a-z0-9-]*$", max_length = 40)]
        name: String,
        /// What it should say.
        text: String,
    ) -> String {
        tokio::time::sleep(self.pace).await;
        let length = style::count(text.chars().count(), "character");
        match self.pages().insert(name.clone(), text) {
            Some(_) => format!("`{name}` now has {length}; the old text is gone"),
            None => format!("`{name}` is new and has {length}"),
        }
    }

    /// Deletes a note permanently. Pinned notes cannot be deleted.
    #[tool(
        class = WriteExclusive,
        read_only = false,
        destructive,
        capabilities(destructive),
        keys = Self::key,
        guard = Self::unpinned,
        max_result = 200,
        trust = "workspace"
    )]
    async fn delete_note(
        &self,
        /// Name of the note.
        name: String,
    ) -> Result<String, Failure> {
        tokio::time::sleep(self.pace).await;
        match self.pages().remove(&name) {
            Some(_) => Ok(format!("`{name}` is gone")),
            None => Err(no_note(&name)),
        }
    }

    fn key(name: &str) -> [String; 1] {
        [format!("note:/{name}")]
    }

    fn key_of_two(name: &str, _: &str) -> [String; 1] {
        Self::key(name)
    }

    fn unpinned(name: &str) -> Option<Verdict> {
        let pinned = PINNED.contains(&name);
        pinned.then(|| Verdict::deny(format!("the note `{name}` is pinned")).by("guard `unpinned`"))
    }
}

fn no_note(name: &str) -> Failure {
    Failure::failed(format!("there is no note `{name}`"))
        .with_next("`list_notes` gives the names there are")
}

/// Fetches a page of the web and returns its text. If it fails, the other calls of its batch are
/// cancelled.
#[tool(read_only, capabilities(network), abort_siblings, max_result = 10_000)]
async fn fetch_page(
    /// Address of the page. Only `https://example.org/` answers here.
    #[param(pattern = "^https://", url)]
    url: String,
) -> Result<String, Failure> {
    tokio::time::sleep(FETCH_DELAY).await;
    match url.as_str() {
        "https://example.org/" => Ok("This domain is for use in examples.".to_owned()),
        _ => Err(Failure::failed(format!("{url} answered 404")).with_next("try another address")),
    }
}

/// Writes a report, one page every 50 milliseconds, and streams each page.
#[tool(read_only, capabilities(), timeout = "300ms", max_result = 5_000)]
async fn slow_report(
    /// How many pages. More than five take too long.
    #[param(min = 1, max = 100)]
    pages: u32,
    cx: &ToolContext,
) -> Result<String, Failure> {
    let mut report = Vec::new();
    for page in 1..=pages {
        pause(PAGE_DELAY, cx).await?;
        report.push(format!("page {page} of {pages}"));
        cx.partial(if page == 1 { format!("page {page}") } else { format!(", page {page}") });
    }
    Ok(report.join("\n"))
}

async fn pause(time: Duration, cx: &ToolContext) -> Result<(), Failure> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        () = cx.cancelled() => Err(Failure::failed("stopped: the call was cancelled")),
    }
}

/// Breaks on purpose, to show that a panic is an answer like any other.
#[tool(read_only, capabilities(), max_result = 200)]
fn crash(
    /// The panic message.
    #[default("the answer was not in the box".to_owned())]
    words: String,
) -> String {
    panic!("{words}")
}
