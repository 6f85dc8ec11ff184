//! Errors of the command itself: a message, hints and exit code 1.
//!
//! A failed tool call is a `Failure` with its own exit code. This file is about the rest: wrong
//! arguments, unreadable files, a closed stdout (broken pipe).

use std::{
    ffi::OsString,
    fmt, io,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use serde_json::json;

use crate::{
    layout, screen,
    style::{self, BAD, NAME},
};

/// The exit code of a wrong command line or input.
const EXIT_USAGE: u8 = 1;

/// Whether errors are printed as JSON: a process has one command line.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Prints errors as JSON if the command line has `--json`. Called before the command line is
/// parsed, so that usage errors are JSON too.
pub(crate) fn detect_json(arguments: impl Iterator<Item = OsString>) {
    let mut options = arguments.take_while(|argument| argument != "--");
    IS_JSON.store(options.any(|argument| argument == "--json"), Ordering::Relaxed);
}

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The command line or an input is wrong.
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

    /// Suggests a similar name.
    pub(crate) fn similar(self, near: Option<&str>) -> Self {
        match near {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// Prints the error and returns the exit code: to stderr, or with `--json` as one line of JSON
    /// to stdout.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Wrong { message, hints } => {
                print_final(&message, &hints);
                ExitCode::from(EXIT_USAGE)
            }
            Self::ClosedPipe => ExitCode::SUCCESS,
        }
    }
}

impl Problem {
    /// Prints the error to stderr, also with `--json`: the command continues and prints its data.
    pub(crate) fn warn(self) {
        if let Self::Wrong { message, hints } = self {
            print_error(&message, &hints);
        }
    }
}

/// Prints the error that ends the command.
fn print_final(message: &str, hints: &[String]) {
    if IS_JSON.load(Ordering::Relaxed) {
        let error = json!({"error": {"message": message, "hints": hints}});
        // A closed stdout leaves the exit code.
        let _ = style::print(format_args!("{error}\n"));
    } else {
        print_error(message, hints);
    }
}

/// Writes an error and its hints to stderr.
pub(crate) fn print_error(message: &str, hints: &[String]) {
    style::message(format_args!(
        "{} {}",
        style::paint(BAD.bold(), "error:"),
        style::visible(message)
    ));
    for hint in hints {
        style::message(format_args!("{} {}", style::paint(NAME, "hint:"), style::visible(hint)));
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
    /// Errors of reading are converted elsewhere. This one comes from writing to stdout.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::new(format!("cannot write the output: {error}")),
        }
    }
}

/// Prints what is wrong with the command line, or the requested help or version.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let width = screen::page_width().map_or(HELP_COLUMNS, |width| width.min(HELP_COLUMNS));
            return match style::print(help(&text, width)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(e) => Problem::from(e).report(),
            };
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let width =
                screen::message_width().map_or(HELP_COLUMNS, |width| width.min(HELP_COLUMNS));
            screen::message(help(&text, width).trim_end());
        }
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
            let own = last.as_deref().and_then(|usage| own_hint(error.kind(), usage, &message));
            // A suggestion of a similar name is better than a list.
            if let Some(own) =
                own.filter(|_| error.kind() != ErrorKind::InvalidSubcommand || hints.is_empty())
            {
                hints = vec![own];
            }
            print_final(&message, &hints);
            if let Some(usage) = last.filter(|_| !IS_JSON.load(Ordering::Relaxed)) {
                style::message(style::paint(style::DIM, format_args!("usage: {usage}")));
            }
        }
    }
    ExitCode::from(EXIT_USAGE)
}

/// The widest line of a help text. It is the width for a pipe: a help text is for people.
const HELP_COLUMNS: usize = 100;

/// A help text, wrapped.
fn help(text: &clap::builder::StyledStr, width: usize) -> String {
    layout::page(&layout::join_paragraphs(&text.ansi().to_string()), width)
}

/// A hint that is more specific than the one of the parser.
fn own_hint(kind: clap::error::ErrorKind, usage: &str, message: &str) -> Option<String> {
    use clap::error::ErrorKind::{InvalidSubcommand, MissingRequiredArgument, UnknownArgument};
    match kind {
        UnknownArgument if usage.starts_with("haft shell explain") => {
            Some("quote the command, as in `haft shell explain 'ls -l'`".to_owned())
        }
        UnknownArgument | InvalidSubcommand if usage.ends_with("<COMMAND>") => {
            let command = usage.trim_end_matches("<COMMAND>").trim_end();
            Some(format!("`{command} --help` lists the subcommands"))
        }
        MissingRequiredArgument if usage.starts_with("haft runs show") => {
            Some("`haft runs list` shows the ids".to_owned())
        }
        MissingRequiredArgument if usage.starts_with("haft result") && message.contains("<ID>") => {
            Some("`haft result list` shows the ids".to_owned())
        }
        _ => None,
    }
}
