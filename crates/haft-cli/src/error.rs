//! Why a command stopped: something for a person, a hint where there is one, and an exit code.
//!
//! What a tool call can cause is a `Failure` and has its own exit code. This is the rest: wrong
//! arguments, files that cannot be read, a stdout that nobody reads any more.

use std::{fmt, io, process::ExitCode};

use crate::style::{self, BAD, NAME};

/// The exit code of everything that was called wrongly.
const USAGE: u8 = 1;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The command was called wrongly, or something it was given is.
    Wrong { message: String, hints: Vec<String> },
    /// The reader of stdout has closed the pipe.
    ClosedPipe,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self::Wrong { message: message.into(), hints: Vec::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Wrong { hints, .. } = &mut self {
            hints.push(hint.into());
        }
        self
    }

    /// Adds a name that may have been meant.
    pub(crate) fn near(self, near: Option<&str>) -> Self {
        match near {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// Says it on stderr and gives the exit code.
    pub(crate) fn tell(self) -> ExitCode {
        match self {
            Self::Wrong { message, hints } => {
                complain(&message, &hints);
                ExitCode::from(USAGE)
            }
            Self::ClosedPipe => ExitCode::SUCCESS,
        }
    }
}

/// Writes an error and its hints to stderr.
pub(crate) fn complain(message: &str, hints: &[String]) {
    style::talk(format_args!("{} {}", style::paint(BAD.bold(), "error:"), style::visible(message)));
    for hint in hints {
        style::talk(format_args!("{} {}", style::paint(NAME, "hint:"), style::visible(hint)));
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong { message, hints } => {
                f.write_str(message)?;
                hints.iter().try_for_each(|hint| write!(f, "; {hint}"))
            }
            Self::ClosedPipe => f.write_str("the reader of the output has closed the pipe"),
        }
    }
}

impl From<haft::Error> for Problem {
    fn from(error: haft::Error) -> Self {
        Self::Wrong { message: error.message().to_owned(), hints: error.hints().to_vec() }
    }
}

impl From<io::Error> for Problem {
    /// Reading has its own words; what comes here is stdout.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::new(format!("cannot write the output: {error}")),
        }
    }
}

/// Tells what is wrong with the command line, or prints the help or version that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            return match style::say(text.ansi()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(e) => Problem::from(e).tell(),
            };
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => style::talk(text.ansi()),
        _ => {
            let text = text.to_string();
            let mut lines = text.lines().filter(|line| !line.trim().is_empty());
            let first = lines.next().unwrap_or_default();
            let mut message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
            let mut hints = Vec::new();
            let mut last = None;
            for line in lines {
                if let Some(hint) = line.trim_start().strip_prefix("tip: ") {
                    hints.push(hint.to_owned());
                } else if let Some(usage) = line.strip_prefix("Usage: ") {
                    last = Some(usage.to_owned());
                } else if !line.starts_with("For more information") {
                    message = format!("{message}\n{line}");
                }
            }
            if let Some(own) = last.as_deref().and_then(|usage| own_hint(error.kind(), usage)) {
                hints = vec![own.to_owned()];
            }
            complain(&message, &hints);
            if let Some(usage) = last {
                style::talk(style::paint(style::DIM, format_args!("usage: {usage}")));
            }
        }
    }
    ExitCode::from(USAGE)
}

/// What helps more than the words of the parser, which knows no command.
fn own_hint(kind: clap::error::ErrorKind, usage: &str) -> Option<&'static str> {
    use clap::error::ErrorKind::{MissingRequiredArgument, UnknownArgument};
    match kind {
        UnknownArgument if usage.starts_with("haft shell explain") => {
            Some("quote the command, as in `haft shell explain 'ls -l'`")
        }
        MissingRequiredArgument if usage.starts_with("haft result") => {
            Some("`haft result list` shows the ids")
        }
        _ => None,
    }
}
