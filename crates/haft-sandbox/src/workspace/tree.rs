//! Deletes and copies an entry or a whole tree, never through a symlink.
//!
//! A tree is walked before it is changed: a protected name or an exceeded bound refuses the whole
//! operation, and nothing has changed then.

use std::{io::copy, os::fd::AsFd as _};

use rustix::fs::{AtFlags, OFlags};

use super::{
    FileKind, FileVersion, PathError, PathErrorKind, Replace, ResolvedPath, WalkEntry, WalkLimits,
    Workspace, open_beneath::open_below,
};

/// How much of a tree an operation covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteScope {
    /// A file, a symlink or an empty directory.
    Entry,
    /// Everything below it too, within these limits.
    Everything(WalkLimits),
}

/// What an operation on a tree did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeReport {
    /// Entries that were created or deleted.
    pub entries: usize,
    /// Bytes that were copied.
    pub bytes: u64,
    /// Links and special files that were left out of a copy.
    pub not_copied: usize,
    /// Entries that were not deleted, because the operation was cancelled.
    pub not_deleted: usize,
}

struct TreeEntry {
    resolved: ResolvedPath,
    kind: FileKind,
    size: u64,
}

/// Which mode a file gets if it replaces another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ModeOf {
    /// Its own, because it is moved.
    Source,
    /// The mode of the replaced file, because only the contents are new.
    Target,
}

impl Workspace {
    /// Deletes an entry. A symlink itself is deleted, never its target.
    ///
    /// # Errors
    /// Refuses protected names, also below; directories that are not empty, unless the extent is
    /// [`DeleteScope::Everything`]; and trees beyond the limits. Nothing has changed then.
    pub fn remove(
        &self,
        resolved: &ResolvedPath,
        extent: DeleteScope,
    ) -> Result<TreeReport, PathError> {
        self.remove_until(resolved, extent, &|| false)
    }

    /// Like [`remove`](Self::remove), with cancellation: `stop` is checked between two entries.
    /// What is left is unchanged and counted in [`TreeReport::not_deleted`].
    ///
    /// # Errors
    /// Like [`remove`](Self::remove).
    pub fn remove_until(
        &self,
        resolved: &ResolvedPath,
        extent: DeleteScope,
        stop: &dyn Fn() -> bool,
    ) -> Result<TreeReport, PathError> {
        self.may_move(resolved)?;
        let (directory, name) = self.parent_and_name(resolved)?;
        let what = self.meta(resolved)?.kind;
        if what != FileKind::Directory {
            rustix::fs::unlinkat(&directory, &name, AtFlags::empty())
                .map_err(|errno| resolved.os(errno))?;
            return Ok(TreeReport { entries: 1, ..TreeReport::default() });
        }
        let mut done = TreeReport::default();
        if let DeleteScope::Everything(bounds) = extent {
            let all = self.survey(resolved, bounds)?;
            if let Some(TreeEntry { resolved, .. }) =
                all.iter().find(|seen| self.is_protected(&seen.resolved))
            {
                return Err(resolved.refuse(PathErrorKind::Protected));
            }
            // In reverse order, so that the contents come before their directory.
            for TreeEntry { resolved, kind, .. } in all.iter().rev() {
                if stop() {
                    done.not_deleted = all.len() - done.entries + 1;
                    return Ok(done);
                }
                let how = if *kind == FileKind::Directory {
                    AtFlags::REMOVEDIR
                } else {
                    AtFlags::empty()
                };
                let (directory, name) = self.parent_and_name(resolved)?;
                rustix::fs::unlinkat(&directory, &name, how).map_err(|errno| resolved.os(errno))?;
                done.entries += 1;
            }
        }
        rustix::fs::unlinkat(&directory, &name, AtFlags::REMOVEDIR)
            .map_err(|errno| resolved.os(errno))?;
        done.entries += 1;
        Ok(done)
    }

    /// Copies a file, or a directory with everything below it. Symlinks and special files are left
    /// out and counted. Existing files are kept, unless `replace` allows to replace them. A new
    /// file gets the mode of its source, a replaced file keeps its own.
    ///
    /// # Errors
    /// Refuses protected names as target, a directory into itself, and trees beyond the limits.
    pub fn copy(
        &self,
        from: &ResolvedPath,
        to: &ResolvedPath,
        replace: Replace,
        bounds: WalkLimits,
    ) -> Result<TreeReport, PathError> {
        self.may_write(to)?;
        let mut done = TreeReport::default();
        if self.meta(from)?.kind != FileKind::Directory {
            self.copy_file(from, to, (replace, bounds, ModeOf::Target), &mut done)?;
            return Ok(done);
        }
        if to.root == from.root && to.path.starts_with(&from.path) {
            return Err(to.refuse(PathErrorKind::NameInvalid));
        }
        let all = self.survey(from, bounds)?;
        let other = |resolved: &ResolvedPath| {
            let rest = resolved.path.strip_prefix(&from.path).unwrap_or(&resolved.path);
            ResolvedPath { path: to.path.join(rest), ..to.clone() }
        };
        let mut bytes: u64 = 0;
        for seen in &all {
            bytes = bytes.saturating_add(seen.size);
            if bytes > bounds.bytes {
                return Err(from.refuse(PathErrorKind::TooMany));
            }
            self.may_write(&other(&seen.resolved))?;
        }
        self.make_directory(to)?;
        for seen in &all {
            let target = other(&seen.resolved);
            match seen.kind {
                FileKind::Directory => {
                    self.make_directory(&target)?;
                    done.entries += 1;
                }
                FileKind::File => {
                    let how = (replace, bounds, ModeOf::Target);
                    self.copy_file(&seen.resolved, &target, how, &mut done)?;
                }
                FileKind::Symlink | FileKind::Special => done.not_copied += 1,
            }
        }
        Ok(done)
    }

    /// Moves a file to another disk: an atomic copy, then the old name is deleted. If the file was
    /// written to meanwhile, it is kept next to the copy.
    ///
    /// # Errors
    /// Refuses what [`rename`](Self::rename) refuses, directories, symlinks, and files beyond the
    /// limits.
    pub fn move_across_devices(
        &self,
        from: &ResolvedPath,
        to: &ResolvedPath,
        replace: Replace,
        bounds: WalkLimits,
    ) -> Result<TreeReport, PathError> {
        self.may_move(from)?;
        self.may_move(to)?;
        if self.meta(from)?.kind != FileKind::File {
            return Err(from.refuse(PathErrorKind::CrossDevice));
        }
        let mut done = TreeReport::default();
        let copied = self.copy_file(from, to, (replace, bounds, ModeOf::Source), &mut done)?;
        let (directory, name) = self.parent_and_name(from)?;
        if self.meta(from)?.stamp != copied {
            return Err(from.refuse(PathErrorKind::Changed));
        }
        rustix::fs::unlinkat(&directory, &name, AtFlags::empty())
            .map_err(|errno| from.os(errno))?;
        let _ = rustix::fs::fsync(&directory);
        Ok(done)
    }

    /// Lists a whole tree. An [`Entry`] holds the file descriptor of its directory, so it is not
    /// kept: a tree with many directories would exhaust the file descriptors.
    fn survey(
        &self,
        resolved: &ResolvedPath,
        bounds: WalkLimits,
    ) -> Result<Vec<TreeEntry>, PathError> {
        let look = |entry: Result<WalkEntry, PathError>| {
            let entry = entry?;
            let size = if entry.kind() == FileKind::File { entry.meta()?.size } else { 0 };
            Ok(TreeEntry { resolved: entry.resolved().clone(), kind: entry.kind(), size })
        };
        self.walk(resolved, bounds)?.map(look).collect()
    }

    fn copy_file(
        &self,
        from: &ResolvedPath,
        to: &ResolvedPath,
        (replace, bounds, kept): (Replace, WalkLimits, ModeOf),
        done: &mut TreeReport,
    ) -> Result<FileVersion, PathError> {
        use std::io::Read as _;
        let opened = self.open(from)?;
        let remaining = bounds.bytes.saturating_sub(done.bytes);
        if opened.meta.size > remaining {
            return Err(from.refuse(PathErrorKind::TooLarge));
        }
        let (stamp, meta) = (opened.meta.stamp, opened.meta);
        let mut start_write = self.start_write(to, replace)?;
        if kept == ModeOf::Source || !start_write.replaces() {
            start_write.keep_mode(&meta);
        }
        let copied = copy(&mut opened.file.take(remaining.saturating_add(1)), &mut start_write)
            .map_err(|e| to.io(e))?;
        if copied > remaining {
            return Err(from.refuse(PathErrorKind::TooLarge));
        }
        start_write.commit()?;
        done.entries += 1;
        done.bytes += copied;
        Ok(stamp)
    }

    /// Checks that a path can be the working directory of a command.
    ///
    /// # Errors
    /// Refuses anything but a directory.
    pub fn check_directory(&self, resolved: &ResolvedPath) -> Result<(), PathError> {
        let root = self.directory(resolved)?;
        open_below(root.handle.as_fd(), &resolved.path, OFlags::RDONLY | OFlags::DIRECTORY)
            .map(drop)
            .map_err(|errno| resolved.os(errno))
    }
}
