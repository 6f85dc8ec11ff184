//! Caches the paths that rules deny for one call, so that authorization and the start of a
//! sandboxed process share one directory scan.
//!
//! INVARIANT: once the lookup has failed, it fails for the rest of the call (fail closed).

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::ToolContext;
use crate::{DeniedPaths, DeniedPathsUnknown, sync::lock};

/// How long a result is reused within the same call. Approval by a person takes longer, so the disk
/// is scanned again after it (TOCTOU).
const MAX_CACHE_AGE: Duration = Duration::from_millis(250);

/// The cached result of one call.
#[derive(Default)]
pub(super) struct DeniedPathsCache {
    paths: Option<(Instant, Vec<PathBuf>, Arc<DeniedPaths>)>,
    /// The first error. It is kept.
    unknown: Option<DeniedPathsUnknown>,
}

impl ToolContext {
    /// Returns the paths that deny rules match: those below these directories, found by a bounded
    /// scan that follows no symlink, and those that a rule spells out elsewhere. A tool that starts
    /// a process must hide them from it. It blocks; use [`spawn_blocking`](Self::spawn_blocking).
    ///
    /// # Errors
    /// Fails if not all of them could be found. A guard must then require approval for the call.
    /// After the first failure it fails for the rest of the call.
    pub fn denied_paths(&self, roots: &[PathBuf]) -> Result<Arc<DeniedPaths>, DeniedPathsUnknown> {
        let host = &self.0.host;
        let mut cache = lock(self.extra().denied());
        if let Some(unknown) = &cache.unknown {
            return Err(DeniedPathsUnknown { is_repeated: true, ..unknown.clone() });
        }
        let now = host.now();
        if let Some((when, of, paths)) = &cache.paths
            && of == roots
            && now.saturating_duration_since(*when) < MAX_CACHE_AGE
        {
            return Ok(Arc::clone(paths));
        }
        match host.path_rules().denied_paths(self, roots) {
            Ok(paths) => {
                let paths = Arc::new(paths);
                cache.paths = Some((host.now(), roots.to_vec(), Arc::clone(&paths)));
                Ok(paths)
            }
            Err(unknown) => {
                cache.unknown = Some(unknown.clone());
                Err(unknown)
            }
        }
    }
}
