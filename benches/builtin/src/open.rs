//! A confined open compared with a plain one: from a path to an open file descriptor, which is
//! closed again.
//!
//! Ours resolves the path, opens it, and checks whether it is a file. In between is one bare
//! `openat2` with the same flag to follow no symlinks, which cannot report where a path leads.

use std::{fs::File, os::fd::OwnedFd, rc::Rc, time::Duration};

use haft_sandbox::{Access, Workspace};
use rustix::fs::{CWD, Mode, OFlags};

use crate::{Case, Group};

/// Repetitions in one run: a single open is shorter than the clock's resolution.
const OPENS_PER_RUN: u32 = 2_000;

pub(crate) fn groups() -> Result<Vec<Group>, String> {
    let home = Rc::new(tempfile::tempdir().map_err(|e| e.to_string())?);
    let directory = home.path().canonicalize().map_err(|e| e.to_string())?;
    let workspace = Workspace::builder().root(&directory, Access::Read).build();
    let workspace = workspace.map_err(|e| e.to_string())?;
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root =
        rustix::fs::openat(CWD, &directory, how, Mode::empty()).map_err(|e| e.to_string())?;
    let root = Rc::new(root);
    let mut groups = Vec::new();
    for deep in [1, 4, 8] {
        let names: Vec<String> = (1..=deep).map(|level| format!("directory{level}")).collect();
        let below = names.join("/");
        std::fs::create_dir_all(directory.join(&below)).map_err(|e| e.to_string())?;
        let path = format!("{below}/file.txt");
        let absolute = directory.join(&path);
        File::create(&absolute).map_err(|e| e.to_string())?;

        let (text, workspace, home) = (path.clone(), workspace.clone(), home.clone());
        let ours = Case::new("Workspace: find and open", move || {
            let _home = &home;
            for _ in 0..OPENS_PER_RUN {
                let place = workspace.resolve(&text).map_err(|e| e.to_string())?;
                workspace.open(&place).map_err(|e| e.to_string())?;
            }
            Ok(())
        });
        let plain = Case::baseline("File::open", move || {
            for _ in 0..OPENS_PER_RUN {
                File::open(&absolute).map_err(|e| e.to_string())?;
            }
            Ok(())
        });
        let mut cases = vec![ours, plain];
        cases.extend(bare(root.clone(), path));
        groups.push(Group {
            name: format!("open: a file {deep} deep"),
            cases,
            times: OPENS_PER_RUN,
            rest: Duration::ZERO,
            has_cpu: true,
            max_rounds: usize::MAX,
        });
    }
    Ok(groups)
}

#[cfg(target_os = "linux")]
fn bare(root: Rc<OwnedFd>, path: String) -> Option<Case> {
    use rustix::fs::ResolveFlags;
    Some(Case::baseline("openat2, no links", move || {
        let how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        for _ in 0..OPENS_PER_RUN {
            rustix::fs::openat2(&*root, &path, how, Mode::empty(), resolve)
                .map_err(|e| e.to_string())?;
        }
        Ok(())
    }))
}

#[cfg(not(target_os = "linux"))]
fn bare(_: Rc<OwnedFd>, _: String) -> Option<Case> {
    None
}
