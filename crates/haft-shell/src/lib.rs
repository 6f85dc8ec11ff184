//! Parses and classifies shell commands without running them.
//!
//! In: a command text. Out: every simple command in it (in lists, pipes, loops, substitutions),
//! with its words and redirections. Pure: no I/O, no expansion. Parts that are known only at run
//! time are marked unknown, and text that cannot be parsed is refused.
//!
//! ```
//! let script = haft_shell::parse("cd src && timeout 5 rm -r $OLD > log")?;
//! let shown: Vec<String> = script.commands.iter().map(|command| command.to_string()).collect();
//! assert_eq!(shown.len(), 2);
//! assert!(script.commands[1].words.last().is_some_and(|word| word.has_unknown()));
//! assert_eq!(script.commands[1].redirects[0].target.literal(), Some("log"));
//!
//! // Text that a shell could read in another way is refused, with a reason.
//! assert!(haft_shell::parse("echo $((ls); rm x)").is_err());
//! # Ok::<(), haft_shell::ShellParseError>(())
//! ```
//!
//! Limits are checked first: 10 000 characters, 50 commands, 16 levels. `docs/design/shell.md`
//! explains why the grammar is our own, and what it does not promise.
//!
//! INVARIANT: every program that the text could start is among the commands, or a word is marked
//! unknown.

mod memo;
mod script;
mod parser;
mod interpreters;
mod grammar;
mod wrappers;
mod code_source;
mod classify;
mod quote;

pub use self::{
    classify::{
        Classification, CommandEffect, EditedFiles, HarmlessReads, Kind, Part, ReadGlob, classify,
        edits, harmless_reads, reads,
    },
    code_source::{CodeSource, CodeSources, may_run_code},
    grammar::{JqWords, jq_words},
    interpreters::Program,
    parser::{MAX_CHARACTERS, MAX_COMMANDS, MAX_DEPTH, parse},
    quote::quoted,
    script::{
        Assignment, Expanded, Redirect, RedirectKind, Script, ShellParseError, SimpleCommand, Word,
        WordPiece,
    },
    wrappers::{UnwrappedCommand, Wrappers, has_subcommands},
};

/// The guide's program about commands, compiled and run with the other doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/shell.md")]
struct Guide;
