//! Full disk and file size limit: the error names them, and no temporary file is left.

use std::{fs, path::Path, process::Command as Host};

use haft_core::Failure;
use haft_sandbox::{Access, PathErrorKind, Replace, Workspace};

use crate::kit::*;

/// The file that enables [`a_process_that_cannot_write_much`].
const NOTE: &str = "haft-disk-note";

/// Inner part of the tests below: runs where a large file cannot be written. The file contains the
/// expected cause.
#[tokio::test]
async fn a_process_that_cannot_write_much() {
    if !Path::new(NOTE).exists() {
        return;
    }
    let expected = get(Path::new(NOTE));
    let disk = Path::new("disk").canonicalize().unwrap();
    let workspace = Workspace::builder().root(&disk, Access::Write).build().unwrap();
    let large = vec![b'x'; 300 << 10];
    let resolved = workspace.resolve("large").unwrap();
    let refusal = workspace.write(&resolved, &large, Replace::Never).unwrap_err();
    assert_eq!(refusal.cause().as_str(), expected, "{refusal}");
    let failure = Failure::from(refusal);
    assert!(failure.next().is_some());
    match expected.as_str() {
        "no_space" => assert!(failure.message().contains("no space left on device"), "{failure}"),
        _ => assert!(failure.message().contains("larger than this process may write"), "{failure}"),
    }
    let left: Vec<_> = fs::read_dir(&disk).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    // A small file can be written.
    workspace.write(&resolved, b"small", Replace::Never).unwrap();
    put(Path::new("disk/inner-done"), "");
}

/// Runs the test above from a shell, after a preparation.
fn inner(expected: PathErrorKind, prepare: &str) -> Option<(bool, String)> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("disk")).unwrap();
    put(&directory.path().join(NOTE), expected.as_str());
    let script = format!(
        "{prepare} || exit 77; \"$0\" --exact disk::a_process_that_cannot_write_much --test-threads 1 && test -e disk/inner-done"
    );
    let output = Host::new("unshare")
        .args(["-rm", "bash", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .current_dir(directory.path())
        .output();
    let output = match output {
        Ok(output) if output.status.code() != Some(77) => output,
        other => {
            eprintln!("NOT TESTED: `{prepare}`: {other:?}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    Some((output.status.success(), text))
}

#[test]
fn write_beyond_the_file_size_limit_is_an_error_and_leaves_no_temporary_file() {
    if let Some((is_success, text)) = inner(PathErrorKind::SizeLimit, "ulimit -f 64") {
        assert!(is_success, "{text}");
    }
}

#[test]
fn full_disk_is_named_and_leaves_no_temporary_file() {
    let prepare = "mount -t tmpfs -o size=128k tmpfs disk";
    if let Some((is_success, text)) = inner(PathErrorKind::NoSpace, prepare) {
        assert!(is_success, "{text}");
    }
}
