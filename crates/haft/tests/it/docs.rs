//! Reads every rule file that the documents show, so that no page shows one that would be refused.

use haft::policy::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, Rules};

const PAGES: [(&str, &str); 10] = [
    ("README.md", include_str!("../../../../README.md")),
    ("rules.md", include_str!("../../../../docs/guide/rules.md")),
    ("approvals.md", include_str!("../../../../docs/guide/approvals.md")),
    ("models.md", include_str!("../../../../docs/guide/models.md")),
    ("hooks.md", include_str!("../../../../docs/guide/hooks.md")),
    ("budgets-and-labels.md", include_str!("../../../../docs/guide/budgets-and-labels.md")),
    ("builtin-tools.md", include_str!("../../../../docs/guide/builtin-tools.md")),
    ("network.md", include_str!("../../../../docs/guide/network.md")),
    ("sandbox.md", include_str!("../../../../docs/guide/sandbox.md")),
    ("authorization.md", include_str!("../../../../docs/guide/authorization.md")),
];

/// Returns the TOML code blocks of a page, each with its first line number.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (line, text) in page.lines().enumerate() {
        match (open, text.trim_end()) {
            (false, "```toml") => {
                open = true;
                blocks.push((line + 2, String::new()));
            }
            (true, "```") => open = false,
            (true, text) => {
                let (_, block) = blocks.last_mut().unwrap();
                block.push_str(text);
                block.push('\n');
            }
            (false, _) => {}
        }
    }
    blocks
}

#[test]
fn every_rule_file_in_the_documents_loads_and_its_examples_hold() {
    let mut read = 0;
    for (page, text) in PAGES {
        for (line, text) in blocks(text) {
            let file = ConfigFile {
                layer: ConfigLayer::Project,
                form: FileFormat::Toml,
                path: "haft.toml".into(),
                anchor: "/project".into(),
                text,
            };
            let place =
                LoadOptions { home: Some("/me".into()), trusted: true, ..LoadOptions::default() };
            let setup = PolicyConfig::read(&[file], &place)
                .unwrap_or_else(|error| panic!("{page}, block at line {line}: {error}"));
            assert!(setup.notes.is_empty(), "{page}, block at line {line}: {:?}", setup.notes);
            Rules::new(setup.rules, setup.context)
                .unwrap_or_else(|error| panic!("{page}, block at line {line}: {error}"));
            read += 1;
        }
    }
    assert!(read >= 7, "{read} blocks were found");
}

/// Collects the names of all functions below a directory.
#[expect(clippy::disallowed_methods, reason = "the test reads the project's own files")]
fn functions_below(directory: &std::path::Path, names: &mut std::collections::HashSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions_below(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let calls = text.split("fn ").skip(1);
            names.extend(calls.filter_map(|rest| rest.split(['(', '<']).next()).map(str::to_owned));
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test reads the project's own files")]
fn every_test_that_the_architecture_names_exists() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut functions = std::collections::HashSet::new();
    functions_below(&root.join("crates"), &mut functions);

    let invariants = text.split("## Invariants").nth(1).unwrap();
    let is_test_name = |name: &&str| {
        name.matches('_').count() >= 2
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let named: Vec<&str> = invariants.split('`').filter(is_test_name).collect();
    let missing: Vec<_> = named.iter().filter(|name| !functions.contains(**name)).collect();
    assert!(named.len() > 40, "{} tests are named", named.len());
    assert!(missing.is_empty(), "ARCHITECTURE.md names tests that do not exist: {missing:?}");
}
