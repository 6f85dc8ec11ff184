//! No path makes the matchers of protected and denied names panic, and what they refuse they refuse
//! below it too. A rename that they allow never produces a denied name.
#![no_main]

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

use haft_core::protected_names::{Change, ProtectedNames, Protection};
use haft_sandbox::DeniedNames;
use libfuzzer_sys::fuzz_target;

const CHANGES: [Change; 7] = [
    Change::CreateDir,
    Change::CreateFile,
    Change::CreateLink,
    Change::Write,
    Change::Remove,
    Change::MoveTo,
    Change::MoveFrom,
];

/// A resolved path, as the supervisor produces it: without `.`, `..` and empty components.
fn is_real(path: &[u8]) -> bool {
    !path.is_empty()
        && !path.contains(&0)
        && path.split(|byte| *byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}

fn protected(names: &ProtectedNames, path: &[u8]) {
    let own = Path::new(OsStr::from_bytes(path));
    let standing = names.protection(own);
    let below = own.join("below");
    for change in CHANGES {
        let is_refused = names.check(own, change).is_err();
        match standing {
            Protection::Unprotected => assert!(!is_refused, "{own:?} {change:?}"),
            Protection::Protected => {
                assert!(is_refused && names.check(&below, change).is_err(), "{own:?} {change:?}");
            }
            Protection::Contains => {}
        }
    }
    // Another letter case of a name is never less protected.
    let is_everywhere = names.pattern(own).is_some_and(|pattern| pattern != "HEAD");
    if standing == Protection::Protected && is_everywhere {
        let other = path.to_ascii_uppercase();
        let other = Path::new(OsStr::from_bytes(&other));
        assert_eq!(names.protection(other), Protection::Protected, "{own:?}");
    }
}

fn denied(pattern: &[u8], from: &[u8], to: &[u8], below: &[u8]) {
    let pattern = format!("/{}", String::from_utf8_lossy(pattern));
    let Ok(names) = DeniedNames::new(&[pattern]) else { return };
    let absolute = |path: &[u8]| Path::new("/").join(OsStr::from_bytes(path));
    let (from, to) = (absolute(from), absolute(to));
    let below = OsStr::from_bytes(below);
    let (before, after) = (from.join(below), to.join(below));
    if names.matches(&to) {
        assert!(names.matches(&after), "{after:?}");
    }
    if names.matches(&after) {
        assert!(names.may_contain(&to), "{after:?}");
    }
    if names.may_move(&from, &to) {
        assert!(!names.matches(&after) || names.matches(&before), "{before:?} {after:?}");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let names = ProtectedNames::standard();
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').take(16).collect();
    for line in lines.iter().filter(|line| is_real(line)) {
        protected(&names, line);
    }
    if let [pattern, from, to, below, ..] = lines.as_slice()
        && [from, to, below].into_iter().all(|path| is_real(path))
    {
        denied(pattern, from, to, below);
    }
});
