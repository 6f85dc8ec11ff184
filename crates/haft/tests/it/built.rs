//! Locates the example binaries and makes sure that they are up to date.
//!
//! `cargo test` builds the examples next to this binary. `cargo test --test it` alone does not, so
//! an example that is missing or older than its sources is built here, in the same profile and
//! target directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the path of an example: `<target>/<profile>/examples`, next to our own `deps`.
pub(crate) fn binary(package: &str, name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let profile = own.ancestors().nth(2).expect("the test binary is in <target>/<profile>/deps");
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let example = profile.join("examples").join(file);
    if !fresh(&example) {
        build(package, name, profile);
    }
    example
}

/// Returns whether no source is newer than the example, by the `.d` file that cargo writes.
fn fresh(example: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|data| data.modified());
    let Ok(built) = changed(example) else { return false };
    let Ok(list) = fs::read(example.with_extension("d")) else { return false };
    let list = String::from_utf8_lossy(&list);
    let sources = list.split_once(':').map_or("", |(_, sources)| sources);
    // A space in a path is escaped there, so such a path is not found and counts as outdated.
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
        .arg(profile.parent().expect("a profile is in a target directory"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}
