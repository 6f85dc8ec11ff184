//! Authorization: policies, guards and approvers decide whether a call runs.
//!
//! A policy is pure: the same call gets the same verdict. A guard may do I/O. An approver asks a
//! person. The strictest verdict wins, and a timeout or an error in any of them denies the call.

mod texts;
mod taint;
mod origin;
mod path_resolver;
mod rule;
mod facts;
pub(crate) mod pattern;
mod rules;
mod condition;
mod explain;
mod suggest;
mod lint;
mod budget;
mod files;
mod keep;
mod reload;
mod default;
#[cfg(test)]
mod testing;
mod grant;
mod approval_queue;
mod deceptive;
mod glob;
mod guards;
mod functions;

pub use haft_core::{Decision, IntoVerdict, Verdict};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use haft_core::{
    BoxFuture, DeniedPaths, DeniedPathsUnknown, Failure, HardLinked, Operation, OtherNames, Scope,
};
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::budget::{Held, Ledger, too_deep};
pub(crate) use self::facts::Traits;
pub use self::functions::{approver_fn, guard_fn};
pub(crate) use self::glob::Glob;
#[cfg(test)]
pub(crate) use self::grant::canonical;
pub(crate) use self::{
    approval_queue::{Answered, ApprovalQueue, PromptLimits, QueuePermit, in_words},
    grant::digest,
};
pub use self::{
    budget::Budget,
    deceptive::deceptive_chars,
    default::{AllowAll, DefaultPolicy},
    explain::{CheckStep, Explanation, NearMiss, RuleRef},
    files::{
        CallLimits, CommandTool, ConfigFile, ConfigPath, DirectoryId, FileFormat, FileNote,
        Handler, HookScript, HookSpec, LoadOptions, PolicyConfig, SandboxSettings, TrustEntry,
        TrustedDirs, Uncovered, config_paths, files_from, managed_drop_ins, managed_settings_file,
        project_files, project_root, read_config_file, read_regular_file,
    },
    grant::{ApprovalDigest, GrantError, GrantStore},
    guards::{
        ConcurrencyLimit, ConfirmDestructive, DenyAll, ForTools, NoObjection, PathGuard, Review,
        ReviewGuard, Reviewer, ToolNameGuard,
    },
    keep::RuleWrite,
    lint::{Finding, FindingKind},
    path_resolver::{FsPathResolver, LexicalResolver, PathResolver, Storage},
    pattern::{PathBase, Pattern, PatternError, PatternErrorKind, Ternary},
    reload::ReloadableRules,
    rule::{ConfigLayer, Example, Rule, SourceLocation, Subject},
    rules::{ArgumentKind, ExampleResult, Mode, PolicyContext, Rules},
    suggest::{RecordedDecision, Suggestion},
    taint::{Provenance, Taint, TaintTracker},
};
use crate::{
    error::{Error, ErrorKind},
    registry::RegisteredTool,
    turn::ValidatedCall,
};

/// Judges calls by rules alone.
pub trait Policy: Send + Sync + 'static {
    /// Judges one call.
    fn judge(&self, call: &ValidatedCall) -> Verdict;

    /// Returns why a tool is denied for all arguments, so that it is not offered to the model.
    fn hides(&self, _tool: &RegisteredTool, _scope: &Scope) -> Option<String> {
        None
    }

    /// Returns whether `hides` may ever hide a tool; otherwise it is skipped.
    fn hides_tools(&self) -> bool {
        false
    }

    /// Returns whether a rule denies reading or writing a file, or asks about such files. For files
    /// that the call does not name, such as those that a search finds.
    fn is_path_denied(&self, _doing: Operation, _file: &Path, _scope: &Arc<Scope>) -> bool {
        false
    }

    /// Returns whether it asks about each write to a protected name
    /// ([`PROTECTED`](haft_core::protected_names::PROTECTED)) unless a rule names it. Only then may
    /// a call that it allows change one.
    fn asks_about_protected(&self) -> bool {
        false
    }

    /// Returns whether a rule denies or asks about an open file under another name (hard link) than
    /// this path.
    fn other_names(
        &self,
        _doing: Operation,
        _path: &Path,
        _file: &HardLinked,
        _scope: &Arc<Scope>,
    ) -> OtherNames {
        OtherNames::Clear
    }

    /// Returns the paths that deny rules match, below these directories and elsewhere. `now` is the
    /// clock that bounds the search.
    ///
    /// # Errors
    /// Fails if not all of them could be found.
    fn denied_paths(
        &self,
        _roots: &[PathBuf],
        _scope: &Arc<Scope>,
        _now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        Ok(DeniedPaths::default())
    }

    /// Returns the arguments that a rule sets for this call. They are validated and judged again;
    /// `None` means that no rule changes them.
    fn rewrite(&self, _call: &ValidatedCall) -> Option<Value> {
        None
    }

    /// Returns whether `rewrite` may ever change arguments; otherwise it is skipped.
    fn rewrites(&self) -> bool {
        false
    }

    /// Returns the revision of the rules. An approval under another revision is void.
    fn revision(&self) -> u64 {
        0
    }

    /// Returns a fingerprint of the state that the verdict depends on besides the arguments: what
    /// its paths resolve to, what the run has read. An approval is valid while it stays equal
    /// (TOCTOU).
    fn state_fingerprint(&self, _call: &ValidatedCall) -> String {
        String::new()
    }

    /// Explains the verdict: every check in order.
    fn explain(&self, call: &ValidatedCall) -> Explanation {
        Explanation::of(self.judge(call))
    }

    /// Returns the rules that "always" would write for this call, if they can be shown in full and
    /// would allow nothing that was not shown.
    fn offer(&self, _call: &ValidatedCall) -> Option<SuggestedRules> {
        None
    }

    /// Writes the suggested rules to their file and activates them.
    ///
    /// # Errors
    /// Fails if the file cannot be written or would become invalid.
    fn keep(&self, _offer: &SuggestedRules) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, "this policy stores no rules"))
    }
}

/// A policy that the host shares, such as rules that are reloaded ([`ReloadableRules`]).
impl<P: Policy + ?Sized> Policy for Arc<P> {
    fn judge(&self, call: &ValidatedCall) -> Verdict {
        (**self).judge(call)
    }

    fn hides(&self, tool: &RegisteredTool, scope: &Scope) -> Option<String> {
        (**self).hides(tool, scope)
    }

    fn hides_tools(&self) -> bool {
        (**self).hides_tools()
    }

    fn is_path_denied(&self, doing: Operation, file: &Path, scope: &Arc<Scope>) -> bool {
        (**self).is_path_denied(doing, file, scope)
    }

    fn asks_about_protected(&self) -> bool {
        (**self).asks_about_protected()
    }

    fn other_names(
        &self,
        doing: Operation,
        path: &Path,
        file: &HardLinked,
        scope: &Arc<Scope>,
    ) -> OtherNames {
        (**self).other_names(doing, path, file, scope)
    }

    fn denied_paths(
        &self,
        roots: &[PathBuf],
        scope: &Arc<Scope>,
        now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        (**self).denied_paths(roots, scope, now)
    }

    fn rewrite(&self, call: &ValidatedCall) -> Option<Value> {
        (**self).rewrite(call)
    }

    fn rewrites(&self) -> bool {
        (**self).rewrites()
    }

    fn revision(&self) -> u64 {
        (**self).revision()
    }

    fn state_fingerprint(&self, call: &ValidatedCall) -> String {
        (**self).state_fingerprint(call)
    }

    fn explain(&self, call: &ValidatedCall) -> Explanation {
        (**self).explain(call)
    }

    fn offer(&self, call: &ValidatedCall) -> Option<SuggestedRules> {
        (**self).offer(call)
    }

    fn keep(&self, offer: &SuggestedRules) -> Result<(), Error> {
        (**self).keep(offer)
    }
}

/// The rules that "always" would write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestedRules {
    /// The literal rules, each as written in `match`.
    pub rules: Vec<String>,
    /// The file that they would be written to.
    pub file: PathBuf,
}

/// Judges calls with I/O. Added to the runtime, it judges every call.
pub trait Guard: Send + Sync + 'static {
    /// Returns its name, for verdicts and records.
    fn name(&self) -> &str;

    /// Judges one call. `None` means no opinion, and an error refuses the call.
    fn judge<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>>;
}

/// A request for approval.
#[derive(Debug)]
#[non_exhaustive]
pub struct ApprovalRequest<'a> {
    /// The call.
    pub call: &'a ValidatedCall,
    /// Why approval is needed. For `need_input` it names the requested argument.
    pub verdict: &'a Verdict,
    /// The explanation: every check, the rule with its location, what would flip it.
    pub explanation: &'a Explanation,
    /// What "always" would write; `None` if it must not be offered.
    pub offer: Option<&'a SuggestedRules>,
    /// Whether an answer can apply to a session: there is one, and it continues after this call.
    pub session: bool,
    /// What the answer is bound to; [`GrantStore::issue`] signs an approval of it.
    pub binding: &'a ApprovalDigest,
    /// How many other calls wait for approval.
    pub waiting: usize,
}

/// The answer of an approver.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ApprovalResponse {
    /// Run it as it is.
    Allow {
        /// The scope of the answer.
        lasting: ApprovalScope,
        /// A comment that the model gets as a host note with the result.
        comment: Option<String>,
    },
    /// Run it with a grant that was signed for exactly this call.
    Grant(String),
    /// Run it with these arguments; they are validated and judged again.
    Edit(Value),
    /// The value of the requested argument.
    Input(Value),
    /// Do not run it; the model gets this text as its result.
    ReplaceResult(String),
    /// Do not run it; the model gets the comment.
    Deny(Option<String>),
}

impl ApprovalResponse {
    /// Allows this call, once.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { lasting: ApprovalScope::Once, comment: None }
    }
}

/// The scope of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// For this call.
    Once,
    /// For the same call again, as long as the session lasts.
    Session,
    /// Permanently: the suggested rules are written to their file.
    Always,
}

/// Asks a person, or decides in their place. Without an approver, a call that needs approval is
/// denied. If there are several, all are asked, and the first valid answer counts.
pub trait Approver: Send + Sync + 'static {
    /// Returns its name, for records: `the terminal`, `the console`.
    fn name(&self) -> &str {
        "the approver"
    }

    /// Returns whether a person answers. A no of any other approver is reported as `denied` with
    /// its comment, and not as declined by a person.
    fn is_person(&self) -> bool {
        true
    }

    /// Called when another approver has answered. The future of `ask` is dropped.
    fn closed(&self, _question: &ApprovalRequest<'_>, _by: &str) {}

    /// Asks and waits for the answer.
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>>;
}
