//! `read_result`: the tool with which a model reads an artifact page by page.
//!
//! It is read-only, accesses only the runtime's own store, and its output carries the label of the
//! artifact. Its pages are bounded, so its own results are never stored as artifacts.

use haft_core::{
    CallProfile, Capabilities, Effects, Failure, Label, Output, Permission, ResultLimit, Tool,
    ToolContext, ToolSpec, host::HostContext, schemars::JsonSchema, serde::Deserialize,
};

use crate::{
    artifact::{
        Artifact, ArtifactId, Owner, READER, ReadArtifactError, ResultPage, ResultPosition,
        ResultQuery,
    },
    call::TurnCore,
};

/// Maximum length of one page, in characters: a few thousand tokens.
const MAX_PAGE_CHARS: usize = 16_000;
/// Maximum length of the status line below a page.
const MAX_FOOTER_CHARS: usize = 1_000;
/// Default number of lines of a page.
const DEFAULT_LINES: u64 = 2_000;
/// Default number of matches of a search.
const DEFAULT_MATCHES: u64 = 50;

/// The tool `read_result`. Add it to a registry; truncated results then mention it.
///
/// ```
/// use haft::ToolRegistry;
/// use haft::artifacts::ReadResult;
///
/// let registry = ToolRegistry::builder().add(ReadResult).build()?;
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadResult;

/// Arguments of `read_result`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub struct ReadResultArgs {
    /// Id of the result, as given in the truncated result.
    id: String,
    /// Line to start at, from 1. Also where a search starts.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Character of that line to start at, from 1; for very long lines.
    #[schemars(range(min = 1))]
    column: Option<u64>,
    /// How many lines to return, or how many matches.
    #[schemars(range(min = 1, max = 10000))]
    limit: Option<u64>,
    /// Regular expression; returns the lines that match it.
    #[schemars(length(min = 1, max = 1000))]
    pattern: Option<String>,
    /// Lines to show before and after each match.
    #[schemars(range(max = 20))]
    context: Option<usize>,
    /// JSON pointer into a result that is JSON, such as `/rows/0/name`.
    #[schemars(length(max = 1000))]
    pointer: Option<String>,
}

impl Tool for ReadResult {
    type Args = ReadResultArgs;
    type Output = Output;

    const CHECKS: bool = false;
    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new(
            READER,
            "Reads a result that was too large to show in full: some lines (`offset`, `limit`), \
             the lines that match a `pattern`, or the target of a JSON `pointer`. Each answer \
             says how to continue.",
        )
        .read_only()
        .effects(Effects::none())
        .capabilities(Capabilities::NONE)
        .max_result(ResultLimit::Chars(MAX_PAGE_CHARS + MAX_FOOTER_CHARS));
        spec.permission = Permission::None;
        spec.open_world = Some(false);
        // The artifact has its own label; the status line is the runtime's text.
        spec.label = Label::CLEAN;
        spec
    }

    fn profile(&self, declared: CallProfile, _: &ReadResultArgs, _: &ToolContext) -> CallProfile {
        declared
    }

    async fn call(&self, args: ReadResultArgs, cx: &ToolContext) -> Result<Output, Failure> {
        let query = query_of(&args)?;
        let host = cx.host().and_then(|host| host.downcast::<TurnCore>().ok());
        let Some(turn) = host else {
            return Err(Failure::hidden("read_result runs only inside a runtime of its own crate"));
        };
        let artifacts = &turn.run.inner.artifacts;
        let Ok(id) = args.id.trim().parse::<ArtifactId>() else { return Err(not_found(&args.id)) };
        let store = artifacts.store.clone();
        let asker = Owner::of(cx.scope(), &artifacts.mark, &turn.run.line);
        // The page must not be truncated by its own limit or by `max_result`.
        let max_chars = MAX_PAGE_CHARS
            .min((turn.run.inner.config.max_result / 4).saturating_sub(MAX_FOOTER_CHARS))
            .max(1);
        let is_slow = !matches!(query, ResultQuery::Lines { .. });
        let work = move |cx: &ToolContext| -> Result<Output, Failure> {
            let found = store.open_for(id, &asker).map_err(Failure::hidden)?;
            let Some(artifact) = found else { return Err(not_found(&id.to_string())) };
            // From here on even a failure may repeat content of the artifact.
            cx.add_nested_label(artifact.facts().label);
            let page = artifact.read_until(&query, max_chars, &|| cx.is_cancelled());
            match page {
                Ok(page) => Ok(Output::text(shown(&page, &artifact, &query))),
                Err(why) => Err(unreadable(&why, &artifact)),
            }
        };
        // A search or parsing may take long, even in memory.
        if artifacts.store.is_blocking() || is_slow {
            cx.spawn_blocking(work).await?
        } else {
            work(cx)
        }
    }
}

/// Converts the arguments to a query; fails if they ask for several things.
fn query_of(args: &ReadResultArgs) -> Result<ResultQuery, Failure> {
    let offset = args.offset.unwrap_or(1);
    Ok(match (&args.pattern, &args.pointer) {
        (Some(_), Some(_)) => {
            return Err(Failure::invalid("`pattern` and `pointer` exclude each other")
                .with_next("use only one of them"));
        }
        (Some(pattern), None) => ResultQuery::Pattern {
            pattern: pattern.clone(),
            context: args.context.unwrap_or(0),
            offset,
            limit: args.limit.unwrap_or(DEFAULT_MATCHES),
        },
        (None, Some(pointer)) => ResultQuery::Pointer(pointer.clone()),
        (None, None) => ResultQuery::Lines {
            from: ResultPosition { line: offset, column: args.column.unwrap_or(1) },
            limit: args.limit.unwrap_or(DEFAULT_LINES),
        },
    })
}

/// The page, and a status line that says what it is and how to continue.
fn shown(page: &ResultPage, artifact: &Artifact, query: &ResultQuery) -> String {
    let id = artifact.facts().id;
    let end = if page.text.is_empty() || page.text.ends_with('\n') { "" } else { "\n" };
    let mut text = format!("{}{end}[{id}: {}", page.text, page.summary);
    match (page.next, query) {
        (None, _) => {}
        (Some(ResultPosition { line, .. }), ResultQuery::Pattern { .. }) => {
            text.push_str(&format!("; continue with the same pattern and offset {line}"));
        }
        (Some(ResultPosition { line, column: 1 }), _) => {
            text.push_str(&format!("; continue with offset {line}"));
        }
        (Some(ResultPosition { line, column }), _) => {
            text.push_str(&format!("; continue with offset {line}, column {column}"));
        }
    }
    text.push(']');
    text
}

/// The same failure for an id that never existed, is expired, or belongs to another owner.
fn not_found(id: &str) -> Failure {
    let id: String = id.chars().take(40).collect();
    Failure::invalid(format!("there is no result `{id}`, or it has expired"))
        .with_next("use an id from a result of this conversation, or call the tool again")
}

fn unreadable(why: &ReadArtifactError, artifact: &Artifact) -> Failure {
    let facts = artifact.facts();
    let failure = Failure::invalid(format!("`{}`: {why}", facts.id));
    match why {
        ReadArtifactError::NotText => Failure::invalid(format!(
            "`{}` is {} of {} bytes, which cannot be read as text",
            facts.id, facts.media, facts.bytes
        )),
        ReadArtifactError::NotJson(_) | ReadArtifactError::TooLarge => {
            failure.with_next("read it by lines with `offset` and `limit`, or search it")
        }
        ReadArtifactError::NoSuchValue(_) => {
            failure.with_next("use a pointer to a value that exists")
        }
        ReadArtifactError::BadPattern(_) => failure.with_next("fix the pattern"),
        ReadArtifactError::Io(e) => Failure::hidden(e.to_string()),
        ReadArtifactError::Cancelled => Failure::failed("reading was stopped"),
    }
}
