//! Artifacts: results that are too large for the model, stored and readable page by page.
//!
//! In: a whole result, already sanitized and redacted. Out: an id under which its owner can read it
//! until it expires. `memory` and `directory` are the two stores; `read` queries an artifact;
//! `preview` makes the truncated text that the model sees first.
//!
//! INVARIANT: an artifact that is expired, damaged or of another owner is reported as if it never
//! existed.

mod id;
mod memory;
mod directory;
mod preview;
mod read;
mod json;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use haft_core::{Error, ErrorKind, Label, RunId, Scope, ToolName};
use serde::{Deserialize, Serialize};

pub use self::{
    id::{ArtifactId, ParseArtifactIdError},
    read::{ReadArtifactError, ResultPage, ResultPosition, ResultQuery},
};
pub(crate) use self::{
    json::{Items, spread},
    preview::{Ends, ends, fit, rendered_chars},
};
use crate::clock::{Clock, RuntimeClock};

/// The name of the tool that reads artifacts; truncated results mention it.
pub(crate) const READER: &str = "read_result";

/// The owner of an artifact: a session if there is one, else a run; and one user of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The session, or the hierarchical number of the run with a random id of its runtime: two
    /// processes count alike.
    within: String,
    is_session: bool,
    user: Option<String>,
}

impl Owner {
    /// Returns the owner of a run's results. `mark` identifies the runtime, and `line` the run and
    /// its parents. The run's id is not used: hosts may choose it freely.
    pub(crate) fn of(scope: &Scope, mark: &str, line: &str) -> Self {
        let (within, is_session) = match &scope.session {
            Some(session) => (session.clone(), true),
            None => (format!("{mark}/{line}"), false),
        };
        Self { within, is_session, user: scope.user.clone() }
    }

    /// Returns whether an asker may read what belongs to this owner. A run and its sub-runs can
    /// read each other's artifacts; sibling runs cannot.
    pub(crate) fn allows(&self, asker: &Owner) -> bool {
        let over = |a: &str, b: &str| b.strip_prefix(a).is_some_and(|rest| rest.starts_with('.'));
        let is_family = self.within == asker.within
            || !self.is_session
                && (over(&self.within, &asker.within) || over(&asker.within, &self.within));
        self.user == asker.user && self.is_session == asker.is_session && is_family
    }
}

/// Metadata of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArtifactMeta {
    /// Its id.
    pub id: ArtifactId,
    /// The tool that produced it.
    pub tool: ToolName,
    /// The run that produced it.
    pub run: RunId,
    /// Its owner.
    pub owner: Owner,
    /// Its taint label.
    pub label: Label,
    /// Its media type: `text/plain`, `application/json`, `image/png`, ….
    pub media: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its length in characters; `None` if it is not text.
    pub chars: Option<u64>,
    /// Its number of lines; `None` if it is not text.
    pub lines: Option<u64>,
    /// Its number of items (array) or fields (object).
    pub items: Option<u64>,
    /// When it was stored, in milliseconds since the Unix epoch.
    pub created: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires: u64,
}

impl ArtifactMeta {
    /// Returns whether it is JSON, which a JSON pointer can address.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.media == JSON
    }

    /// The size of its strings.
    fn memory_size(&self) -> u64 {
        let owner = self.owner.within.len() + self.owner.user.as_ref().map_or(0, String::len);
        (owner + self.tool.as_str().len() + self.run.as_str().len() + self.media.len()) as u64
    }

    /// Whether it is not expired. If the clock was set back, an artifact lives at most twice its
    /// lifetime; otherwise a date in the far future would fill the store for ever.
    fn is_alive(&self, now: u64) -> bool {
        let lifetime = self.expires.saturating_sub(self.created);
        now < self.expires && self.expires - now <= lifetime.saturating_mul(2)
    }
}

pub(crate) const TEXT: &str = "text/plain";
pub(crate) const JSON: &str = "application/json";

/// A result to be stored.
pub(crate) struct Draft {
    pub(crate) tool: ToolName,
    pub(crate) run: RunId,
    pub(crate) owner: Owner,
    pub(crate) label: Label,
    pub(crate) media: String,
    pub(crate) items: Option<u64>,
    pub(crate) body: Arc<[u8]>,
    pub(crate) is_text: bool,
}

/// Why a result was not stored. The message becomes part of the tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotKept {
    /// The quota is used up.
    Full,
    /// The device has no space left.
    NoSpace,
    /// The store failed; the message is for the operator.
    Trouble(String),
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the result store is full",
            Self::NoSpace => {
                "the result store cannot be written: no space left on device; report this to the user"
            }
            Self::Trouble(_) => "the result store failed",
        })
    }
}

/// How much is stored, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArtifactLimits {
    /// Maximum number of bytes over all owners. If it is used up, results are truncated and the
    /// rest is lost, until something expires; nothing is evicted.
    pub quota: u64,
    /// Lifetime of an artifact.
    pub expiry: Duration,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self {
            // Enough for a long session, and small for a disk.
            quota: 1 << 30,
            // A user who comes back the next day can still read it.
            expiry: Duration::from_secs(2 * 86_400),
        }
    }
}

impl ArtifactLimits {
    /// Sets the quota in bytes.
    #[must_use]
    pub fn quota(mut self, bytes: u64) -> Self {
        self.quota = bytes;
        self
    }

    /// Sets the lifetime of an artifact.
    #[must_use]
    pub fn expiry(mut self, time: Duration) -> Self {
        self.expiry = time;
        self
    }
}

/// Maximum number of artifacts: listing reads all of them.
const MAX_ARTIFACTS: usize = 10_000;

/// What an artifact counts for in addition to its bytes, for its metadata.
const OVERHEAD: u64 = 1_024;

/// A store of artifacts.
trait Store: Send + Sync {
    /// Stores an artifact. Expired ones are removed first.
    fn put(&self, facts: &ArtifactMeta, body: &Arc<[u8]>, now: u64) -> Result<(), NotKept>;
    /// Opens an artifact that is not expired.
    fn open(&self, id: ArtifactId, now: u64) -> io::Result<Option<Artifact>>;
    /// Lists the artifacts that are not expired.
    fn list(&self, now: u64) -> io::Result<Vec<ArtifactMeta>>;
    /// Returns whether it may block on a disk.
    fn is_blocking(&self) -> bool;
}

/// The store of large results. Clones share the same store.
///
/// ```
/// use haft::{Runtime, ToolRegistry};
/// use haft::artifacts::{Artifacts, ReadResult};
///
/// let artifacts = Artifacts::memory(16 << 20);
/// let runtime = Runtime::builder()
///     .registry(ToolRegistry::builder().add(ReadResult).build()?)
///     .artifacts(artifacts)
///     .build()?;
/// assert!(runtime.artifacts().list()?.is_empty());
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Clone)]
pub struct Artifacts {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    expiry: Duration,
}

impl Artifacts {
    /// Stores at most `quota` bytes in memory, for an hour each.
    #[must_use]
    pub fn memory(quota: usize) -> Self {
        // A run is rarely longer, and its memory should not outlive it by much.
        let limits = ArtifactLimits { quota: quota as u64, expiry: Duration::from_secs(3_600) };
        Self::memory_with(limits)
    }

    /// Stores artifacts in memory, within these limits.
    #[must_use]
    pub fn memory_with(limits: ArtifactLimits) -> Self {
        Self::on(memory::Memory::new(limits.quota), limits)
    }

    /// Stores artifacts in a directory that processes of one user share. It is created if it does
    /// not exist, with mode 0700.
    ///
    /// # Errors
    /// Fails if the directory cannot be created, is a symlink, belongs to another user, or is
    /// accessible to others.
    pub fn directory(path: impl Into<PathBuf>, limits: ArtifactLimits) -> Result<Self, Error> {
        let store = directory::DirectoryStore::new(path.into(), limits);
        store.open_place(true).map_err(|e| {
            let text = format!("`{}` cannot store results: {e}", store.path().display());
            Error::new(ErrorKind::BadConfig, text)
                .hint("use a directory that only you can access (mode 0700)")
        })?;
        Ok(Self::on(store, limits))
    }

    /// Does the same, but opens the directory only when something is stored or read. If that fails,
    /// results are truncated and the rest is lost, and the result says so.
    #[must_use]
    pub fn directory_when_needed(path: impl Into<PathBuf>, limits: ArtifactLimits) -> Self {
        Self::on(directory::DirectoryStore::new(path.into(), limits), limits)
    }

    fn on(store: impl Store + 'static, limits: ArtifactLimits) -> Self {
        Self { store: Arc::new(store), clock: Arc::new(RuntimeClock), expiry: limits.expiry }
    }

    /// Sets the clock for expiry. A runtime sets its own.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Opens an artifact of any owner: a caller with access to the store is the operator.
    ///
    /// # Errors
    /// Fails if there is no artifact with this id, it is expired, or the store cannot be read.
    pub fn open(&self, id: ArtifactId) -> Result<Artifact, Error> {
        match self.find(id) {
            Ok(Some(artifact)) => Ok(artifact),
            Ok(None) => Err(Error::new(ErrorKind::Source, format!("there is no result `{id}`"))
                .hint("results expire after a while")),
            Err(e) => Err(unreadable(e)),
        }
    }

    /// Lists all artifacts, the oldest first.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    pub fn list(&self) -> Result<Vec<ArtifactMeta>, Error> {
        let mut all = self.store.list(self.now()).map_err(unreadable)?;
        all.sort_by_key(|facts| (facts.created, facts.id));
        Ok(all)
    }

    /// Opens an artifact that the asker may read; `None` if it does not exist or belongs to another
    /// owner.
    pub(crate) fn open_for(&self, id: ArtifactId, asker: &Owner) -> io::Result<Option<Artifact>> {
        Ok(self.find(id)?.filter(|artifact| artifact.facts.owner.allows(asker)))
    }

    /// Stores a result and returns its metadata. May block on a disk.
    pub(crate) fn put(&self, draft: Draft) -> Result<ArtifactMeta, NotKept> {
        let now = self.now();
        let text = draft.is_text.then(|| str::from_utf8(&draft.body).ok()).flatten();
        let facts = ArtifactMeta {
            id: ArtifactId::random()?,
            tool: draft.tool,
            run: draft.run,
            owner: draft.owner,
            label: draft.label,
            media: draft.media,
            bytes: draft.body.len() as u64,
            chars: text.map(|text| text.chars().count() as u64),
            lines: text.map(lines_of),
            items: draft.items,
            created: now,
            expires: now.saturating_add(u64::try_from(self.expiry.as_millis()).unwrap_or(u64::MAX)),
        };
        self.store.put(&facts, &draft.body, now)?;
        Ok(facts)
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.store.is_blocking()
    }

    fn find(&self, id: ArtifactId) -> io::Result<Option<Artifact>> {
        self.store.open(id, self.now())
    }

    /// Milliseconds since the Unix epoch; an earlier clock counts as the epoch.
    fn now(&self) -> u64 {
        let since = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

fn unreadable(error: io::Error) -> Error {
    Error::new(ErrorKind::Source, format!("the result store cannot be read: {error}"))
}

/// The number of lines; the last one needs no line break.
fn lines_of(text: &str) -> u64 {
    let ends = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    (ends + usize::from(!text.is_empty() && !text.ends_with('\n'))) as u64
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts").finish_non_exhaustive()
    }
}

/// A runtime's store, with the random id that identifies the runtime in owners.
pub(crate) struct RuntimeArtifacts {
    pub(crate) store: Artifacts,
    pub(crate) mark: String,
    lines: AtomicU64,
}

impl RuntimeArtifacts {
    pub(crate) fn new(store: Artifacts) -> Result<Self, Error> {
        let mark = ArtifactId::random().map_err(|_| {
            Error::new(ErrorKind::BadConfig, "the system provides no randomness for result ids")
        })?;
        Ok(Self { store, mark: mark.to_string(), lines: AtomicU64::new(0) })
    }

    /// Returns the number of a new top-level run.
    pub(crate) fn line(&self) -> String {
        self.lines.fetch_add(1, Ordering::Relaxed).to_string()
    }
}

/// An open artifact. It stays readable even if it expires meanwhile.
pub struct Artifact {
    facts: ArtifactMeta,
    body: Body,
}

enum Body {
    Memory(Arc<[u8]>),
    #[cfg(unix)]
    File {
        file: std::fs::File,
        start: u64,
    },
}

impl Artifact {
    /// Returns its metadata.
    #[must_use]
    pub fn facts(&self) -> &ArtifactMeta {
        &self.facts
    }

    /// Returns its content, from the start.
    #[must_use]
    pub fn reader(&self) -> impl io::Read + '_ {
        Reader { body: &self.body, at: 0, end: self.facts.bytes }
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifact").field("facts", &self.facts).finish_non_exhaustive()
    }
}

struct Reader<'a> {
    body: &'a Body,
    at: u64,
    end: u64,
}

impl io::Read for Reader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let want = into.len().min(left);
        let into = &mut into[..want];
        let got = match self.body {
            Body::Memory(bytes) => {
                let from = usize::try_from(self.at).unwrap_or(usize::MAX).min(bytes.len());
                let got = want.min(bytes.len() - from);
                into[..got].copy_from_slice(&bytes[from..from + got]);
                got
            }
            #[cfg(unix)]
            Body::File { file, start } => {
                std::os::unix::fs::FileExt::read_at(file, into, start + self.at)?
            }
        };
        self.at += got as u64;
        Ok(got)
    }
}

#[cfg(test)]
mod tests;
