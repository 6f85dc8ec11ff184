//! The state of a run as data, so that another process can continue it, and where it is kept.
//!
//! INVARIANT: a saved run has no authorization. Pending calls are validated and authorized again.

use std::{
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use haft_core::{BoxFuture, CallId, Error, ErrorKind, Label, RunId, ToolName};
use haft_dialect::history::{AssistantPart, PastResult, Transcript};
use serde::{Deserialize, Serialize};

use super::result::{PendingCall, RunStatus, RunUsage};

/// The version of the saved form.
const VERSION: u32 = 1;

/// The state of a run. It is plain data: store it as JSON, and continue it with
/// [`Runner::resume`](super::Runner::resume).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SavedRun {
    /// The version of this form.
    pub version: u32,
    /// The run.
    pub run: RunId,
    /// The agent.
    pub agent: String,
    /// The model.
    pub model: String,
    /// The state; `None` if the run was at work.
    pub state: Option<RunStatus>,
    /// The text of the model's last message.
    pub text: String,
    /// The fingerprint of the tools that the model was offered last.
    pub tools: String,
    /// The conversation, without an unanswered message.
    pub history: Transcript,
    /// The message of the model whose calls are not all answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenTurn>,
    /// What the run has used.
    pub usage: RunUsage,
    /// The labels of the results that were not clean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(CallId, Label)>,
    /// The deferred tools that the run has loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<ToolName>,
    /// The instructions that the run has loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
}

/// A message of the model whose calls are not all answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenTurn {
    /// The message.
    pub message: Vec<AssistantPart>,
    /// The results so far.
    pub results: Vec<PastResult>,
    /// The calls that have none, in the model's order.
    pub pending: Vec<PendingCall>,
}

impl SavedRun {
    /// Reads a saved run.
    ///
    /// # Errors
    /// Fails if it is not a saved run of this version.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let saved: Self = serde_json::from_str(json).map_err(|error| {
            Error::new(ErrorKind::BadConfig, format!("not a saved run: {error}")).because(error)
        })?;
        if saved.version != VERSION {
            let why = format!("the saved run has version {}, not {VERSION}", saved.version);
            return Err(Error::new(ErrorKind::BadConfig, why));
        }
        Ok(saved)
    }

    /// Writes it as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the calls that wait.
    #[must_use]
    pub fn pending(&self) -> &[PendingCall] {
        self.open.as_ref().map(|open| open.pending.as_slice()).unwrap_or_default()
    }

    pub(super) const fn version() -> u32 {
        VERSION
    }
}

/// Keeps saved runs.
pub trait RunStore: Send + Sync + 'static {
    /// Stores a run and replaces an earlier state of it. It is on disk when this returns.
    ///
    /// # Errors
    /// Fails if it cannot be stored.
    fn save<'a>(&'a self, run: &'a SavedRun) -> BoxFuture<'a, Result<(), Error>>;

    /// Returns a run; `None` if there is none with this id.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    fn load<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Option<SavedRun>, Error>>;

    /// Returns the ids of all runs, in order.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn list(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>>;

    /// Removes a run; one that does not exist is no error.
    ///
    /// # Errors
    /// Fails if it cannot be removed.
    fn remove<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), Error>>;
}

/// Keeps each run as a JSON file in one directory.
///
/// A file is written next to its place, flushed to disk and then renamed, so that a crash leaves
/// the old state or the new one.
#[derive(Clone)]
pub struct FileRunStore {
    directory: PathBuf,
}

impl FileRunStore {
    /// Keeps runs in this directory. It is created when the first run is stored.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Returns the file of a run. Its name has only characters that are safe on every file system,
    /// so an id cannot leave the directory (path traversal).
    fn path(&self, run: &RunId) -> PathBuf {
        let mut name = String::new();
        for byte in run.as_str().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
                other => name.push_str(&format!("%{other:02x}")),
            }
        }
        name.push_str(".json");
        self.directory.join(name)
    }
}

/// Returns the run of a file name; `None` for other files.
fn run_of(path: &Path) -> Option<RunId> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let mut id = Vec::new();
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let hex = [bytes.next()?, bytes.next()?];
                let hex = str::from_utf8(&hex).ok()?;
                id.push(u8::from_str_radix(hex, 16).ok()?);
            }
            other => id.push(other),
        }
    }
    String::from_utf8(id).ok().map(RunId::from)
}

/// Writes a file so that a crash leaves the old content or the new one.
fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let draft = path.with_extension("json.new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // A conversation is private.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&draft, path)?;
    // The new name is on disk only when its directory is.
    #[cfg(unix)]
    std::fs::File::open(directory)?.sync_all()?;
    Ok(())
}

/// Runs disk work on a thread where it may block.
async fn on_disk<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(error)),
    };
    done.map_err(|error| {
        Error::new(ErrorKind::Source, format!("the run store cannot {what}: {error}"))
            .because(error)
    })
}

impl RunStore for FileRunStore {
    fn save<'a>(&'a self, run: &'a SavedRun) -> BoxFuture<'a, Result<(), Error>> {
        let (path, json) = (self.path(&run.run), run.to_json());
        Box::pin(on_disk("write a run", move || write_whole(&path, json.as_bytes())))
    }

    fn load<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<Option<SavedRun>, Error>> {
        let path = self.path(run);
        Box::pin(async move {
            let read = move || match std::fs::read(&path) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            };
            match on_disk("read a run", read).await? {
                Some(bytes) => SavedRun::from_json(&String::from_utf8_lossy(&bytes)).map(Some),
                None => Ok(None),
            }
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<RunId>, Error>> {
        let directory = self.directory.clone();
        Box::pin(on_disk("list its runs", move || {
            let entries = match std::fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let mut runs = Vec::new();
            for entry in entries {
                runs.extend(run_of(&entry?.path()));
            }
            runs.sort();
            Ok(runs)
        }))
    }

    fn remove<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<(), Error>> {
        let path = self.path(run);
        Box::pin(on_disk("remove a run", move || match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }))
    }
}

impl fmt::Debug for FileRunStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRunStore").field("directory", &self.directory).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_cannot_leave_the_directory() {
        let store = FileRunStore::new("/runs");
        for id in ["../etc/passwd", "a/b", "run-1.2", "ü", ""] {
            let path = store.path(&RunId::from(id));
            assert_eq!(path.parent(), Some(Path::new("/runs")), "{id}");
            assert_eq!(run_of(&path), Some(RunId::from(id)));
        }
    }
}
