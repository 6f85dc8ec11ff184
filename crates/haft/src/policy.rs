//! Authorization: policies, guards and rules decide whether a call runs.
//!
//! A policy is pure: the same call gets the same verdict. A guard may do I/O. An approver
//! ([`approval`](crate::approval)) asks a person. The strictest verdict wins, and a timeout or an
//! error in any of them denies the call. Everything but the guards is the crate `haft-policy`.

pub use haft_core::{Decision, IntoVerdict, Verdict};
pub use haft_policy::{
    AllowAll, ArgumentKind, Budget, BudgetKey, CachedPathResolver, CallLimits, CheckStep,
    CommandTool, ConfigFile, ConfigLayer, ConfigPath, DefaultPolicy, DirectoryId, Example,
    ExampleResult, Explanation, FileFormat, FileNote, FileRules, Finding, FindingKind,
    FsPathResolver, Handler, HidesRevision, HookScript, HookSpec, HostEntry, KeyReference,
    LexicalResolver, LoadOptions, McpServerTable, Mode, ModelEndpoint, ModelPrice, ModelSettings,
    NameGlob, NearMiss, NetworkAccess, NetworkEntryError, PathBase, PathGuard, PathResolver,
    Pattern, PatternError, PatternErrorKind, Policy, PolicyConfig, PolicyContext,
    PolicyFingerprint, PolicyRequest, PolicyTool, Provenance, RecordedDecision, ReloadableRules,
    Rule, RuleRef, RuleStore, RuleWrite, Rules, SandboxSettings, SourceLocation, Storage, Subject,
    SuggestedRules, Suggestion, Taint, TaintTracker, Ternary, ToolTraits, TrustEntry, TrustedDirs,
    UntrustedReason, config_paths, files_from, managed_drop_ins, managed_settings_file,
    project_files, project_root, read_config_file, read_regular_file,
};

pub use crate::guards::{
    ConcurrencyLimit, ConfirmDestructive, DenyAll, ForTools, Guard, NoObjection, Review,
    ReviewGuard, Reviewer, ToolNameGuard, guard_fn,
};
