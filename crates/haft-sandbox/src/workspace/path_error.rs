//! Why a path was refused or an operation on it failed, told to the model.
//!
//! Like `Failure` it is no `std::error::Error`, so that `?` in a tool's body gives a failure with the
//! code that fits, and never a nameless one.

use std::{fmt, io};

use haft_core::{Failure, FailureCode};
use serde::Serialize;

use crate::exhausted;

macro_rules! causes {
    ($($(#[$doc:meta])* $variant:ident $text:literal $code:ident $next:literal;)*) => {
        /// What is wrong with a path, as a stable word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum PathErrorKind { $($(#[$doc])* $variant,)* }

        impl PathErrorKind {
            /// Every cause.
            pub const ALL: &'static [PathErrorKind] = &[$(PathErrorKind::$variant,)*];

            /// Returns its word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(PathErrorKind::$variant => $text,)* }
            }

            /// Returns the code a call that fails for this cause is answered with.
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
    /// It leads out of every root.
    OutsideWorkspace "outside_workspace" OutsideWorkspace "use a path inside the workspace; relative paths start at its first folder";
    /// It has a name that needs a grant of its own.
    Protected "protected" Denied "leave this file alone, or ask the user to change it";
    /// The root may only be read.
    ReadOnly "read_only" Denied "write to another folder, or ask the user";
    /// It is no regular file and no folder.
    SpecialFile "special_file" Denied "use a regular file";
    /// The system does not let this user do it.
    NotPermitted "not_permitted" Denied "use another path, or ask the user";
    /// Nothing is there.
    NotFound "not_found" InvalidValue "list the folder to see what exists";
    /// Something is there already.
    Exists "exists" InvalidValue "choose another name, or say that it may be replaced";
    /// A part of it is no folder.
    NotAFolder "not_a_folder" InvalidValue "list the folder to see what exists";
    /// It is a folder.
    IsAFolder "is_a_folder" InvalidValue "name a file";
    /// The folder has something in it.
    NotEmpty "not_empty" InvalidValue "say that everything in it is meant, or empty it first";
    /// It has more bytes than is allowed.
    TooLarge "too_large" InvalidValue "read a part of it";
    /// There are more entries or levels than is allowed.
    TooMany "too_many" InvalidValue "take a smaller part";
    /// No file can have this name.
    NameInvalid "name_invalid" InvalidValue "use a plain path";
    /// It would be on another disk, where folders and links cannot be moved to in one step.
    OtherDisk "other_disk" InvalidValue "move its files one by one: files can go to another disk, folders and links cannot";
    /// Its links go round in circles.
    LinkLoop "link_loop" InvalidValue "use the path of the file itself";
    /// Somebody changed it in the meantime.
    Changed "changed" InvalidValue "read it again, then repeat the call";
    /// The device has no space left, or the quota is used up.
    NoSpace "no_space" ToolFailed "delete files that are no longer needed, or tell the user that the disk is full";
    /// The file would be larger than this process may write.
    SizeLimit "size_limit" ToolFailed "write a smaller file, or tell the user that files are limited here (`ulimit -f`)";
    /// A limit on open files, processes or memory was reached.
    LimitReached "limit_reached" ToolFailed "try again once, then tell the user which limit was reached";
    /// The disk or the system failed.
    Failed "failed" ToolFailed "try again, or tell the user";
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

/// So much of a path is repeated to the model.
const SHOWN: usize = 200;

impl PathError {
    /// Makes a refusal of a path as it was given.
    #[must_use]
    pub fn new(cause: PathErrorKind, path: impl Into<String>) -> Self {
        let mut path = path.into();
        if path.len() > SHOWN {
            path.truncate(path.floor_char_boundary(SHOWN));
            path.push('…');
        }
        Self { cause, path, source: None }
    }

    /// Makes one of what the system said.
    #[cfg(unix)]
    pub(crate) fn os(path: &str, errno: rustix::io::Errno) -> Self {
        use rustix::io::Errno;
        let cause = match errno {
            Errno::NOENT => PathErrorKind::NotFound,
            Errno::EXIST => PathErrorKind::Exists,
            Errno::NOTDIR => PathErrorKind::NotAFolder,
            Errno::ISDIR => PathErrorKind::IsAFolder,
            Errno::NOTEMPTY => PathErrorKind::NotEmpty,
            Errno::ACCESS | Errno::PERM | Errno::BUSY | Errno::TXTBSY => {
                PathErrorKind::NotPermitted
            }
            Errno::ROFS => PathErrorKind::ReadOnly,
            Errno::NAMETOOLONG | Errno::ILSEQ => PathErrorKind::NameInvalid,
            // `XDEV` is what the kernel says of a path that leaves the root.
            Errno::XDEV => PathErrorKind::OutsideWorkspace,
            Errno::LOOP => PathErrorKind::LinkLoop,
            Errno::NXIO | Errno::NODEV => PathErrorKind::SpecialFile,
            Errno::FBIG => PathErrorKind::SizeLimit,
            Errno::NOSPC | Errno::DQUOT => PathErrorKind::NoSpace,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => PathErrorKind::LimitReached,
            _ => PathErrorKind::Failed,
        };
        Self { source: Some(errno.into()), ..Self::new(cause, path) }
    }

    /// Makes one of what the system said while a file was read or written.
    pub(crate) fn io(path: &str, error: io::Error) -> Self {
        match rustix::io::Errno::from_io_error(&error) {
            Some(errno) => Self::os(path, errno),
            None => Self::new(PathErrorKind::Failed, path).because(error),
        }
    }

    /// Adds what the system said.
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

    fn says(&self) -> &'static str {
        match self.cause {
            PathErrorKind::OutsideWorkspace => "lies outside the workspace",
            PathErrorKind::Protected => {
                "is protected, because other programs run or obey such files"
            }
            PathErrorKind::ReadOnly => "may only be read",
            PathErrorKind::SpecialFile => "is neither a file nor a folder",
            PathErrorKind::NotPermitted => "is not accessible",
            PathErrorKind::NotFound => "does not exist",
            PathErrorKind::Exists => "exists already",
            PathErrorKind::NotAFolder => "is not a folder, or leads through something that is none",
            PathErrorKind::IsAFolder => "is a folder",
            PathErrorKind::NotEmpty => "is not empty",
            PathErrorKind::TooLarge => "is too large",
            PathErrorKind::TooMany => "has too many entries or levels",
            PathErrorKind::NameInvalid => "is no valid path",
            PathErrorKind::OtherDisk => "would go to another disk, and is no plain file",
            PathErrorKind::LinkLoop => "leads through too many links",
            PathErrorKind::Changed => "was changed in the meantime",
            PathErrorKind::NoSpace => "could not be written: no space left on device",
            PathErrorKind::SizeLimit => "is larger than this process may write",
            PathErrorKind::LimitReached => {
                "could not be opened: a limit of this process was reached"
            }
            PathErrorKind::Failed => "could not be worked on",
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
            _ => f.write_str(self.says()),
        }
    }
}

impl From<PathError> for Failure {
    fn from(refusal: PathError) -> Self {
        let (cause, code) = (refusal.cause, refusal.cause.code());
        // Where the code says it already, saying it again would only make a model stumble.
        let message = match cause.as_str() == code.as_str() {
            true => refusal.to_string(),
            false => format!("{cause}: {refusal}"),
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
    fn every_cause_has_a_word_of_its_own_and_a_next_step() {
        let words: std::collections::BTreeSet<_> =
            PathErrorKind::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(words.len(), PathErrorKind::ALL.len());
        for cause in PathErrorKind::ALL {
            let failure: Failure = PathError::new(*cause, "a/b").into();
            let told = format!("{}: {}", failure.code(), failure.message());
            assert!(told.contains(&format!("{cause}: `a/b`")), "{told}");
            assert!(!told.starts_with(&format!("{cause}: {cause}")), "{told}");
            assert!(failure.next().is_some());
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
    }

    #[test]
    fn a_full_disk_and_a_reached_limit_are_named() {
        use rustix::io::Errno;
        let told = |errno| Failure::from(PathError::os("a/b", errno)).to_string();
        assert!(told(Errno::NOSPC).contains("no space left on device"), "{}", told(Errno::NOSPC));
        assert!(told(Errno::DQUOT).contains("quota"), "{}", told(Errno::DQUOT));
        assert!(told(Errno::MFILE).contains("`ulimit -n`"), "{}", told(Errno::MFILE));
        let large = Failure::from(PathError::os("a/b", Errno::FBIG));
        assert!(large.message().contains("larger than this process may write"), "{large}");
        assert!(large.next().unwrap().contains("ulimit -f"), "{large}");
    }

    #[test]
    fn a_long_or_odd_path_is_shown_shortened_and_harmless() {
        let refusal = PathError::new(PathErrorKind::NotFound, "é".repeat(5_000));
        assert!(refusal.path().len() < 210);
        let odd = PathError::new(PathErrorKind::NotFound, "a\u{1b}[2J\n`b").to_string();
        assert!(!odd.contains('\u{1b}') && !odd.contains('\n'), "{odd}");
    }
}
