//! Program lookup in `PATH`, so that a read-only command cannot start a planted program (PATH
//! hijacking).
//!
//! `PATH` may name directories of the workspace: `.venv/bin`, `node_modules/.bin`, a relative or
//! empty entry, or a symlink. A process that can write there could plant its own `cat`. A read-only
//! command is classified by its program names, so it finds programs in other directories only.
//!
//! INVARIANT: every directory kept in `PATH` is outside all writable roots, after following
//! symlinks.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Mutex,
};

use haft_core::sync::lock;
use haft_sandbox::{Access, Environment, Workspace};
use haft_shell::{Word, Wrappers};

use super::confined::Settings;

/// Default `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// Maximum number of programs that are remembered.
const MAX_LOOKED_UP: usize = 10_000;
/// A `PATH` without programs. An empty one would mean the working directory.
const EMPTY_PATH: &str = "/nonexistent";

/// The directories of a `PATH`, split into outside and inside the workspace.
#[derive(Debug)]
pub(super) struct Programs {
    /// The writable roots, without symlinks.
    roots: Vec<PathBuf>,
    /// Outside all writable roots, as written.
    outside: Vec<PathBuf>,
    /// The others.
    inside: Vec<PathBuf>,
    /// Whether the host set `PATH`.
    is_set_by_host: bool,
    /// The programs that were looked up, where nothing runs in the meantime.
    looked_up: Option<Mutex<HashMap<String, bool>>>,
}

impl Programs {
    /// Resolves the directories of `PATH` now.
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
            is_set_by_host: environment.get("PATH").is_some(),
            looked_up: settings.explains_only.then(Mutex::default),
        };
        for entry in environment.get("PATH").unwrap_or(DEFAULT_PATH).split(':') {
            let entry = PathBuf::from(entry);
            let target = entry.is_absolute().then(|| entry.canonicalize().ok()).flatten();
            match target {
                Some(target) if programs.is_outside(&entry) && programs.is_outside(&target) => {
                    programs.outside.push(entry);
                }
                // An entry that does not exist may later resolve into the workspace.
                _ => programs.inside.push(entry),
            }
        }
        programs
    }

    /// Returns the environment with a `PATH` without workspace directories.
    pub(super) fn cleaned(&self, environment: &Environment) -> Environment {
        let entries: Vec<_> = self.outside.iter().filter_map(|entry| entry.to_str()).collect();
        let path = if entries.is_empty() { EMPTY_PATH.to_owned() } else { entries.join(":") };
        environment.clone().set("PATH", path)
    }

    /// Returns the outside directories set by the host and named like program directories. System
    /// directories are always visible.
    pub(super) fn directories(&self) -> impl Iterator<Item = PathBuf> {
        let is_program_directory = |entry: &&PathBuf| {
            self.is_set_by_host && (entry.ends_with("bin") || entry.ends_with("sbin"))
        };
        self.outside.iter().filter(is_program_directory).cloned()
    }

    /// Returns whether no program of a command is a file of the workspace, including programs
    /// started by a wrapper. A program that does not exist is fine.
    pub(super) fn has_all(&self, command: &str) -> bool {
        let Ok(script) = haft_shell::parse(command) else { return false };
        script.commands.iter().all(|command| {
            let views = command.unwrapped(Wrappers::All);
            views.iter().all(|view| match view.command.words.first().map(Word::literal) {
                Some(Some(name)) => self.has(name),
                // FAIL CLOSED: the program is known only at run time.
                Some(None) => false,
                None => true,
            })
        })
    }

    /// Returns whether a program is outside the workspace, or does not exist.
    pub(super) fn has(&self, name: &str) -> bool {
        let Some(looked_up) = &self.looked_up else { return self.look_up(name) };
        let known = lock(looked_up).get(name).copied();
        known.unwrap_or_else(|| {
            let has = self.look_up(name);
            let mut looked_up = lock(looked_up);
            if looked_up.len() < MAX_LOOKED_UP {
                looked_up.insert(name.to_owned(), has);
            }
            has
        })
    }

    fn look_up(&self, name: &str) -> bool {
        if name.contains('/') {
            // A relative path starts in the workspace.
            return Path::new(name).is_absolute() && self.resolves_outside(Path::new(name));
        }
        let found = |entries: &[PathBuf]| -> Vec<PathBuf> {
            entries.iter().map(|entry| entry.join(name)).filter(|file| file.is_file()).collect()
        };
        let outside = found(&self.outside);
        if outside.is_empty() {
            return found(&self.inside).is_empty();
        }
        // Which of several runs depends on their modes.
        outside.iter().all(|file| self.resolves_outside(file))
    }

    fn resolves_outside(&self, file: &Path) -> bool {
        match file.canonicalize() {
            Ok(target) => self.is_outside(file) && self.is_outside(&target),
            // It does not exist, so it cannot run.
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
    fn path_entries_of_the_workspace_are_removed_in_every_spelling() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
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
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        fs::create_dir(base.join("bin")).unwrap();
        let workspace = Workspace::builder().root(&base, Access::Write).build().unwrap();
        let environment = Environment::new().set("PATH", base.join("bin").display().to_string());
        let programs = Programs::of(&workspace, &Settings::default(), &environment);
        assert_eq!(programs.cleaned(&environment).get("PATH"), Some(EMPTY_PATH));
    }
}
