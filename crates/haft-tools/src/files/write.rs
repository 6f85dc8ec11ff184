//! `write_file` and `make_dir`: new files, new contents, new folders.
//!
//! A call that was judged to make a new file never replaces one that appeared in the meantime.

use haft_core::{
    CallProfile, ConcurrencyClass, Failure, Operation, Tool, ToolContext, ToolSpec,
    schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{FileKind, PathError, PathErrorKind, Replace};

use super::{
    place::{self, Files, Touch, count},
    touches,
};

/// Writes a whole file.
#[derive(Debug)]
pub(super) struct WriteFile(pub(super) Files);

/// What `write_file` is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct WriteArgs {
    /// Path of the file, absolute or relative to the working folder. Missing folders are made.
    #[schemars(length(min = 1), extend("x-haft" = "write_path"))]
    file_path: String,
    /// The whole new text of the file.
    content: String,
    /// Refuses when the file exists already.
    #[serde(default)]
    create_only: bool,
}

impl Tool for WriteFile {
    type Args = WriteArgs;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        touches(
            "write_file",
            "Writes a file: makes a new one, or replaces all of an old one. To change a part of a \
             file use edit_file.",
        )
        .idempotent(true)
        .class(ConcurrencyClass::WriteExclusive)
    }

    fn profile(&self, declared: CallProfile, args: &WriteArgs, cx: &ToolContext) -> CallProfile {
        let place = self.0.find(&args.file_path, cx).ok();
        // What stood there before is gone afterwards.
        let replaces = place.as_ref().is_none_or(|place| place.exists()) && !args.create_only;
        let touch = Touch { path: &args.file_path, operation: Operation::Write, place };
        CallProfile { destructive: Some(replaces), ..place::claim(declared, &[touch]) }
    }

    async fn check(&self, args: &WriteArgs, cx: &ToolContext) -> Result<(), Failure> {
        let place = self.0.writable_whole(self.0.find(&args.file_path, cx)?, cx)?;
        match place.exists() && args.create_only {
            true => Err(PathError::new(PathErrorKind::Exists, place.to_string()).into()),
            false => Ok(()),
        }
    }

    async fn call(&self, args: WriteArgs, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| write(&files, &args, cx)).await?
    }
}

fn write(files: &Files, args: &WriteArgs, cx: &ToolContext) -> Result<String, Failure> {
    let place = files.judged(&args.file_path, cx)?;
    let workspace = files.granted(&[&place], cx)?;
    let before = workspace.meta(&place).ok();
    let judged_new = cx.profile().is_some_and(|claim| claim.destructive == Some(false));
    let replace = if args.create_only || judged_new { Replace::Never } else { Replace::Always };
    files.make_parents(&place, &workspace)?;
    workspace.write(&place, args.content.as_bytes(), replace)?;
    let lines = count(args.content.lines().count() as u64, "line");
    let bytes = args.content.len();
    Ok(match before {
        None => format!("made `{place}`: {lines}, {bytes} bytes"),
        Some(old) => format!("replaced `{place}`: {lines}, {bytes} bytes; it had {}", old.size),
    })
}

/// Makes a folder.
#[derive(Debug)]
pub(super) struct MakeDir(pub(super) Files);

/// What `make_dir` is asked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct MakeArgs {
    /// Path of the folder, absolute or relative to the working folder.
    #[schemars(length(min = 1), extend("x-haft" = "write_path"))]
    path: String,
}

impl Tool for MakeDir {
    type Args = MakeArgs;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        touches("make_dir", "Makes a folder, and those above it. One that exists is left alone.")
            .idempotent(true)
            .destructive(false)
            .class(ConcurrencyClass::WriteExclusive)
    }

    fn profile(&self, declared: CallProfile, args: &MakeArgs, cx: &ToolContext) -> CallProfile {
        let place = self.0.find(&args.path, cx).ok();
        let touch = Touch { path: &args.path, operation: Operation::Write, place };
        place::claim(declared, &[touch])
    }

    async fn check(&self, args: &MakeArgs, cx: &ToolContext) -> Result<(), Failure> {
        self.0.writable(self.0.find(&args.path, cx)?, cx)?;
        Ok(())
    }

    async fn call(&self, args: MakeArgs, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| {
            let place = files.judged(&args.path, cx)?;
            match files.workspace().meta(&place).map(|meta| meta.kind) {
                Ok(FileKind::Folder) => return Ok(format!("`{place}` exists already")),
                Ok(_) => {
                    return Err(PathError::new(PathErrorKind::Exists, place.to_string()).into());
                }
                Err(_) => {}
            }
            let place = files.writable(place, cx)?;
            let workspace = match files.workspace().is_protected(&place) {
                true => files.workspace().granting([place.clone()]),
                false => files.workspace().clone(),
            };
            workspace.make_folder(&place)?;
            Ok(format!("made the folder `{place}`"))
        })
        .await?
    }
}
