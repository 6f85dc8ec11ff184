//! Commands that only edit the files they name: `mkdir`, `touch`, `mv`, `cp`, `rm`, `rmdir`,
//! `sed -i`.
//!
//! In: one command. Out: the files that it reads and changes, or `None` if it may do anything else.
//! FAIL CLOSED: an option that is not listed, and a `sed` script that may run or write something,
//! yield `None`.

use crate::{SimpleCommand, Word, grammar};

/// The files of a command that edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedFiles {
    /// The files and directories that it names: it may change each of them, and what is below.
    pub files: Vec<Word>,
    /// Whether the last one may be a directory that the others are put into.
    pub has_target: bool,
}

/// The options without values of each command: letters, then long names.
const OPTIONS: [(&str, &str, &[&str]); 6] = [
    ("mkdir", "pv", &["parents", "verbose"]),
    ("touch", "acm", &["no-create"]),
    ("rmdir", "pv", &["parents", "verbose", "ignore-fail-on-non-empty"]),
    ("rm", "rRfdvI", &["recursive", "force", "dir", "verbose"]),
    ("mv", "fnuvT", &["force", "no-clobber", "verbose", "no-target-directory"]),
    ("cp", "rRpfnuvT", &["recursive", "force", "no-clobber", "verbose", "no-target-directory"]),
];

/// Returns the files that a command edits, if it is one of the few that only edit what they name.
///
/// ```
/// let files = |text: &str| {
///     let script = haft_shell::parse(text).unwrap();
///     let found = haft_shell::edits(&script.commands[0])?;
///     Some(found.files.iter().map(|word| word.literal().unwrap().to_owned()).collect::<Vec<_>>())
/// };
/// assert_eq!(files("mkdir -p src/new"), Some(vec!["src/new".to_owned()]));
/// assert_eq!(files("sed -i 's/a/b/' x.txt"), Some(vec!["x.txt".to_owned()]));
/// assert_eq!(files("sed -i 's/a/b/e' x.txt"), None, "it runs commands");
/// assert_eq!(files("cp -l a b"), None, "the option is not listed");
/// ```
#[must_use]
pub fn edits(command: &SimpleCommand) -> Option<EditedFiles> {
    if !command.assignments.is_empty() {
        return None;
    }
    let (first, words) = command.words.split_first()?;
    let name = first.literal()?;
    if name == "sed" {
        return stream_edits(words);
    }
    let (_, letters, long) = OPTIONS.iter().find(|(own, ..)| *own == name)?;
    let mut files = Vec::new();
    let mut has_ended = false;
    for word in words {
        match word.literal() {
            Some("--") if !has_ended => has_ended = true,
            Some(text) if !has_ended && text.len() > 1 && text.starts_with('-') => {
                let is_listed = match text.strip_prefix("--") {
                    Some(option) => long.contains(&option),
                    None => text.chars().skip(1).all(|c| letters.contains(c)),
                };
                if !is_listed {
                    return None;
                }
            }
            // A name that only a shell knows may be an option.
            None if !has_ended && word.may_be_option => return None,
            _ => files.push(word.clone()),
        }
    }
    let has_target = matches!(name, "mv" | "cp");
    let enough = if has_target { files.len() > 1 } else { !files.is_empty() };
    enough.then_some(EditedFiles { files, has_target })
}

/// `sed -i`, with a script that only changes text.
fn stream_edits(words: &[Word]) -> Option<EditedFiles> {
    let mut scripts = Vec::new();
    let mut files = Vec::new();
    let mut in_place = false;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.literal() {
            Some("-i" | "--in-place") => in_place = true,
            Some("-E" | "-r" | "-n" | "-s" | "-z" | "-u") => {}
            Some("-e") => scripts.push(words.next()?.literal()?),
            Some(text) if text.starts_with('-') => return None,
            Some(text) if scripts.is_empty() => scripts.push(text),
            None if word.may_be_option => return None,
            _ => files.push(word.clone()),
        }
    }
    let only_changes = |script: &&str| grammar::only_changes_text(script);
    let is_edit = in_place && !files.is_empty() && scripts.iter().all(only_changes);
    is_edit.then_some(EditedFiles { files, has_target: false })
}
