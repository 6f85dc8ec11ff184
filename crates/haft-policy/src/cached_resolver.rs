//! A resolver that reads each path once, for a batch of calls that are explained and never run.
//!
//! FAIL CLOSED: an error is not kept, and neither is a search that reached its limit.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
};

use haft_core::{HardLinkedFile, host::RandomState, sync};

use crate::path_resolver::{PathResolver, Storage};

/// Maximum number of kept answers of each kind.
const MAX_KEPT: usize = 100_000;

/// Keeps the answers of another resolver for as long as it lives.
///
/// Use it only where nothing runs in the meantime: a symlink that changes later is not seen.
#[derive(Debug)]
pub struct CachedPathResolver {
    inner: Arc<dyn PathResolver>,
    resolved: Kept<PathBuf>,
    links: Kept<Search<PathBuf>>,
    entries: Kept<Search<PathBuf>>,
    names: Kept<Search<String>>,
    hard_links: Kept<Search<(PathBuf, HardLinkedFile)>>,
}

/// Answers by path.
type Kept<T> = RwLock<HashMap<PathBuf, T, RandomState>>;

/// What a search found, and how many entries it visited.
#[derive(Debug)]
struct Search<T> {
    found: Arc<[T]>,
    visited: usize,
}

impl CachedPathResolver {
    /// Keeps the answers of this resolver.
    #[must_use]
    pub fn new(inner: Arc<dyn PathResolver>) -> Self {
        Self {
            inner,
            resolved: Kept::default(),
            links: Kept::default(),
            entries: Kept::default(),
            names: Kept::default(),
            hard_links: Kept::default(),
        }
    }
}

fn keep<T>(kept: &Kept<T>, path: &Path, answer: T) {
    let mut kept = sync::write(kept);
    if kept.len() < MAX_KEPT {
        kept.insert(path.to_owned(), answer);
    }
}

/// Returns the kept result of a search, if what it visited is within the limit; or searches.
fn searched<T: Clone>(
    kept: &Kept<Search<T>>,
    path: &Path,
    left: &mut usize,
    search: impl FnOnce(&mut usize) -> Result<Vec<T>, String>,
) -> Result<Arc<[T]>, String> {
    if let Some(known) = sync::read(kept).get(path)
        && let Some(rest) = left.checked_sub(known.visited)
    {
        *left = rest;
        return Ok(Arc::clone(&known.found));
    }
    let before = *left;
    let found: Arc<[T]> = search(left)?.into();
    keep(kept, path, Search { found: Arc::clone(&found), visited: before - *left });
    Ok(found)
}

impl PathResolver for CachedPathResolver {
    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        if let Some(known) = sync::read(&self.resolved).get(path) {
            return Ok(known.clone());
        }
        let resolved = self.inner.resolve(path)?;
        keep(&self.resolved, path, resolved.clone());
        Ok(resolved)
    }

    fn storage(&self) -> Storage {
        self.inner.storage()
    }

    fn links(&self, directory: &Path, left: &mut usize) -> Result<Vec<PathBuf>, String> {
        let search = |left: &mut usize| self.inner.links(directory, left);
        searched(&self.links, directory, left, search).map(|found| found.to_vec())
    }

    fn entries(&self, directory: &Path, left: &mut usize) -> Result<Vec<PathBuf>, String> {
        let search = |left: &mut usize| self.inner.entries(directory, left);
        searched(&self.entries, directory, left, search).map(|found| found.to_vec())
    }

    fn names(&self, directory: &Path, left: &mut usize) -> Result<Vec<String>, String> {
        let search = |left: &mut usize| self.inner.names(directory, left);
        searched(&self.names, directory, left, search).map(|found| found.to_vec())
    }

    fn hard_links(
        &self,
        path: &Path,
        left: &mut usize,
        found: &mut Vec<(PathBuf, HardLinkedFile)>,
    ) -> Result<(), String> {
        let mut partial = Vec::new();
        let search = |left: &mut usize| {
            self.inner.hard_links(path, left, &mut partial)?;
            Ok(std::mem::take(&mut partial))
        };
        let searched = searched(&self.hard_links, path, left, search);
        // What was found before an error counts too.
        found.append(&mut partial);
        found.extend(searched?.iter().cloned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A fake that counts what it is asked.
    #[derive(Debug, Default)]
    struct Fake(AtomicUsize);

    impl PathResolver for Fake {
        fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if path.ends_with("loop") { Err("a loop".to_owned()) } else { Ok(path.join("real")) }
        }

        fn names(&self, _: &Path, left: &mut usize) -> Result<Vec<String>, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            *left = left.checked_sub(2).ok_or("too many")?;
            Ok(vec!["a".to_owned(), "b".to_owned()])
        }
    }

    #[test]
    fn path_is_resolved_once_and_an_error_is_not_kept() {
        let inner = Arc::new(Fake::default());
        let cached = CachedPathResolver::new(Arc::clone(&inner) as _);
        for _ in 0..3 {
            assert_eq!(cached.resolve(Path::new("/a")), Ok(PathBuf::from("/a/real")));
        }
        assert_eq!(inner.0.load(Ordering::Relaxed), 1);
        for _ in 0..2 {
            assert!(cached.resolve(Path::new("/loop")).is_err());
        }
        assert_eq!(inner.0.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn kept_search_takes_as_much_from_the_limit_as_the_first_one() {
        let inner = Arc::new(Fake::default());
        let cached = CachedPathResolver::new(Arc::clone(&inner) as _);
        let mut left = 5;
        for (rest, asked) in [(3, 1), (1, 1)] {
            assert_eq!(cached.names(Path::new("/a"), &mut left).unwrap().len(), 2);
            assert_eq!((left, inner.0.load(Ordering::Relaxed)), (rest, asked));
        }
        assert!(cached.names(Path::new("/a"), &mut left).is_err(), "the limit is reached");
    }
}
