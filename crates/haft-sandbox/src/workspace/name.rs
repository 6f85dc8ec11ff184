//! Takes a path apart before anything is opened. Pure: no disk, no links.
//!
//! In: text as a model wrote it, or the target of a link. Out: steps down and up. Whether a step up
//! leaves the root is found out where the links are known, in `resolve`.

use std::{
    ffi::{OsStr, OsString},
    path::{Component, Path},
};

use super::PathErrorKind;

/// No system opens a longer path.
pub(super) const LONG: usize = 4096;
/// No file system has longer names.
const LONG_NAME: usize = 255;
/// Deeper paths are nobody's, and each step may hold a descriptor.
pub(super) const DEEP: usize = 256;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Into an entry of this name.
    Down(OsString),
    /// To the parent.
    Up,
}

/// Checks what no path may be, whatever the disk has.
pub(super) fn sound(path: &Path) -> Result<(), PathErrorKind> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() || bytes.contains(&0) || bytes.len() >= LONG {
        return Err(PathErrorKind::NameInvalid);
    }
    let mut deep = 0;
    for part in path.components() {
        deep += 1;
        if part.as_os_str().len() > LONG_NAME || deep > DEEP {
            return Err(PathErrorKind::NameInvalid);
        }
    }
    Ok(())
}

/// Takes a relative path apart. An absolute one gives nothing.
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

/// Returns whether a shell would have read a home folder here. A folder that is really named `~` is
/// a trap for the person who cleans up, and the model meant another place.
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

/// Returns whether a new file may have this name. Control characters are legal on disk and only ever
/// used to deceive: a name with a line break in it is two lines in every listing.
pub(super) fn may_be_made(name: &OsStr) -> bool {
    match name.to_str() {
        Some(text) => !text.chars().any(|c| c.is_control() || is_reordering(c)),
        None => false,
    }
}

/// Characters that make a name look like another one.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_apart_without_asking_the_disk() {
        let down = |name: &str| Step::Down(name.into());
        assert_eq!(steps(Path::new("a/./b//c")).unwrap(), [down("a"), down("b"), down("c")]);
        assert_eq!(steps(Path::new("a/../..")).unwrap(), [down("a"), Step::Up, Step::Up]);
        assert_eq!(steps(Path::new("/a")), None);
    }

    #[test]
    fn what_no_path_may_be_is_refused() {
        for bad in ["", "a\0b", &"x".repeat(5_000), &"x".repeat(256), &"a/".repeat(300)] {
            assert_eq!(sound(Path::new(bad)), Err(PathErrorKind::NameInvalid), "{bad:.20}");
        }
        assert_eq!(sound(Path::new("a/b.txt")), Ok(()));
    }

    #[test]
    fn home_is_what_a_shell_would_expand() {
        for home in ["~", "~/x", "~root/x", "~user_1"] {
            assert!(is_home(Path::new(home)), "{home}");
        }
        for not in ["a~", "a/~", "~$draft.docx", "./a"] {
            assert!(!is_home(Path::new(not)), "{not}");
        }
    }
}
