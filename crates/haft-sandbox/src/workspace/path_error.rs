//! Why a path was refused or an operation on it failed, as a message for the model.
//!
//! Like `Failure` it is not an `std::error::Error`, so that `?` in a tool's body gives a failure
//! with the right code.

use std::{fmt, io};

use haft_core::{Failure, FailureCode};
use serde::Serialize;

use crate::exhausted;

macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident $text:literal $code:ident $next:literal;)*) => {
        /// What is wrong with a path, as a stable code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum PathErrorKind { $($(#[$doc])* $variant,)* }

        impl PathErrorKind {
            /// All kinds.
            pub const ALL: &'static [PathErrorKind] = &[$(PathErrorKind::$variant,)*];

            /// Returns its code.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(PathErrorKind::$variant => $text,)* }
            }

            /// Returns the failure code of a call that fails for this reason.
            #[must_use]
            pub const fn code(self) -> FailureCode {
                match self { $(PathErrorKind::$variant => FailureCode::$code,)* }
            }

            const fn next(self) -> &'static str {
                match self { $(PathErrorKind::$variant => $next,)* }
            }
        }
    };
}

causes! {
    /// It leads out of every root (path traversal).
    OutsideWorkspace "outside_workspace" OutsideWorkspace "use a path inside the workspace; relative paths start at its first directory";
    /// It is a protected name, which needs a grant.
    Protected "protected" Denied "leave this file alone, or ask the user to change it";
    /// The root is read-only.
    ReadOnly "read_only" Denied "write to another directory, or ask the user";
    /// It is a pipe, a socket, a device or another special file.
    SpecialFile "special_file" Denied "use a regular file";
    /// The system denies access to this user.
    NotPermitted "not_permitted" Denied "use another path, or ask the user";
    /// It does not exist.
    NotFound "not_found" InvalidValue "list the directory to see what exists";
    /// It exists already.
    Exists "exists" InvalidValue "choose another name, or allow it to be replaced";
    /// A component of it is not a directory.
    NotADirectory "not_a_directory" InvalidValue "list the directory to see what exists";
    /// It is a directory.
    IsADirectory "is_a_directory" InvalidValue "name a file";
    /// The directory is not empty.
    NotEmpty "not_empty" InvalidValue "delete it with everything in it, or empty it first";
    /// It has more bytes than allowed.
    TooLarge "too_large" InvalidValue "read a part of it";
    /// It has more entries or levels than allowed.
    TooMany "too_many" InvalidValue "use a smaller directory";
    /// The name is not valid for a file.
    NameInvalid "name_invalid" InvalidValue "use a plain path";
    /// The target is on another disk, to which directories and symlinks cannot be moved atomically.
    CrossDevice "cross_device" InvalidValue "move its files one by one: files can be moved to another disk, directories and symlinks cannot";
    /// It goes through a symlink loop.
    SymlinkLoop "symlink_loop" InvalidValue "use the path of the file itself";
    /// It changed after it was read or authorized (TOCTOU).
    Changed "changed" InvalidValue "read it again, then repeat the call";
    /// The device has no space left, or the quota is used up.
    NoSpace "no_space" ToolFailed "delete files that are no longer needed, or report to the user that the disk is full";
    /// The file would exceed the size that this process may write.
    SizeLimit "size_limit" ToolFailed "write a smaller file, or report to the user that files are limited here (`ulimit -f`)";
    /// A limit on open files, processes or memory was reached.
    LimitReached "limit_reached" ToolFailed "try again once; if it fails again, report the limit to the user";
    /// The disk or the system failed.
    Failed "failed" ToolFailed "try again once; if it fails again, report the error to the user";
}

impl fmt::Display for PathErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a path was refused.
///
/// ```
/// use haft_core::{Failure, FailureCode};
/// use haft_sandbox::{PathError, PathErrorKind};
///
/// fn body() -> Result<(), Failure> {
///     Err(PathError::new(PathErrorKind::OutsideWorkspace, "../up"))?
/// }
/// assert_eq!(body().unwrap_err().code(), FailureCode::OutsideWorkspace);
/// ```
#[derive(Debug)]
pub struct PathError {
    cause: PathErrorKind,
    path: String,
    source: Option<io::Error>,
}

/// Bytes of a path that are repeated to the model.
const MAX_SHOWN_BYTES: usize = 200;

impl PathError {
    /// Creates an error about a path as it was given.
    #[must_use]
    pub fn new(cause: PathErrorKind, path: impl Into<String>) -> Self {
        let mut path = path.into();
        if path.len() > MAX_SHOWN_BYTES {
            path.truncate(path.floor_char_boundary(MAX_SHOWN_BYTES));
            path.push('…');
        }
        Self { cause, path, source: None }
    }

    /// Creates an error from an errno.
    #[cfg(unix)]
    pub(crate) fn os(path: &str, errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        let cause = match errno {
            Errno::NOENT => PathErrorKind::NotFound,
            Errno::EXIST => PathErrorKind::Exists,
            Errno::NOTDIR => PathErrorKind::NotADirectory,
            Errno::ISDIR => PathErrorKind::IsADirectory,
            Errno::NOTEMPTY => PathErrorKind::NotEmpty,
            Errno::ACCESS | Errno::PERM | Errno::BUSY | Errno::TXTBSY => {
                PathErrorKind::NotPermitted
            }
            Errno::ROFS => PathErrorKind::ReadOnly,
            Errno::NAMETOOLONG | Errno::ILSEQ => PathErrorKind::NameInvalid,
            // The kernel returns `XDEV` for a path that leaves the root.
            Errno::XDEV => PathErrorKind::OutsideWorkspace,
            Errno::LOOP => PathErrorKind::SymlinkLoop,
            Errno::NXIO | Errno::NODEV => PathErrorKind::SpecialFile,
            Errno::FBIG => PathErrorKind::SizeLimit,
            Errno::NOSPC | Errno::DQUOT => PathErrorKind::NoSpace,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => PathErrorKind::LimitReached,
            _ => PathErrorKind::Failed,
        };
        Self { source: Some(errno.into()), ..Self::new(cause, path) }
    }

    /// Creates an error from an I/O error.
    pub(crate) fn io(path: &str, error: io::Error) -> Self {
        match rustix::io::Errno::from_io_error(&error) {
            Some(errno) => Self::os(path, errno),
            None => Self::new(PathErrorKind::Failed, path).because(error),
        }
    }

    /// Adds the I/O error that caused it.
    #[must_use]
    pub fn because(mut self, source: io::Error) -> Self {
        self.source = Some(source);
        self
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn cause(&self) -> PathErrorKind {
        self.cause
    }

    /// Returns the path as it was given, shortened.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    fn description(&self) -> &'static str {
        match self.cause {
            PathErrorKind::OutsideWorkspace => "is outside the workspace",
            PathErrorKind::Protected => {
                "is protected, because other programs run or obey such files"
            }
            PathErrorKind::ReadOnly => "is read-only",
            PathErrorKind::SpecialFile => "is neither a file nor a directory",
            PathErrorKind::NotPermitted => "is not accessible",
            PathErrorKind::NotFound => "does not exist",
            PathErrorKind::Exists => "exists already",
            PathErrorKind::NotADirectory => {
                "is not a directory, or has a component that is not one"
            }
            PathErrorKind::IsADirectory => "is a directory",
            PathErrorKind::NotEmpty => "is not empty",
            PathErrorKind::TooLarge => "is too large",
            PathErrorKind::TooMany => "has too many entries or levels",
            PathErrorKind::NameInvalid => "is not a valid path",
            PathErrorKind::CrossDevice => "would move to another disk and is not a regular file",
            PathErrorKind::SymlinkLoop => "goes through too many symlinks",
            PathErrorKind::Changed => "was changed in the meantime",
            PathErrorKind::NoSpace => "could not be written: no space left on device",
            PathErrorKind::SizeLimit => "is larger than this process may write",
            PathErrorKind::LimitReached => {
                "could not be opened: a limit of this process was reached"
            }
            PathErrorKind::Failed => "could not be read or written",
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ", self.path.escape_debug())?;
        let limit = self.source.as_ref().and_then(exhausted::limit_of);
        match (self.cause, limit) {
            (PathErrorKind::LimitReached, Some(limit)) => write!(f, "could not be opened: {limit}"),
            (PathErrorKind::NoSpace, Some(limit)) => write!(f, "could not be written: {limit}"),
            _ => f.write_str(self.description()),
        }
    }
}

impl From<PathError> for Failure {
    fn from(refusal: PathError) -> Self {
        let (cause, code) = (refusal.cause, refusal.cause.code());
        // The same word as code and as cause would confuse a model.
        let message = if cause.as_str() == code.as_str() {
            refusal.to_string()
        } else {
            format!("{cause}: {refusal}")
        };
        let failure = Failure::new(code, message).with_next(cause.next());
        match refusal.source {
            Some(source) => failure.with_source(source),
            None => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_unique_code_and_a_next_step() {
        let codes: std::collections::BTreeSet<_> =
            PathErrorKind::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(codes.len(), PathErrorKind::ALL.len());
        for cause in PathErrorKind::ALL {
            let failure: Failure = PathError::new(*cause, "a/b").into();
            let text = format!("{}: {}", failure.code(), failure.message());
            assert!(text.contains(&format!("{cause}: `a/b`")), "{text}");
            assert!(!text.starts_with(&format!("{cause}: {cause}")), "{text}");
            assert!(failure.next().is_some());
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
    }

    #[test]
    fn full_disk_and_reached_limit_are_named() {
        use rustix::io::Errno;
        let text = |errno| Failure::from(PathError::os("a/b", errno)).to_string();
        assert!(text(Errno::NOSPC).contains("no space left on device"), "{}", text(Errno::NOSPC));
        assert!(text(Errno::DQUOT).contains("quota"), "{}", text(Errno::DQUOT));
        assert!(text(Errno::MFILE).contains("`ulimit -n`"), "{}", text(Errno::MFILE));
        let large = Failure::from(PathError::os("a/b", Errno::FBIG));
        assert!(large.message().contains("larger than this process may write"), "{large}");
        assert!(large.next().unwrap().contains("ulimit -f"), "{large}");
    }

    #[test]
    fn long_path_is_truncated_and_control_characters_are_escaped() {
        let refusal = PathError::new(PathErrorKind::NotFound, "é".repeat(5_000));
        assert!(refusal.path().len() < 210);
        let odd = PathError::new(PathErrorKind::NotFound, "a\u{1b}[2J\n`b").to_string();
        assert!(!odd.contains('\u{1b}') && !odd.contains('\n'), "{odd}");
    }
}
