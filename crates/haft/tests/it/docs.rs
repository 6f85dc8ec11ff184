//! Loads every rule file in the documentation, so that no page shows an invalid one.

use haft::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, Rules};

const PAGES: [(&str, &str); 8] = [
    ("README.md", include_str!("../../../../README.md")),
    ("rules.md", include_str!("../../../../docs/guide/rules.md")),
    ("approvals.md", include_str!("../../../../docs/guide/approvals.md")),
    ("hooks.md", include_str!("../../../../docs/guide/hooks.md")),
    ("budgets-and-labels.md", include_str!("../../../../docs/guide/budgets-and-labels.md")),
    ("builtin-tools.md", include_str!("../../../../docs/guide/builtin-tools.md")),
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
            Rules::new(setup.rules, setup.ground)
                .unwrap_or_else(|error| panic!("{page}, block at line {line}: {error}"));
            read += 1;
        }
    }
    assert!(read >= 7, "{read} blocks were found");
}
