//! The trust file: read, updated under a lock, replaced atomically.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use haft::policy::{DirectoryId, TrustedDirs};

use crate::error::Problem;

/// Reads the trusted directories. A missing file trusts nothing.
pub(crate) fn read(path: &Path) -> Result<TrustedDirs, Problem> {
    Ok(match haft::policy::read_config_file(path)? {
        Some(text) => TrustedDirs::parse(&text)?,
        None => TrustedDirs::default(),
    })
}

/// Returns the device and inode of a directory.
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

/// Updates the trusted directories. The lock prevents lost updates of concurrent commands. The file
/// is not written if the change fails or changes nothing.
pub(crate) fn update<T>(
    path: &Path,
    change: impl FnOnce(&mut TrustedDirs) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let cannot = |e: io::Error| Problem::new(format!("cannot write `{}`: {e}", path.display()));
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(cannot)?;
    // Held until the end; the kernel releases it when the process dies.
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

/// Replaces the file atomically: writes a temporary file and renames it.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension(format!("toml.{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // A killed command with the same process id may have left its file.
    let _ = fs::remove_file(&temporary);
    let mut file = options.open(&temporary)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
