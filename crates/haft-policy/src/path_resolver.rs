//! Resolves paths. Rules match resolved paths, so a symlink cannot bypass a rule (path traversal).

use std::{
    collections::VecDeque,
    ffi::OsString,
    fmt, fs,
    io::ErrorKind,
    path::{Component, Path, PathBuf},
};

use haft_core::HardLinkedFile;

/// Resolves paths and lists links.
pub trait PathResolver: fmt::Debug + Send + Sync + 'static {
    /// Returns what an absolute path resolves to, symlinks followed as far as it exists; the rest
    /// is appended. A relative path starts in the working directory of the process.
    ///
    /// # Errors
    /// Fails with the reason if it cannot be resolved; callers take the strict side.
    fn resolve(&self, path: &Path) -> Result<PathBuf, String>;

    /// Returns which storage files can be searched on; `Unknown` by default.
    fn storage(&self) -> Storage {
        Storage::Unknown
    }

    /// Returns the symlinks at and below a directory, none of them followed. Anything else has
    /// none. Each visited entry takes one from `left`.
    ///
    /// # Errors
    /// Fails with the reason if nothing is left or a directory cannot be read; callers take the
    /// strict side. The default implementation fails.
    fn links(&self, directory: &Path, left: &mut usize) -> Result<Vec<PathBuf>, String> {
        let _ = (directory, left);
        Err("symlinks cannot be read here".to_owned())
    }

    /// Returns the entries at any depth below a directory, without following symlinks. Anything
    /// else has none. Each entry takes one from `left`.
    ///
    /// # Errors
    /// Fails with the reason if nothing is left or a directory cannot be read. The default
    /// implementation fails.
    fn entries(&self, directory: &Path, left: &mut usize) -> Result<Vec<PathBuf>, String> {
        let _ = (directory, left);
        Err("files cannot be listed here".to_owned())
    }

    /// Returns the names in a directory; a file has none. Each takes one from `left`.
    ///
    /// # Errors
    /// Fails with the reason if nothing is left, if the directory cannot be read, or if a name is
    /// not UTF-8. The default implementation fails.
    fn names(&self, directory: &Path, left: &mut usize) -> Result<Vec<String>, String> {
        let _ = (directory, left);
        Err("files cannot be listed here".to_owned())
    }

    /// Finds the regular files with more than one hard link, at and below a path, without following
    /// symlinks. Each entry takes one from `left`. Directories that this process may not list are
    /// skipped.
    ///
    /// # Errors
    /// Fails with the reason if nothing is left; `found` then has what was found so far. The
    /// default implementation fails.
    fn hard_links(
        &self,
        path: &Path,
        left: &mut usize,
        found: &mut Vec<(PathBuf, HardLinkedFile)>,
    ) -> Result<(), String> {
        let _ = (path, left, found);
        Err("hard links cannot be read here".to_owned())
    }
}

/// The storage that a resolver works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    /// The file system of this machine.
    ThisMachine,
    /// There are no files.
    Empty,
    /// Not known; the caller takes the strict side.
    Unknown,
}

/// Resolves on the file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct FsPathResolver;

/// Resolves lexically, without a file system: only `.` and `..` are removed. Relative paths stay
/// relative.
#[derive(Debug, Clone, Copy, Default)]
pub struct LexicalResolver;

/// Maximum number of symlinks in one path, as on Linux; more are treated as a loop.
const MAX_SYMLINKS: usize = 40;
/// Maximum bytes of a path; no system opens a longer one.
const MAX_PATH_BYTES: usize = 16 * 1024;
/// Maximum number of components, symlink targets included.
const MAX_COMPONENTS: usize = 4 * MAX_PATH_BYTES;

impl PathResolver for FsPathResolver {
    fn storage(&self) -> Storage {
        Storage::ThisMachine
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        check_path(path)?;
        let mut here = PathBuf::new();
        if path.is_relative() {
            here = Path::new(".").canonicalize().map_err(|e| e.to_string())?;
        }
        let mut rest = VecDeque::new();
        put_before(&mut rest, path);
        let (mut links, mut steps, mut exists) = (0, 0, true);
        while let Some(step) = rest.pop_front() {
            steps += 1;
            if steps > MAX_COMPONENTS {
                return Err("the path has a symlink loop".to_owned());
            }
            let name = match step {
                Step::Start(start) => {
                    here = start;
                    continue;
                }
                // `..` applies after symlinks are followed, as in the kernel.
                Step::Up => {
                    here.pop();
                    // A tool that normalizes the path first gets past a missing component.
                    exists = true;
                    continue;
                }
                Step::Down(name) => name,
            };
            here.push(name);
            if !exists {
                continue;
            }
            match here.read_link() {
                Ok(target) => {
                    links += 1;
                    if links > MAX_SYMLINKS {
                        return Err("the path has too many symlinks".to_owned());
                    }
                    // The target of a `/proc` symlink depends on the process that follows it.
                    if here.starts_with("/proc") {
                        return Err("the path goes through a symlink of `/proc`".to_owned());
                    }
                    check_path(&target)?;
                    here.pop();
                    put_before(&mut rest, &target);
                }
                Err(e) => match e.kind() {
                    // It exists and is not a symlink.
                    ErrorKind::InvalidInput => {}
                    ErrorKind::NotFound | ErrorKind::NotADirectory => exists = false,
                    _ if is_not_symlink(&here) => {}
                    _ => return Err(format!("the path cannot be resolved: {e}")),
                },
            }
        }
        Ok(here)
    }

    fn links(&self, directory: &Path, left: &mut usize) -> Result<Vec<PathBuf>, String> {
        let mut links = Vec::new();
        walk(directory, left, Unreadable::Refuse, |entry, kind| {
            if kind.is_symlink() {
                links.push(entry.path());
            }
            Ok(())
        })?;
        Ok(links)
    }

    fn entries(&self, directory: &Path, left: &mut usize) -> Result<Vec<PathBuf>, String> {
        let mut entries = Vec::new();
        walk(directory, left, Unreadable::Refuse, |entry, _| {
            entries.push(entry.path());
            Ok(())
        })?;
        Ok(entries)
    }

    fn names(&self, directory: &Path, left: &mut usize) -> Result<Vec<String>, String> {
        let entries = match directory.read_dir() {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotADirectory => return Ok(Vec::new()),
            // FAIL CLOSED: a directory that does not exist yet may have any name.
            Err(e) => return Err(format!("a directory cannot be read: {e}")),
        };
        let mut names = Vec::new();
        for entry in entries {
            *left = left.checked_sub(1).ok_or("there are too many files to check")?;
            let name = entry.map_err(|e| e.to_string())?.file_name();
            names.push(name.into_string().map_err(|_| "a name is not UTF-8".to_owned())?);
        }
        Ok(names)
    }

    fn hard_links(
        &self,
        path: &Path,
        left: &mut usize,
        found: &mut Vec<(PathBuf, HardLinkedFile)>,
    ) -> Result<(), String> {
        let own = path.symlink_metadata().ok().filter(fs::Metadata::is_file);
        found.extend(own.and_then(|own| Some((path.to_owned(), hard_linked(&own)?))));
        walk(path, left, Unreadable::LeaveOut, |entry, kind| {
            if kind.is_file() {
                // One that was removed in the meantime has no hard link here.
                let linked = entry.metadata().ok().as_ref().and_then(hard_linked);
                found.extend(linked.map(|file| (entry.path(), file)));
            }
            Ok(())
        })
    }
}

/// Returns the identity of a file that has more than one hard link.
#[cfg(unix)]
fn hard_linked(meta: &fs::Metadata) -> Option<HardLinkedFile> {
    use std::os::unix::fs::MetadataExt as _;
    (meta.nlink() > 1).then(|| HardLinkedFile {
        device: meta.dev(),
        inode: meta.ino(),
        links: meta.nlink(),
        changed: (meta.ctime(), meta.ctime_nsec().unsigned_abs()),
    })
}

#[cfg(not(unix))]
fn hard_linked(_: &fs::Metadata) -> Option<HardLinkedFile> {
    None
}

/// How a directory is handled that this process may not list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    Refuse,
    /// No name in it can be reached, and none can be hard-linked from there.
    LeaveOut,
}

/// Visits the entries below a directory, without following symlinks. Each takes one from `left`.
fn walk(
    directory: &Path,
    left: &mut usize,
    closed: Unreadable,
    mut visit: impl FnMut(&fs::DirEntry, fs::FileType) -> Result<(), String>,
) -> Result<(), String> {
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let entries = match directory.read_dir() {
            Ok(entries) => entries,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                continue;
            }
            Err(e) if e.kind() == ErrorKind::PermissionDenied && closed == Unreadable::LeaveOut => {
                continue;
            }
            Err(e) => return Err(format!("a directory cannot be read: {e}")),
        };
        for entry in entries {
            *left = left.checked_sub(1).ok_or("there are too many files to check")?;
            let entry = entry.map_err(|e| e.to_string())?;
            let kind = entry.file_type().map_err(|e| e.to_string())?;
            visit(&entry, kind)?;
            if kind.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Maximum number of entries that are searched for symlinks: a few milliseconds.
pub(crate) const MAX_SEARCHED_ENTRIES: usize = 4_096;

/// Returns the targets of the symlinks below some directories, transitively.
pub(crate) fn symlink_targets(
    resolver: &dyn PathResolver,
    directories: Vec<PathBuf>,
) -> Result<Vec<PathBuf>, String> {
    let mut left = MAX_SEARCHED_ENTRIES;
    let (mut open, mut done, mut found) = (directories, Vec::<PathBuf>::new(), Vec::new());
    while let Some(directory) = open.pop() {
        if done.iter().any(|done| directory.starts_with(done)) {
            continue;
        }
        for link in resolver.links(&directory, &mut left)? {
            let leads = resolver.resolve(&link)?;
            // Each is compared with all before it.
            if found.len() >= MAX_SYMLINK_TARGETS {
                return Err("there are too many symlinks to follow".to_owned());
            }
            if !found.contains(&leads) {
                found.push(leads.clone());
                open.push(leads);
            }
        }
        done.push(directory);
    }
    Ok(found)
}

/// Maximum number of symlink targets.
const MAX_SYMLINK_TARGETS: usize = 256;

/// Other systems report in other ways that something is not a symlink.
fn is_not_symlink(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| !meta.file_type().is_symlink())
}

impl PathResolver for LexicalResolver {
    fn storage(&self) -> Storage {
        Storage::Empty
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        check_path(path)?;
        Ok(normalize_lexically(path))
    }

    fn links(&self, _: &Path, _: &mut usize) -> Result<Vec<PathBuf>, String> {
        Ok(Vec::new())
    }

    fn hard_links(
        &self,
        _: &Path,
        _: &mut usize,
        _: &mut Vec<(PathBuf, HardLinkedFile)>,
    ) -> Result<(), String> {
        Ok(())
    }
}

/// One component of a path.
enum Step {
    Start(PathBuf),
    Up,
    Down(OsString),
}

fn put_before(rest: &mut VecDeque<Step>, path: &Path) {
    let mut start = PathBuf::new();
    let mut steps = Vec::new();
    for part in path.components() {
        match part {
            Component::Prefix(_) | Component::RootDir => start.push(part),
            Component::CurDir => {}
            Component::ParentDir => steps.push(Step::Up),
            Component::Normal(name) => steps.push(Step::Down(name.to_owned())),
        }
    }
    for step in steps.into_iter().rev() {
        rest.push_front(step);
    }
    if !start.as_os_str().is_empty() {
        rest.push_front(Step::Start(start));
    }
}

/// Rejects paths that no system opens, or that are opened as something else.
fn check_path(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.contains(&0) {
        return Err("the path contains a NUL byte".to_owned());
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Err(format!("the path is longer than {MAX_PATH_BYTES} bytes"));
    }
    Ok(())
}

/// Removes `.` and `..` from a path lexically, without file system access.
pub(crate) fn normalize_lexically(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // FAIL CLOSED: `..` above the start of a relative path is kept, so it is never
            // "inside". The parent of the root is the root, as in the kernel.
            Component::ParentDir => {
                if out.ends_with("..") || (!out.pop() && !out.has_root()) {
                    out.push("..");
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Returns whether a tool works in a directory. A tool without roots works anywhere.
pub(crate) fn works_in(roots: &[PathBuf], directory: &Path, resolver: &dyn PathResolver) -> bool {
    let holds = |root: &PathBuf, leads: &Path| {
        resolver.resolve(root).is_ok_and(|root| leads.starts_with(root))
    };
    roots.is_empty()
        || resolver
            .resolve(directory)
            .is_ok_and(|leads| roots.iter().any(|root| holds(root, &leads)))
}

/// Returns the base of a tool's relative paths: the working directory of the run, if the tool is
/// limited to it, else the first of the tool's roots.
pub(crate) fn start(
    roots: &[PathBuf],
    work: &Path,
    resolver: &dyn PathResolver,
) -> Result<PathBuf, String> {
    match roots.first() {
        Some(first) if !works_in(roots, work, resolver) => Ok(first.clone()),
        _ if work.is_absolute() && roots.iter().any(|root| work.starts_with(root)) => {
            Ok(work.to_owned())
        }
        _ => resolver.resolve(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use crate::testing::TestDirectory;

    #[test]
    fn lexical_resolver_only_removes_dots() {
        for (path, leads) in [
            ("/a/./b/../c", "/a/c"),
            ("/../a", "/a"),
            ("a/../../b", "../b"),
            (".", ""),
            ("/a//b/", "/a/b"),
        ] {
            assert_eq!(LexicalResolver.resolve(Path::new(path)), Ok(leads.into()), "{path}");
        }
        assert!(LexicalResolver.resolve(Path::new("/a\0b")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_are_followed_as_far_as_the_path_exists() {
        let directory = TestDirectory::new("links");
        directory.dir("real/sub");
        directory.link("link", "real");
        directory.link("up", "real/sub/..");
        let at = |path: &str| FsPathResolver.resolve(&directory.at(path));
        assert_eq!(at("link/sub"), Ok(directory.at("real/sub")));
        assert_eq!(at("link/new/file"), Ok(directory.at("real/new/file")));
        assert_eq!(at("up/x"), Ok(directory.at("real/x")));
        assert_eq!(at("link/sub/../../y"), Ok(directory.at("y")), "`..` comes after the link");
        assert_eq!(
            at("nowhere/../../z"),
            Ok(directory.at("..").join("z")).map(|p| normalize_lexically(&p))
        );
    }

    #[cfg(unix)]
    #[test]
    fn symlink_loops_and_invalid_paths_are_errors() {
        let directory = TestDirectory::new("circles");
        directory.link("a", "b");
        directory.link("b", "a");
        directory.link("deep", "deep/deep");
        for odd in ["a", "a/x", "deep/x"] {
            assert!(
                FsPathResolver.resolve(&directory.at(odd)).unwrap_err().contains("links"),
                "{odd}"
            );
        }
        assert!(FsPathResolver.resolve(&directory.at("x\0y")).unwrap_err().contains("NUL"));
        assert!(
            FsPathResolver
                .resolve(Path::new(&"/a".repeat(MAX_PATH_BYTES)))
                .unwrap_err()
                .contains("longer")
        );
        #[cfg(target_os = "linux")]
        assert!(
            FsPathResolver.resolve(Path::new("/proc/self/cwd/x")).unwrap_err().contains("/proc")
        );
        let here = FsPathResolver.resolve(Path::new(".")).unwrap();
        assert!(here.is_absolute());
        assert_eq!(FsPathResolver.resolve(Path::new("no/such")), Ok(here.join("no/such")));
    }
}
