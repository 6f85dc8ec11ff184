//! Protected names that do not exist yet: an empty folder stands there while a command runs.
//!
//! Only a name that exists can be covered, so one is made, and taken away again when nobody needs it
//! any more. Several commands may share it: each holds a shared lock, and the last one, who gets the
//! lock alone, takes it away. Taking it away earlier would uncover it for the others.
//!
//! It is always a folder, because an empty one is invisible to version control.

use std::{
    ffi::OsStr,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, FlockOperation, Mode, OFlags},
    io::Errno,
};

use super::Trouble;
use crate::Profile;

/// The folders that stand for missing names.
#[derive(Debug, Default)]
pub(super) struct Masks {
    held: Vec<Mask>,
    /// Folders to be covered as a whole: a name below cannot be made now and could be later.
    sealed: Vec<PathBuf>,
}

#[derive(Debug)]
struct Mask {
    path: PathBuf,
    parent: OwnedFd,
    lock: OwnedFd,
    name: std::ffi::OsString,
}

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Masks {
    /// Makes what is missing of the protected names below the writable roots.
    pub(super) fn put(profile: &Profile) -> Result<Self, Trouble> {
        let mut masks = Self::default();
        for root in profile.writable() {
            for name in &profile.protected {
                masks.put_one(&root.path, Path::new(name))?;
            }
        }
        Ok(masks)
    }

    /// Returns the path of everything that is covered as a whole.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.held.iter().map(|mask| mask.path.clone()).chain(self.sealed.iter().cloned()).collect()
    }

    fn put_one(&mut self, root: &Path, name: &Path) -> Result<(), Trouble> {
        let trouble = |e: Errno| {
            Trouble::profile(format!(
                "`{}` in `{}`: {}",
                name.display(),
                root.display(),
                std::io::Error::from(e)
            ))
        };
        let mut here = rustix::fs::open(root, FOLDER, Mode::empty()).map_err(trouble)?;
        let mut path = root.to_path_buf();
        for part in name.iter() {
            let folder = path.clone();
            path.push(part);
            if self.paths().contains(&path) || self.sealed.contains(&folder) {
                return Ok(());
            }
            match rustix::fs::statat(&here, part, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => {
                        here = rustix::fs::openat(&here, part, FOLDER, Mode::empty())
                            .map_err(trouble)?;
                    }
                    FileType::Symlink => {
                        return Err(Trouble::profile(format!(
                            "the protected name `{}` is a link, which cannot be held in its place",
                            path.display()
                        )));
                    }
                    _ => return Ok(()),
                },
                Err(Errno::NOENT) => {
                    return match hold(&here, part) {
                        Ok(lock) => {
                            self.held.push(Mask {
                                path,
                                parent: here,
                                lock,
                                name: part.to_owned(),
                            });
                            Ok(())
                        }
                        // Nobody can make it on such a disk.
                        Err(Errno::ROFS) => Ok(()),
                        Err(Errno::ACCESS | Errno::PERM) if folder != root => {
                            self.sealed.push(folder);
                            Ok(())
                        }
                        Err(errno) => Err(trouble(errno)),
                    };
                }
                Err(errno) => return Err(trouble(errno)),
            }
        }
        Ok(())
    }
}

/// Makes an empty folder and holds it. The last holder may take it away between two of our steps, so
/// it is looked at again once it is held.
fn hold(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    for _ in 0..64 {
        match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let handle = match rustix::fs::openat(parent, name, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            handle => handle?,
        };
        rustix::fs::flock(&handle, FlockOperation::LockShared)?;
        let (ours, there) = (
            rustix::fs::fstat(&handle)?,
            rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW),
        );
        if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)) {
            return Ok(handle);
        }
    }
    Err(Errno::AGAIN)
}

impl Drop for Masks {
    fn drop(&mut self) {
        for mask in self.held.drain(..).rev() {
            // Another holder's shared lock makes this fail; then it is theirs to take away.
            if rustix::fs::flock(mask.lock.as_fd(), FlockOperation::NonBlockingLockExclusive)
                .is_ok()
            {
                // Not if somebody has put something into it.
                let _ = rustix::fs::unlinkat(&mask.parent, &mask.name, AtFlags::REMOVEDIR);
            }
        }
    }
}
