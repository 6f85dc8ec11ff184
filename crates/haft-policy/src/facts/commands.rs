//! The commands of a call: their parts, the files that they name, and what is harmless among them.
//!
//! Files that a command names as arguments are not parts: only restricting rules compare them, and
//! no allow relies on them.

use std::path::{Path, PathBuf};

use haft_core::Operation;
use haft_shell::{Expanded, RedirectKind, SimpleCommand, Word};

use super::{
    Facts, KnownEffects, MAX_MENTIONS, Part, Parts, expand,
    launch::{Directories, Launch},
    named_files::{self, NamedFile},
};
use crate::{context::ArgumentKind, host, path_resolver::normalize_lexically};

const CHANGES_DIRECTORY: &str = "the command changes its directory first";
const ONE_OF_SEVERAL: &str = "it may run in another directory";
const KNOWN_LATER: &str = "the file is known only when the shell runs";
const PERHAPS_FEWER: &str = "which files its glob matches is known only when the shell runs";

/// One command text of a call.
#[derive(Debug, Clone)]
pub(crate) struct CommandText {
    pub(super) text: String,
    /// For each simple command its part, and the directories that it may start in; `None` if these
    /// are not known.
    pub(super) commands: Vec<(Option<usize>, Option<Vec<PathBuf>>)>,
}

impl CommandText {
    /// Returns whether it may run git.
    pub(super) fn runs_git(&self) -> bool {
        let has_git = |word: &str| word.rsplit('/').next() == Some("git");
        self.text.split(|c: char| c.is_whitespace() || ";&|()`\"'".contains(c)).any(has_git)
    }
}

impl Facts<'_> {
    pub(super) fn add_command(&mut self, text: &str) {
        let script = haft_shell::parse(text);
        if !self.read_only {
            let commands = script.as_ref().map(|script| &*script.commands).unwrap_or_default();
            self.add_effects_known(KnownEffects::of(text, commands));
        }
        let script = match script {
            Ok(script) => script,
            Err(e) => return self.add(Part::Unreadable(e.why)),
        };
        if script.commands.is_empty() {
            return self.add(Part::Unreadable("it contains no command".to_owned()));
        }
        let base = self.base().ok().filter(|_| !self.starts_elsewhere);
        let mut directories = Directories::new(base, &script);
        let mut commands = Vec::new();
        for command in script.commands {
            let here = directories.of(&command);
            self.add_redirects(&command, directories.known());
            // A bare command carries only the redirections of a group and starts nothing.
            if command.is_bare() {
                commands.push((None, here));
                continue;
            }
            let named = named_files::named_files(&command);
            let launched = directories.launches(&command);
            self.add_launches(&command, launched);
            let at = self.add_part(Part::Command(command));
            if let Some(at) = at {
                self.add_mentions(at, named, here.as_deref());
            }
            commands.push((at, here));
        }
        self.texts.push(CommandText { text: text.to_owned(), commands });
    }

    /// Adds a part, and returns its index.
    fn add_part(&mut self, part: Part) -> Option<usize> {
        if let Some(at) = self.parts.iter().position(|own| *own == part) {
            return Some(at);
        }
        let at = self.parts.len();
        self.add(part);
        (self.parts.len() > at).then_some(at)
    }

    /// Adds the programs that a command launches, which is or will be the next part. The same
    /// command in another directory is the same part, but may launch other files.
    fn add_launches(&mut self, command: &SimpleCommand, launched: Vec<Launch>) {
        let same = |part: &Part| matches!(part, Part::Command(own) if own == command);
        let at = self.parts.iter().position(same).unwrap_or(self.parts.len());
        if self.launches.len() + launched.len() > MAX_MENTIONS {
            self.overflow = true;
            return;
        }
        self.launches.extend(launched.into_iter().map(|launch| (at, launch)));
    }

    /// Returns what a part of it launches.
    pub(crate) fn launches_of(&self, part: &Part) -> impl Iterator<Item = &Launch> {
        let at = self.parts.iter().position(|own| std::ptr::eq(own, part));
        self.launches.iter().filter(move |(own, _)| Some(*own) == at).map(|(_, launch)| launch)
    }

    /// Adds the files that a command names. `directories`: where it may start.
    fn add_mentions(&mut self, at: usize, named: Vec<NamedFile>, directories: Option<&[PathBuf]>) {
        for mention in named {
            if self.mentions.len() >= MAX_MENTIONS {
                self.overflow = true;
                return;
            }
            match mention {
                NamedFile::Beginning(operation, text) => {
                    self.add_beginning(at, operation, &text, directories);
                }
                NamedFile::Unknown(operation) => self.add_unknown_file(at, operation, KNOWN_LATER),
                NamedFile::Path(operation, path) => {
                    self.add_named_path(at, operation, &path, directories, None);
                }
                NamedFile::Expanded(operation, word) => {
                    self.add_expanded(at, operation, &word, directories);
                }
            }
        }
    }

    /// Adds a name that only a running shell completes.
    fn add_beginning(
        &mut self,
        at: usize,
        operation: Operation,
        text: &str,
        directories: Option<&[PathBuf]>,
    ) {
        let Ok(base) = self.base() else { return };
        let base = vec![base.to_owned()];
        let (parent, name) = text.rsplit_once('/').map_or(("", text), |(f, n)| (f, n));
        let parent = if text.starts_with('/') && parent.is_empty() { "/" } else { parent };
        // In an unknown directory, the name may be that of any file.
        let name = if directories.is_some() { name } else { "" };
        for directory in directories.unwrap_or(&base) {
            let parent = normalize_lexically(&directory.join(parent));
            self.beginnings.push((at, operation, parent, name.to_owned()));
        }
    }

    fn add_unknown_file(&mut self, at: usize, operation: Operation, why: &str) {
        let (spelled, resolved) = (PathBuf::new(), Err(why.to_owned()));
        self.mentions.push((at, Part::Path { operation, spelled, resolved }));
    }

    /// Adds a file that a command names, or may name.
    fn add_named_path(
        &mut self,
        at: usize,
        operation: Operation,
        path: &str,
        directories: Option<&[PathBuf]>,
        doubt: Option<&'static str>,
    ) {
        let home = self.context.home.as_ref();
        let below = path.strip_prefix("~/").zip(home).map(|(rest, h)| h.join(rest));
        let path = below.unwrap_or_else(|| PathBuf::from(path));
        let is_fixed = path.is_absolute() || path.starts_with("~");
        let root = [PathBuf::from("/")];
        let directories = match directories {
            _ if is_fixed && path.is_absolute() => &root,
            Some(directories) => directories,
            // The home directory is not known, but it is not the directory of the command.
            None if is_fixed => match self.base() {
                Ok(base) => &[base.to_owned()],
                Err(_) => return,
            },
            None if self.base().is_err() => return,
            None => return self.add_unknown_file(at, operation, CHANGES_DIRECTORY),
        };
        let doubt = doubt.or((directories.len() > 1).then_some(ONE_OF_SEVERAL));
        let find = |directory: &PathBuf| {
            let whole = directory.join(&path);
            let resolved = self.context.resolver.resolve(&whole);
            Part::Path { operation, spelled: normalize_lexically(&whole), resolved }
        };
        let found: Vec<Part> = directories.iter().map(find).collect();
        match doubt {
            Some(doubt) => self.possible.extend(found.into_iter().map(|part| (at, part, doubt))),
            None => self.mentions.extend(found.into_iter().map(|part| (at, part))),
        }
    }

    /// Adds the files that a word with globs names.
    fn add_expanded(
        &mut self,
        at: usize,
        operation: Operation,
        word: &Word,
        directories: Option<&[PathBuf]>,
    ) {
        let globs = word.expands_to.as_deref().unwrap_or_default();
        if globs.iter().all(|glob| self.add_glob(at, operation, glob, directories).is_some()) {
            // A glob that starts like a denied name may match it later, if it does not exist yet.
            for glob in globs.iter().filter(|glob| !glob.is_in_home) {
                let start = glob.glob.split(['*', '?', '[', '\\']).next().unwrap_or_default();
                if glob.literal().is_none() && !start.is_empty() && !start.ends_with('/') {
                    self.add_beginning(at, operation, start, directories);
                }
            }
            return;
        }
        match named_files::beginning(word) {
            Some(text) => self.add_beginning(at, operation, text, directories),
            None => self.add_unknown_file(at, operation, KNOWN_LATER),
        }
    }

    /// Adds the files that a glob matches; `None` if they cannot be determined.
    fn add_glob(
        &mut self,
        at: usize,
        operation: Operation,
        glob: &Expanded,
        directories: Option<&[PathBuf]>,
    ) -> Option<()> {
        let home = [self.context.home.clone().unwrap_or_default()];
        let (text, directories) = if glob.is_in_home {
            self.context.home.as_ref()?;
            (glob.glob.trim_start_matches('/'), &home[..])
        } else if glob.glob.starts_with('/') {
            (&*glob.glob, directories.unwrap_or(&home))
        } else {
            (&*glob.glob, directories?)
        };
        let several = (directories.len() > 1).then_some(ONE_OF_SEVERAL);
        for directory in directories {
            let found = expand::expand(text, directory, &*self.context.resolver)?;
            let is_split = |name: &String| name.contains([' ', '\t', '\n', '*', '?', '[']);
            if glob.is_split && found.names.iter().any(is_split) {
                return None;
            }
            if self.mentions.len() + self.possible.len() + found.names.len() > 4 * MAX_MENTIONS {
                return None;
            }
            let doubt = several.or((!found.is_exact).then_some(PERHAPS_FEWER));
            let here = [directory.clone()];
            for name in &found.names {
                // A name may look like an option.
                if let Some(NamedFile::Path(operation, name)) =
                    named_files::mention(&Word::text(name), operation)
                {
                    self.add_named_path(at, operation, &name, Some(&here), doubt);
                }
            }
        }
        Some(())
    }

    /// Adds the files that the redirections of a command open.
    fn add_redirects(&mut self, command: &SimpleCommand, directories: Option<&[PathBuf]>) {
        for redirect in &command.redirects {
            let operation = match redirect.kind {
                RedirectKind::Here | RedirectKind::Duplicate => continue,
                RedirectKind::Read => Operation::Read,
                RedirectKind::Write | RedirectKind::ReadWrite => Operation::Write,
            };
            if redirect.is_harmless() {
                continue;
            }
            self.does(operation);
            if let Some(host) = redirect.reaches() {
                self.does(Operation::External);
                let host = host.literal().map(host::host);
                let unknown = || Err("the host is known only when the shell runs".to_owned());
                self.add(Part::Host(host.unwrap_or_else(unknown)));
                continue;
            }
            let Some(target) = redirect.target.literal() else {
                let about = match operation {
                    Operation::Read => ArgumentKind::ReadPath,
                    _ => ArgumentKind::WritePath,
                };
                self.add_unknown(about, KNOWN_LATER);
                continue;
            };
            match directories {
                _ if target.starts_with(['/', '~']) => self.add_path(operation, target),
                // Every file that it may be is a part: an allow must cover all of them.
                Some([one]) => self.add_path(operation, &one.join(target).to_string_lossy()),
                Some(several) => {
                    for directory in several {
                        self.add_path(operation, &directory.join(target).to_string_lossy());
                    }
                }
                None if self.base().is_err() => self.add_path(operation, target),
                None => self.add(Part::Path {
                    operation,
                    spelled: PathBuf::from(target),
                    resolved: Err(CHANGES_DIRECTORY.to_owned()),
                }),
            }
        }
    }

    /// Returns the commands that only edit files inside the workspace, none of them protected.
    /// `is_protected` decides about one path.
    pub(crate) fn edits_inside(&self, is_protected: impl Fn(&Part) -> bool) -> Parts {
        let (mut edits, mut others) = (Parts::NONE, Parts::NONE);
        for text in &self.texts {
            for (at, directories) in &text.commands {
                let Some(at) = *at else { continue };
                let Some(Part::Command(command)) = self.parts.get(at) else { continue };
                let directories = directories.as_deref().unwrap_or_default();
                if self.edits_only_inside(command, directories, &is_protected) {
                    edits = edits.with(at)
                } else {
                    others = others.with(at)
                }
            }
        }
        edits.without(others)
    }

    fn edits_only_inside(
        &self,
        command: &SimpleCommand,
        directories: &[PathBuf],
        is_protected: &impl Fn(&Part) -> bool,
    ) -> bool {
        let Some(edited) = haft_shell::edits(command) else { return false };
        let Some(names) = self.names_of(&edited.files, directories) else { return false };
        // `mv a src` writes `src/a`.
        let last = edited.files.last().and_then(Word::literal);
        let moved = last.filter(|_| edited.has_target).into_iter().flat_map(|target| {
            let base =
                |name: &String| Path::new(name).file_name().map(Path::new).map(Path::to_owned);
            let into = move |base: PathBuf| Path::new(target).join(base);
            names.iter().filter_map(base).map(into).collect::<Vec<_>>()
        });
        let moved: Vec<String> =
            moved.filter_map(|path| path.into_os_string().into_string().ok()).collect();
        !directories.is_empty()
            && names.iter().chain(&moved).all(|name| {
                directories.iter().all(|directory| {
                    let whole = directory.join(name);
                    let spelled = normalize_lexically(&whole);
                    let Ok(resolved) = self.context.resolver.resolve(&whole) else { return false };
                    let inside = self.is_below_root(&resolved) && self.is_below_root(&spelled);
                    let operation = Operation::Write;
                    let part = Part::Path { operation, spelled, resolved: Ok(resolved) };
                    inside && !is_protected(&part)
                })
            })
    }

    /// Returns the names of files that words expand to; `None` if they are not known.
    fn names_of(&self, words: &[Word], directories: &[PathBuf]) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for word in words {
            match (word.literal(), &word.expands_to) {
                (Some(text), _) if !text.starts_with('~') => names.push(text.to_owned()),
                (None, Some(globs)) => {
                    for glob in globs.iter() {
                        if glob.is_in_home || glob.is_split {
                            return None;
                        }
                        for directory in directories {
                            let resolver = &*self.context.resolver;
                            names.extend(expand::expand(&glob.glob, directory, resolver)?.names);
                        }
                    }
                }
                _ => return None,
            }
        }
        Some(names)
    }

    /// Returns whether a path is inside the workspace, and not one of its roots.
    fn is_below_root(&self, path: &Path) -> bool {
        let is_root = |root: &Path| {
            root == path || self.context.resolver.resolve(root).is_ok_and(|root| root == path)
        };
        let roots = self.context.roots.iter().chain(self.roots).map(PathBuf::as_path);
        self.is_inside(path)
            && !is_root(&self.scope.working_directory)
            && !roots.into_iter().any(is_root)
    }
}
