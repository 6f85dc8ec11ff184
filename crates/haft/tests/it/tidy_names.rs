//! One name is one type: public types of different crates, or of different modules, do not share a
//! name. The public names are those of `docs/public-api.txt`; a type is counted where it is
//! defined, so a re-export is not a second one. `tests/tidy/shared_type_names.tsv` lists exceptions
//! with their reason.

#![expect(clippy::disallowed_methods, reason = "it reads the sources of the workspace")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use crate::tidy::{code, compare, files, root};

/// Keywords before the name of a type or a trait.
const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

/// Returns `(crate, type)` for each type of the listing of the public API.
fn listed_types(listing: &str) -> BTreeSet<(String, String)> {
    let mut listed = BTreeSet::new();
    for line in listing.lines().filter(|line| !line.starts_with(' ')) {
        let Some((kind, path)) = line.split_once(' ') else { continue };
        let (Some((library, _)), Some((_, name))) = (path.split_once("::"), path.rsplit_once("::"))
        else {
            continue;
        };
        if TYPE_KEYWORDS.contains(&kind) {
            listed.insert((library.replace('_', "-"), name.to_owned()));
        }
    }
    listed
}

/// Returns the names of the types that a file defines with `pub`, outside of its tests.
fn defined_types(text: &str) -> Vec<&str> {
    let name_of = |line: &'_ str| -> Option<(usize, usize)> {
        let rest = line.trim_start().strip_prefix("pub ")?;
        let (keyword, rest) = rest.split_once(' ')?;
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let start = line.len() - rest.len();
        TYPE_KEYWORDS.contains(&keyword).then_some((start, start + end))
    };
    code(text)
        .lines()
        .filter_map(|line| name_of(line).map(|(start, end)| &line[start..end]))
        .collect()
}

/// Counts the definitions of each public name that has more than one.
fn shared_names(listing: &str, files: &[(String, String)]) -> BTreeMap<String, Vec<String>> {
    let listed = listed_types(listing);
    let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in files {
        let Some((library, inner)) =
            path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        if !inner.ends_with(".rs") || inner.ends_with("tests.rs") || inner.contains("tests/") {
            continue;
        }
        for name in defined_types(text) {
            if listed.contains(&(library.to_owned(), name.to_owned())) {
                definitions.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
    }
    definitions.retain(|_, paths| paths.len() > 1);
    definitions
}

#[test]
fn tidy_one_public_name_is_one_type() {
    let listing = fs::read_to_string(root().join("docs/public-api.txt")).unwrap();
    let found: BTreeMap<String, usize> = shared_names(&listing, &files())
        .into_iter()
        .map(|(name, paths)| (format!("{name} ({})", paths.join(", ")), paths.len()))
        .collect();
    let rule = "definitions of one name: rename all but one, or list it with a reason";
    compare("shared_type_names.tsv", &found, rule, true);
}

#[test]
fn a_shared_name_is_found_and_a_reexport_is_not() {
    let listing = "struct one::Command\n    structfield.at\nstruct two::process::Command\n\
                   type two::Word\nstruct one::Word\nenum two::Kind\nfn one::kind";
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = [
        file("crates/one/src/lib.rs", "pub use two::Word;\npub struct Command {\n"),
        file("crates/two/src/process.rs", "    pub struct Command<'a>(&'a str);\npub enum Kind {"),
        file("crates/two/src/lib.rs", "pub type Word = String;\npub(crate) struct Kind;"),
        file("crates/two/src/tests.rs", "pub enum Kind {}"),
        file("crates/one/src/private.rs", "pub enum Kind {}"),
    ];
    let shared = shared_names(listing, &files);
    let names: Vec<&String> = shared.keys().collect();
    assert_eq!(names, ["Command"]);
    assert_eq!(shared["Command"], ["crates/one/src/lib.rs", "crates/two/src/process.rs"]);
}
