//! Who may say whether a call runs: policies, guards, approvers.
//!
//! A policy is pure: the same call gets the same verdict. A guard may look around. An approver asks
//! somebody. The strictest verdict wins, and silence or trouble in any of them is a no.

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
mod desk;
mod deceptive;
mod glob;
mod guards;
mod functions;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use haft_core::{
    BoxFuture, DeniedPaths, DeniedPathsUnknown, Failure, HardLinked, Operation, OtherNames, Scope,
    Verdict,
};
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::budget::{Held, Ledger, too_deep};
pub(crate) use self::facts::Traits;
pub use self::functions::{approver_fn, guard_fn};
pub(crate) use self::glob::Glob;
#[cfg(test)]
pub(crate) use self::grant::canonical;
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
pub(crate) use self::{
    desk::{Answered, Desk, Manners, Seat, in_words},
    grant::digest,
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

    /// Returns why a tool is refused whatever its arguments, so that it is not even offered.
    fn hides(&self, _tool: &RegisteredTool, _scope: &Scope) -> Option<String> {
        None
    }

    /// Returns whether `hides` may ever hide something; the walk skips it otherwise.
    fn hides_tools(&self) -> bool {
        false
    }

    /// Returns whether a rule denies reading or writing a file, or wants to be asked about just such
    /// files. Asked about files that no call names, as those that a search comes upon.
    fn is_path_denied(&self, _doing: Operation, _file: &Path, _scope: &Arc<Scope>) -> bool {
        false
    }

    /// Returns whether it asks about each write to a protected name
    /// ([`PROTECTED`](haft_core::protected_names::PROTECTED)) unless a rule names it. Only then may a
    /// call that it allows change one.
    fn asks_about_protected(&self) -> bool {
        false
    }

    /// Returns whether a rule denies or asks about an open file under another name than this path.
    fn other_names(
        &self,
        _doing: Operation,
        _path: &Path,
        _file: &HardLinked,
        _scope: &Arc<Scope>,
    ) -> OtherNames {
        OtherNames::Clear
    }

    /// Returns the paths that deny rules are about, below these directories and elsewhere. `now` tells
    /// the time that bounds the search.
    ///
    /// # Errors
    /// Fails where not all of them could be found.
    fn denied_paths(
        &self,
        _roots: &[PathBuf],
        _scope: &Arc<Scope>,
        _now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        Ok(DeniedPaths::default())
    }

    /// Returns the arguments that a rule wants this call to have instead. They are admitted and
    /// judged again; nothing means that the call is as the rules want it.
    fn rewrite(&self, _call: &ValidatedCall) -> Option<Value> {
        None
    }

    /// Returns whether `rewrite` may ever change something; the walk skips it otherwise.
    fn rewrites(&self) -> bool {
        false
    }

    /// Returns what stands for the rules in force. An approval given under others is void.
    fn revision(&self) -> u64 {
        0
    }

    /// Returns what the judgement of this call rests on besides its arguments: where its paths lead
    /// now, what the run has read. While it stays equal, an answer about the call stays good.
    fn state_fingerprint(&self, _call: &ValidatedCall) -> String {
        String::new()
    }

    /// Says why the call is judged as it is: every check in order.
    fn explain(&self, call: &ValidatedCall) -> Explanation {
        Explanation::of(self.judge(call))
    }

    /// Returns the rules that "always" would write for this call, if they can be shown whole and
    /// would allow nothing that was not shown.
    fn offer(&self, _call: &ValidatedCall) -> Option<SuggestedRules> {
        None
    }

    /// Writes the rules of an offer to their file and puts them in force.
    ///
    /// # Errors
    /// Fails when the file cannot be written or would no longer be a good one.
    fn keep(&self, _offer: &SuggestedRules) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, "this policy keeps no rules"))
    }
}

/// A policy that the host keeps a hand on, as with rules that are loaded again
/// ([`ReloadableRules`]).
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

/// What "always" would write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestedRules {
    /// The literal rules, each as it would stand in `match`.
    pub rules: Vec<String>,
    /// The file they would go to.
    pub file: PathBuf,
}

/// Judges calls with a look at the world. Added to the runtime, it sees every call.
pub trait Guard: Send + Sync + 'static {
    /// Returns its name, for verdicts and records.
    fn name(&self) -> &str;

    /// Judges one call; nothing means no opinion, an error refuses it.
    fn judge<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>>;
}

/// What somebody is asked.
#[derive(Debug)]
#[non_exhaustive]
pub struct ApprovalRequest<'a> {
    /// The call.
    pub call: &'a ValidatedCall,
    /// Why it is asked about. For `need_input` it names the argument that is wanted.
    pub verdict: &'a Verdict,
    /// The same in full: every check, the rule with its place, what would flip it.
    pub explanation: &'a Explanation,
    /// What "always" would write; nothing when it must not be offered.
    pub offer: Option<&'a SuggestedRules>,
    /// Whether an answer can hold for a session: there is one, and it goes on after this call.
    pub session: bool,
    /// What the answer will be bound to; [`GrantStore::issue`] signs a yes to it.
    pub binding: &'a ApprovalDigest,
    /// How many other calls stand in line to be asked about.
    pub waiting: usize,
}

/// What somebody answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ApprovalResponse {
    /// Run it as it is.
    Allow {
        /// For how long the answer holds.
        lasting: ApprovalScope,
        /// A remark that is told to the model beside the result.
        comment: Option<String>,
    },
    /// Run it under a grant that was signed for exactly this call.
    Grant(String),
    /// Run it with these arguments; they are admitted and judged again.
    Edit(Value),
    /// The value of the argument that was asked for.
    Input(Value),
    /// Do not run it; the model gets this text as its result.
    ReplaceResult(String),
    /// Do not run it; the comment is told to the model.
    Deny(Option<String>),
}

impl ApprovalResponse {
    /// Says yes to this call, once.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { lasting: ApprovalScope::Once, comment: None }
    }
}

/// For how long a yes holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// For this call.
    Once,
    /// For this very call again, as long as the session lasts.
    Session,
    /// For good: the offered rules are written to their file.
    Always,
}

/// Asks somebody. Without one, whatever asks is denied. Where there are several they are all asked,
/// and the first valid answer counts.
pub trait Approver: Send + Sync + 'static {
    /// Returns its name, for records: `the terminal`, `the console`.
    fn name(&self) -> &str {
        "the approver"
    }

    /// Returns whether a person answers. A no of any other approver is told as `denied` with its
    /// comment, and not as the no of a person.
    fn is_person(&self) -> bool {
        true
    }

    /// Is told that a question was answered elsewhere, and by whom. The future of `ask` is dropped.
    fn closed(&self, _question: &ApprovalRequest<'_>, _by: &str) {}

    /// Asks and waits for the answer.
    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>>;
}
