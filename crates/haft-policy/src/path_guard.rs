//! Limits calls to some directories: path traversal, symlinks and hard links.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::{Capability, Effects, HardLinkedFile, Operation, Verdict};
use serde_json::Value;

use super::{
    PolicyRequest,
    path_resolver::{MAX_SEARCHED_ENTRIES, PathResolver, start, symlink_targets},
};

/// Limits calls to some directories (path traversal, symlinks, hard links). It checks every path
/// that a call declares in its effects, and the configured arguments, after resolving symlinks.
/// Below a denied path, or unresolvable: deny. Outside of the allowed directories: ask. It keeps no
/// state.
#[derive(Debug, Clone)]
pub struct PathGuard {
    resolver: Arc<dyn PathResolver>,
    roots: Vec<PathBuf>,
    denied: Vec<PathBuf>,
    arguments: Vec<String>,
}

/// Maximum number of entries that are searched for hard links to denied files.
const MAX_ENTRIES: usize = 200_000;

/// Maximum number of paths in one call; more are refused.
const MAX_PATHS: usize = 1_000;

impl PathGuard {
    /// Makes a guard that allows nothing yet, and resolves paths with this resolver.
    pub fn new(resolver: impl PathResolver) -> Self {
        let resolver = Arc::new(resolver);
        Self { resolver, roots: Vec::new(), denied: Vec::new(), arguments: Vec::new() }
    }

    /// Allows calls at and below this absolute path.
    #[must_use]
    pub fn root(mut self, path: impl Into<PathBuf>) -> Self {
        self.roots.push(path.into());
        self
    }

    /// Refuses everything at or below this absolute path, even inside a root.
    #[must_use]
    pub fn deny(mut self, path: impl Into<PathBuf>) -> Self {
        self.denied.push(path.into());
        self
    }

    /// Declares that an argument of this name is a path or a list of paths. A name that starts with
    /// `/` is a JSON pointer.
    #[must_use]
    pub fn argument(mut self, name: impl Into<String>) -> Self {
        self.arguments.push(name.into());
        self
    }

    /// Collects the paths that a call touches; an error if they cannot be determined.
    fn paths<'a>(&self, call: &PolicyRequest<'a>) -> Result<Vec<&'a str>, &'static str> {
        let mut paths = Vec::new();
        let files = call.tool.spec.effective_capabilities().has(Capability::Filesystem);
        if let Effects::Declared(effects) = &call.profile.effects {
            for effect in effects.iter().filter(|_| files) {
                let target = effect.target.as_deref();
                match effect.operation {
                    Operation::Read | Operation::Write | Operation::Unknown => {
                        paths.push(target.ok_or("it does not declare which files it touches")?);
                    }
                    Operation::Execute => paths.extend(target.filter(|t| t.contains('/'))),
                    Operation::External => {}
                }
            }
        }
        for name in &self.arguments {
            let arguments = call.arguments;
            let value =
                if name.starts_with('/') { arguments.pointer(name) } else { arguments.get(name) };
            gather(value, &mut paths)?;
        }
        if paths.len() > MAX_PATHS {
            return Err("it names too many paths to check");
        }
        Ok(paths)
    }

    /// Decides about one call; `None` means no objection.
    #[must_use]
    pub fn decide(&self, call: &PolicyRequest<'_>) -> Option<Verdict> {
        let paths = match self.paths(call) {
            Ok(paths) => paths,
            Err(why) => return Some(Verdict::deny(why)),
        };
        if paths.is_empty() {
            let spec = call.tool.spec;
            let silent = matches!(call.profile.effects, Effects::Undeclared)
                && spec.effective_capabilities().has(Capability::Filesystem);
            return silent.then(|| Verdict::ask("it does not declare which files it touches"));
        }
        // Directories are resolved for every call: a symlink may have replaced one (TOCTOU).
        let lead = |path: &PathBuf| self.resolver.resolve(path).ok();
        let roots: Vec<PathBuf> = self.roots.iter().filter_map(lead).collect();
        let denied: Vec<PathBuf> =
            self.denied.iter().cloned().chain(self.denied.iter().filter_map(lead)).collect();
        let mut verdict = None;
        for path in paths {
            let Some(own) = self.one(call, path, &roots, &denied) else { continue };
            verdict = Some(match verdict {
                Some(before) => Verdict::strictest(before, own),
                None => own,
            });
        }
        verdict
    }

    /// Judges one path.
    fn one(
        &self,
        call: &PolicyRequest<'_>,
        path: &str,
        roots: &[PathBuf],
        denied: &[PathBuf],
    ) -> Option<Verdict> {
        let shown: String = path.chars().take(200).flat_map(char::escape_debug).collect();
        let work = &*call.scope.working_directory;
        let own = call.tool.roots;
        let base = (!own.is_empty()).then(|| start(own, work, &*self.resolver).ok()).flatten();
        let spelled = base.as_deref().unwrap_or(work).join(path);
        let resolved = if spelled.is_absolute() && !path.contains('\0') {
            self.resolver.resolve(&spelled)
        } else {
            Err("it is not an absolute path".to_owned())
        };
        let resolved = match resolved {
            Ok(resolved) => resolved,
            // FAIL CLOSED: a path that cannot be resolved is denied.
            Err(why) => {
                return Some(
                    Verdict::deny(format!("`{shown}` cannot be resolved"))
                        .by(format!("guard `path guard`: {why}")),
                );
            }
        };
        let below = |places: &[PathBuf], path: &Path| {
            places.iter().find(|place| path.starts_with(place)).cloned()
        };
        if let Some(place) = below(denied, &resolved).or_else(|| below(denied, &spelled)) {
            return Some(
                Verdict::deny(format!("access to `{shown}` is denied"))
                    .by(format!("guard `path guard`: below {}", place.display())),
            );
        }
        if !denied.is_empty() && self.is_denied_elsewhere(&resolved, denied) {
            return Some(Verdict::deny(format!("access to `{shown}` is denied")).by(
                "guard `path guard`: a hard link to a denied file, or too many links to check",
            ));
        }
        // A command declares which directories it reads, and reads what is in them.
        if !denied.is_empty() && call.declares_reads() && self.may_reach_denied(&resolved, denied) {
            return Some(
                Verdict::ask(format!("`{shown}` contains denied paths"))
                    .by("guard `path guard`: a command reads whole directories"),
            );
        }
        if below(roots, &resolved).is_some() {
            return None;
        }
        Some(
            Verdict::ask(format!("`{shown}` is outside the allowed directories"))
                .by(format!("guard `path guard`: it leads to {}", resolved.display())),
        )
    }

    /// Whether something denied is below a directory, or reachable from there through a symlink.
    fn may_reach_denied(&self, directory: &Path, denied: &[PathBuf]) -> bool {
        let meets = |path: &PathBuf| {
            denied.iter().any(|denied| denied.starts_with(path) || path.starts_with(denied))
        };
        let targets = || symlink_targets(&*self.resolver, vec![directory.to_owned()]);
        denied.iter().any(|denied| denied.starts_with(directory))
            // FAIL CLOSED: symlinks that cannot be resolved may lead there.
            || targets().map_or(true, |places| places.iter().any(meets))
            || self.links_below(directory).is_none_or(|files| self.has_name_in(&files, denied))
    }

    /// Whether a file has another name (hard link) at or below a denied path.
    fn is_denied_elsewhere(&self, path: &Path, denied: &[PathBuf]) -> bool {
        let mut own = Vec::new();
        // No recursion: a directory has no hard links, and the command does not name its entries.
        let _ = self.resolver.hard_links(path, &mut 0, &mut own);
        self.has_name_in(&own, denied)
    }

    /// Returns the files with several hard links at and below a directory, if they can be listed.
    fn links_below(&self, directory: &Path) -> Option<Vec<(PathBuf, HardLinkedFile)>> {
        let (mut left, mut found) = (MAX_SEARCHED_ENTRIES, Vec::new());
        self.resolver.hard_links(directory, &mut left, &mut found).ok().map(|()| found)
    }

    /// Whether one of these files has a hard link at or below a denied path.
    fn has_name_in(&self, files: &[(PathBuf, HardLinkedFile)], denied: &[PathBuf]) -> bool {
        if files.is_empty() {
            return false;
        }
        let (mut left, mut found) = (MAX_ENTRIES, Vec::new());
        let all = denied
            .iter()
            .all(|place| self.resolver.hard_links(place, &mut left, &mut found).is_ok());
        let denied: HashSet<_> = found.iter().map(|(_, file)| file.identity()).collect();
        // FAIL CLOSED: what was not searched may be one of them.
        !all || files.iter().any(|(_, file)| denied.contains(&file.identity()))
    }
}

/// Collects the paths of an argument.
fn gather<'a>(value: Option<&'a Value>, paths: &mut Vec<&'a str>) -> Result<(), &'static str> {
    match value {
        None | Some(Value::Null) => {}
        Some(Value::String(path)) => paths.push(path),
        Some(Value::Array(list)) => {
            for item in list {
                // One level: a list of lists is not a list of paths.
                paths.push(item.as_str().ok_or("an argument that should be a path is not a path")?);
            }
        }
        Some(_) => return Err("an argument that should be a path is not a path"),
    }
    Ok(())
}
