//! The one error of this crate: what the operator is told when a process cannot be confined.
//!
//! Refused paths are answers to the model and have a type of their own,
//! [`PathError`](crate::PathError).

use std::fmt;

use haft_core::{BoxError, Failure, FailureCode};

/// What kind of trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The program never called [`init`](crate::init) and named no helper.
    NoHelper,
    /// The level that was asked for cannot be had on this machine.
    TierMissing,
    /// The profile contradicts itself or the disk.
    BadProfile,
    /// The command cannot be started: it is missing, or no program.
    BadCommand,
    /// A step of setting up the confinement failed. Nothing ran.
    Launch,
    /// Helper and runtime do not understand each other.
    Protocol,
    /// A limit was reached (open files, processes, memory, disk space), or the helper was killed or
    /// did not answer in time. Nothing ran. The same launch may work later; it says nothing about
    /// what the machine can do.
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

    /// Returns what kind of trouble it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns what could be done about it.
    #[must_use]
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Says it to the model: what it may know, and nothing of how this machine is built.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        let failure = match self.kind {
            ErrorKind::BadCommand => Failure::new(FailureCode::InvalidValue, self.message.clone())
                .with_next("use another program, or tell the user which one is missing"),
            ErrorKind::BadProfile => Failure::new(
                FailureCode::SandboxUnavailable,
                "this workspace cannot be closed around the command",
            )
            .with_next("use a command that only reads, or tell the user that the folder cannot be written or does not fit"),
            ErrorKind::Transient => Failure::new(
                FailureCode::SandboxUnavailable,
                format!("the command was not started: {}", self.message),
            )
            .with_next("try again once; if it fails again, tell the user which limit was reached"),
            _ => Failure::new(FailureCode::SandboxUnavailable, "this machine cannot isolate the command")
                .with_next("use tools that need no process, or tell the user"),
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
    fn a_model_hears_whether_its_command_the_folder_or_the_machine_is_at_fault() {
        let told = |kind| Error::new(kind, "`x` in `/secret/place`").into_failure().to_string();
        assert!(told(ErrorKind::BadCommand).contains("use another program"));
        let profile = told(ErrorKind::BadProfile);
        assert!(profile.contains("workspace") && profile.contains("only reads"), "{profile}");
        assert!(told(ErrorKind::Launch).contains("this machine"));
        assert!(told(ErrorKind::Transient).contains("was not started: `x`"));
        for kind in [ErrorKind::BadProfile, ErrorKind::Launch, ErrorKind::TierMissing] {
            assert!(!told(kind).contains("/secret"), "how the machine is built is not for a model");
        }
    }
}
