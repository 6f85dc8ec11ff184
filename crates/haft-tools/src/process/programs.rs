//! Where the programs of a command are found.
//!
//! A `PATH` may name directories of the workspace: `.venv/bin`, `node_modules/.bin`, a relative or an
//! empty entry, or a symlink that leads there. A program that can write there could put a `cat` of its own
//! before the system's. A command that is judged to only read is judged by the names of its programs,
//! so it finds them in other directories alone.
//!
//! INVARIANT: a directory that is left in the `PATH` lies outside every writable root, symlinks
//! followed.

use std::path::{Path, PathBuf};

use haft_sandbox::{Access, Environment, Workspace};
use haft_shell::{Word, Wrappers};

use super::confined::Settings;

/// Where programs are looked for when the host names no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// A `PATH` in which nothing is found. An empty one would mean the working directory.
const NOWHERE: &str = "/nonexistent";

/// The directories of a `PATH`, apart by where they lead.
#[derive(Debug)]
pub(super) struct Programs {
    /// The writable roots, without symlinks.
    roots: Vec<PathBuf>,
    /// Outside every writable root, as they are written.
    outside: Vec<PathBuf>,
    /// The others.
    inside: Vec<PathBuf>,
    /// Whether the host named them.
    is_named: bool,
}

impl Programs {
    /// Looks where the directories of the `PATH` lead now.
    pub(super) fn of(
        workspace: &Workspace,
        settings: &Settings,
        environment: &Environment,
    ) -> Self {
        let writable = workspace.roots().into_iter().filter(|root| root.access == Access::Write);
        let configured = settings.writable().map(Path::to_path_buf);
        let mut programs = Self {
            roots: writable.map(|root| root.path).chain(configured).collect(),
            outside: Vec::new(),
            inside: Vec::new(),
            is_named: environment.get("PATH").is_some(),
        };
        for entry in environment.get("PATH").unwrap_or(USUAL_PATH).split(':') {
            let entry = PathBuf::from(entry);
            let leads = entry.is_absolute().then(|| entry.canonicalize().ok()).flatten();
            match leads {
                Some(leads) if programs.is_outside(&entry) && programs.is_outside(&leads) => {
                    programs.outside.push(entry);
                }
                // What leads nowhere today may lead into the workspace tomorrow.
                _ => programs.inside.push(entry),
            }
        }
        programs
    }

    /// Returns the variables with a `PATH` that names no directory of the workspace.
    pub(super) fn cleaned(&self, environment: &Environment) -> Environment {
        let entries: Vec<_> = self.outside.iter().filter_map(|entry| entry.to_str()).collect();
        let path = if entries.is_empty() { NOWHERE.to_owned() } else { entries.join(":") };
        environment.clone().set("PATH", path)
    }

    /// Returns the directories outside that the host named, and that are called what directories of
    /// programs are called. A command is shown the system's own in any case.
    pub(super) fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let is_usual =
            |entry: &&PathBuf| self.is_named && (entry.ends_with("bin") || entry.ends_with("sbin"));
        self.outside.iter().filter(is_usual).cloned()
    }

    /// Returns whether no program of a command is a file of the workspace: neither one that it names nor
    /// one that a wrapper starts. What is found nowhere is none.
    pub(super) fn has_all(&self, command: &str) -> bool {
        let Ok(script) = haft_shell::parse(command) else { return false };
        script.commands.iter().all(|command| {
            let views = command.unwrapped(Wrappers::All);
            views.iter().all(|view| match view.command.words.first().map(Word::literal) {
                Some(Some(name)) => self.has(name),
                // FAIL CLOSED: only a running shell knows which program that is.
                Some(None) => false,
                None => true,
            })
        })
    }

    /// Returns whether a program is found outside the workspace, or nowhere.
    pub(super) fn has(&self, name: &str) -> bool {
        if name.contains('/') {
            // A relative path starts in the workspace.
            return Path::new(name).is_absolute() && self.leads_outside(Path::new(name));
        }
        let found = |entries: &[PathBuf]| -> Vec<PathBuf> {
            entries.iter().map(|entry| entry.join(name)).filter(|file| file.is_file()).collect()
        };
        let outside = found(&self.outside);
        if outside.is_empty() {
            return found(&self.inside).is_empty();
        }
        // Which of several is started depends on their modes.
        outside.iter().all(|file| self.leads_outside(file))
    }

    fn leads_outside(&self, file: &Path) -> bool {
        match file.canonicalize() {
            Ok(leads) => self.is_outside(file) && self.is_outside(&leads),
            // Nothing is there that could run.
            Err(_) => self.is_outside(file),
        }
    }

    fn is_outside(&self, path: &Path) -> bool {
        !self.roots.iter().any(|root| path.starts_with(root))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn path_entries_of_the_workspace_are_left_out_however_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for name in ["w/.venv/bin", "w/sub/bin", "sys/bin", "home/bin"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        symlink(base.join("w/sub/bin"), base.join("home/link")).unwrap();
        for (at, name) in [("w/.venv/bin", "tool"), ("w/.venv/bin", "cat"), ("sys/bin", "cat")] {
            fs::File::create(base.join(at).join(name)).unwrap();
        }
        symlink(base.join("w/sub/planted"), base.join("home/bin/ls")).unwrap();
        fs::File::create(base.join("w/sub/planted")).unwrap();
        let workspace = Workspace::builder().root(base.join("w"), Access::Write).build().unwrap();
        let at = |name: &str| base.join(name).display().to_string();
        let path = [
            at("w/.venv/bin"),
            "node_modules/.bin".to_owned(),
            String::new(),
            ".".to_owned(),
            at("home/link"),
            at("home/../w/sub/bin"),
            at("gone/bin"),
            at("home/bin"),
            at("sys/bin"),
        ];
        let environment = Environment::new().set("PATH", path.join(":")).set("LANG", "C");
        let programs = Programs::of(&workspace, &Settings::default(), &environment);
        let cleaned = programs.cleaned(&environment);
        let left = format!("{}:{}", at("home/bin"), at("sys/bin"));
        assert_eq!((cleaned.get("PATH"), cleaned.get("LANG")), (Some(&*left), Some("C")));
        for (command, is) in [
            ("cat a", true),
            ("nothing-of-this-name a", true),
            ("tool a", false),
            ("ls", false),
            ("timeout 5 tool a", false),
            ("env ls", false),
            ("find . -exec tool {} +", false),
            ("./cat a", false),
            ("cat a | tool", false),
            ("bash -c 'cat a | tool'", false),
            ("cd x && cat a", true),
        ] {
            assert_eq!(programs.has_all(command), is, "{command}");
        }
        assert!(!programs.has(&at("w/sub/planted")) && !programs.has(&at("home/bin/ls")));
        assert!(programs.has(&at("sys/bin/cat")));
    }

    #[test]
    fn path_without_directories_outside_finds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        fs::create_dir(base.join("bin")).unwrap();
        let workspace = Workspace::builder().root(&base, Access::Write).build().unwrap();
        let environment = Environment::new().set("PATH", base.join("bin").display().to_string());
        let programs = Programs::of(&workspace, &Settings::default(), &environment);
        assert_eq!(programs.cleaned(&environment).get("PATH"), Some(NOWHERE));
    }
}
