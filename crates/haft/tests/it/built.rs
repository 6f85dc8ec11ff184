//! The examples as programs: where they stand, and that they are what the sources say.
//!
//! `cargo test` builds the examples beside this binary. `cargo test --test it` alone does not, so one
//! that is missing or older than its sources is built here, in the same profile and target directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns where cargo puts an example: `<target>/<profile>/examples`, next to our own `deps`.
pub(crate) fn binary(package: &str, name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let profile = own.ancestors().nth(2).expect("it stands in <target>/<profile>/deps");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let example = profile.join("examples").join(file);
    if !fresh(&example) {
        build(package, name, profile);
    }
    example
}

/// Returns whether no source is younger than the example, by the list that cargo writes beside it.
fn fresh(example: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|data| data.modified());
    let Ok(built) = changed(example) else { return false };
    let Ok(list) = fs::read(example.with_extension("d")) else { return false };
    let list = String::from_utf8_lossy(&list);
    let sources = list.split_once(':').map_or("", |(_, sources)| sources);
    // A space in a path is escaped there; such a path does not exist as it stands, and counts as old.
    sources.split_whitespace().all(|path| changed(Path::new(path)).is_ok_and(|at| at <= built))
}

fn build(package: &str, name: &str, profile: &Path) {
    let word = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--package", package, "--example", name, "--profile", word])
        .arg("--target-dir")
        .arg(profile.parent().expect("a profile stands in a target directory"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}
