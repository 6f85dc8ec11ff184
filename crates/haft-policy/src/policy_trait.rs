//! The `Policy` trait, and what a policy may offer beyond a verdict.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use haft_core::{
    DeniedPaths, DeniedPathsUnknown, Error, HardLinkedFile, Operation, OtherNames, Scope, Verdict,
};
use serde_json::Value;

use super::{Explanation, PolicyRequest, PolicyTool};

/// Decides whether calls may run. Pure: the same request gets the same verdict.
///
/// Only `decide` is required. A policy that hides no tools, changes no arguments and has no rules
/// about files leaves the rest out.
pub trait Policy: Send + Sync + 'static {
    /// Decides about one call.
    fn decide(&self, request: &PolicyRequest<'_>) -> Verdict;

    /// Decides whether an agent may ask its model. The request describes the model call as a call
    /// of the tool `model_call`. Its arguments are the agent, the model, the turn and the tokens.
    ///
    /// The default allows it: what a policy says about tools is not about the model. An ask is put
    /// to the approvers of the runtime; an answer for the session lasts until the run ends.
    fn decide_model_call(&self, _request: &PolicyRequest<'_>) -> Verdict {
        Verdict::allow("no rule is about model calls")
    }

    /// Explains the verdict: every check in order.
    fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        Explanation::of(self.decide(request))
    }

    /// Returns why a tool is denied for all arguments, so that it is not offered to the model.
    fn hides(&self, _tool: &PolicyTool<'_>, _scope: &Scope) -> Option<String> {
        None
    }

    /// Returns which answers of [`hides`](Self::hides) are in force, so that a runtime asks about
    /// each tool once and not in every turn. `None` if they depend on the scope, or may change
    /// without notice. A policy that wraps another one returns its own, unless it hides the same.
    fn hides_revision(&self) -> Option<HidesRevision> {
        None
    }

    /// Returns the arguments that a rule sets for this call; `None` if no rule changes them. They
    /// are validated, and the policy decides again.
    fn rewrite(&self, _request: &PolicyRequest<'_>) -> Option<Value> {
        None
    }

    /// Returns what the verdict depends on besides the arguments. An approval is valid while it
    /// stays equal (TOCTOU).
    fn fingerprint(&self, _request: &PolicyRequest<'_>) -> PolicyFingerprint {
        PolicyFingerprint::default()
    }

    /// Returns its rules about files; `None` if it has none.
    fn file_rules(&self) -> Option<&dyn FileRules> {
        None
    }

    /// Returns what suggests and saves "always" rules; `None` if that must not be offered.
    fn rule_store(&self) -> Option<&dyn RuleStore> {
        None
    }
}

/// Identifies the answers of one policy to [`Policy::hides`]: while it is equal, so are they.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HidesRevision(u64);

impl HidesRevision {
    /// The revision of a policy that hides nothing.
    pub const NOTHING: Self = Self(0);

    /// Makes a revision that is equal to no other, for a policy whose answers stay the same.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a verdict depends on besides the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyFingerprint {
    /// The revision of the rules.
    pub revision: u64,
    /// The state that the rules look at: what the paths of the call resolve to, what the run has
    /// read.
    pub state: String,
}

/// Rules about files that a call does not name: those that a search finds, that a command reads, or
/// that have a second name.
pub trait FileRules {
    /// Returns whether a rule denies reading or writing a file, or asks about such files.
    fn is_path_denied(&self, operation: Operation, file: &Path, scope: &Scope) -> bool;

    /// Returns whether a rule denies or asks about an open file under another name (hard link) than
    /// this path.
    fn other_names(
        &self,
        operation: Operation,
        path: &Path,
        file: &HardLinkedFile,
        scope: &Scope,
    ) -> OtherNames;

    /// Returns the paths that deny rules match, below these directories and elsewhere. `now` is the
    /// clock that bounds the search.
    ///
    /// # Errors
    /// Fails if not all of them could be found.
    fn denied_paths(
        &self,
        roots: &[PathBuf],
        scope: &Scope,
        now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown>;

    /// Returns whether the policy asks about each write to a protected name
    /// ([`PROTECTED`](haft_core::protected_names::PROTECTED)) unless a rule names it. Only then may
    /// a call that it allows change one.
    fn asks_about_protected(&self) -> bool;

    /// Returns whether a rule that names hosts denies or asks about this one. It is asked about
    /// hosts that a running command contacts.
    ///
    /// FAIL CLOSED: by default every host is restricted.
    fn is_host_restricted(&self, _host: &str, _scope: &Scope) -> bool {
        true
    }
}

/// Suggests the rules that "always" would write, and saves them.
pub trait RuleStore {
    /// Returns the rules that "always" would write for this call, if they can be shown in full and
    /// would allow nothing that was not shown.
    fn suggest_for(&self, request: &PolicyRequest<'_>) -> Option<SuggestedRules>;

    /// Returns the rules for all files of the directory, if the call is about one file.
    fn suggest_for_directory(&self, _request: &PolicyRequest<'_>) -> Option<SuggestedRules> {
        None
    }

    /// Returns why [`suggest_for`](Self::suggest_for) returns nothing, for a person.
    fn why_not_suggested(&self, _request: &PolicyRequest<'_>) -> Option<String> {
        None
    }

    /// Returns the rule for all calls of the tool about the same file, if the call is about one
    /// file. An answer for the session covers these calls.
    fn file_rule(&self, _request: &PolicyRequest<'_>) -> Option<String> {
        None
    }

    /// Writes the suggested rules to their file and activates them.
    ///
    /// # Errors
    /// Fails if the file cannot be written or would become invalid.
    fn save(&self, suggested: &SuggestedRules) -> Result<(), Error>;
}

/// The rules that "always" would write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestedRules {
    /// The literal rules, each as written in `match`.
    pub rules: Vec<String>,
    /// The file that they would be written to.
    pub file: PathBuf,
}

/// A policy that the host shares, such as rules that are reloaded
/// ([`ReloadableRules`](super::ReloadableRules)).
impl<P: Policy + ?Sized> Policy for Arc<P> {
    fn decide(&self, request: &PolicyRequest<'_>) -> Verdict {
        (**self).decide(request)
    }

    fn decide_model_call(&self, request: &PolicyRequest<'_>) -> Verdict {
        (**self).decide_model_call(request)
    }

    fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        (**self).explain(request)
    }

    fn hides(&self, tool: &PolicyTool<'_>, scope: &Scope) -> Option<String> {
        (**self).hides(tool, scope)
    }

    fn hides_revision(&self) -> Option<HidesRevision> {
        (**self).hides_revision()
    }

    fn rewrite(&self, request: &PolicyRequest<'_>) -> Option<Value> {
        (**self).rewrite(request)
    }

    fn fingerprint(&self, request: &PolicyRequest<'_>) -> PolicyFingerprint {
        (**self).fingerprint(request)
    }

    fn file_rules(&self) -> Option<&dyn FileRules> {
        (**self).file_rules()
    }

    fn rule_store(&self) -> Option<&dyn RuleStore> {
        (**self).rule_store()
    }
}
