//! The lock file of MCP servers, `haft.lock`: read once for all servers, and written for all that
//! are pinned at the same time.
//!
//! INVARIANT: what another process has pinned is never lost, and of two first pins the earlier
//! counts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use haft::tool::BoxError;
use haft_mcp::client::{Lockfile, PinStore, PinnedServer};

use crate::{error::Problem, trust_file};

/// One lock file.
#[derive(Debug)]
pub(crate) struct LockStore {
    path: PathBuf,
    read: OnceLock<Result<Lockfile, String>>,
    /// First pins that are not written yet.
    pending: Mutex<BTreeMap<String, PinnedServer>>,
    writer: Mutex<()>,
}

impl LockStore {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, read: OnceLock::new(), pending: Mutex::default(), writer: Mutex::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what is pinned of a server.
    pub(crate) fn pins(&self, server: &str) -> Result<Option<PinnedServer>, Problem> {
        let read = self.read.get_or_init(|| read(&self.path).map_err(|why| why.to_string()));
        match read {
            Ok(lock) => Ok(lock.servers.get(server).cloned()),
            // Again, for an error with its hints.
            Err(_) => read_again(&self.path, server),
        }
    }

    /// Changes what is pinned of a server.
    pub(crate) fn pin(&self, server: &str, pins: PinnedServer) -> Result<(), Problem> {
        update(&self.path, |lock| drop(lock.servers.insert(server.to_owned(), pins)))
    }
}

fn read_again(path: &Path, server: &str) -> Result<Option<PinnedServer>, Problem> {
    Ok(read(path)?.servers.remove(server))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PinStore for LockStore {
    fn keep_first(&self, server: &str, pins: &PinnedServer) -> Result<(), BoxError> {
        locked(&self.pending).insert(server.to_owned(), pins.clone());
        // While one thread writes, others only add theirs; the next one writes all of them.
        let _writer = locked(&self.writer);
        let pending = std::mem::take(&mut *locked(&self.pending));
        if pending.is_empty() {
            return Ok(());
        }
        let kept = update(&self.path, |lock| {
            for (server, pins) in pending {
                // Another command may have been faster; its pins count.
                lock.servers.entry(server).or_insert(pins);
            }
        });
        kept.map_err(|problem| problem.to_string().into())
    }
}

/// Reads a lock file; a missing one is empty.
fn read(path: &Path) -> Result<Lockfile, Problem> {
    match haft::policy::read_regular_file(path, Lockfile::MAX_BYTES)? {
        Some(bytes) => {
            let text = String::from_utf8(bytes)
                .map_err(|_| Problem::new(format!("`{}` is not UTF-8", path.display())))?;
            Ok(Lockfile::parse(&text)?)
        }
        None => Ok(Lockfile::new()),
    }
}

/// Changes a lock file: under a lock, and replaced at once.
fn update(path: &Path, change: impl FnOnce(&mut Lockfile)) -> Result<(), Problem> {
    let cannot =
        |e: std::io::Error| Problem::new(format!("cannot write `{}`: {e}", path.display()));
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(cannot)?;
    let held = fs::File::open(directory).map_err(cannot)?;
    held.lock().map_err(cannot)?;
    let mut lock = read(path)?;
    change(&mut lock);
    trust_file::replace(path, &lock.to_text()).map_err(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_pins_of_many_servers_and_of_another_process_are_all_kept() {
        let directory = std::env::temp_dir().join(format!("haft-lockfile-{}", std::process::id()));
        let store = LockStore::new(directory.join(Lockfile::FILE));
        let other = LockStore::new(directory.join(Lockfile::FILE));
        let pins = |identity: &str| PinnedServer {
            identity: identity.to_owned(),
            ..PinnedServer::default()
        };
        other.pin("s7", pins("earlier")).unwrap();
        std::thread::scope(|scope| {
            for n in 0..20 {
                let store = &store;
                scope.spawn(move || store.keep_first(&format!("s{n}"), &pins("first")).unwrap());
            }
        });
        let read = read(store.path()).unwrap();
        assert_eq!(read.servers.len(), 20);
        assert_eq!(read.servers["s7"].identity, "earlier");
        assert_eq!(read.servers["s8"].identity, "first");
        let again = LockStore::new(directory.join(Lockfile::FILE));
        assert_eq!(again.pins("s3").unwrap(), Some(pins("first")));
        assert_eq!(again.pins("none").unwrap(), None);
        fs::remove_dir_all(directory).unwrap();
    }
}
