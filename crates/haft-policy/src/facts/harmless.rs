//! The parts of a call that only read files of the workspace, which they name.

use std::path::PathBuf;

use haft_core::Operation;
use haft_shell::{HarmlessReads, Word};

use super::{Facts, Part, Parts, expand};
use crate::path_resolver::normalize_lexically;

/// The parts of a call that are harmless.
#[derive(Debug, Default)]
pub(crate) struct HarmlessParts {
    pub(crate) parts: Parts,
    /// The files and directories that they read, with everything below; each with the part.
    pub(crate) read: Vec<(usize, PathBuf)>,
    /// The files and directories that they list; each with the part.
    pub(crate) listed: Vec<(usize, PathBuf)>,
}

impl Facts<'_> {
    /// Returns the parts that are harmless, and what they read: commands that are read-only and
    /// name the files that they read, which are in the workspace.
    ///
    /// A `cd` inside the workspace is one, unless the text runs git: a directory can have a
    /// configuration that makes git run other programs.
    pub(crate) fn harmless(&self) -> HarmlessParts {
        let mut found = HarmlessParts::default();
        let mut others = Parts::NONE;
        for text in &self.texts {
            let reads = haft_shell::harmless_reads(&text.text);
            for ((at, directories), reads) in text.commands.iter().zip(&reads) {
                let Some(at) = *at else { continue };
                let directories = directories.as_deref().unwrap_or_default();
                let paths = reads.as_ref().and_then(|reads| self.read_inside(reads, directories));
                let (Some(reads), Some(paths)) = (reads, paths) else {
                    others = others.with(at);
                    continue;
                };
                if self.is_cd(at) {
                    let is_other = |path: &PathBuf| self.root().ok() != Some(&**path);
                    if paths.iter().any(is_other) && text.runs_git() {
                        others = others.with(at);
                    }
                }
                found.parts = found.parts.with(at);
                let into = if reads.only_names { &mut found.listed } else { &mut found.read };
                into.extend(paths.into_iter().map(|path| (at, path)));
            }
        }
        for (at, part) in self.parts.iter().enumerate() {
            if let Part::Path { operation: Operation::Read, resolved: Ok(path), .. } = part
                && self.is_inside(path)
            {
                found.parts = found.parts.with(at);
                found.read.push((at, path.clone()));
            }
        }
        found.parts = found.parts.without(others);
        found
    }

    fn is_cd(&self, at: usize) -> bool {
        let first = match self.parts.get(at) {
            Some(Part::Command(command)) => command.words.first(),
            _ => None,
        };
        first.and_then(Word::literal) == Some("cd")
    }

    /// Returns what a harmless command reads, if all of it is in the workspace. A glob is what it
    /// matches now.
    fn read_inside(&self, reads: &HarmlessReads, directories: &[PathBuf]) -> Option<Vec<PathBuf>> {
        let mut found = self.inside_all(&reads.paths, directories)?;
        for glob in &reads.globs {
            // FAIL CLOSED: the directory is not known.
            if directories.is_empty() {
                return None;
            }
            for directory in directories {
                let expanded = expand::expand(&glob.glob, directory, &*self.context.resolver);
                let is_option = |name: &String| name.starts_with('-');
                let names = match expanded {
                    Some(expanded) if !expanded.names.iter().any(is_option) => expanded.names,
                    // An option may name any other file there.
                    _ => vec![glob.directory.clone()],
                };
                found.extend(self.inside_all(&names, std::slice::from_ref(directory))?);
            }
        }
        Some(found)
    }

    /// Returns what paths resolve to from all directories, if all are in the workspace.
    fn inside_all(&self, paths: &[String], directories: &[PathBuf]) -> Option<Vec<PathBuf>> {
        let mut found = Vec::new();
        for path in paths {
            // FAIL CLOSED: the directory is not known.
            if directories.is_empty() {
                return None;
            }
            for directory in directories {
                let whole = directory.join(path);
                // `..` after a symlink is read in two ways.
                for whole in [&whole, &normalize_lexically(&whole)] {
                    let resolved = self.context.resolver.resolve(whole).ok()?;
                    if !self.is_inside(&resolved) {
                        return None;
                    }
                    if !found.contains(&resolved) {
                        found.push(resolved);
                    }
                }
            }
        }
        Some(found)
    }
}
