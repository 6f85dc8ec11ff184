//! Parses and validates a path before it is opened. Pure: no disk access, no symlinks.
//!
//! In: text as a model wrote it, or the target of a symlink. Out: steps down and up (`..`). Whether
//! `..` leaves the root (path traversal) is checked in `resolve`, where symlinks are known.

use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path},
};

use super::PathErrorKind;

/// Limit of a path. No system opens a longer one.
pub(super) const MAX_PATH_BYTES: usize = 4096;
/// Limit of a component. No file system has longer names.
const MAX_NAME_BYTES: usize = 255;
/// Components of a path. Each may hold a file descriptor during the walk.
pub(super) const MAX_DEPTH: usize = 256;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Into an entry of this name.
    Down(OsString),
    /// To the parent.
    Up,
}

/// Rejects an empty path, a NUL byte, and paths that are too long or too deep.
pub(super) fn check(path: &Path) -> Result<(), PathErrorKind> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() || bytes.contains(&0) || bytes.len() >= MAX_PATH_BYTES {
        return Err(PathErrorKind::NameInvalid);
    }
    let mut depth = 0;
    for part in path.components() {
        depth += 1;
        if part.as_os_str().len() > MAX_NAME_BYTES || depth > MAX_DEPTH {
            return Err(PathErrorKind::NameInvalid);
        }
    }
    Ok(())
}

/// Splits a relative path into steps. Returns `None` for an absolute one.
pub(super) fn steps(path: &Path) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => steps.push(Step::Down(name.to_owned())),
            Component::ParentDir => steps.push(Step::Up),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(steps)
}

/// Returns whether a shell would expand the path to a home directory. A directory that is really
/// named `~` is dangerous to delete, and the model intended another path.
pub(super) fn is_home(path: &Path) -> bool {
    path.components().next().is_some_and(|first| match first {
        Component::Normal(name) => {
            name.as_encoded_bytes().first() == Some(&b'~') && {
                let rest = &name.as_encoded_bytes()[1..];
                rest.is_empty() || rest.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
            }
        }
        _ => false,
    })
}

/// Returns whether a new file may have this name. Control characters are valid on disk but only
/// used to deceive: a name with a line break is two lines in every listing.
pub(super) fn is_allowed_for_new(name: &OsStr) -> bool {
    match name.to_str() {
        Some(text) => !text.chars().any(|c| c.is_control() || is_reordering(c)),
        None => false,
    }
}

/// Returns whether a character makes a name look like another one (bidirectional overrides).
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_parsed_without_disk_access() {
        let down = |name: &str| Step::Down(name.into());
        assert_eq!(steps(Path::new("a/./b//c")).unwrap(), [down("a"), down("b"), down("c")]);
        assert_eq!(steps(Path::new("a/../..")).unwrap(), [down("a"), Step::Up, Step::Up]);
        assert_eq!(steps(Path::new("/a")), None);
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for bad in ["", "a\0b", &"x".repeat(5_000), &"x".repeat(256), &"a/".repeat(300)] {
            assert_eq!(check(Path::new(bad)), Err(PathErrorKind::NameInvalid), "{bad:.20}");
        }
        assert_eq!(check(Path::new("a/b.txt")), Ok(()));
    }

    #[test]
    fn tilde_paths_are_what_a_shell_would_expand() {
        for home in ["~", "~/x", "~root/x", "~user_1"] {
            assert!(is_home(Path::new(home)), "{home}");
        }
        for not in ["a~", "a/~", "~$draft.docx", "./a"] {
            assert!(!is_home(Path::new(not)), "{not}");
        }
    }
}
