//! Where runs are stored: `.haft/runs` of the workspace, one JSON file for each run.
//!
//! No tool can write there: `.haft` is a protected name.
//! INVARIANT: one process works on a run at a time, so that an approved call runs once.
//! FAIL CLOSED: a symlink in place of the directory is refused, because a repository could send
//! conversations elsewhere with it.

use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use haft::agent::FileRunStore;

use crate::error::Problem;

/// The store of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceRuns {
    own: PathBuf,
    directory: PathBuf,
}

impl WorkspaceRuns {
    /// Finds the directory of a workspace; creates nothing.
    pub(crate) fn find(workspace: &Path) -> Result<Self, Problem> {
        let own = workspace.join(".haft");
        let directory = own.join("runs");
        for path in [&own, &directory] {
            match path.symlink_metadata() {
                Ok(meta) if !meta.is_dir() => {
                    let shown = path.display();
                    return Err(Problem::new(format!("`{shown}` is not a directory"))
                        .hint("runs are stored there: remove the file or the symlink"));
                }
                _ => {}
            }
        }
        Ok(Self { own, directory })
    }

    /// Creates the directory, readable by this user alone, and hidden from git.
    pub(crate) fn create(&self) -> Result<(), Problem> {
        let cannot = |e: io::Error| {
            let shown = self.directory.display();
            Problem::new(format!("cannot create `{shown}`, where runs are stored: {e}"))
        };
        if !self.own.exists() {
            make(&self.own).map_err(cannot)?;
            let ignore = self.own.join(".gitignore");
            let mut file = fs::File::create(ignore).map_err(cannot)?;
            file.write_all(b"*\n").map_err(cannot)?;
        }
        if !self.directory.exists() {
            make(&self.directory).map_err(cannot)?;
        }
        Ok(())
    }

    /// The file of a run.
    pub(crate) fn file(&self, run: &str) -> PathBuf {
        self.directory.join(format!("{run}.json"))
    }

    pub(crate) fn store(&self) -> FileRunStore {
        FileRunStore::new(&self.directory)
    }

    /// The names of the stored runs, the newest first. The names begin with the date.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| {
            Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned())
        };
        let mut names: Vec<String> = entries.filter_map(name).collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        names
    }

    /// The error for a run that does not exist.
    pub(crate) fn unknown(&self, run: &str) -> Problem {
        let names = self.names();
        let problem = Problem::new(format!("there is no run `{run}` in this workspace"));
        match crate::style::nearest(run, names.iter().map(String::as_str)) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None if names.is_empty() => problem.hint("no run is stored here yet"),
            None => problem.hint("`haft runs list` lists the runs"),
        }
    }

    /// Locks a run for this process, until the lock is dropped.
    pub(crate) fn lock(&self, run: &str) -> Result<RunLock, Problem> {
        let path = self.directory.join(format!("{run}.lock"));
        let cannot = |e: io::Error| {
            Problem::new(format!("cannot lock the run `{run}` with `{}`: {e}", path.display()))
        };
        loop {
            let file = fs::File::create(&path).map_err(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(Problem::new(format!("another process works on the run `{run}`"))
                        .hint("wait until it has ended"));
                }
                Err(fs::TryLockError::Error(error)) => return Err(cannot(error)),
            }
            // The last owner may have removed the file after this process opened it (TOCTOU).
            if is_same_file(&file, &path) {
                return Ok(RunLock { path, _file: file });
            }
        }
    }

    /// A new id that no stored run has.
    #[expect(clippy::disallowed_methods, reason = "ids of stored runs have the date of the host")]
    pub(crate) fn new_id(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut n = 0_u64;
        loop {
            let id = id(now, RandomState::new().hash_one(n));
            if !self.directory.join(format!("{id}.json")).exists() {
                return id;
            }
            n += 1;
        }
    }
}

/// The lock of a run. It ends with the process, also where that is killed.
#[derive(Debug)]
pub(crate) struct RunLock {
    path: PathBuf,
    _file: fs::File,
}

impl Drop for RunLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
fn is_same_file(file: &fs::File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(own), Ok(there)) => (own.dev(), own.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_file(_: &fs::File, path: &Path) -> bool {
    path.exists()
}

#[cfg(unix)]
fn make(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make(directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)
}

/// The id of a run: date and time in UTC, and a random number.
fn id(now: Duration, random: u64) -> String {
    let time = chrono::DateTime::<chrono::Utc>::from(UNIX_EPOCH + now);
    format!("{}-{:04x}", time.format("%Y%m%d-%H%M%S"), random & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_locked_until_the_lock_is_dropped() {
        let directory = std::env::temp_dir().join(format!("haft-lock-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let runs = WorkspaceRuns { own: directory.clone(), directory: directory.clone() };
        let first = runs.lock("a").unwrap();
        assert!(runs.lock("a").unwrap_err().to_string().contains("another process"));
        assert!(runs.lock("b").is_ok(), "another run is free");
        drop(first);
        drop(runs.lock("a").unwrap());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "no file is left");
        fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn id_begins_with_the_date() {
        assert_eq!(id(Duration::ZERO, 0), "19700101-000000-0000");
        assert_eq!(id(Duration::from_secs(951_827_696), 0x1_beef), "20000229-123456-beef");
        assert_eq!(id(Duration::from_secs(4_107_542_399), 1), "21000228-235959-0001");
        assert_eq!(id(Duration::from_secs(4_107_542_400), 1), "21000301-000000-0001");
        assert_eq!(id(Duration::from_secs(1_735_689_599), 1), "20241231-235959-0001");
    }
}
