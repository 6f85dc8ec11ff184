//! `haft result`: reads what was kept aside, here or by another process.
//!
//! In: an id and what to look for. Out: the text on stdout, and on stderr what it is and how to go
//! on. Whoever may read the folder may read it all, so nobody is asked whose it is.

use std::{
    io::{IsTerminal as _, Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anstyle::Style;
use haft::{
    Artifact, ArtifactId, ArtifactLimits, ArtifactMeta, Artifacts, Event, ReadArtifactError,
    ResultPage, ResultPosition, ResultQuery, RuntimeBuilder, ToolResult,
};
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    setup::Around,
    style::{self, DIM, NAME, Table},
};

/// The most that is read for one answer, in characters; without a question everything is written.
const ROOM: usize = 4 << 20;

pub(crate) fn run(args: &args::Result, around: &Around) -> Result<ExitCode, Problem> {
    let Some(folder) = args.artifacts.folder.clone().or_else(|| default_folder(around)) else {
        return Err(Problem::new("cannot find the directory of stored results: `HOME` is not set")
            .hint("name one with `--artifacts DIR`"));
    };
    let store = Artifacts::folder_when_needed(folder, ArtifactLimits::default());
    if args.id == "list" {
        return list(&store, args.output.json);
    }
    let id: ArtifactId = args.id.parse().map_err(|e: haft::ParseArtifactIdError| {
        Problem::new(format!("`{}` is not an id: {e}", args.id))
            .hint("`haft result list` lists the ids")
    })?;
    let artifact = store.open(id)?;
    match (query(args)?, args.output.json) {
        (None, false) => whole(&artifact)?,
        (None, true) => {
            let everything = ResultQuery::Lines { from: ResultPosition::START, limit: u64::MAX };
            answer(&artifact, &everything, true)?;
        }
        (Some(query), is_json) => answer(&artifact, &query, is_json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is looked for, if anything is.
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
    Ok(pattern.or(pointer).or(args.head.map(ResultQuery::Head)))
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
    let page = artifact.read(query, ROOM).map_err(|why| unreadable(artifact, &why))?;
    if is_json {
        let next = page.next.map(|place| json!({"line": place.line, "column": place.column}));
        let mut all = facts_as_json(artifact.facts());
        all["text"] = page.text.into();
        all["what"] = page.what.into();
        all["next"] = next.into();
        style::say(format_args!("{all}\n"))?;
        return Ok(());
    }
    let ResultPage { text, what, next, .. } = page;
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match std::io::stdout().is_terminal() {
        true => style::say(format_args!("{}{end}", style::visible(&text)))?,
        false => style::say(format_args!("{text}{end}"))?,
    }
    let more = next.map_or_else(String::new, |place| format!("; more from line {}", place.line));
    style::talk(style::paint(DIM, format_args!("{what}{more}")));
    Ok(())
}

/// Writes all of it, as it is; at a terminal only what is text.
fn whole(artifact: &Artifact) -> Result<(), Problem> {
    let facts = artifact.facts();
    let is_terminal = std::io::stdout().is_terminal();
    if is_terminal && facts.chars.is_none() {
        return Err(Problem::new(format!("the result is {}, not text", facts.media))
            .hint(format!("write it to a file: `haft result {} > file`", facts.id)));
    }
    let mut out = style::lines();
    let mut from = artifact.reader();
    let mut chunk = vec![0; 64 << 10];
    loop {
        let n = from
            .read(&mut chunk)
            .map_err(|e| Problem::new(format!("cannot read the result: {e}")))?;
        match n {
            0 => break,
            // Washed when it was kept; what a terminal would obey is long gone.
            n => out.write_all(&chunk[..n])?,
        }
    }
    out.flush()?;
    Ok(())
}

fn list(store: &Artifacts, is_json: bool) -> Result<ExitCode, Problem> {
    let all = store.list()?;
    if is_json {
        let all: Vec<Value> = all.iter().map(facts_as_json).collect();
        style::say(format_args!("{}\n", Value::Array(all)))?;
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
    style::say(table)?;
    style::talk(style::paint(DIM, format_args!("{} stored", style::count(all.len(), "result"))));
    Ok(ExitCode::SUCCESS)
}

fn size_of(facts: &ArtifactMeta) -> String {
    match (facts.chars, facts.lines) {
        (Some(chars), Some(lines)) => format!("{chars} characters, {lines} lines"),
        _ => format!("{} bytes", facts.bytes),
    }
}

fn facts_as_json(facts: &ArtifactMeta) -> Value {
    let mut all = serde_json::to_value(facts).unwrap_or_default();
    if let Some(map) = all.as_object_mut() {
        map.shift_remove("owner"); // how it is told apart is no concern of a reader's
    }
    all
}

fn unreadable(artifact: &Artifact, why: &ReadArtifactError) -> Problem {
    let id = artifact.facts().id;
    let problem = Problem::new(format!("`{id}`: {why}"));
    match why {
        ReadArtifactError::NoText => {
            problem.hint(format!("write it to a file: `haft result {id} > file`"))
        }
        ReadArtifactError::NoJson(_) | ReadArtifactError::NoTable => {
            problem.hint(format!("`haft result {id} --range 1:40` prints the first lines"))
        }
        _ => problem,
    }
}

/// Where results are kept unless another folder is named.
fn default_folder(around: &Around) -> Option<PathBuf> {
    around.state.as_ref().map(|state| state.join("artifacts"))
}

/// Says why a result could not be kept, where the folder is to blame. The model is told no more than
/// that it was not.
pub(crate) fn tell_trouble(answers: &[ToolResult], args: &args::Artifacts, around: &Around) {
    let is_lost = answers.iter().filter_map(ToolResult::cut).any(|cut| cut.kept.is_none());
    if !is_lost || args.folder.is_some() {
        return;
    }
    let tried = default_folder(around).map(|f| Artifacts::folder(f, ArtifactLimits::default()));
    if let Some(Err(error)) = tried {
        let text = style::visible(error.message()).replace('\n', " ");
        let text = format_args!("note: the whole result could not be stored: {text}");
        style::talk(style::paint(DIM, text));
        style::talk(style::paint(DIM, "note: name another directory with `--artifacts DIR`"));
    }
}

/// Lets a runtime keep large results where `haft result` finds them, and say so.
pub(crate) fn keep(
    runtime: RuntimeBuilder,
    args: &args::Artifacts,
    around: &Around,
) -> Result<RuntimeBuilder, Problem> {
    let limits = ArtifactLimits::default();
    let store = match (&args.folder, default_folder(around)) {
        // Named, so it must do.
        (Some(folder), _) => Artifacts::folder(folder, limits)?,
        (None, Some(folder)) => Artifacts::folder_when_needed(folder, limits),
        (None, None) => return Ok(runtime),
    };
    let runtime = runtime.artifacts(store).observer(|event: &Event| {
        if let Event::ResultOffloaded { facts, .. } = event {
            let (id, size) = (facts.id, size_of(facts));
            let text = format_args!(
                "note: the result was truncated; `haft result {id}` prints all of it ({size})"
            );
            style::talk(style::paint(DIM, text));
        }
    });
    Ok(runtime)
}
