//! Full disks and limits on the size of files: the error names them, and nothing is left behind.

use std::{fs, path::Path, process::Command as Host};

use haft_core::Failure;
use haft_sandbox::{Access, PathErrorKind, Replace, Workspace};

use crate::kit::*;

/// The note that makes [`a_process_that_cannot_write_much`] do something.
const NOTE: &str = "haft-disk-note";

/// No test of its own: started by the tests below where a large file cannot be written. The note says
/// which cause is expected.
#[tokio::test]
async fn a_process_that_cannot_write_much() {
    if !Path::new(NOTE).exists() {
        return;
    }
    let expected = get(Path::new(NOTE));
    let room = Path::new("room").canonicalize().unwrap();
    let workspace = Workspace::builder().root(&room, Access::Write).build().unwrap();
    let large = vec![b'x'; 300 << 10];
    let place = workspace.resolve("large").unwrap();
    let refusal = workspace.write(&place, &large, Replace::Never).unwrap_err();
    assert_eq!(refusal.cause().as_str(), expected, "{refusal}");
    let failure = Failure::from(refusal);
    assert!(failure.next().is_some());
    match expected.as_str() {
        "no_space" => assert!(failure.message().contains("no space left on device"), "{failure}"),
        _ => assert!(failure.message().contains("larger than this process may write"), "{failure}"),
    }
    let left: Vec<_> = fs::read_dir(&room).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    // What fits is written.
    workspace.write(&place, b"small", Replace::Never).unwrap();
    put(Path::new("room/inner-done"), "");
}

/// Starts the test above by a shell, after some preparation there.
fn inner(expected: PathErrorKind, prepare: &str) -> Option<(bool, String)> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("room")).unwrap();
    put(&directory.path().join(NOTE), expected.as_str());
    let script = format!(
        "{prepare} || exit 77; \"$0\" --exact disk::a_process_that_cannot_write_much --test-threads 1 && test -e room/inner-done"
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
    let prepare = "mount -t tmpfs -o size=128k tmpfs room";
    if let Some((is_success, text)) = inner(PathErrorKind::NoSpace, prepare) {
        assert!(is_success, "{text}");
    }
}
