//! Which files a command runs as programs: by a path, or as the script of an interpreter.
//!
//! Only restricting rules use this. A rule about `./deploy.sh` applies to every spelling that
//! resolves to the file: `././deploy.sh`, its absolute path, `cd src && ../deploy.sh`, `bash
//! deploy.sh`. What cannot be determined counts as a possible match. No allow relies on it.

use std::{
    borrow::Cow,
    cell::OnceCell,
    path::{Path, PathBuf},
};

use haft_shell::{Program, RedirectKind, Script, SimpleCommand, Word, WordPiece, Wrappers};
use smallvec::SmallVec;

use crate::path_resolver::{PathResolver, normalize_lexically};

/// Maximum number of working directories that are followed.
const MAX_DIRECTORIES: usize = 8;

/// A program that a command runs.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// What names it: a path, the script of an interpreter, a module.
    pub(crate) program: Word,
    /// The arguments after it.
    pub(crate) arguments: Vec<Word>,
    /// An interpreter runs it, so a bare name is a file too.
    pub(crate) is_script: bool,
    /// Where it may be; empty for a module, or if only a running shell knows.
    files: Vec<PathBuf>,
    /// Whether it is certainly one of these.
    pub(crate) is_certain: bool,
    leads: OnceCell<Vec<Result<PathBuf, String>>>,
}

impl Launch {
    /// Returns where it may be, normalized lexically.
    pub(crate) fn spelled(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|file| normalize_lexically(file))
    }

    /// Returns what each of its files resolves to, symlinks followed.
    pub(crate) fn leads(&self, resolver: &dyn PathResolver) -> &[Result<PathBuf, String>] {
        self.leads.get_or_init(|| self.files.iter().map(|file| resolver.resolve(file)).collect())
    }

    /// Returns the name of the file without its directory, if it is known.
    pub(crate) fn name(&self) -> Option<&str> {
        let Some(WordPiece::Text(last)) = self.program.pieces.last() else { return None };
        match last.rsplit_once('/') {
            Some((_, name)) => Some(name).filter(|name| !name.is_empty()),
            None => (self.program.pieces.len() == 1).then_some(last),
        }
    }
}

/// The directories that the commands of a script may start in.
pub(super) struct Directories {
    /// `None` if they cannot be determined.
    known: Option<Vec<PathBuf>>,
    /// The script sets `PATH`, so a bare name may be any file.
    sets_path: bool,
}

impl Directories {
    /// Starts in the directory of the call; without one, nothing is known.
    pub(super) fn new(base: Option<&Path>, script: &Script) -> Self {
        // In a loop or a function a change of directory counts for commands before it as well.
        let any_changes = || script.commands.iter().any(|own| changes(own, &views(own)));
        let is_known = !(script.repeats && any_changes());
        let sets_path =
            script.commands.iter().any(|own| views(own).iter().any(|view| sets_path(view)));
        Self { known: base.filter(|_| is_known).map(|base| vec![base.to_owned()]), sets_path }
    }

    /// Returns the directories that the next command may start in; `None` if they are not known.
    pub(super) fn known(&self) -> Option<&[PathBuf]> {
        self.known.as_deref()
    }

    /// Returns the directories that the arguments of the next command start in.
    pub(super) fn of(&self, command: &SimpleCommand) -> Option<Vec<PathBuf>> {
        if moves_itself(&views(command)) { None } else { self.known.clone() }
    }

    /// Returns what a command launches, and advances to the directories after it.
    pub(super) fn launches(&mut self, command: &SimpleCommand) -> Vec<Launch> {
        let views = views(command);
        let mut found = if moves_itself(&views) {
            launches(&views, None)
        } else {
            launches(&views, self.known.as_deref())
        };
        // `env PATH=. x` starts `x`, so every view counts.
        for view in views.iter().filter(|_| self.sets_path) {
            let bare = view.words.first();
            found.extend(bare.map(|first| launch(first, view.words.get(1..), false, None)));
        }
        if changes(command, &views) {
            self.follow(command);
        }
        found
    }

    fn follow(&mut self, command: &SimpleCommand) {
        let target = match &*command.words {
            [name, target] if name.literal() == Some("cd") => target.literal(),
            _ => None,
        };
        let plain = target.filter(|text| !text.is_empty() && !text.starts_with(['-', '~']));
        let is_plain = command.assignments.is_empty() && plain.is_some();
        let (Some(target), Some(known)) = (plain.filter(|_| is_plain), self.known.as_mut()) else {
            self.known = None;
            return;
        };
        // `cd` may fail, or apply only in a subshell: the previous directory stays possible.
        let next: Vec<PathBuf> = known.iter().map(|directory| directory.join(target)).collect();
        for directory in next {
            if !known.contains(&directory) {
                known.push(directory);
            }
        }
        if known.len() > MAX_DIRECTORIES {
            self.known = None;
        }
    }
}

fn starts_with(word: &Word, text: &str) -> bool {
    matches!(word.pieces.first(), Some(WordPiece::Text(first)) if first.starts_with(text))
}

/// Returns whether a command sets where programs are searched.
fn sets_path(command: &SimpleCommand) -> bool {
    command.assignments.iter().any(|set| set.name == "PATH")
        || command.words.iter().any(|word| starts_with(word, "PATH="))
}

/// Returns whether commands after this one may start in another directory.
fn changes(command: &SimpleCommand, views: &[Cow<'_, SimpleCommand>]) -> bool {
    let is_mover = |view: &Cow<'_, SimpleCommand>| match view.words.first().map(Word::literal) {
        Some(Some(name)) => {
            matches!(name, "cd" | "pushd" | "popd" | "chdir" | "eval" | "source" | ".")
        }
        Some(None) => true,
        None => false,
    };
    command.assignments.iter().any(|a| matches!(&*a.name, "CDPATH" | "PWD" | "OLDPWD"))
        || views.iter().any(is_mover)
}

/// Returns whether a command starts what it launches in another directory.
fn moves_itself(views: &[Cow<'_, SimpleCommand>]) -> bool {
    let elsewhere = |view: &Cow<'_, SimpleCommand>| {
        let given = |options: &[&str]| {
            let words = view.words.iter().skip(1).filter_map(Word::literal);
            words.into_iter().any(|word| options.iter().any(|own| word.starts_with(own)))
        };
        match view.words.first().and_then(Word::literal) {
            Some("env" | "sudo" | "doas") => {
                given(&["-C", "-D", "-i", "-R", "--chdir", "--login", "--chroot"])
            }
            Some("find") => given(&["-execdir", "-okdir"]),
            Some(
                "su" | "ssh" | "chroot" | "nsenter" | "unshare" | "systemd-run" | "bwrap" | "proot"
                | "run0",
            ) => true,
            _ => false,
        }
    };
    views.iter().any(elsewhere) || views.iter().skip(1).any(|view| changes_alone(view))
}

fn changes_alone(command: &SimpleCommand) -> bool {
    matches!(command.words.first().and_then(Word::literal), Some("cd" | "pushd" | "popd" | "chdir"))
}

/// Returns the commands that a command starts, itself included. The common case copies nothing.
fn views(command: &SimpleCommand) -> SmallVec<[Cow<'_, SimpleCommand>; 1]> {
    if command.may_wrap(Wrappers::All) {
        let views = command.unwrapped(Wrappers::All).into_iter();
        views.map(|view| Cow::Owned(view.command)).collect()
    } else {
        SmallVec::from_iter([Cow::Borrowed(command)])
    }
}

/// Returns the programs that a command runs by a path or by an interpreter.
fn launches(views: &[Cow<'_, SimpleCommand>], directories: Option<&[PathBuf]>) -> Vec<Launch> {
    let mut found = Vec::new();
    for view in views {
        let words = &view.words;
        let Some(first) = words.first() else { continue };
        let has_slash =
            |piece: &WordPiece| matches!(piece, WordPiece::Text(text) if text.contains('/'));
        if first.pieces.iter().any(has_slash) {
            found.push(launch(first, words.get(1..), false, directories));
        }
        if matches!(first.literal(), Some("source" | ".")) {
            found.extend(words.get(1).map(|file| launch(file, words.get(2..), true, directories)));
        }
        for program in view.programs() {
            match program {
                Program::File { file, at } => {
                    let arguments = at.and_then(|at| words.get(at + 1..));
                    found.push(launch(&file, arguments, true, directories));
                }
                Program::Module { module, arguments } => {
                    let launch = launch(&module, words.get(arguments..), true, None);
                    found.push(Launch { is_certain: true, ..launch });
                }
                Program::Input => {
                    let reads = view.redirects.iter();
                    let reads = reads.filter(|redirect| redirect.kind == RedirectKind::Read);
                    found.extend(reads.map(|r| launch(&r.target, None, true, directories)));
                }
                Program::Text(_) => {}
            }
        }
    }
    found
}

fn launch(
    program: &Word,
    arguments: Option<&[Word]>,
    is_script: bool,
    directories: Option<&[PathBuf]>,
) -> Launch {
    let files: Vec<PathBuf> = match (program.literal(), directories) {
        (Some(path), _) if path.starts_with('/') => vec![PathBuf::from(path)],
        (Some(path), Some(directories)) => directories.iter().map(|d| d.join(path)).collect(),
        _ => Vec::new(),
    };
    Launch {
        program: program.clone(),
        arguments: arguments.unwrap_or_default().to_vec(),
        is_script,
        is_certain: files.len() == 1,
        files,
        leads: OnceCell::new(),
    }
}
