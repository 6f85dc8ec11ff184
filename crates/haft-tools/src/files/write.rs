//! `write_file` and `make_dir`: creates files and directories, replaces contents.
//!
//! INVARIANT (TOCTOU): a call that was authorized to create a new file never replaces one that
//! appeared since.

use haft_core::{
    CallProfile, ConcurrencyClass, Failure, Operation, Preview, Tool, ToolContext, ToolSpec,
    schemars::JsonSchema, serde::Deserialize,
};
use haft_sandbox::{FileKind, PathError, PathErrorKind, Replace};

use super::{
    diff, file_spec,
    paths::{self, Files, PathAccess, count},
};

/// The tool `write_file`.
#[derive(Debug)]
pub(super) struct WriteFile(pub(super) Files);

/// Arguments of `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct WriteArgs {
    /// Path of the file, absolute or relative to the working directory. Missing directories are
    /// created.
    #[schemars(length(min = 1), extend("x-haft" = "write_path"))]
    file_path: String,
    /// The complete new content of the file.
    content: String,
    /// Fails if the file exists.
    #[serde(default)]
    create_only: bool,
}

impl Tool for WriteFile {
    type Args = WriteArgs;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        file_spec(
            "write_file",
            "Writes a file: creates it, or replaces its whole content. To change a part of a file \
             use edit_file.",
        )
        .idempotent(true)
        .class(ConcurrencyClass::WriteExclusive)
    }

    fn profile(&self, declared: CallProfile, args: &WriteArgs, cx: &ToolContext) -> CallProfile {
        let resolved = self.0.find(&args.file_path, cx).ok();
        // The previous contents are lost.
        let replaces =
            resolved.as_ref().is_none_or(|resolved| resolved.exists()) && !args.create_only;
        let access = PathAccess { path: &args.file_path, operation: Operation::Write, resolved };
        CallProfile { destructive: Some(replaces), ..paths::declare(declared, &[access]) }
    }

    async fn check(&self, args: &WriteArgs, cx: &ToolContext) -> Result<(), Failure> {
        let resolved = self.0.writable_whole(self.0.find(&args.file_path, cx)?, cx)?;
        if resolved.exists() && args.create_only {
            Err(PathError::new(PathErrorKind::Exists, resolved.to_string()).into())
        } else {
            Ok(())
        }
    }

    /// A new file is shown by its content alone.
    async fn preview(&self, args: &WriteArgs, cx: &ToolContext) -> Option<Preview> {
        let old = diff::content(&self.0, &args.file_path, cx)?;
        let diff = Preview::diff(diff::unified(&old, args.content.as_bytes())?);
        Some(diff.in_place_of(["content"]))
    }

    async fn call(&self, args: WriteArgs, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| write(&files, &args, cx)).await?
    }
}

fn write(files: &Files, args: &WriteArgs, cx: &ToolContext) -> Result<String, Failure> {
    let resolved = files.authorized(&args.file_path, cx)?;
    let workspace = files.granted(&[&resolved], cx)?;
    let before = workspace.meta(&resolved).ok();
    let authorized_as_new = cx.profile().is_some_and(|profile| profile.destructive == Some(false));
    let replace =
        if args.create_only || authorized_as_new { Replace::Never } else { Replace::Always };
    files.make_parents(&resolved, &workspace)?;
    workspace.write(&resolved, args.content.as_bytes(), replace)?;
    let lines = count(args.content.lines().count() as u64, "line");
    let bytes = count(args.content.len() as u64, "byte");
    Ok(match before {
        None => format!("created `{resolved}`: {lines}, {bytes}"),
        Some(old) => format!("replaced `{resolved}`: {lines}, {bytes}; it had {}", old.size),
    })
}

/// The tool `make_dir`.
#[derive(Debug)]
pub(super) struct MakeDir(pub(super) Files);

/// Arguments of `make_dir`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct MakeArgs {
    /// Path of the directory, absolute or relative to the working directory.
    #[schemars(length(min = 1), extend("x-haft" = "write_path"))]
    path: String,
}

impl Tool for MakeDir {
    type Args = MakeArgs;
    type Output = String;

    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        file_spec(
            "make_dir",
            "Creates a directory and its parents. An existing directory is left unchanged.",
        )
        .idempotent(true)
        .destructive(false)
        .class(ConcurrencyClass::WriteExclusive)
    }

    fn profile(&self, declared: CallProfile, args: &MakeArgs, cx: &ToolContext) -> CallProfile {
        let resolved = self.0.find(&args.path, cx).ok();
        let access = PathAccess { path: &args.path, operation: Operation::Write, resolved };
        paths::declare(declared, &[access])
    }

    async fn check(&self, args: &MakeArgs, cx: &ToolContext) -> Result<(), Failure> {
        self.0.writable(self.0.find(&args.path, cx)?, cx)?;
        Ok(())
    }

    async fn call(&self, args: MakeArgs, cx: &ToolContext) -> Result<String, Failure> {
        let files = self.0.clone();
        cx.spawn_blocking(move |cx| {
            let resolved = files.authorized(&args.path, cx)?;
            match files.workspace().meta(&resolved).map(|meta| meta.kind) {
                Ok(FileKind::Directory) => return Ok(format!("`{resolved}` exists already")),
                Ok(_) => {
                    return Err(PathError::new(PathErrorKind::Exists, resolved.to_string()).into());
                }
                Err(_) => {}
            }
            let resolved = files.writable(resolved, cx)?;
            let workspace = if files.workspace().is_protected(&resolved) {
                files.workspace().with_writable([resolved.clone()])
            } else {
                files.workspace().clone()
            };
            workspace.make_directory(&resolved)?;
            Ok(format!("created the directory `{resolved}`"))
        })
        .await?
    }
}
