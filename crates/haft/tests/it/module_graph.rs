//! The modules of each crate import each other without a cycle.
//!
//! The sources without tests are read for paths that begin with `crate::` or lead to the crate's
//! root with `super::`.

#![expect(clippy::disallowed_methods, reason = "it reads the sources of the workspace")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::tidy;

/// Imports between top-level modules: from, to, and how often.
type Graph = BTreeMap<(String, String), usize>;

#[test]
fn module_graph_of_every_crate_is_acyclic() {
    let crates = tidy::root().join("crates");
    let mut found = BTreeMap::new();
    let mut modules = 0;
    for entry in fs::read_dir(crates).unwrap().map(Result::unwrap) {
        let name = entry.file_name().to_str().unwrap().to_owned();
        let source = entry.path().join("src");
        let graph = read_crate(&source);
        modules += top_level(&source).len();
        for ((from, to), count) in edges_in_cycles(&graph) {
            found.insert(format!("{name}: {from} -> {to}"), count);
        }
    }
    assert!(modules > 100, "only {modules} modules were read");
    assert!(found.is_empty(), "these imports close cycles of modules: {found:#?}");
}

fn top_level(source: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(source).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_str().unwrap().trim_end_matches(".rs").to_owned());
    names.filter(|name| !["lib", "main", "bin"].contains(&name.as_str())).collect()
}

fn read_crate(source: &Path) -> Graph {
    let modules = top_level(source);
    let mut root = BTreeMap::new();
    for file in ["lib.rs", "main.rs"] {
        let text = fs::read_to_string(source.join(file)).unwrap_or_default();
        for path in used_paths(&text, &[]) {
            // `pub use registry::ToolRegistry` in the root: the name belongs to `registry`.
            if let [module, .., name] = &path[..]
                && modules.contains(module)
            {
                root.insert(name.clone(), module.clone());
            }
        }
    }
    let mut graph = Graph::new();
    let mut open = vec![source.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                open.extend((!path.ends_with("tests")).then_some(path));
                continue;
            }
            let relative = path.strip_prefix(source).unwrap().with_extension("");
            let own: Vec<&str> = relative.iter().map(|part| part.to_str().unwrap()).collect();
            let is_source = path.extension().is_some_and(|kind| kind == "rs");
            let is_root = ["lib", "main", "bin"].contains(&own[0]);
            if !is_source || is_root || own.last() == Some(&"tests") {
                continue;
            }
            let own: Vec<&str> = own.into_iter().filter(|part| *part != "mod").collect();
            let text = fs::read_to_string(&path).unwrap();
            for used in used_paths(tidy::code(&text), &own) {
                let Some(first) = used.first() else { continue };
                let to = if modules.contains(first) { Some(first) } else { root.get(first) };
                if let Some(to) = to.filter(|to| to.as_str() != own[0]) {
                    *graph.entry((own[0].to_owned(), to.clone())).or_default() += 1;
                }
            }
        }
    }
    graph
}

/// All paths in a source file that lead to the root of its crate, without that prefix. In the root
/// itself (`own` is empty) these are the paths of its `use` lines.
fn used_paths(text: &str, own: &[&str]) -> Vec<Vec<String>> {
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut paths = Vec::new();
    let mut rest = code.as_str();
    let starts: &[&str] = if own.is_empty() { &["use "] } else { &["crate::", "super::"] };
    while let Some((at, start)) =
        starts.iter().filter_map(|start| Some((rest.find(start)?, *start))).min()
    {
        let is_word = rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let mut tail = &rest[at + start.len()..];
        rest = tail;
        if is_word {
            continue;
        }
        if start == "super::" {
            let mut levels = 1;
            while let Some(more) = tail.strip_prefix("super::") {
                tail = more;
                levels += 1;
            }
            rest = tail;
            // `super::` of `a/b.rs` is `a`; the root is as many levels up as the module is deep.
            if levels != own.len() {
                continue;
            }
        }
        expand(tail.strip_prefix("self::").unwrap_or(tail), &mut Vec::new(), &mut paths);
    }
    paths
}

/// Expands `a::{b, c::d}` into its paths. Returns what follows.
fn expand<'a>(text: &'a str, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut inner) = text.strip_prefix('{') {
        loop {
            inner = expand(inner, &mut prefix.clone(), paths).trim_start();
            if let Some(more) = inner.strip_prefix(',') {
                inner = more.trim_start();
                if let Some(end) = inner.strip_prefix('}') {
                    return end;
                }
            } else {
                return inner.strip_prefix('}').unwrap_or(inner);
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return rest;
    }
    prefix.push(name.to_owned());
    match rest.strip_prefix("::") {
        Some(more) => expand(more, prefix, paths),
        None => {
            paths.push(prefix.clone());
            rest.find([',', '}', ';']).map_or(rest, |at| &rest[at..])
        }
    }
}

/// An edge is part of a cycle if its start can be reached from its end.
fn edges_in_cycles(graph: &Graph) -> Graph {
    let reaches = |from: &str, goal: &str| {
        let mut seen = BTreeSet::from([from.to_owned()]);
        let mut open = vec![from.to_owned()];
        while let Some(at) = open.pop() {
            if at == goal {
                return true;
            }
            let next = graph.keys().filter(|(from, _)| *from == at).map(|(_, to)| to.clone());
            open.extend(next.filter(|to| seen.insert(to.clone())));
        }
        false
    };
    graph.iter().filter(|((from, to), _)| reaches(to, from)).map(|(e, n)| (e.clone(), *n)).collect()
}

#[test]
fn cycles_are_found() {
    let text = "use crate::{b::{C, d::E}, f};\nfn x() { super::g::h(); self::i::j() }";
    let paths = used_paths(text, &["a"]);
    let joined: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
    assert_eq!(joined, ["b::C", "b::d::E", "f", "g::h"]);
    let edge = |from: &str, to: &str| ((from.to_owned(), to.to_owned()), 1);
    let graph = Graph::from([edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("c", "d")]);
    let found: Vec<String> =
        edges_in_cycles(&graph).keys().map(|(a, b)| format!("{a}{b}")).collect();
    assert_eq!(found, ["ab", "bc", "ca"]);
}
