//! Lists every configuration file of a directory tree, for `haft trust`.
//!
//! Symlinks are not followed; `.git` and caches are not searched. A file that is not found here is
//! not trusted, so a limit or an unreadable directory only makes the result stricter.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use haft::policy::ConfigFile;

use crate::{error::Problem, site, skills, sub_agents};

/// The most directories that are searched.
const MAX_DIRECTORIES: usize = 50_000;
/// The deepest directory that is searched, counted from the one that is trusted.
const MAX_DEPTH: usize = 32;
/// Directories of other programs, with files that came from elsewhere.
const SKIPPED: [&str; 2] = [".git", "node_modules"];
/// The file by which caches are known, such as cargo's `target`.
const CACHE_MARKER: &str = "CACHEDIR.TAG";

/// The configuration files below a directory.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// By the directory they configure.
    pub(crate) files: BTreeMap<PathBuf, Vec<ConfigFile>>,
    /// The directories of skills.
    pub(crate) skills: Vec<PathBuf>,
    /// The directories of agents.
    pub(crate) agents: Vec<PathBuf>,
    /// What could not be read or searched. None of it becomes trusted.
    pub(crate) problems: Vec<String>,
}

impl Inventory {
    /// Searches a tree. The directories in `certain` are always read, and an unreadable file there
    /// is an error.
    pub(crate) fn of<'a>(
        root: &Path,
        certain: impl Iterator<Item = &'a Path>,
    ) -> Result<Self, Problem> {
        let mut all = Self::default();
        for directory in certain {
            all.files.insert(directory.to_owned(), site::files_in(directory)?);
        }
        let mut left = vec![(root.to_owned(), 0)];
        let mut seen = 0;
        while let Some((directory, depth)) = left.pop() {
            seen += 1;
            if seen > MAX_DIRECTORIES {
                all.problems.push(format!(
                    "more than {MAX_DIRECTORIES} directories: the rest was not searched, and \
                     configuration there is not trusted; run `haft trust` there"
                ));
                break;
            }
            if skills::PROJECT_DIRECTORIES.iter().any(|name| directory.ends_with(name)) {
                all.skills.push(directory.clone());
            }
            if sub_agents::PROJECT_DIRECTORIES.iter().any(|name| directory.ends_with(name)) {
                all.agents.push(directory.clone());
            }
            match search(&directory) {
                Ok(found) => {
                    if found.has_config && !all.files.contains_key(&directory) {
                        match site::files_in(&directory) {
                            Ok(files) => drop(all.files.insert(directory, files)),
                            Err(problem) => all.problems.push(problem.to_string()),
                        }
                    }
                    let below = found.directories.into_iter().map(|below| (below, depth + 1));
                    left.extend(below.filter(|(_, depth)| *depth <= MAX_DEPTH));
                }
                Err(e) => {
                    let shown = directory.display();
                    all.problems.push(format!("`{shown}` was not searched: {e}"));
                }
            }
        }
        all.files.retain(|_, files| !files.is_empty());
        Ok(all)
    }
}

/// The content of one directory.
#[derive(Default)]
struct Found {
    has_config: bool,
    directories: Vec<PathBuf>,
}

fn search(directory: &Path) -> std::io::Result<Found> {
    let mut found = Found::default();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == CACHE_MARKER {
            return Ok(Found::default());
        }
        found.has_config |= site::is_config_name(&name);
        // The type of the entry itself: a symlink to a directory is none.
        if entry.file_type()?.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            found.directories.push(entry.path());
        }
    }
    Ok(found)
}
