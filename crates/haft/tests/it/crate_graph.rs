//! The crates depend on each other in one direction, as the list below says. What is useful alone
//! stays small: no async runtime, and a change in a provider's format does not rebuild the policy.

#![expect(clippy::disallowed_methods, reason = "it reads the manifests of the workspace")]

use std::{collections::BTreeSet, fs};

use crate::tidy;

/// All crates. Each may depend on those before it.
const CRATES: [&str; 15] = [
    "haft-macros",
    "haft-core",
    "haft-schema",
    "haft-sanitize",
    "haft-dialect",
    "haft-shell",
    "haft-policy",
    "haft",
    "haft-sandbox",
    "haft-tools",
    "haft-hooks",
    "haft-otel",
    "haft-models",
    "haft-mcp",
    "haft-cli",
];

/// Crates that compute and never wait.
const WITHOUT_RUNTIME: [&str; 5] =
    ["haft-schema", "haft-sanitize", "haft-dialect", "haft-shell", "haft-policy"];

/// The dependencies that a manifest names, without those of tests.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let mut is_dependency = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dependency = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if is_dependency && !line.starts_with('#') {
            found.extend(line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty()));
        }
    }
    found
}

fn of(name: &str, check: impl FnOnce(&BTreeSet<&str>)) {
    let path = tidy::root().join("crates").join(name).join("Cargo.toml");
    check(&dependencies(&fs::read_to_string(path).unwrap()));
}

#[test]
fn crates_depend_only_on_crates_before_them() {
    let crates = tidy::root().join("crates");
    let existing: BTreeSet<String> = fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(existing, CRATES.map(str::to_owned).into(), "a crate is missing in the list");
    for (at, name) in CRATES.iter().enumerate() {
        of(name, |dependencies| {
            for later in &CRATES[at..] {
                assert!(!dependencies.contains(later), "{name} must not depend on {later}");
            }
        });
    }
}

#[test]
fn crates_that_only_compute_have_no_async_runtime() {
    for name in WITHOUT_RUNTIME {
        of(name, |dependencies| {
            let waiting = dependencies.iter().find(|name| {
                name.starts_with("tokio") || name.starts_with("futures") || **name == "reqwest"
            });
            assert_eq!(waiting, None, "{name}");
        });
    }
}

#[test]
fn provider_format_does_not_rebuild_the_policy() {
    of("haft-policy", |dependencies| assert!(!dependencies.contains("haft-dialect")));
    of("haft-dialect", |dependencies| assert!(!dependencies.contains("haft-policy")));
}

#[test]
fn dependencies_of_a_manifest_are_read() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n# b\nc = \"1\"\n\
        [target.'cfg(unix)'.dependencies]\nd = { version = \"1\" }\n[dev-dependencies]\ne = \"1\"\n";
    assert_eq!(dependencies(manifest), BTreeSet::from(["a", "c", "d"]));
}
