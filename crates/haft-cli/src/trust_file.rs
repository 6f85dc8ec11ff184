//! The trust file on disk: read as configuration is, changed under a lock, replaced as a whole.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use haft::{DirectoryId, TrustedDirs};

use crate::error::Problem;

/// Reads the trusted directories. A file that is not there trusts nothing.
pub(crate) fn read(path: &Path) -> Result<TrustedDirs, Problem> {
    Ok(match haft::read_config_file(path)? {
        Some(text) => TrustedDirs::parse(&text)?,
        None => TrustedDirs::default(),
    })
}

/// Says which directory is at a path.
pub(crate) fn identify(path: &Path) -> Option<DirectoryId> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let found = fs::metadata(path).ok()?;
        Some(DirectoryId { device: found.dev(), inode: found.ino() })
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Changes the trusted directories. The lock makes sure that of two commands neither loses what the
/// other wrote. Nothing is written when the change fails or changes nothing.
pub(crate) fn update<T>(
    path: &Path,
    change: impl FnOnce(&mut TrustedDirs) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let cannot = |e: io::Error| Problem::new(format!("cannot write `{}`: {e}", path.display()));
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(cannot)?;
    // Held until the end; the system gives it back when the command dies.
    let lock = fs::File::open(directory).map_err(cannot)?;
    lock.lock().map_err(cannot)?;
    let before = read(path)?;
    let mut book = before.clone();
    let done = change(&mut book)?;
    if book != before {
        replace(path, &book.to_text()).map_err(cannot)?;
    }
    Ok(done)
}

/// Puts a new text in the place of the old one, whole or not at all.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension(format!("toml.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // What a killed command of the same process number left behind is in the way.
    let _ = fs::remove_file(&beside);
    let mut file = options.open(&beside)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
