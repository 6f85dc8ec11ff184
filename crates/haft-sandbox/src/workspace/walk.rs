//! Goes through a folder and what is below it, by handles, without following links.
//!
//! Entries come in the order of their names, folders before what is in them. There is a bound on
//! entries and on depth; whoever meets one is told.

use std::{
    ffi::OsString,
    fs::File,
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, Dir, OFlags},
    io::Errno,
};

use super::{Cause, Kind, Meta, Opened, Place, Refusal, Workspace, handle::open_below, open::meta};

/// How far a recursive operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// So many entries.
    pub entries: usize,
    /// So many levels. One level is the folder alone.
    pub depth: usize,
    /// So many bytes, where bytes are moved.
    pub bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            entries: 200_000, // the sources of a large project, with what it depends on
            depth: 64,        // deeper than people go; each level holds a descriptor
            bytes: 4 << 30,   // more is a backup, not a copy
        }
    }
}

impl Bounds {
    /// The folder alone, nothing below its entries.
    #[must_use]
    pub fn flat(self) -> Self {
        Self { depth: 1, ..self }
    }
}

/// One entry on the way.
#[derive(Debug, Clone)]
pub struct Entry {
    place: Place,
    meta: Meta,
    folder: Arc<OwnedFd>,
    name: OsString,
    level: usize,
}

impl Entry {
    /// Returns where it is.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns what it is.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns how deep it is: 1 for entries of the folder the walk began in.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level
    }

    /// Opens it for reading, from the handle of its folder: one step, whatever its depth.
    ///
    /// # Errors
    /// Refuses what is no regular file, also when it became so in the meantime.
    pub fn open(&self) -> Result<Opened, Refusal> {
        let os = |errno| self.place.os(errno);
        let handle =
            open_below(self.folder.as_fd(), self.name.as_ref(), OFlags::RDONLY).map_err(os)?;
        let meta = meta(&rustix::fs::fstat(&handle).map_err(os)?);
        match meta.kind {
            Kind::File => {
                let _ = rustix::fs::fcntl_setfl(&handle, OFlags::empty());
                Ok(Opened { file: File::from(handle), meta })
            }
            Kind::Folder => Err(self.place.refuse(Cause::IsAFolder)),
            Kind::Link | Kind::Special => Err(self.place.refuse(Cause::SpecialFile)),
        }
    }
}

impl Workspace {
    /// Goes through a folder and what is below it.
    ///
    /// # Errors
    /// Fails when the place is no folder or cannot be read.
    pub fn walk(&self, place: &Place, bounds: Bounds) -> Result<Walk, Refusal> {
        let root = self.folder(place)?;
        let how = OFlags::RDONLY | OFlags::DIRECTORY;
        let handle =
            open_below(root.handle.as_fd(), &place.path, how).map_err(|errno| place.os(errno))?;
        let mut walk = Walk { stack: Vec::new(), left: bounds.entries, bounds, next: None };
        walk.enter(place.clone(), handle)?;
        Ok(walk)
    }

    /// Lists a folder by name.
    ///
    /// # Errors
    /// Like [`walk`](Self::walk), and refuses a folder with more entries than `entries`.
    pub fn list(&self, place: &Place, entries: usize) -> Result<Vec<Entry>, Refusal> {
        self.walk(place, Bounds { entries, ..Bounds::default() }.flat())?.collect()
    }
}

/// The way through a folder. Trouble with one entry is told and gone past; a bound ends the way.
#[derive(Debug)]
pub struct Walk {
    stack: Vec<Level>,
    bounds: Bounds,
    left: usize,
    /// The folder that was shown last, to be entered unless somebody says no.
    next: Option<(Place, Arc<OwnedFd>, OsString)>,
}

#[derive(Debug)]
struct Level {
    place: Place,
    handle: Arc<OwnedFd>,
    /// By name, last first.
    names: Vec<OsString>,
}

impl Walk {
    /// Leaves out what is below the folder that was shown last.
    pub fn pass_by(&mut self) {
        self.next = None;
    }

    fn enter(&mut self, place: Place, handle: OwnedFd) -> Result<(), Refusal> {
        use std::os::unix::ffi::OsStrExt as _;
        let os = |errno| place.os(errno);
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(&handle).map_err(os)? {
            let entry = entry.map_err(os)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            // Before they are kept, so that a huge folder costs no more than the bound.
            if self.left == 0 {
                return Err(place.refuse(Cause::TooMany));
            }
            self.left -= 1;
            names.push(std::ffi::OsStr::from_bytes(name).to_owned());
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.stack.push(Level { place, handle: Arc::new(handle), names });
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Entry>, Refusal> {
        if let Some((place, folder, name)) = self.next.take() {
            if self.stack.len() >= self.bounds.depth {
                // One level alone was asked for: that is no bound that was met.
                if self.bounds.depth > 1 {
                    self.stack.clear();
                    return Err(place.refuse(Cause::TooMany));
                }
            } else {
                let how = OFlags::RDONLY | OFlags::DIRECTORY;
                let handle = open_below(folder.as_fd(), name.as_ref(), how)
                    .map_err(|errno| place.os(errno))?;
                self.enter(place, handle).inspect_err(|refusal| {
                    if refusal.cause() == Cause::TooMany {
                        self.stack.clear();
                    }
                })?;
            }
        }
        loop {
            let level = self.stack.len();
            let Some(here) = self.stack.last_mut() else { return Ok(None) };
            let Some(name) = here.names.pop() else {
                self.stack.pop();
                continue;
            };
            let path: PathBuf = here.place.path.join(&name);
            let place = Place { path, exists: true, ..here.place.clone() };
            let stat = match rustix::fs::statat(&*here.handle, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue, // gone since the folder was read
                stat => stat.map_err(|errno| place.os(errno))?,
            };
            let meta = meta(&stat);
            if meta.kind == Kind::Folder {
                self.next = Some((place.clone(), here.handle.clone(), name.clone()));
            }
            return Ok(Some(Entry { place, meta, folder: here.handle.clone(), name, level }));
        }
    }
}

impl Iterator for Walk {
    type Item = Result<Entry, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
