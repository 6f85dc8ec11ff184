//! `haft result`: reads a stored large result (an artifact), also one of another process.
//!
//! In: an id and a query. Out: the text on stdout, and the position for the next query on stderr.
//! There is no ownership check: a user who can read the directory can read every result.

use std::{
    io::{IsTerminal as _, Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anstyle::Style;
use haft::{
    RuntimeBuilder, ToolResult,
    artifacts::{
        Artifact, ArtifactId, ArtifactLimits, ArtifactMeta, Artifacts, ReadArtifactError,
        ResultPage, ResultPosition, ResultQuery,
    },
    events::Event,
};
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    host_env::HostEnv,
    style::{self, DIM, NAME, Table},
};

/// The limit on characters that one query returns. Without a query the whole result is written.
const MAX_QUERY_CHARS: usize = 4 << 20;

pub(crate) fn run(args: &args::Result, host: &HostEnv) -> Result<ExitCode, Problem> {
    let Some(directory) = args.artifacts.directory.clone().or_else(|| default_directory(host))
    else {
        return Err(Problem::new("cannot find the directory of stored results: `HOME` is not set")
            .hint("name one with `--artifacts DIR`"));
    };
    let store = Artifacts::directory_when_needed(directory, ArtifactLimits::default());
    if args.id == "list" {
        return list(&store, args.output.json);
    }
    let id: ArtifactId = args.id.parse().map_err(|e: haft::artifacts::ParseArtifactIdError| {
        Problem::new(format!("`{}` is not an id: {e}", args.id))
            .hint("`haft result list` lists the ids")
    })?;
    let artifact = store.open(id)?;
    match (query(args)?, args.output.json) {
        (None, false) => print_whole(&artifact)?,
        (None, true) => {
            let everything = ResultQuery::Lines { from: ResultPosition::START, limit: u64::MAX };
            answer(&artifact, &everything, true)?;
        }
        (Some(query), is_json) => answer(&artifact, &query, is_json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The query; `None` for the whole result.
fn query(args: &args::Result) -> Result<Option<ResultQuery>, Problem> {
    if let Some(range) = &args.range {
        return lines_of(range).map(Some);
    }
    let pattern = args.grep.as_ref().map(|pattern| ResultQuery::Pattern {
        pattern: pattern.clone(),
        context: args.context,
        offset: 1,
        limit: u64::MAX,
    });
    let pointer = args.pointer.clone().map(ResultQuery::Pointer);
    Ok(pattern.or(pointer))
}

/// Reads `A:B`, `A:`, `:B` or `A`: lines from 1, both ends included.
fn lines_of(range: &str) -> Result<ResultQuery, Problem> {
    let wrong = || {
        Problem::new(format!("`{range}` is not a range of lines"))
            .hint("write `10:20`, `10:`, `:20` or `10`; lines are counted from 1")
    };
    let number = |text: &str, otherwise: u64| match text.trim() {
        "" => Ok(otherwise),
        text => text.parse().ok().filter(|n| *n > 0).ok_or_else(wrong),
    };
    let (first, last) = match range.split_once(':') {
        Some((first, last)) => (number(first, 1)?, number(last, u64::MAX)?),
        None => (number(range, 0)?, number(range, 0)?),
    };
    if first == 0 || last < first {
        return Err(wrong());
    }
    let from = ResultPosition { line: first, column: 1 };
    Ok(ResultQuery::Lines { from, limit: (last - first).saturating_add(1) })
}

fn answer(artifact: &Artifact, query: &ResultQuery, is_json: bool) -> Result<(), Problem> {
    let page = artifact.read(query, MAX_QUERY_CHARS).map_err(|why| unreadable(artifact, &why))?;
    if is_json {
        let next =
            page.next.map(|location| json!({"line": location.line, "column": location.column}));
        let mut all = meta_json(artifact.facts());
        all["text"] = page.text.into();
        all["summary"] = page.summary.into();
        all["next"] = next.into();
        style::print(format_args!("{all}\n"))?;
        return Ok(());
    }
    let ResultPage { text, summary, next, .. } = page;
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    if std::io::stdout().is_terminal() {
        style::print(format_args!("{}{end}", style::visible(&text)))?
    } else {
        style::print(format_args!("{text}{end}"))?
    }
    let more =
        next.map_or_else(String::new, |location| format!("; more from line {}", location.line));
    style::message(style::paint(DIM, format_args!("{summary}{more}")));
    Ok(())
}

/// Writes the whole result unchanged; at a terminal only if it is text.
fn print_whole(artifact: &Artifact) -> Result<(), Problem> {
    let facts = artifact.facts();
    let is_terminal = std::io::stdout().is_terminal();
    if is_terminal && facts.chars.is_none() {
        return Err(Problem::new(format!("the result is {}, not text", facts.media))
            .hint(format!("write it to a file: `haft result {} > file`", facts.id)));
    }
    let mut out = style::stdout_writer();
    let mut from = artifact.reader();
    let mut chunk = vec![0; 64 << 10];
    loop {
        let n = from
            .read(&mut chunk)
            .map_err(|e| Problem::new(format!("cannot read the result: {e}")))?;
        match n {
            0 => break,
            // Control characters were removed when the result was stored.
            n => out.write_all(&chunk[..n])?,
        }
    }
    out.flush()?;
    Ok(())
}

fn list(store: &Artifacts, is_json: bool) -> Result<ExitCode, Problem> {
    let all = store.list()?;
    if is_json {
        let all: Vec<Value> = all.iter().map(meta_json).collect();
        style::print(format_args!("{}\n", Value::Array(all)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(0);
    for facts in &all {
        table.row([
            (NAME, facts.id.to_string()),
            (Style::new(), style::cell(facts.tool.as_str())),
            (Style::new(), size_of(facts)),
            (DIM, style::cell(&facts.media)),
        ]);
    }
    style::print_page(table)?;
    style::message(style::paint(DIM, format_args!("{} stored", style::count(all.len(), "result"))));
    Ok(ExitCode::SUCCESS)
}

fn size_of(facts: &ArtifactMeta) -> String {
    match (facts.chars, facts.lines) {
        (Some(chars), Some(lines)) => {
            format!("{}, {}", counted(chars, "character"), counted(lines, "line"))
        }
        _ => counted(facts.bytes, "byte"),
    }
}

fn counted(count: impl TryInto<usize>, unit: &str) -> String {
    style::count(count.try_into().unwrap_or(usize::MAX), unit)
}

fn meta_json(facts: &ArtifactMeta) -> Value {
    let mut all = serde_json::to_value(facts).unwrap_or_default();
    if let Some(map) = all.as_object_mut() {
        map.shift_remove("owner"); // internal
    }
    all
}

fn unreadable(artifact: &Artifact, why: &ReadArtifactError) -> Problem {
    let id = artifact.facts().id;
    let problem = Problem::new(format!("`{id}`: {why}"));
    match why {
        ReadArtifactError::NotText => {
            problem.hint(format!("write it to a file: `haft result {id} > file`"))
        }
        ReadArtifactError::NotJson(_) | ReadArtifactError::TooLarge => {
            problem.hint(format!("`haft result {id} --range 1:40` prints the first lines"))
        }
        _ => problem,
    }
}

/// The directory of stored results, unless another one is named.
fn default_directory(host: &HostEnv) -> Option<PathBuf> {
    host.state.as_ref().map(|state| state.join("artifacts"))
}

/// Prints why a result could not be stored, if the directory is the cause. The model only reads
/// that it was not stored.
pub(crate) fn report_lost_results(answers: &[ToolResult], args: &args::Artifacts, host: &HostEnv) {
    let is_lost =
        answers.iter().filter_map(ToolResult::truncation).any(|cut| cut.artifact.is_none());
    if !is_lost || args.directory.is_some() {
        return;
    }
    let tried = default_directory(host).map(|f| Artifacts::directory(f, ArtifactLimits::default()));
    if let Some(Err(error)) = tried {
        let text = style::visible(error.message()).replace('\n', " ");
        let text = format_args!("note: the whole result could not be stored: {text}");
        style::message(style::paint(DIM, text));
        style::message(style::paint(DIM, "note: name another directory with `--artifacts DIR`"));
    }
}

/// Stores large results where `haft result` finds them, and prints the id.
pub(crate) fn store_large_results(
    runtime: RuntimeBuilder,
    args: &args::Artifacts,
    host: &HostEnv,
) -> Result<RuntimeBuilder, Problem> {
    let limits = ArtifactLimits::default();
    let store = match (&args.directory, default_directory(host)) {
        // A named directory must be usable.
        (Some(directory), _) => Artifacts::directory(directory, limits)?,
        (None, Some(directory)) => Artifacts::directory_when_needed(directory, limits),
        (None, None) => return Ok(runtime),
    };
    // The printed command must find the result from every directory.
    let option = args.directory.as_ref().map_or_else(String::new, |directory| {
        let directory = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
        format!(
            " --artifacts '{}'",
            style::visible(&directory.display().to_string()).replace('\'', "'\\''")
        )
    });
    let runtime = runtime.artifacts(store).observer(move |event: &Event| {
        if let Event::ResultOffloaded { facts, .. } = event {
            let (id, size) = (format!("{}{option}", facts.id), size_of(facts));
            let text = format_args!(
                "note: the result was truncated; `haft result {id}` prints all of it ({size})"
            );
            style::message(style::paint(DIM, text));
        }
    });
    Ok(runtime)
}
