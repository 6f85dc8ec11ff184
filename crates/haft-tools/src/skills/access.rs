//! The files of a skill as the policy sees them: reads that a call declares, and that are checked
//! again when a file is opened (TOCTOU, hard links).
//!
//! The tools of skills need no approval by default, because they read below the directory of a
//! skill only. A rule that denies or asks about the file counts, as it does for `read_file`.

use std::io::Read as _;

use haft_core::{CallProfile, Effect, Effects, Failure, Operation, ToolContext};
use haft_sandbox::{PathError, PathErrorKind, ResolvedPath};

use super::{Unreadable, open, resolve_inside, skill::Skill};
use crate::files::paths::{self, PathAccess};

/// Declares that a call reads a file of a skill: as written, so that rules about the name of a
/// symlink apply, and what it resolves to.
pub(super) fn declare(declared: CallProfile, skill: &Skill, path: &str) -> CallProfile {
    let written = skill.directory().join(path).to_string_lossy().into_owned();
    let resolved = match open(&skill.root) {
        Ok(Some(workspace)) => resolve_inside(&workspace, &skill.name, path).ok(),
        _ => None,
    };
    let access = PathAccess { path: &written, operation: Operation::Read, resolved };
    let mut profile = paths::declare(declared, &[access]);
    if let Effects::Declared(effects) = &profile.effects
        && effects.iter().all(|effect| effect.target.as_ref() != Some(&written))
    {
        let effects = effects.iter().cloned().chain([Effect::read(written)]);
        profile.effects = effects.collect::<Vec<_>>().into();
    }
    profile
}

/// Reads a file of a skill for an authorized call.
pub(super) fn read(
    skill: &Skill,
    path: &str,
    max_bytes: usize,
    cx: &ToolContext,
) -> Result<Vec<u8>, Failure> {
    let failed = |message: String| {
        Failure::failed(message).with_next("read one of the files that loading the skill listed")
    };
    let cannot = |error: PathError| failed(error.to_string());
    let Ok(Some(workspace)) = open(&skill.root) else {
        return Err(failed(format!("the skill `{}` no longer exists", skill.name)));
    };
    let resolved = resolve_inside(&workspace, &skill.name, path)
        .map_err(|Unreadable { message, .. }| failed(message))?;
    let resolved = paths::check_authorized(resolved, cx)?;
    let opened = workspace.open(&resolved).map_err(cannot)?;
    paths::check_other_names(&resolved, &opened.meta, Operation::Read, cx)?;
    let mut bytes = Vec::new();
    // One byte more than allowed: the file can grow while it is read.
    let mut limited = opened.file.take((max_bytes as u64).saturating_add(1));
    limited.read_to_end(&mut bytes).map_err(|error| paths::unreadable(&resolved, error))?;
    if bytes.len() > max_bytes {
        return Err(cannot(too_large(&resolved)));
    }
    Ok(bytes)
}

fn too_large(resolved: &ResolvedPath) -> PathError {
    PathError::new(PathErrorKind::TooLarge, resolved.to_string())
}
