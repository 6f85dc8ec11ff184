//! Deletes and copies, one entry or a whole tree, never through a link.
//!
//! A tree is looked at before it is touched: a protected name or a bound refuses the whole operation
//! and leaves everything as it was.

use std::{io::copy, os::fd::AsFd as _};

use rustix::fs::{AtFlags, OFlags};

use super::{
    Bounds, Entry, FileKind, PathError, PathErrorKind, Replace, ResolvedPath, Stamp, Workspace,
    handle::open_below,
};

/// How much of a tree is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A file, a link or an empty folder.
    Entry,
    /// Everything below it too, within these bounds.
    Everything(Bounds),
}

/// What an operation on a tree did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// Entries that were made or taken away.
    pub entries: usize,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Links and special files that were left out of a copy.
    pub left_out: usize,
    /// Entries that are still there, because somebody wanted it to end.
    pub left_over: usize,
}

struct Seen {
    place: ResolvedPath,
    kind: FileKind,
    size: u64,
}

/// Whose mode a file keeps that takes another's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Its own: it is moved.
    File,
    /// That of what was there: it is filled anew.
    Place,
}

impl Workspace {
    /// Deletes an entry. A link is deleted itself, never what it leads to.
    ///
    /// # Errors
    /// Refuses protected names, also below; folders that are not empty, unless everything is meant;
    /// and what is beyond the bounds. Nothing has been touched then.
    pub fn remove(&self, place: &ResolvedPath, extent: Extent) -> Result<Done, PathError> {
        self.remove_until(place, extent, &|| false)
    }

    /// Deletes like [`remove`](Self::remove), and ends between two entries when it is told to. What is
    /// there then is as it was, and counted in [`Done::left_over`].
    ///
    /// # Errors
    /// Like [`remove`](Self::remove).
    pub fn remove_until(
        &self,
        place: &ResolvedPath,
        extent: Extent,
        stop: &dyn Fn() -> bool,
    ) -> Result<Done, PathError> {
        self.may_move(place)?;
        let (folder, name) = self.parent_and_name(place)?;
        let what = self.meta(place)?.kind;
        if what != FileKind::Folder {
            rustix::fs::unlinkat(&folder, &name, AtFlags::empty())
                .map_err(|errno| place.os(errno))?;
            return Ok(Done { entries: 1, ..Done::default() });
        }
        let mut done = Done::default();
        if let Extent::Everything(bounds) = extent {
            let all = self.survey(place, bounds)?;
            if let Some(Seen { place, .. }) = all.iter().find(|seen| self.is_protected(&seen.place))
            {
                return Err(place.refuse(PathErrorKind::Protected));
            }
            // What is below comes after its folder, so the other way round it comes before.
            for Seen { place, kind, .. } in all.iter().rev() {
                if stop() {
                    done.left_over = all.len() - done.entries + 1;
                    return Ok(done);
                }
                let how =
                    if *kind == FileKind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                let (folder, name) = self.parent_and_name(place)?;
                rustix::fs::unlinkat(&folder, &name, how).map_err(|errno| place.os(errno))?;
                done.entries += 1;
            }
        }
        rustix::fs::unlinkat(&folder, &name, AtFlags::REMOVEDIR)
            .map_err(|errno| place.os(errno))?;
        done.entries += 1;
        Ok(done)
    }

    /// Copies a file, or a folder with everything below it. Links and special files are left out
    /// and counted. What is there already is kept, unless it may be replaced. A new file may be used as
    /// the one it was copied from; one that takes another's place, as that was.
    ///
    /// # Errors
    /// Refuses protected names at the other end, a folder into itself, and what is beyond the bounds.
    pub fn copy(
        &self,
        from: &ResolvedPath,
        to: &ResolvedPath,
        replace: Replace,
        bounds: Bounds,
    ) -> Result<Done, PathError> {
        self.may_write(to)?;
        let mut done = Done::default();
        if self.meta(from)?.kind != FileKind::Folder {
            self.copy_file(from, to, (replace, bounds, Kept::Place), &mut done)?;
            return Ok(done);
        }
        if to.root == from.root && to.path.starts_with(&from.path) {
            return Err(to.refuse(PathErrorKind::NameInvalid));
        }
        let all = self.survey(from, bounds)?;
        let other = |place: &ResolvedPath| {
            let rest = place.path.strip_prefix(&from.path).unwrap_or(&place.path);
            ResolvedPath { path: to.path.join(rest), ..to.clone() }
        };
        let mut bytes: u64 = 0;
        for seen in &all {
            bytes = bytes.saturating_add(seen.size);
            if bytes > bounds.bytes {
                return Err(from.refuse(PathErrorKind::TooMany));
            }
            self.may_write(&other(&seen.place))?;
        }
        self.make_folder(to)?;
        for seen in &all {
            let target = other(&seen.place);
            match seen.kind {
                FileKind::Folder => {
                    self.make_folder(&target)?;
                    done.entries += 1;
                }
                FileKind::File => {
                    let how = (replace, bounds, Kept::Place);
                    self.copy_file(&seen.place, &target, how, &mut done)?;
                }
                FileKind::Link | FileKind::Special => done.left_out += 1,
            }
        }
        Ok(done)
    }

    /// Moves a file to another disk: a copy is put in its place as a whole, then the old name goes. A
    /// file that somebody writes to meanwhile stays, beside the copy.
    ///
    /// # Errors
    /// Refuses what [`rename`](Self::rename) refuses, folders and links, and what is beyond the bounds.
    pub fn carry(
        &self,
        from: &ResolvedPath,
        to: &ResolvedPath,
        replace: Replace,
        bounds: Bounds,
    ) -> Result<Done, PathError> {
        self.may_move(from)?;
        self.may_move(to)?;
        if self.meta(from)?.kind != FileKind::File {
            return Err(from.refuse(PathErrorKind::OtherDisk));
        }
        let mut done = Done::default();
        let copied = self.copy_file(from, to, (replace, bounds, Kept::File), &mut done)?;
        let (folder, name) = self.parent_and_name(from)?;
        if self.meta(from)?.stamp != copied {
            return Err(from.refuse(PathErrorKind::Changed));
        }
        rustix::fs::unlinkat(&folder, &name, AtFlags::empty()).map_err(|errno| from.os(errno))?;
        let _ = rustix::fs::fsync(&folder);
        Ok(done)
    }

    /// Looks at a whole tree. Entries hold the handle of their folder, so they are not kept: a tree
    /// with many folders would use up the descriptors.
    fn survey(&self, place: &ResolvedPath, bounds: Bounds) -> Result<Vec<Seen>, PathError> {
        let look = |entry: Result<Entry, PathError>| {
            let entry = entry?;
            let size = if entry.kind() == FileKind::File { entry.meta()?.size } else { 0 };
            Ok(Seen { place: entry.place().clone(), kind: entry.kind(), size })
        };
        self.walk(place, bounds)?.map(look).collect()
    }

    fn copy_file(
        &self,
        from: &ResolvedPath,
        to: &ResolvedPath,
        (replace, bounds, kept): (Replace, Bounds, Kept),
        done: &mut Done,
    ) -> Result<Stamp, PathError> {
        use std::io::Read as _;
        let opened = self.open(from)?;
        let room = bounds.bytes.saturating_sub(done.bytes);
        if opened.meta.size > room {
            return Err(from.refuse(PathErrorKind::TooLarge));
        }
        let (stamp, meta) = (opened.meta.stamp, opened.meta);
        let mut draft = self.draft(to, replace)?;
        if kept == Kept::File || !draft.replaces() {
            draft.keep_mode(&meta);
        }
        let copied = copy(&mut opened.file.take(room.saturating_add(1)), &mut draft)
            .map_err(|e| to.io(e))?;
        if copied > room {
            return Err(from.refuse(PathErrorKind::TooLarge));
        }
        draft.commit()?;
        done.entries += 1;
        done.bytes += copied;
        Ok(stamp)
    }

    /// Returns whether a place is a folder that can be worked in, for a command's working folder.
    ///
    /// # Errors
    /// Refuses what is no folder.
    pub fn check_folder(&self, place: &ResolvedPath) -> Result<(), PathError> {
        let root = self.folder(place)?;
        open_below(root.handle.as_fd(), &place.path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map(drop)
            .map_err(|errno| place.os(errno))
    }
}
