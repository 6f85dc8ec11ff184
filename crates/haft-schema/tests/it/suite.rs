//! The official JSON Schema test suite for draft 2020-12, required and optional.
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::{fs, path::PathBuf};

use haft_schema::{Formats, Schema};
use serde_json::Value;

/// The directory of the corpora, if it exists here.
pub(crate) fn corpora() -> Option<PathBuf> {
    let here = std::env::var_os("HAFT_CORPORA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora"),
        PathBuf::from,
    );
    let found = Some(here).filter(|path| path.is_dir());
    if found.is_none() {
        eprintln!("skipped: no corpora here (set HAFT_CORPORA to their directory)");
    }
    found
}

/// One schema of the suite with its tests.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) schema: Value,
    pub(crate) tests: Vec<Value>,
}

/// The groups of the files in a directory of the suite.
pub(crate) fn groups(directory: &str) -> Option<Vec<Group>> {
    let suite = corpora()?.join("json-schema-test-suite/tests/draft2020-12").join(directory);
    let mut files: Vec<PathBuf> = fs::read_dir(suite)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let mut groups = Vec::new();
    for file in files {
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        let content: Vec<Value> = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        groups.extend(content.into_iter().map(|group| Group {
            name: format!("{stem}: {}", group["description"].as_str().unwrap()),
            schema: group["schema"].clone(),
            tests: group["tests"].as_array().unwrap().clone(),
        }));
    }
    Some(groups)
}

/// Counts right answers, and lists wrong ones and refused schemas.
fn judge(groups: Vec<Group>, formats: Formats) -> (usize, Vec<String>, Vec<String>) {
    let (mut right, mut wrong, mut refused) = (0, Vec::new(), Vec::new());
    for group in groups {
        let schema = match Schema::compile_with(&group.schema, formats) {
            Ok(schema) => schema,
            Err(error) => {
                refused.push(format!("{}: {error}", group.name));
                continue;
            }
        };
        for test in group.tests {
            let valid = schema.is_valid(&test["data"]);
            let listed = schema.problems(&test["data"]).is_empty();
            assert_eq!(valid, listed, "{}: a problem for each invalid value", group.name);
            if valid == test["valid"] {
                right += 1;
            } else {
                wrong.push(format!("{}: {}", group.name, test["description"]));
            }
        }
    }
    (right, wrong, refused)
}

#[test]
fn every_required_test_without_a_remote_document_passes() {
    let Some(groups) = groups("") else { return };
    let (right, wrong, refused) = judge(groups, Formats::Annotation);
    assert_eq!(wrong, Vec::<String>::new());
    assert!(right >= 1_200, "only {right} tests");
    assert_eq!(refused.len(), 22, "{refused:#?}");
    for why in refused {
        assert!(why.contains("not in this schema") || why.contains("not a known draft"), "{why}");
    }
}

#[test]
fn every_optional_test_passes() {
    let Some(mut groups) = groups("optional") else { return };
    // `dependencies` left the specification in 2019 and has no effect.
    groups.retain(|group| !group.name.starts_with("dependencies-compatibility"));
    let (right, wrong, refused) = judge(groups, Formats::Assertion);
    assert_eq!(wrong, Vec::<String>::new());
    assert!(right >= 100, "only {right} tests");
    assert_eq!(refused.len(), 3, "{refused:#?}");
}

#[test]
fn every_asserted_format_passes_its_tests() {
    let Some(mut groups) = groups("optional/format") else { return };
    // They need the tables of IDNA and are not asserted.
    groups.retain(|group| !group.name.starts_with("idn-"));
    let (right, wrong, refused) = judge(groups, Formats::Assertion);
    assert_eq!(wrong, Vec::<String>::new());
    assert!(right >= 500, "only {right} tests");
    assert_eq!(refused, Vec::<String>::new());
}
