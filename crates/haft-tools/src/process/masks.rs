//! Hides paths that rules deny from commands.
//!
//! In: the denied paths and the capabilities of the sandbox. Out: an approval request if the
//! sandbox cannot hide them, masks in the profile, and the notes in record and result.
//!
//! FAIL CLOSED: a command starts with all denied paths masked, or after an approval that named what
//! is not.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{
    Block, DeniedPaths, DeniedPathsUnknown, Failure, FailureCode, MaskedPaths, Output, ToolContext,
    Verdict, host::HostContext,
};
use haft_sandbox::{Level, Profile, Tier, Workspace};
use serde_json::{Value, json};

use super::confined::Settings;

/// Maximum number of paths named in records and results.
const MAX_NAMED: usize = 5;

/// The paths masked for a command.
#[derive(Debug, Default)]
pub(super) struct Masked {
    count: MaskedPaths,
    /// The first of them, relative to the workspace.
    paths: Vec<String>,
}

/// The masks of a command. The check before authorization and the call use the same function, so
/// that `explain` counts what a call masks.
struct Masks {
    denied: DeniedPaths,
    missing: Option<String>,
}

impl Masks {
    /// Decides which paths are masked for a command that starts in a directory.
    ///
    /// # Errors
    /// Fails if it starts in a denied directory that cannot be listed.
    fn of(
        found: Result<Arc<DeniedPaths>, DeniedPathsUnknown>,
        level: Level,
        start: &Path,
    ) -> io::Result<Self> {
        let (mut denied, missing) = match found {
            Ok(denied) => (DeniedPaths::clone(&denied), None),
            // The guard asks. The known paths are masked anyway.
            Err(unknown) => (unknown.found.clone(), Some(unknown.to_string())),
        };
        if level == Level::Namespaces {
            mask_entries(&mut denied.read, &mut denied.edit, start)?;
            return Ok(Self { denied, missing });
        }
        let nothing = (!denied.is_empty()).then(|| {
            let paths = count(denied.read.len() + denied.edit.len());
            format!("rules deny {paths}, and Landlock without namespaces can mask none")
        });
        let denied = DeniedPaths { new: denied.new, ..DeniedPaths::default() };
        Ok(Self { denied, missing: missing.or(nothing) })
    }

    fn count(&self) -> MaskedPaths {
        let DeniedPaths { read, edit, .. } = &self.denied;
        MaskedPaths { read: read.len(), edit: edit.len(), missing: self.missing.clone() }
    }
}

/// Finds denied paths before authorization, so that the guard does not block, and sets how many a
/// call that starts in `cwd` would mask. Returns whether some may not be read.
///
/// # Errors
/// Fails if `cwd` is not a directory of the workspace.
pub(super) async fn find(
    workspace: &Arc<Workspace>,
    settings: &Settings,
    level: Level,
    cwd: Option<&str>,
    cx: &ToolContext,
) -> Result<bool, Failure> {
    let roots = roots(workspace, settings);
    let (workspace, cwd) = (Arc::clone(workspace), cwd.unwrap_or(".").to_owned());
    let explains_only = settings.explains_only;
    let find_denied = move |cx: &ToolContext| {
        let start = super::find(&workspace, cx.working_directory(), &cwd)?.absolute();
        let found = cx.denied_paths(&roots);
        // FAIL CLOSED: an unknown path may be denied.
        let has_denied = found.as_ref().map_or(true, |denied| !denied.read.is_empty());
        // A call that cannot mask its start does not run.
        if let Ok(masks) = Masks::of(found, level, &start) {
            cx.set_masked_paths(masks.count());
        }
        Ok(has_denied)
    };
    // Where calls are only explained, the search is done once for all of them.
    if explains_only { find_denied(cx) } else { cx.spawn_blocking(find_denied).await? }
}

/// Where denied paths are searched: in all writable roots. Toolchains are large; literal paths in
/// rules are found without a walk.
pub(super) fn roots(workspace: &Workspace, settings: &Settings) -> Vec<PathBuf> {
    let own = workspace.roots().into_iter().map(|root| root.path);
    own.chain(settings.writable().map(Path::to_owned)).collect()
}

/// Requires approval for a command that could access denied paths. `is_proven`: it reads only files
/// that it names, which the rules have checked.
pub(super) fn guard(
    workspace: &Workspace,
    settings: &Settings,
    level: Option<Level>,
    is_proven: bool,
    cx: &ToolContext,
) -> Option<Verdict> {
    let denied = match cx.denied_paths(&roots(workspace, settings)) {
        Ok(denied) => denied,
        Err(unknown) => {
            let reason = format!("{unknown}; the command could read or change the others");
            return Some(Verdict::ask(reason));
        }
    };
    if denied.is_empty() || is_proven || level != Some(Level::Landlock) {
        return None;
    }
    Some(Verdict::ask(format!(
        "rules deny {} here, and this sandbox cannot mask them (Landlock without namespaces)",
        count(denied.read.len() + denied.edit.len())
    )))
}

fn count(n: usize) -> String {
    if n == 1 { "1 path".to_owned() } else { format!("{n} paths") }
}

/// Adds denied paths to the profile of a command.
pub(super) async fn apply(
    profile: &mut Profile,
    level: Level,
    roots: Vec<PathBuf>,
    start: &Path,
    cx: &ToolContext,
) -> Result<Masked, Failure> {
    let (asked, start) = (roots.clone(), start.to_owned());
    let find_masks = move |cx: &ToolContext| match cx.denied_paths(&asked) {
        // FAIL CLOSED: the guard could not ask, because its search had succeeded.
        Err(unknown) if !unknown.is_repeated => {
            Err(Failure::new(FailureCode::NotRun, unknown.to_string())
                .with_next("call it again; it then needs approval"))
        }
        found => Masks::of(found, level, &start).map_err(|e| {
            Failure::new(
                FailureCode::NotRun,
                format!("the command starts in a denied directory: {e}"),
            )
            .with_next("start it in another directory")
        }),
    };
    let masks = cx.spawn_blocking(find_masks).await??;
    let count = masks.count();
    let DeniedPaths { read, edit, new } = masks.denied;
    let named = read.iter().chain(&edit).take(MAX_NAMED);
    let paths = named.map(|path| relative_to(&roots, path)).collect();
    profile.denied.new = new;
    profile.denied.read.extend(read);
    profile.denied.edit.extend(edit);
    Ok(Masked { count, paths })
}

/// If a command starts in a denied directory, masks each entry instead of the directory, which
/// stays read-only.
fn mask_entries(read: &mut Vec<PathBuf>, edit: &mut Vec<PathBuf>, start: &Path) -> io::Result<()> {
    while let Some(at) = read.iter().position(|denied| start.starts_with(denied)) {
        let directory = read.swap_remove(at);
        for entry in directory.read_dir()? {
            read.push(entry?.path());
        }
        edit.push(directory);
    }
    Ok(())
}

/// Returns a path relative to the workspace, if it is inside.
fn relative_to(roots: &[PathBuf], path: &Path) -> String {
    let inside = roots.iter().find_map(|root| path.strip_prefix(root).ok());
    match inside {
        Some(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        inside => inside.unwrap_or(path).display().to_string(),
    }
}

impl Masked {
    /// Returns why some denied paths could not be masked.
    pub(super) fn missing(&self) -> Option<&str> {
        self.count.missing.as_deref()
    }

    fn value(&self) -> Option<Value> {
        let MaskedPaths { read, edit, missing } = &self.count;
        let mut value = json!({"read": read, "edit": edit});
        if read + edit > 0 {
            value["paths"] = json!(self.paths);
        }
        if let Some(why) = missing {
            value["missing"] = json!(why);
        }
        (read + edit > 0 || missing.is_some()).then_some(value)
    }

    /// Returns the tier for the record, with the masked paths.
    pub(super) fn tier(&self, tier: &Tier) -> Value {
        let mut value = json!(tier);
        if let (Some(fields), Some(masked)) = (value.as_object_mut(), self.value()) {
            fields.insert("masked".to_owned(), masked);
        }
        value
    }

    /// Adds the masked paths to a result. The model gets a note if they may explain an access
    /// error.
    pub(super) fn add_to(&self, output: &mut Output) {
        let Some(value) = self.value() else { return };
        if let Some(fields) = output.structured.as_deref_mut().and_then(Value::as_object_mut) {
            fields.insert("masked".to_owned(), value);
        }
        let texts = output.blocks.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        if let Some(note) = texts.map(|text| self.note(text)).find(Option::is_some).flatten() {
            output.blocks.push(Block::text(note));
        }
    }

    /// Returns a note that explains an access error in the printed text.
    pub(super) fn note(&self, printed: &str) -> Option<String> {
        const ERRORS: [&str; 3] =
            ["Permission denied", "Read-only file system", "Device or resource busy"];
        if self.paths.is_empty() || !ERRORS.iter().any(|error| printed.contains(error)) {
            return None;
        }
        let all = self.count.read + self.count.edit;
        let more = all.saturating_sub(self.paths.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named: Vec<String> = self.paths.iter().map(|path| format!("`{path}`")).collect();
        Some(format!(
            "note: rules deny {}: {}{more}. Commands get access errors for them. With git, add \
             files by name.",
            count(all),
            named.join(", ")
        ))
    }
}
