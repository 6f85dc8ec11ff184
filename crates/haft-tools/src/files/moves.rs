//! `move_path` and `delete_path`: they act on a symlink itself, never on its target.

use haft_core::{
    CallProfile, Capability, ConcurrencyClass, Execution, Failure, FailureCode, Operation, Tool,
    ToolContext, ToolSpec, schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{
    DeleteScope, FileKind, PathError, PathErrorKind, Replace, ResolvedPath, WalkLimits,
};

use super::{
    file_spec,
    paths::{self, Files, PathAccess, count, stopped},
};

/// The tool `move_path`.
#[derive(Debug)]
pub(super) struct MovePath(pub(super) Files);

/// Arguments of `move_path`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct MoveArgs {
    /// Path of the file or directory to move.
    #[schemars(length(min = 1), extend("x-haft" = "write_path"))]
    from: String,
    /// Its new path, including the name. Missing directories are created.
    #[schemars(length(min = 1), extend("x-haft" = "write_path"))]
    to: String,
    /// Replaces an existing file at the new path.
    #[serde(default)]
    replace: bool,
}

impl Tool for MovePath {
    type Args = MoveArgs;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        file_spec(
            "move_path",
            "Moves or renames a file or directory. A symlink itself is moved, not its target.",
        )
        .class(ConcurrencyClass::WriteExclusive)
    }

    fn profile(&self, declared: CallProfile, args: &MoveArgs, cx: &ToolContext) -> CallProfile {
        let to = self.0.find_entry(&args.to, cx).ok();
        let replaces = args.replace && to.as_ref().is_none_or(|resolved| resolved.exists());
        let from = self.0.find_entry(&args.from, cx).ok();
        let access = |path, resolved| PathAccess { path, operation: Operation::Write, resolved };
        let accesses = [access(&args.from, from), access(&args.to, to)];
        CallProfile { destructive: Some(replaces), ..paths::declare(declared, &accesses) }
    }

    async fn check(&self, args: &MoveArgs, cx: &ToolContext) -> Result<(), Failure> {
        let from = self.0.find_entry(&args.from, cx)?;
        self.0.writable_whole(self.0.find_entry(&args.to, cx)?, cx)?;
        self.0.existing_whole(from.clone(), cx)?;
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| check_contents(&files, &from, cx)).await?
    }

    async fn call(&self, args: MoveArgs, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| move_entry(&files, &args, cx)).await?
    }
}

fn move_entry(files: &Files, args: &MoveArgs, cx: &ToolContext) -> Result<String, Failure> {
    let from = files.authorized_entry(&args.from, cx)?;
    let to = files.authorized_entry(&args.to, cx)?;
    let workspace = files.granted(&[&from, &to], cx)?;
    if workspace.meta(&to).is_ok_and(|meta| meta.kind == FileKind::Directory) {
        return Err(Failure::from(PathError::new(PathErrorKind::Exists, to.to_string()))
            .with_next("give the new path including the name"));
    }
    let authorized_as_new = cx.profile().is_some_and(|profile| profile.destructive == Some(false));
    let replace = if args.replace && !authorized_as_new { Replace::Always } else { Replace::Never };
    paths::check_other_names(&from, &workspace.meta(&from)?, Operation::Write, cx)?;
    check_contents(files, &from, cx)?;
    files.make_parents(&to, &workspace)?;
    match workspace.rename(&from, &to, replace) {
        Err(refusal) if refusal.cause() == PathErrorKind::CrossDevice => {
            let bytes =
                workspace.move_across_devices(&from, &to, replace, WalkLimits::default())?.bytes;
            let bytes = count(bytes, "byte");
            Ok(format!(
                "moved `{from}` to `{to}`, on another disk: {bytes} copied, the old file deleted"
            ))
        }
        moved => {
            moved?;
            Ok(format!("moved `{from}` to `{to}`"))
        }
    }
}

/// Refuses a directory that contains a path denied by a rule: only the directory is authorized, not
/// its contents. Checked before authorization, so that an explanation says so, and again before the
/// change (TOCTOU).
fn check_contents(files: &Files, resolved: &ResolvedPath, cx: &ToolContext) -> Result<(), Failure> {
    let workspace = files.workspace();
    if workspace.meta(resolved)?.kind != FileKind::Directory {
        return Ok(());
    }
    for entry in workspace.walk(resolved, WalkLimits::default())? {
        if cx.is_cancelled() {
            return Err(stopped().with_execution(Execution::Completed));
        }
        if cx.is_path_denied(Operation::Write, &entry?.resolved().absolute()) {
            let message =
                format!("a rule denies changes to something in `{resolved}`; nothing was changed");
            return Err(Failure::new(FailureCode::Denied, message)
                .with_next("work on its entries one by one, and leave out the denied one"));
        }
    }
    Ok(())
}

/// The tool `delete_path`.
#[derive(Debug)]
pub(super) struct DeletePath(pub(super) Files);

/// Arguments of `delete_path`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct DeleteArgs {
    /// Path of the file, symlink or directory to delete.
    #[schemars(length(min = 1), extend("x-haft" = "write_path"))]
    path: String,
    /// Also deletes everything in the directory. Without it only an empty directory is deleted.
    #[serde(default)]
    recursive: bool,
}

impl Tool for DeletePath {
    type Args = DeleteArgs;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        file_spec(
            "delete_path",
            "Deletes a file, a symlink or an empty directory; with `recursive` a directory and \
             everything in it. This cannot be undone.",
        )
        .capabilities([Capability::Filesystem, Capability::Destructive])
        .class(ConcurrencyClass::WriteExclusive)
    }

    fn profile(&self, declared: CallProfile, args: &DeleteArgs, cx: &ToolContext) -> CallProfile {
        let resolved = self.0.find_entry(&args.path, cx).ok();
        let access = PathAccess { path: &args.path, operation: Operation::Write, resolved };
        CallProfile { destructive: Some(true), ..paths::declare(declared, &[access]) }
    }

    async fn check(&self, args: &DeleteArgs, cx: &ToolContext) -> Result<(), Failure> {
        let resolved = self.0.find_entry(&args.path, cx)?;
        self.0.existing_whole(resolved.clone(), cx)?;
        if !args.recursive {
            return Ok(());
        }
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| check_contents(&files, &resolved, cx)).await?
    }

    async fn call(&self, args: DeleteArgs, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| delete(&files, &args, cx)).await?
    }
}

fn delete(files: &Files, args: &DeleteArgs, cx: &ToolContext) -> Result<String, Failure> {
    let resolved = files.authorized_entry(&args.path, cx)?;
    let extent = if args.recursive {
        DeleteScope::Everything(WalkLimits::default())
    } else {
        DeleteScope::Entry
    };
    if args.recursive {
        check_contents(files, &resolved, cx)?;
    }
    let workspace = files.granted(&[&resolved], cx)?;
    let done =
        workspace.remove_until(&resolved, extent, &|| cx.is_cancelled()).map_err(|refusal| {
            match refusal.cause() {
                PathErrorKind::NotEmpty => Failure::from(refusal)
                    .with_next("set `recursive` to delete everything in it, or empty it first"),
                _ => refusal.into(),
            }
        })?;
    if done.not_deleted > 0 {
        let how_far = format!(
            "stopped: {} in `{resolved}` deleted, {} left",
            count(done.entries as u64, "item"),
            done.not_deleted,
        );
        // The cancellation reason is reported elsewhere; this is how far the call got.
        cx.partial(format!("{how_far}\n"));
        return Err(Failure::failed(how_far).with_next("list the directory to see what is left"));
    }
    Ok(match done.entries {
        0 | 1 => format!("deleted `{resolved}`"),
        all => format!("deleted `{resolved}` with {} in it", count(all as u64 - 1, "item")),
    })
}
