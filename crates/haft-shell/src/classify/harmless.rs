//! The harmless commands of a text: those that only read files that they name.
//!
//! In: a text of which some commands are allowed by rules. Out: for every simple command the files
//! that it reads, if it is proven read-only and names them all. Such a command needs no rule of its
//! own in `cargo build 2>&1 | grep error | head`.
//!
//! A redirection that writes does not count here: the file that it writes is judged as a write.
//! FAIL CLOSED: if one command may change the meaning of another, none is harmless.

use super::{
    Kind, flow, part,
    read_only::plain_name,
    read_paths::{self, ReadGlob},
    text_objection,
};
use crate::{
    RedirectKind, SimpleCommand, Word,
    memo::{Memo, memoized},
    parser,
};

/// What a harmless command reads. Paths are as written: relative ones start in the directory of
/// that command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarmlessReads {
    /// The files that it names; for a directory, everything below it may be read.
    pub paths: Vec<String>,
    /// The globs among its words. What they match is read as well.
    pub globs: Vec<ReadGlob>,
    /// It reads names and attributes of files, and none of their contents: `ls`, `find`, `cd`.
    pub only_names: bool,
}

/// Commands that list files and do not open them.
const LISTING: &str =
    "ls dir vdir eza exa lsd tree du fd fdfind find stat realpath readlink test [ [[ cd";

/// Returns for every simple command of a text what it reads, if it is harmless: it is read-only,
/// names all that it reads, and uses no variable. The order is that of [`parse`](crate::parse).
///
/// ```
/// use haft_shell::harmless_reads;
///
/// let paths = |text: &str| -> Vec<_> {
///     let found = harmless_reads(text).into_iter();
///     found.map(|found| found.map(|found| found.paths.join(" "))).collect()
/// };
/// let found = paths("cargo test 2>&1 | grep -c ok > log; cat a b; cat $HOME/c");
/// assert_eq!(found, [None, Some("".into()), Some("a b".into()), None]);
/// let found = harmless_reads("cat a src/*.rs").remove(0).unwrap();
/// assert_eq!((&*found.paths[0], &*found.globs[0].directory), ("a", "src"));
/// let message = paths("git commit -m \"$(cat <<'E'\nfix\nE\n)\"");
/// assert_eq!(message, [None, Some("".into())]);
/// ```
#[must_use]
pub fn harmless_reads(text: &str) -> Vec<Option<HarmlessReads>> {
    thread_local! {
        static HARMLESS: Memo<Vec<Option<HarmlessReads>>> = const { Memo::new() };
    }
    memoized(&HARMLESS, text, || find(text))
}

fn find(text: &str) -> Vec<Option<HarmlessReads>> {
    let Ok(read) = parser::read(text) else { return Vec::new() };
    let (script, notes) = &*read;
    if text_objection(text, notes, script.commands.len(), 0).is_some() {
        return vec![None; script.commands.len()];
    }
    let found = flow::of(script, notes, 0);
    let each = script.commands.iter().zip(found).enumerate();
    each.map(|(at, (command, found))| {
        if notes.value_users.contains(&at) {
            return None;
        }
        let mut command = command.clone();
        let writes = |kind| matches!(kind, RedirectKind::Write | RedirectKind::ReadWrite);
        command.redirects.retain(|redirect| !writes(redirect.kind));
        if part(&command, found, 0, notes.deepest).kind != Kind::ReadOnly {
            return None;
        }
        let (paths, globs) = read_paths::of_command(&command, text)?;
        Some(HarmlessReads { paths, globs, only_names: only_names(&command) })
    })
    .collect()
}

/// Returns whether a read-only command opens no file that it names.
fn only_names(command: &SimpleCommand) -> bool {
    let mut words = command.words.iter().map(Word::literal);
    let Some(Some(name)) = words.next() else { return false };
    let name = plain_name(name);
    // An option may start another command or read a list of names.
    let runs = |word: Option<&str>| match word {
        Some(word) => {
            let starts = |option: &str| word.starts_with(option);
            let is_search = matches!(name, "find" | "fd" | "fdfind");
            is_search && ["-exec", "-ok", "-x", "-X", "--exec", "-files0"].into_iter().any(starts)
                || starts("--files0")
                || starts("--fromfile")
        }
        None => false,
    };
    let is_read = |redirect: &crate::Redirect| redirect.kind == RedirectKind::Read;
    let lists = LISTING.split_whitespace().any(|own| own == name)
        || name == "rg" && command.words.iter().any(|word| word.literal() == Some("--files"));
    lists && !words.any(runs) && !command.redirects.iter().any(is_read)
}
