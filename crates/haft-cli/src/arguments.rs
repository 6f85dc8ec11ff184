//! The arguments of a call as a person types them: `key=text`, `key:=json`, `key=@file`, and
//! `--args-json`.

use std::path::Path;

use haft::registry::RegisteredTool;
use serde_json::{Map, Value, json};

use crate::{error::Problem, input, schema, style};

/// Merges the arguments: one JSON object, then the pairs.
pub(crate) fn read(
    pairs: &[String],
    args_json: Option<&str>,
    entry: Option<&RegisteredTool>,
) -> Result<Value, Problem> {
    let mut all = match args_json {
        None => Map::new(),
        Some(given) => match whole(given)? {
            Value::Object(map) => map,
            // Not an object: validation reports it, as it would to a model.
            other if pairs.is_empty() => return Ok(other),
            _ => {
                return Err(Problem::new(
                    "`--args-json` is not an object, so no pair can be added",
                ));
            }
        },
    };
    for pair in pairs {
        let (key, value) = read_pair(pair, entry)?;
        if all.contains_key(&key) {
            return Err(Problem::new(format!("`{key}` is given twice")));
        }
        all.insert(key, value);
    }
    Ok(Value::Object(all))
}

fn whole(given: &str) -> Result<Value, Problem> {
    match (given, given.strip_prefix('@')) {
        ("-", _) => input::json(&input::stdin()?, "stdin"),
        (_, Some(path)) => input::json(&input::file(Path::new(path))?, &format!("`{path}`")),
        _ => input::json(given, "`--args-json`").map_err(|problem| {
            problem.hint(
                "put keys and texts in double quotes, as in `--args-json '{\"file_path\": \"a.txt\"}'`",
            )
        }),
    }
}

/// Reads one `key=value` as a person types it.
pub(crate) fn read_pair(
    pair: &str,
    entry: Option<&RegisteredTool>,
) -> Result<(String, Value), Problem> {
    let Some((key, value)) =
        pair.split_once('=').filter(|(key, _)| !key.trim_matches(':').is_empty())
    else {
        return Err(no_pair(pair, entry));
    };
    let (key, is_json) = match key.strip_suffix(':') {
        Some(key) => (key, true),
        None => (key, false),
    };
    let known = entry.map(|e| (e, schema::parameters(e.input_schema())));
    if let Some((entry, known)) = &known
        && !known.iter().any(|p| p.name == key)
        && !schema::is_open(entry.input_schema())
    {
        let problem = Problem::new(format!("`{}` has no argument `{key}`", entry.name()));
        let problem = match intended_argument(key, known) {
            Some(near) => problem.similar(Some(near)),
            None => problem.hint(format!("the arguments are {}", names(known))),
        };
        let hint = format!("`haft tools show {}` lists the arguments", entry.name());
        return Err(problem.hint(hint));
    }
    let (text, from) = match value.strip_prefix('@') {
        Some(path) => (input::file(Path::new(path))?, format!("`{path}`")),
        None => (value.to_owned(), format!("the value of `{key}`")),
    };
    let value = if is_json {
        input::json(&text, &from)
            .map_err(|p| p.hint(format!("`{key}:=` takes JSON; `{key}=` takes text")))?
    } else {
        let parameter = known.iter().flat_map(|(_, known)| known).find(|p| p.name == key);
        match parameter {
            Some(parameter) => {
                let value = parameter.read(&text);
                if value.is_string() && parameter.is_list() {
                    let item = json!([text]);
                    return Err(Problem::new(format!("`{key}` takes a list, not text"))
                        .hint(format!("write the list as JSON, as in `{key}:='{item}'`")));
                }
                value
            }
            None => Value::String(text),
        }
    };
    Ok((key.to_owned(), value))
}

/// The error for an argument that is not a pair, with the most likely correction.
fn no_pair(pair: &str, entry: Option<&RegisteredTool>) -> Problem {
    let problem = Problem::new(format!("`{pair}` is not an argument"));
    if pair.trim_start().starts_with('{') {
        return problem.hint("pass a JSON object with all arguments as `--args-json JSON`");
    }
    let known = entry.map(|e| schema::parameters(e.input_schema())).unwrap_or_default();
    let first = known.iter().find(|p| p.is_required).or(known.first());
    let problem = match first {
        Some(first) => problem.hint(format!("did you mean `{}='{pair}'`?", first.name)),
        None => problem,
    };
    problem
        .hint("write `key=text`, `key:=json`, `key=@file` or `key:=@file`; options start with `--`")
}

/// The most likely intended argument: one with a similar name, or the only one whose name contains
/// this word, as `file_path` contains `path`.
fn intended_argument<'a>(key: &str, known: &[schema::Parameter<'a>]) -> Option<&'a str> {
    style::nearest(key, known.iter().map(|p| p.name)).or_else(|| {
        let mut with = known.iter().map(|p| p.name).filter(|n| n.split('_').any(|w| w == key));
        with.next().filter(|_| with.next().is_none())
    })
}

/// The names of a tool's arguments, separated by commas.
fn names(known: &[schema::Parameter<'_>]) -> String {
    match known {
        [] => "none".to_owned(),
        known => known.iter().map(|p| format!("`{}`", p.name)).collect::<Vec<_>>().join(", "),
    }
}
