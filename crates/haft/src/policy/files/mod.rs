//! What people have written in files: `haft.toml` and the settings of Claude Code, read in place.
//!
//! In: the texts of files, each with its place and whose it is. Out: rules, hooks, budget and mode,
//! with notes on what counts for nothing or is judged differently here. Pure: whoever calls reads
//! the files. Every mistake names file, line, column and the fix.

use std::{path::PathBuf, time::Duration};

use serde::Serialize;
use serde_json::Value;

use super::{
    budget::Budget,
    rule::{Layer, Place, Rule},
    rules::{Ground, Mode},
};
use crate::error::Error;

/// One file, as it was found.
#[derive(Debug, Clone)]
pub struct File {
    /// Whose it is.
    pub layer: Layer,
    /// In which language it is written.
    pub form: Form,
    /// Where it lies.
    pub path: PathBuf,
    /// The folder that its `/…` patterns start from.
    pub anchor: PathBuf,
    /// What it says.
    pub text: String,
}

/// In which language a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// `haft.toml` and its kin.
    Toml,
    /// Settings of Claude Code.
    Settings,
}

/// What is known about a place before its files are read.
#[derive(Debug, Clone, Default)]
pub struct Where {
    /// What `~` means.
    pub home: Option<PathBuf>,
    /// Whether the person trusts the folder: without that its allows, hooks and roots do not count.
    pub trusted: bool,
}

/// Everything that the files say together.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Setup {
    /// The rules of all files.
    pub rules: Vec<Rule>,
    /// What they stand on.
    pub ground: Ground,
    /// The hooks of all files, in order.
    pub hooks: Vec<HookSpec>,
    /// What a run may use.
    pub budget: Budget,
    /// What counts for nothing, or is judged differently here.
    pub notes: Vec<Note>,
}

impl Setup {
    /// Reads all files together.
    ///
    /// # Errors
    /// Fails with every mistake in every file, in one error with one hint line each.
    pub fn read(_files: &[File], _place: &Where) -> Result<Self, Error> {
        Ok(Self::default())
    }
}

/// Something a person should know about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Where.
    pub place: Place,
    /// What.
    pub message: String,
}

/// One hook that a file names.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HookSpec {
    /// When it is called: `PreToolUse`, `PostToolUse`, ….
    pub event: String,
    /// About which tools; nothing means all.
    pub matcher: Option<String>,
    /// A further condition, as one rule pattern.
    pub only_if: Option<String>,
    /// What is called.
    pub handler: Handler,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether the call is refused when the hook cannot answer.
    pub fails_closed: bool,
    /// Where it is written.
    pub place: Place,
    /// Whose file that is.
    pub layer: Layer,
}

impl HookSpec {
    /// Makes a hook that is called at every such event, may take ten minutes as its protocol says,
    /// and refuses what it cannot look at.
    #[must_use]
    pub fn new(event: impl Into<String>, handler: Handler) -> Self {
        Self {
            event: event.into(),
            matcher: None,
            only_if: None,
            handler,
            timeout: Duration::from_secs(600),
            fails_closed: true,
            place: Place::default(),
            layer: Layer::Code,
        }
    }
}

/// What a hook calls.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Handler {
    /// A command line for a shell, or a program with its arguments.
    Command {
        /// The command line, or the program.
        command: String,
        /// The arguments; with them no shell is started.
        args: Option<Vec<String>>,
    },
    /// An address that is posted to.
    Http {
        /// The address.
        url: String,
        /// Headers, in which `$NAME` stands for a variable of the environment.
        headers: Vec<(String, String)>,
        /// The variables that headers may name.
        allowed_variables: Vec<String>,
    },
    /// Anything else, kept as it is written and reported.
    Other(Value),
}

// The mode stands in the ground, next to the folders.
const _: fn(&Setup) -> Mode = |setup| setup.ground.mode;
