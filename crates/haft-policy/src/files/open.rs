//! Opens a configuration file: a regular file of bounded size, without blocking.
//!
//! A confined command may leave anything under such a name: a FIFO that never answers, a symlink to
//! an endless device, a directory. Each is an error that names it. An empty directory counts as
//! missing: the sandbox leaves one where a protected name is missing.
//!
//! INVARIANT: the text is read once. Digest and parser get the same text (no TOCTOU).

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use haft_core::{Error, ErrorKind};

use super::MAX_FILE;

/// Reads a configuration file. `None` if it is missing, or only an empty directory.
///
/// The file is opened without blocking, must be a regular file of at most 1 MiB, and must be UTF-8.
/// A symlink is followed.
///
/// # Errors
/// Fails with what is there instead of such a file.
pub fn read_config_file(path: &Path) -> Result<Option<String>, Error> {
    let Some(bytes) = read(path, Symlinks::Follow, MAX_FILE)? else { return Ok(None) };
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(e) => {
            let at = e.utf8_error().valid_up_to();
            Err(wrong(path, format!("is not UTF-8: invalid byte at offset {at}")))
        }
    }
}

/// Reads a file as [`read_config_file`] does, with any content, up to a size.
///
/// # Errors
/// Fails with what is there instead of such a file.
pub fn read_regular_file(path: &Path, max_bytes: usize) -> Result<Option<Vec<u8>>, Error> {
    read(path, Symlinks::Follow, max_bytes)
}

/// How a symlink at the path is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symlinks {
    Follow,
    Refuse,
}

/// Reads the bytes of a regular file, at most `max_bytes`.
pub(crate) fn read(
    path: &Path,
    symlinks: Symlinks,
    max_bytes: usize,
) -> Result<Option<Vec<u8>>, Error> {
    let file =
        match open(path, symlinks) {
            Ok(file) => file,
            Err(e) if is_absent(&e) => {
                return match path.symlink_metadata() {
                    Ok(found) if found.is_symlink() => Err(wrong(path, "is a dangling symlink")
                        .hint("delete it, or point it to a file")),
                    // It was removed or created a moment ago, and was missing when it was opened.
                    _ => Ok(None),
                };
            }
            // A socket cannot be opened, nor can a symlink that must not be followed.
            Err(e) => {
                let found = path.symlink_metadata();
                let found = found.as_ref().ok().and_then(|found| kind(found.file_type()));
                return Err(match found {
                    Some(kind) => no_file(path, kind),
                    None => wrong(path, format!("cannot be read: {e}")).because(e),
                });
            }
        };
    let cannot = |e: io::Error| wrong(path, format!("cannot be read: {e}")).because(e);
    // Checked on the file descriptor: the path may have changed since (TOCTOU).
    let found = file.metadata().map_err(cannot)?;
    if found.is_dir() {
        return match fs::read_dir(path).map_err(cannot)?.next() {
            None => Ok(None),
            Some(_) => Err(no_file(path, "a directory that is not empty")),
        };
    }
    if !found.is_file() {
        return Err(no_file(path, kind(found.file_type()).unwrap_or("not a regular file")));
    }
    let mut bytes = Vec::new();
    // One byte more than the limit, to detect a longer file.
    file.take(max_bytes as u64 + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() > max_bytes {
        let most = max_bytes >> 20;
        return Err(wrong(path, format!("is larger than {most} MiB, which is the limit"))
            .hint("check that this is the right file"));
    }
    Ok(Some(bytes))
}

fn open(path: &Path, symlinks: Symlinks) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Without `O_NONBLOCK`, opening a FIFO blocks until there is a writer.
        let flags = match symlinks {
            Symlinks::Follow => 0,
            Symlinks::Refuse => libc::O_NOFOLLOW,
        };
        options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | flags);
    }
    #[cfg(not(unix))]
    if symlinks == Symlinks::Refuse && path.symlink_metadata()?.is_symlink() {
        return Err(io::Error::other("it is a symlink"));
    }
    options.open(path)
}

/// Names a file type that is neither a regular file nor a directory.
fn kind(found: fs::FileType) -> Option<&'static str> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kinds = [
            (found.is_fifo(), "a named pipe (FIFO)"),
            (found.is_socket(), "a socket"),
            (found.is_char_device(), "a character device"),
            (found.is_block_device(), "a block device"),
        ];
        if let Some((_, name)) = kinds.into_iter().find(|(is, _)| *is) {
            return Some(name);
        }
    }
    found.is_symlink().then_some("a symlink")
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn no_file(path: &Path, what: &str) -> Error {
    wrong(path, format!("is {what}, but configuration must be a regular file"))
        .hint("find out what put it there, and delete it")
}

fn wrong(path: &Path, what: impl AsRef<str>) -> Error {
    Error::new(ErrorKind::BadConfig, format!("`{}` {}", path.display(), what.as_ref()))
}
