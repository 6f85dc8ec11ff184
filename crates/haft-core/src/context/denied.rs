//! The paths that rules deny, looked up once for the judgement and the start of a command.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use super::ToolContext;
use crate::{DeniedPaths, DeniedPathsUnknown};

/// So long an answer serves the same call. A person who is asked in between takes longer, and then
/// the disk is looked at again.
const FRESH: Duration = Duration::from_millis(250);

/// What is known for a call.
#[derive(Default)]
pub(super) struct Known {
    paths: Option<(Instant, Vec<PathBuf>, Arc<DeniedPaths>)>,
    /// It once was not known, and stays so.
    unknown: Option<DeniedPathsUnknown>,
}

impl ToolContext {
    /// Returns the paths that deny rules are about: those below these directories, found by a bounded
    /// walk that follows no symlink, and those that a rule spells out elsewhere. A tool that starts a
    /// process keeps it away from them. It blocks; use [`block`](Self::spawn_blocking).
    ///
    /// # Errors
    /// Fails where not all of them could be found. A guard must then ask about the call. Once this
    /// has failed it fails for the rest of the call.
    pub fn denied_paths(&self, roots: &[PathBuf]) -> Result<Arc<DeniedPaths>, DeniedPathsUnknown> {
        let host = &self.0.host;
        let mut known = self.extra().denied().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unknown) = &known.unknown {
            return Err(DeniedPathsUnknown { is_repeated: true, ..unknown.clone() });
        }
        let now = host.now();
        if let Some((when, of, paths)) = &known.paths
            && of == roots
            && now.saturating_duration_since(*when) < FRESH
        {
            return Ok(Arc::clone(paths));
        }
        match host.denied_paths(self, roots) {
            Ok(paths) => {
                let paths = Arc::new(paths);
                known.paths = Some((host.now(), roots.to_vec(), Arc::clone(&paths)));
                Ok(paths)
            }
            Err(unknown) => {
                known.unknown = Some(unknown.clone());
                Err(unknown)
            }
        }
    }
}
