//! The house rules that a program can check: plain words, prose width, size of files and functions.
//!
//! Each rule has a list of exceptions under `tests/tidy/`, with a number per file. A number only goes
//! down: the test fails if a file exceeds it, and also if the list is higher than the file needs. Run
//! `HAFT_TIDY=write cargo test -p haft --test it tidy` to lower the lists after an improvement.

#![expect(clippy::disallowed_methods, reason = "it reads the sources of the workspace")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Everyday words that stand in for a name: the reader has to guess the subject or the object.
const UNCLEAR: &[&str] = &[
    "nobody",
    "somebody",
    "whoever",
    "anybody",
    "everybody",
    "told",
    "tell",
    "tells",
    "stand",
    "stands",
    "hands",
    "floor",
    "room",
    "house",
    "beside",
    "aside",
    "asides",
    "meant",
    "hears",
    "heard",
    "folder",
    "folders",
    "mend",
    "mends",
    "mended",
    "wash",
    "washed",
    "dear",
    "heed",
    "heeds",
    "pantry",
    "shelf",
    "desk",
    "siege",
];
/// Documents that must have none of them.
const CLEAN: &[&str] = &["README.md", "docs/guide/"];

const MAX_PROSE_COLUMNS: usize = 100;
const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 80;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns all Rust and Markdown files of the workspace with their text, by relative path.
pub(crate) fn files() -> Vec<(String, String)> {
    let root = root();
    let mut open = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let is_ours = !name.to_string_lossy().starts_with('.') && name != "target";
            if entry.file_type().unwrap().is_dir() {
                open.extend(is_ours.then_some(path));
                continue;
            }
            if path.extension().is_some_and(|kind| kind == "rs" || kind == "md") {
                let relative = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                if relative != "crates/haft/tests/it/tidy.rs" {
                    files.push((relative, fs::read_to_string(&path).unwrap()));
                }
            }
        }
    }
    files.sort();
    files
}

/// Compares what was found with the list of exceptions, in both directions.
pub(crate) fn compare(list: &str, found: &BTreeMap<String, usize>, rule: &str, needs_reason: bool) {
    let path = root().join("crates/haft/tests/tidy").join(list);
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut reasons = BTreeMap::new();
    let mut allowed = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.splitn(3, '\t');
        let (name, count) = (parts.next().unwrap(), parts.next().unwrap());
        allowed.insert(name.to_owned(), count.parse::<usize>().unwrap());
        reasons.insert(name.to_owned(), parts.next().unwrap_or_default().to_owned());
    }
    let is_writing = std::env::var("HAFT_TIDY").is_ok_and(|value| value == "write");
    let mut problems = Vec::new();
    for (name, count) in found {
        match allowed.get(name) {
            None => problems.push(format!("{name}: {count}; {rule}")),
            Some(allowed) if count > allowed => {
                problems.push(format!("{name}: {count}, at most {allowed}; {rule}"));
            }
            Some(_) => {}
        }
    }
    let is_lower = allowed.iter().any(|(name, most)| found.get(name).is_none_or(|n| n < most));
    if is_writing && (problems.is_empty() || text.is_empty()) {
        let mut out: String =
            text.lines().filter(|l| l.starts_with('#')).map(|l| format!("{l}\n")).collect();
        for (name, count) in found {
            let reason = reasons.get(name).map(String::as_str).unwrap_or_default();
            out.push_str(format!("{name}\t{count}\t{reason}").trim_end());
            out.push('\n');
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, out).unwrap();
        return;
    }
    if needs_reason {
        let bare = reasons.iter().filter(|(_, reason)| reason.is_empty()).map(|(name, _)| name);
        problems.extend(bare.map(|name| format!("{name}: {list} gives no reason")));
    }
    assert!(problems.is_empty(), "{}\n", problems.join("\n"));
    assert!(
        !is_lower,
        "{list} allows more than is needed: HAFT_TIDY=write cargo test -p haft --test it tidy"
    );
}

#[test]
fn prose_and_names_avoid_unclear_words() {
    let mut found = BTreeMap::new();
    for (name, text) in files().into_iter().filter(|(name, _)| name != "CHANGELOG.md") {
        // A public name that is still to be renamed.
        let text = text.replace("Artifacts::directory(", "");
        let words = text.split(|c: char| !c.is_ascii_alphabetic());
        let count = words
            .filter(|word| UNCLEAR.iter().any(|unclear| word.eq_ignore_ascii_case(unclear)))
            .count();
        if count > 0 {
            assert!(
                !CLEAN.iter().any(|clean| name.starts_with(clean)),
                "{name}: {count} unclear words: name the subject, the object, the action"
            );
            found.insert(name, count);
        }
    }
    compare("unclear_words.tsv", &found, "name the subject, the object, the action", false);
}

/// Lines of prose: comments of Rust files, and Markdown outside of code blocks, tables and long links.
fn prose<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
    if name.ends_with(".rs") {
        return text.lines().filter(|line| line.trim_start().starts_with("//")).collect();
    }
    let mut is_code = false;
    let is_prose = move |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence && !line.trim_start().starts_with('|') && line.contains(' ')
    };
    text.lines().filter(is_prose).collect()
}

#[test]
fn prose_wraps_at_100_columns() {
    let mut found = BTreeMap::new();
    for (name, text) in files() {
        let is_wide = |line: &&str| line.chars().count() > MAX_PROSE_COLUMNS;
        let wide = prose(&name, &text).into_iter().filter(is_wide).count();
        if wide > 0 {
            found.insert(name, wide);
        }
    }
    compare("wide_prose.tsv", &found, "lines of prose are wider than 100 columns", false);
}

fn is_source(name: &str) -> bool {
    let is_test = name.contains("/tests/") || name.ends_with("/tests.rs");
    name.contains("/src/") && name.ends_with(".rs") && !is_test
}

/// Lines before the tests of a file.
pub(crate) fn code(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

#[test]
fn files_have_at_most_500_lines_or_a_reason() {
    let mut found = BTreeMap::new();
    for (name, text) in files() {
        let lines = code(&text).lines().count();
        if is_source(&name) && lines > MAX_FILE_LINES {
            found.insert(name, lines);
        }
    }
    compare("long_files.tsv", &found, "lines: split it, or list it with a reason", true);
}

#[test]
fn functions_have_at_most_80_lines_or_a_reason() {
    let mut found = BTreeMap::new();
    for (name, text) in files().into_iter().filter(|(name, _)| is_source(name)) {
        let mut open: Option<(usize, usize, String)> = None;
        for (at, line) in code(&text).lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            match &open {
                None => {
                    let words: Vec<&str> = line.split_whitespace().take(6).collect();
                    let is_comment = line.trim_start().starts_with("//");
                    if let Some(index) = words.iter().position(|word| *word == "fn") {
                        let of = words.get(index + 1).copied().unwrap_or_default();
                        let of = of.split(['(', '<']).next().unwrap_or_default().to_owned();
                        let is_whole = line.ends_with('}') || line.ends_with(';');
                        open = (!is_comment && !is_whole).then_some((indent, at, of));
                    }
                }
                Some((outer, start, of))
                    if indent == *outer && line.trim_end().ends_with(['}', ';']) =>
                {
                    let lines = at - start + 1;
                    if lines > MAX_FUNCTION_LINES {
                        found.insert(format!("{name}::{of}"), lines);
                    }
                    open = None;
                }
                Some(_) => {}
            }
        }
    }
    compare("long_functions.tsv", &found, "lines: split it, or list it with a reason", true);
}

/// Returns the string literal that starts at an offset, if one does.
fn literal(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.strip_prefix('"')?.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Some(out),
            '\\' => match chars.next()? {
                '\n' => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                'n' => out.push_str("\\n"),
                c => out.push(c),
            },
            c => out.push(c),
        }
    }
    None
}

/// Returns the string literals of a file with their offsets, without comments and raw strings.
fn literals(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..].find(['"', '/', '\'']) {
        at += next;
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            at += 3;
        } else if rest.starts_with('"') && text[..at].ends_with('#') {
            at += rest[1..].find("\"#").map_or(rest.len(), |end| end + 3);
        } else if let Some(message) = literal(rest) {
            let mut end = 1;
            while !rest[end..].starts_with('"') {
                let step = if rest[end..].starts_with('\\') { 2 } else { 1 };
                end += rest[end..].chars().take(step).map(char::len_utf8).sum::<usize>();
            }
            found.push((at, message));
            at += end + 1;
        } else {
            at += 1;
        }
    }
    found
}

/// What comes before a literal that is a message: an arm, a constant, a `Display`, an error as text.
const BEFORE_A_MESSAGE: &[&str] = &[
    "=>",
    "=> {",
    "Err(format!(",
    "=> format!(",
    "write!(f,",
    "writeln!(f,",
    "f.write_str(",
    ": &str =",
    "Err(",
    "ok_or(",
    "message =",
    "why =",
    "reason =",
    "hint =",
];

/// Whether a literal is a sentence in one of the places where messages are.
fn is_message(before: &str, message: &str) -> bool {
    let before = before.trim_end();
    let words = message.split(' ').filter(|word| word.chars().any(char::is_alphabetic)).count();
    let attribute = before.rfind("#[").is_some_and(|start| !before[start..].contains(']'));
    words >= 3 && !attribute && BEFORE_A_MESSAGE.iter().any(|start| before.ends_with(start))
}

/// What a model or an operator reads when something fails, as it is written in the sources: message,
/// next step, hint, and texts that become part of these. One list, so that it can be read as a
/// whole.
#[test]
fn failure_messages_are_listed() {
    const MAKERS: &[(&str, &str)] = &[
        ("Failure::new(", "failure"),
        ("Failure::failed(", "failure"),
        ("Failure::invalid(", "failure"),
        (".with_next(", "    next"),
        ("Error::new(", "error"),
        (".hint(", "    hint"),
        ("Verdict::deny(", "deny"),
        ("Verdict::ask(", "ask"),
    ];
    let mut list = String::new();
    for (name, text) in files().into_iter().filter(|(name, _)| is_source(name)) {
        let mut lines = Vec::new();
        let text = code(&text);
        for (maker, kind) in MAKERS {
            for (at, _) in text.match_indices(maker) {
                let is_comment = text[..at].lines().last().is_some_and(|line| line.contains("//"));
                let call = &text[at + maker.len()..];
                let call: String = call.chars().take(600).collect();
                // The message is the first literal before the call ends.
                let end = call.find(";\n").unwrap_or(call.len());
                let first = call[..end].find('"');
                let nested = call[..end].find(")\n").is_some_and(|close| Some(close) < first);
                if let Some(message) = first.and_then(|first| literal(&call[first..]))
                    && !is_comment
                    && !nested
                    && message.contains(' ')
                {
                    lines.push((at, format!("{kind}: {message}")));
                }
            }
        }
        for (at, message) in literals(text) {
            let is_listed = lines.iter().any(|(_, line)| line.ends_with(&format!(": {message}")));
            if is_message(&text[..at], &message) && !is_listed {
                lines.push((at, format!("text: {message}")));
            }
        }
        if !lines.is_empty() {
            lines.sort();
            list.push_str(&format!("# {name}\n"));
            lines.iter().for_each(|(_, line)| list.push_str(&format!("{line}\n")));
        }
    }
    for part in
        ["is outside the workspace", "is protected", "calls need a tokio", "expected a rate"]
    {
        assert!(list.contains(part), "the scan misses `{part}`");
    }
    let path = root().join("crates/haft/tests/tidy/messages.txt");
    if std::env::var("HAFT_TIDY").is_ok_and(|value| value == "write") {
        fs::write(path, list).unwrap();
        return;
    }
    let known = fs::read_to_string(path).unwrap_or_default();
    let changed = list.lines().find(|line| !known.contains(line));
    assert!(
        known == list,
        "the list of messages changed, first at {changed:?}: HAFT_TIDY=write cargo test -p haft --test it tidy"
    );
}
