//! Ready-made guards: deny all, by tool name, by path, destructive calls, external reviewer.
//!
//! A guard judges and cannot rewrite. Its allow lifts nothing: the strictest verdict wins, so a
//! guard can only restrict. The model gets the reason alone; the pattern or directory that decided
//! is in the source, for people and records.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_core::{BoxFuture, Capability, Effects, Failure, HardLinked, Operation, Verdict};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    Guard,
    facts::declares_reads,
    glob::Glob,
    path_resolver::{MAX_SEARCHED_ENTRIES, PathResolver, start, symlink_targets},
};
use crate::{
    turn::{ValidatedCall, clock_of},
    watch::within,
};

type Judged<'a> = BoxFuture<'a, Result<Option<Verdict>, Failure>>;

fn ready<'a>(verdict: Option<Verdict>) -> Judged<'a> {
    Box::pin(std::future::ready(Ok(verdict)))
}

/// Allows every call, for records. It lifts nothing: a policy's ask stays an ask. To really allow
/// everything, use the policy [`AllowAll`](super::AllowAll).
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObjection;

impl Guard for NoObjection {
    fn name(&self) -> &str {
        "allow all"
    }

    fn judge<'a>(&'a self, _: &'a ValidatedCall) -> Judged<'a> {
        ready(Some(Verdict::allow("this guard does not object")))
    }
}

/// Refuses every call with a reason.
#[derive(Debug, Clone)]
pub struct DenyAll(String);

impl DenyAll {
    /// Refuses with this reason, which is sent to the model.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl Guard for DenyAll {
    fn name(&self) -> &str {
        "deny all"
    }

    fn judge<'a>(&'a self, _: &'a ValidatedCall) -> Judged<'a> {
        ready(Some(Verdict::deny(self.0.clone())))
    }
}

/// Limits how many calls a guard judges concurrently, in FIFO order. Waiting is part of its answer:
/// a call that waits longer than `judge_timeout` is refused.
#[derive(Debug)]
pub struct ConcurrencyLimit<G> {
    guard: G,
    turns: Semaphore,
}

impl<G: Guard> ConcurrencyLimit<G> {
    /// Judges one call at a time.
    pub fn new(guard: G) -> Self {
        Self::at_a_time(guard, 1)
    }

    /// Judges `calls` calls at a time, at least one.
    pub fn at_a_time(guard: G, calls: usize) -> Self {
        Self { guard, turns: Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS)) }
    }
}

impl<G: Guard> Guard for ConcurrencyLimit<G> {
    fn name(&self) -> &str {
        self.guard.name()
    }

    fn judge<'a>(&'a self, call: &'a ValidatedCall) -> Judged<'a> {
        Box::pin(async move {
            // Fair: FIFO order.
            let _turn = self.turns.acquire().await.map_err(|_| Failure::failed("it is closed"))?;
            self.guard.judge(call).await
        })
    }
}

/// A guard for some tools only: those whose name matches a pattern with `*` and `?`.
#[derive(Debug)]
pub struct ForTools<G> {
    names: Glob,
    guard: G,
}

impl<G: Guard> ForTools<G> {
    /// Applies a guard to the tools that match.
    pub fn new(pattern: impl Into<String>, guard: G) -> Self {
        Self { names: Glob::new(pattern), guard }
    }
}

impl<G: Guard> Guard for ForTools<G> {
    fn name(&self) -> &str {
        self.guard.name()
    }

    fn judge<'a>(&'a self, call: &'a ValidatedCall) -> Judged<'a> {
        // The alias of a view does not bypass the guard.
        let tool = call.tool();
        if [tool.name(), tool.registered()].iter().any(|n| self.names.matches(n.as_str())) {
            self.guard.judge(call)
        } else {
            ready(None)
        }
    }
}

/// Refuses tools by name. A deny beats an allow; without any allow, everything is allowed that is
/// not denied; with one, only what it matches. Case-sensitive.
#[derive(Debug, Clone, Default)]
pub struct ToolNameGuard {
    allow: Vec<Glob>,
    deny: Vec<Glob>,
}

impl ToolNameGuard {
    /// Refuses nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows tools that match one of these.
    #[must_use]
    pub fn allow<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.allow.extend(patterns.into_iter().map(Glob::new));
        self
    }

    /// Refuses tools that match one of these.
    #[must_use]
    pub fn deny<S: Into<String>>(mut self, patterns: impl IntoIterator<Item = S>) -> Self {
        self.deny.extend(patterns.into_iter().map(Glob::new));
        self
    }
}

impl Guard for ToolNameGuard {
    fn name(&self) -> &str {
        "name policy"
    }

    fn judge<'a>(&'a self, call: &'a ValidatedCall) -> Judged<'a> {
        // The alias of a view neither hides a denied tool nor matches an allow.
        let (name, shown) = (call.tool().registered().as_str(), call.tool().name().as_str());
        let denied = self.deny.iter().find(|glob| glob.matches(name) || glob.matches(shown));
        let source = match denied {
            Some(glob) => format!("guard `name policy`: denied by `{}`", glob.as_str()),
            None if self.allow.is_empty() || self.allow.iter().any(|g| g.matches(name)) => {
                return ready(None);
            }
            None => {
                let all: Vec<_> = self.allow.iter().map(Glob::as_str).collect();
                format!("guard `name policy`: not among the allowed `{}`", all.join("`, `"))
            }
        };
        ready(Some(Verdict::deny("this tool may not be used here").by(source)))
    }
}

/// Asks about every call that may destroy something. Without an approver, such calls are refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConfirmDestructive;

impl Guard for ConfirmDestructive {
    fn name(&self) -> &str {
        "confirm destructive"
    }

    fn judge<'a>(&'a self, call: &'a ValidatedCall) -> Judged<'a> {
        let declared = call.tool().spec().capabilities;
        let destroys = declared.is_some_and(|all| all.has(Capability::Destructive));
        let ask = destroys || call.profile().may_destroy();
        ready(ask.then(|| Verdict::ask("it may destroy something irrecoverably")))
    }
}

/// Limits calls to some directories (path traversal, symlinks, hard links). It checks every path
/// that a call declares in its effects, and the configured arguments, after resolving symlinks.
/// Below a denied path, or unresolvable: deny. Outside of the allowed directories: ask. It keeps no
/// state.
#[derive(Debug, Clone)]
pub struct PathGuard {
    world: Arc<dyn PathResolver>,
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
    pub fn new(world: impl PathResolver) -> Self {
        let world = Arc::new(world);
        Self { world, roots: Vec::new(), denied: Vec::new(), arguments: Vec::new() }
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
    fn paths<'a>(&self, call: &'a ValidatedCall) -> Result<Vec<&'a str>, &'static str> {
        let mut paths = Vec::new();
        let files = call.tool().spec().judged_capabilities().has(Capability::Filesystem);
        if let Effects::Declared(effects) = &call.profile().effects {
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
            let arguments = call.arguments();
            let value =
                if name.starts_with('/') { arguments.pointer(name) } else { arguments.get(name) };
            gather(value, &mut paths)?;
        }
        if paths.len() > MAX_PATHS {
            return Err("it names too many paths to check");
        }
        Ok(paths)
    }

    fn look(&self, call: &ValidatedCall) -> Option<Verdict> {
        let paths = match self.paths(call) {
            Ok(paths) => paths,
            Err(why) => return Some(Verdict::deny(why)),
        };
        if paths.is_empty() {
            let spec = call.tool().spec();
            let silent = matches!(call.profile().effects, Effects::Undeclared)
                && spec.judged_capabilities().has(Capability::Filesystem);
            return silent.then(|| Verdict::ask("it does not declare which files it touches"));
        }
        // Directories are resolved for every call: a symlink may have replaced one (TOCTOU).
        let lead = |path: &PathBuf| self.world.resolve(path).ok();
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
        call: &ValidatedCall,
        path: &str,
        roots: &[PathBuf],
        denied: &[PathBuf],
    ) -> Option<Verdict> {
        let shown: String = path.chars().take(200).flat_map(char::escape_debug).collect();
        let work = call.context().working_directory();
        let own = call.tool().roots();
        let base = (!own.is_empty()).then(|| start(own, work, &*self.world).ok()).flatten();
        let spelled = base.as_deref().unwrap_or(work).join(path);
        let resolved = if spelled.is_absolute() && !path.contains('\0') {
            self.world.resolve(&spelled)
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
        if !denied.is_empty() && declares_reads(call) && self.may_reach_denied(&resolved, denied) {
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
        let targets = || symlink_targets(&*self.world, vec![directory.to_owned()]);
        denied.iter().any(|denied| denied.starts_with(directory))
            // FAIL CLOSED: symlinks that cannot be resolved may lead there.
            || targets().map_or(true, |places| places.iter().any(meets))
            || self.links_below(directory).is_none_or(|files| self.has_name_in(&files, denied))
    }

    /// Whether a file has another name (hard link) at or below a denied path.
    fn is_denied_elsewhere(&self, path: &Path, denied: &[PathBuf]) -> bool {
        let mut own = Vec::new();
        // No recursion: a directory has no hard links, and the command does not name its entries.
        let _ = self.world.hard_links(path, &mut 0, &mut own);
        self.has_name_in(&own, denied)
    }

    /// Returns the files with several hard links at and below a directory, if they can be listed.
    fn links_below(&self, directory: &Path) -> Option<Vec<(PathBuf, HardLinked)>> {
        let (mut left, mut found) = (MAX_SEARCHED_ENTRIES, Vec::new());
        self.world.hard_links(directory, &mut left, &mut found).ok().map(|()| found)
    }

    /// Whether one of these files has a hard link at or below a denied path.
    fn has_name_in(&self, files: &[(PathBuf, HardLinked)], denied: &[PathBuf]) -> bool {
        if files.is_empty() {
            return false;
        }
        let (mut left, mut found) = (MAX_ENTRIES, Vec::new());
        let all =
            denied.iter().all(|place| self.world.hard_links(place, &mut left, &mut found).is_ok());
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

impl Guard for PathGuard {
    fn name(&self) -> &str {
        "path guard"
    }

    fn judge<'a>(&'a self, call: &'a ValidatedCall) -> Judged<'a> {
        Box::pin(async move { Ok(self.look(call)) })
    }
}

/// A reviewer's opinion of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Review {
    /// No objection. This does not allow the call either.
    Safe,
    /// A person should decide, with the reason.
    Risky(String),
    /// It must not run, with the reason.
    Deny(String),
}

/// Reviews calls: another model, a service, a heuristic.
pub trait Reviewer: Send + Sync + 'static {
    /// Returns its name, for verdicts and records.
    fn name(&self) -> &str;

    /// Reviews one call.
    fn review<'a>(&'a self, call: &'a ValidatedCall) -> BoxFuture<'a, Result<Review, Failure>>;
}

/// A guard that consults a reviewer. The reviewer only advises: safe is no opinion, risky asks,
/// deny refuses. An error, a panic or a timeout counts as risky, never as safe.
pub struct ReviewGuard<R> {
    reviewer: R,
    limit: Duration,
}

/// Shorter than the timeout of a guard, so that a slow reviewer leads to an ask, not a refusal.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum characters that are kept of a reviewer's reason.
const MAX_REASON_CHARS: usize = 500;

impl<R: Reviewer> ReviewGuard<R> {
    /// Uses a reviewer with a timeout of twenty seconds.
    pub fn new(reviewer: R) -> Self {
        Self { reviewer, limit: REVIEW_TIMEOUT }
    }

    /// Sets the reviewer's timeout. Beyond `judge_timeout` the guard itself times out, and then the
    /// call is refused.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }
}

impl<R: Reviewer> Guard for ReviewGuard<R> {
    fn name(&self) -> &str {
        self.reviewer.name()
    }

    fn judge<'a>(&'a self, call: &'a ValidatedCall) -> Judged<'a> {
        Box::pin(async move {
            // Creating the future runs the reviewer's code too, so it happens inside
            // `catch_unwind`.
            let clock = clock_of(call.context());
            let review = async { self.reviewer.review(call).await };
            let reviewed = within(&*clock, self.limit, review).await;
            let trouble = match reviewed {
                Ok(Ok(Review::Safe)) => return Ok(None),
                Ok(Ok(Review::Risky(why))) => return Ok(Some(Verdict::ask(bounded(&why)))),
                Ok(Ok(Review::Deny(why))) => return Ok(Some(Verdict::deny(bounded(&why)))),
                Ok(Err(failure)) => failure.to_string(),
                Err(stopped) => stopped.to_string(),
            };
            let source = format!("guard `{}`: {trouble}", self.reviewer.name());
            Ok(Some(Verdict::ask("the review failed, so the call counts as risky").by(source)))
        })
    }
}

fn bounded(why: &str) -> String {
    why.chars().take(MAX_REASON_CHARS).collect()
}

impl<R: Reviewer> fmt::Debug for ReviewGuard<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReviewGuard")
            .field("reviewer", &self.reviewer.name())
            .field("limit", &self.limit)
            .finish()
    }
}
