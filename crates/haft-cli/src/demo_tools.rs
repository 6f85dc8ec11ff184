//! The example tools: a small notebook, and a few tools that fail.
//!
//! Everything is in memory and deterministic, so `haft demo` and the guide always print the same. No tool
//! here reads a file, a clock or the network.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft::{
    Error, Failure, ToolContext, ToolRegistry, policy::Verdict, registry::ToolRegistryBuilder,
    tool, tool::RetryHint, tools,
};

use crate::style;

/// Notes that no call may delete, also with approval.
const PINNED: [&str; 1] = ["garden"];

/// How long one page of a report takes.
const PAGE_DELAY: Duration = Duration::from_millis(50);

/// How long `fetch_page` takes: a little more than two pages of a report.
const FETCH_DELAY: Duration = Duration::from_millis(120);

/// Returns the registry. Each call of a note tool takes as long as `pace`.
pub(crate) fn registry(pace: Duration) -> Result<ToolRegistry, Error> {
    builder(pace).build()
}

/// Returns the same as a builder.
pub(crate) fn builder(pace: Duration) -> ToolRegistryBuilder {
    ToolRegistry::builder()
        .add(Notes::new(pace))
        .add(AddTool)
        .add(FetchPageTool)
        .add(TidesTool)
        .add(SlowReportTool)
        .add(WaitTool)
        .add(BigListTool)
        .add(CountPrimesTool)
        .add(CrashTool)
}

/// The names of the example tools.
pub(crate) const NAMES: [&str; 13] = [
    "add",
    "big_list",
    "count_primes",
    "crash",
    "delete_note",
    "fetch_page",
    "list_notes",
    "read_note",
    "search_notes",
    "slow_report",
    "tides",
    "wait",
    "write_note",
];

/// Returns whether there is a tool of this name.
pub(crate) fn has(tool: &str) -> bool {
    NAMES.contains(&tool)
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

/// Adds two whole numbers.
#[tool(read_only, capabilities(), open_world = false, max_result = 20, trust = "trusted")]
async fn add(
    /// The first number.
    a: i32,
    /// The second number.
    b: i32,
) -> i64 {
    i64::from(a) + i64::from(b)
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

/// Returns the time of high water. The first attempt always fails, so the call is retried.
#[tool(
    read_only,
    capabilities(),
    cache = "1h",
    retry(max_attempts = 3, backoff = "fixed", initial_delay = "20ms", jitter = false),
    rate = "10/second",
    max_result = 500,
    trust = "trusted"
)]
async fn tides(
    /// Name of the harbour.
    harbour: String,
    cx: &ToolContext,
) -> Result<String, Failure> {
    match cx.attempt() {
        1 => Err(Failure::failed("the gauge does not answer").with_retry(RetryHint::Later)),
        n => Ok(format!("{harbour}: high water at noon, read at attempt {n}")),
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

/// Waits, and stops at once when it is cancelled.
#[tool(read_only, capabilities(), interrupt = "cancel", max_result = 20)]
async fn wait(
    /// How long, in seconds.
    #[param(min = 0, max = 60)]
    seconds: u64,
    cx: &ToolContext,
) -> Result<String, Failure> {
    pause(Duration::from_secs(seconds), cx).await?;
    Ok(format!("waited {seconds} s"))
}

async fn pause(time: Duration, cx: &ToolContext) -> Result<(), Failure> {
    tokio::select! {
        () = tokio::time::sleep(time) => Ok(()),
        () = cx.cancelled() => Err(Failure::failed("stopped when asked to")),
    }
}

/// Counts the primes below a number, on a thread that cannot be cancelled.
#[tool(read_only, capabilities(), timeout = "300ms", max_result = 20)]
fn count_primes(
    /// The number. Above a million it takes too long.
    #[param(max = 1_000_000_000)]
    below: u64,
) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (2..below).filter(is_prime).count() as u64
}

/// Lists numbers with their squares; a list of more than a few hundred is truncated.
#[tool(read_only, capabilities(), max_result = 2_000, trust = "trusted")]
async fn big_list(
    /// How many.
    #[param(min = 1, max = 100_000)]
    n: u64,
) -> haft::tool::Raw<Vec<BTreeMap<&'static str, u64>>> {
    haft::tool::Raw((1..=n).map(|n| BTreeMap::from([("n", n), ("square", n * n)])).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_registry() {
        let registry = registry(Duration::ZERO).unwrap();
        let names: Vec<String> = registry.own().map(|entry| entry.name().to_string()).collect();
        assert_eq!(names, NAMES);
    }
}
