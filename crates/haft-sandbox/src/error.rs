//! The error that the operator gets if a process cannot be sandboxed.
//!
//! A rejected path is reported to the model and has its own type, [`PathError`](crate::PathError).

use std::fmt;

use haft_core::{BoxError, Failure, FailureCode};

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The program never called [`init`](crate::init) and named no helper.
    NoHelper,
    /// This machine does not support the requested level.
    TierMissing,
    /// The profile contradicts itself or the disk.
    BadProfile,
    /// The command cannot be started: it is missing or not executable.
    BadCommand,
    /// A step of the sandbox setup failed. Nothing ran.
    Launch,
    /// Helper and runtime have different protocol versions.
    Protocol,
    /// A limit was reached (open files, processes, memory, disk space), or the helper was killed or
    /// timed out. Nothing ran. A retry may work; the error says nothing about what the machine
    /// supports.
    Transient,
}

/// Why a process was not run.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    source: Option<BoxError>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn because(mut self, source: impl Into<BoxError>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn of(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns how to fix it.
    #[must_use]
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Converts it for the model, without details of this machine.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        let failure = match self.kind {
            ErrorKind::BadCommand => Failure::new(FailureCode::InvalidValue, self.message.clone())
                .with_next("use another program, or ask the user to install this one"),
            ErrorKind::BadProfile => Failure::new(
                FailureCode::SandboxUnavailable,
                "the command cannot be confined to this workspace",
            )
            .with_next("use a command that only reads, or report to the user that the sandbox cannot use this workspace"),
            ErrorKind::Transient => Failure::new(
                FailureCode::SandboxUnavailable,
                format!("the command was not started: {}", self.message),
            )
            .with_next("try again once; if it fails again, report the limit to the user"),
            _ => Failure::new(FailureCode::SandboxUnavailable, "this machine cannot isolate the command")
                .with_next("use tools that need no process, or report this to the user"),
        };
        failure.with_source(self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_blames_the_command_the_workspace_or_the_machine_without_details() {
        let failure_text =
            |kind| Error::new(kind, "`x` in `/secret/place`").into_failure().model_text();
        assert!(failure_text(ErrorKind::BadCommand).contains("use another program"));
        let profile = failure_text(ErrorKind::BadProfile);
        assert!(profile.contains("workspace") && profile.contains("only reads"), "{profile}");
        assert!(failure_text(ErrorKind::Launch).contains("this machine"));
        assert!(failure_text(ErrorKind::Transient).contains("was not started: `x`"));
        for kind in [ErrorKind::BadProfile, ErrorKind::Launch, ErrorKind::TierMissing] {
            assert!(
                !failure_text(kind).contains("/secret"),
                "details of the machine must not reach the model"
            );
        }
    }
}
