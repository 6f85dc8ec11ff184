//! Calls of MCP clients that wait for an approval, one file each, in the user's state directory:
//! the next `haft serve` can finish them.
//!
//! INVARIANT: only the user can read the files, and a file is taken by one process only.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use haft::{
    RuntimeBuilder,
    approval::GrantStore,
    host::{Clock as _, RuntimeClock},
    tool::BoxError,
};
use haft_mcp::server::{McpServerBuilder, ParkedCallStore};

use crate::{error::Problem, host_env::HostEnv, task_files::TaskFiles};

/// The bytes of a key.
const KEY_BYTES: usize = 32;
/// A file that is older is of no use, whatever the timeout of approvals.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The largest file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// The keys and the directory of waiting calls.
pub(crate) struct WaitingCalls {
    grants: [u8; KEY_BYTES],
    states: [u8; KEY_BYTES],
    directory: PathBuf,
    tasks: TaskFiles,
}

impl WaitingCalls {
    /// Opens the user's directory, and makes the keys if there are none; `None` without a home
    /// directory. Calls then wait in memory.
    pub(crate) fn open(host: &HostEnv) -> Result<Option<Self>, Problem> {
        let Some(state) = &host.state else { return Ok(None) };
        let directory = state.join("mcp-calls");
        let cannot = |e: io::Error| {
            Problem::new(format!("calls cannot wait in `{}`: {e}", directory.display()))
                .hint("make the directory writable for you")
        };
        fs::create_dir_all(&directory).map_err(cannot)?;
        let [grants, states] = ["grants.key", "states.key"].map(|name| key(&directory.join(name)));
        let (grants, states) = (grants.map_err(cannot)?, states.map_err(cannot)?);
        let tasks = TaskFiles::open(state.join("mcp-tasks")).map_err(|e| {
            Problem::new(format!("tasks cannot be kept in `{}`: {e}", state.display()))
                .hint("make the directory writable for you")
        })?;
        Ok(Some(Self { grants, states, directory, tasks }))
    }

    /// Lets a runtime sign calls with the user's key.
    pub(crate) fn sign(&self, runtime: RuntimeBuilder) -> Result<RuntimeBuilder, Problem> {
        let now = RuntimeClock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(runtime.grants(GrantStore::with_key(self.grants, now)?))
    }

    /// Lets a server keep its calls and tasks here.
    pub(crate) fn keep(self, server: McpServerBuilder) -> McpServerBuilder {
        let server = server.task_records(self.tasks);
        server.parked_calls(self.states, CallFiles(self.directory))
    }
}

/// Reads a key, or makes it.
fn key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let own = path.with_extension(format!("new-{}", std::process::id()));
    if !path.exists() {
        let mut random = [0; KEY_BYTES];
        getrandom::fill(&mut random).map_err(|e| io::Error::other(e.to_string()))?;
        let _ = fs::remove_file(&own);
        options.open(&own)?.write_all(&random)?;
        // The first of several processes wins: a link does not replace.
        let _ = fs::hard_link(&own, path);
        fs::remove_file(&own)?;
    }
    let mut key = [0; KEY_BYTES];
    fs::File::open(path)?.read_exact(&mut key)?;
    Ok(key)
}

/// One file for each call.
struct CallFiles(PathBuf);

impl CallFiles {
    fn path(&self, id: &str) -> Result<PathBuf, BoxError> {
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_id {
            Ok(self.0.join(format!("{id}.json")))
        } else {
            Err("this cannot be the id of a call".into())
        }
    }

    /// Removes files of calls that were never answered.
    fn remove_old(&self) {
        let now = RuntimeClock.wall();
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let is_call = entry.path().extension().is_some_and(|extension| extension == "json");
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|time| now.duration_since(time).ok());
            if is_call && age.is_some_and(|age| age > MAX_AGE) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl ParkedCallStore for CallFiles {
    fn put(&self, id: &str, call: &str, _until: SystemTime) -> Result<(), BoxError> {
        self.remove_old();
        Ok(crate::trust_file::replace(&self.path(id)?, call)?)
    }

    fn take(&self, id: &str) -> Result<Option<String>, BoxError> {
        let path = self.path(id)?;
        let taken = path.with_extension(format!("taken-{}", std::process::id()));
        // Only one process can move it.
        match fs::rename(&path, &taken) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            moved => moved?,
        }
        let mut text = String::new();
        let read = fs::File::open(&taken)?.take(MAX_BYTES).read_to_string(&mut text);
        fs::remove_file(&taken)?;
        read?;
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_taken_once_and_names_stay_in_the_directory() {
        let directory =
            std::env::temp_dir().join(format!("haft-waiting-calls-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (first, second) = (CallFiles(directory.clone()), CallFiles(directory.clone()));
        first.put("ab12", "call", RuntimeClock.wall()).unwrap();
        assert_eq!(second.take("ab12").unwrap().as_deref(), Some("call"));
        assert_eq!(first.take("ab12").unwrap(), None);
        for wrong in ["", "../x", "a/b", "a.b"] {
            assert!(first.put(wrong, "call", RuntimeClock.wall()).is_err(), "{wrong}");
        }
        let path = directory.join("k.key");
        let made = key(&path).unwrap();
        assert_eq!(key(&path).unwrap(), made, "made once");
        assert_ne!(made, [0; KEY_BYTES]);
        fs::remove_dir_all(&directory).unwrap();
    }
}
