//! Records of tasks of MCP clients, one file each, in the user's state directory: the next
//! `haft serve` can say what became of them.
//!
//! INVARIANT: only the user can read the files. Whether the process of a task still runs is known
//! by a file that it holds locked; the kernel releases the lock when the process ends, however it
//! ends.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use haft::{
    host::{Clock as _, RuntimeClock},
    tool::BoxError,
};
use haft_mcp::server::{StoredTask, TaskStore};

/// A file that is older is of no use: tasks live for an hour.
const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);
/// The largest file that is read.
const MAX_BYTES: u64 = 8 << 20;

/// The directory of the records, and the file that this process holds locked.
pub(crate) struct TaskFiles {
    directory: PathBuf,
    /// The name of the locked file.
    process: String,
    _locked: fs::File,
}

impl TaskFiles {
    /// Opens the directory, and makes it if it is missing.
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        remove_old(&directory);
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(|e| io::Error::other(e.to_string()))?;
        let process = format!("{:016x}", u64::from_le_bytes(random));
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let locked = options.open(lock_file(&directory, &process))?;
        locked.lock()?;
        Ok(Self { directory, process, _locked: locked })
    }

    fn path(&self, id: &str) -> Result<PathBuf, BoxError> {
        if is_id(id) {
            Ok(self.directory.join(format!("{id}.task")))
        } else {
            Err("this cannot be the id of a task".into())
        }
    }

    fn is_running(&self, process: &str) -> bool {
        if process == self.process {
            return true;
        }
        if !is_id(process) {
            return false;
        }
        // Opened to write, because a lock may need it.
        let file = fs::OpenOptions::new().write(true).open(lock_file(&self.directory, process));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
    }
}

impl Drop for TaskFiles {
    fn drop(&mut self) {
        let _ = fs::remove_file(lock_file(&self.directory, &self.process));
    }
}

fn lock_file(directory: &Path, process: &str) -> PathBuf {
    directory.join(format!("{process}.process"))
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Removes files of tasks and processes that are long over.
fn remove_old(directory: &Path) {
    let now = RuntimeClock.wall();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|time| now.duration_since(time).ok());
        if age.is_none_or(|age| age <= MAX_AGE) {
            continue;
        }
        let is_task = path.extension().is_some_and(|extension| extension == "task");
        // The file of a process that runs for days is locked.
        let is_over = || fs::File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
        if is_task || is_over() {
            let _ = fs::remove_file(&path);
        }
    }
}

impl TaskStore for TaskFiles {
    fn put(&self, id: &str, record: &str, _until: SystemTime) -> Result<(), BoxError> {
        remove_old(&self.directory);
        let text = format!("{}\n{record}", self.process);
        Ok(crate::trust_file::replace(&self.path(id)?, &text)?)
    }

    fn get(&self, id: &str) -> Result<Option<StoredTask>, BoxError> {
        let file = match fs::File::open(self.path(id)?) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text)?;
        let Some((process, record)) = text.split_once('\n') else { return Ok(None) };
        Ok(Some(StoredTask::new(record.to_owned(), self.is_running(process))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_outlives_its_process_and_says_whether_it_runs() {
        let directory =
            std::env::temp_dir().join(format!("haft-task-files-{}", std::process::id()));
        let first = TaskFiles::open(directory.clone()).unwrap();
        let second = TaskFiles::open(directory.clone()).unwrap();
        first.put("ab12", "{}", RuntimeClock.wall()).unwrap();
        let record = |is_running| Some(StoredTask::new("{}".to_owned(), is_running));
        assert_eq!(first.get("ab12").unwrap(), record(true), "its own");
        assert_eq!(second.get("ab12").unwrap(), record(true));
        drop(first);
        assert_eq!(second.get("ab12").unwrap(), record(false), "it has ended");
        assert_eq!(second.get("cd34").unwrap(), None);
        for wrong in ["", "../x", "a/b", "a.b"] {
            assert!(second.get(wrong).is_err(), "{wrong}");
        }
        drop(second);
        fs::remove_dir_all(&directory).unwrap();
    }
}
