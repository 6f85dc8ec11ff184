//! Decides whether tool calls may run: rules, patterns, configuration files, verdicts and their
//! explanations.
//!
#![doc = include_str!("../README.md")]
//!
//! INVARIANT: pure. The same request, rules and files give the same verdict. There is no async
//! runtime, and the clock is an argument.

mod budget;
mod cached_resolver;
mod condition;
mod context;
mod policy_trait;
mod default;
mod explain;
mod facts;
mod files;
mod glob;
mod host;
mod network;
mod save_rules;
mod lint;
mod origin;
mod path_guard;
mod path_resolver;
mod pattern;
mod reload;
mod request;
mod rule;
mod rules;
mod suggest;
mod taint;
#[cfg(test)]
mod testing;
mod texts;
mod toml_string;

pub use haft_core::{Decision, IntoVerdict, Verdict};

pub use self::{
    budget::{Budget, BudgetKey},
    cached_resolver::CachedPathResolver,
    context::{ArgumentKind, Mode, PolicyContext},
    default::{AllowAll, DefaultPolicy},
    explain::{CheckStep, Explanation, NearMiss, RuleRef},
    files::{
        CallLimits, CommandTool, ConfigFile, ConfigPath, DirectoryId, FileFormat, FileNote,
        Handler, HookScript, HookSpec, KeyReference, LoadOptions, McpServerTable, ModelEndpoint,
        ModelPrice, ModelSettings, PolicyConfig, SandboxSettings, TrustEntry, TrustedDirs,
        UntrustedReason, config_paths, files_from, managed_drop_ins, managed_settings_file,
        project_files, project_root, read_config_file, read_regular_file,
    },
    glob::NameGlob,
    lint::{Finding, FindingKind},
    network::{HostEntry, NetworkAccess, NetworkEntryError},
    path_guard::PathGuard,
    path_resolver::{FsPathResolver, LexicalResolver, PathResolver, Storage},
    pattern::{PathBase, Pattern, PatternError, PatternErrorKind, Ternary},
    policy_trait::{
        FileRules, HidesRevision, Policy, PolicyFingerprint, RuleStore, SuggestedRules,
    },
    reload::ReloadableRules,
    request::{PolicyRequest, PolicyTool, Subject, ToolTraits},
    rule::{ConfigLayer, Example, Rule, SourceLocation},
    rules::{ExampleResult, Rules},
    save_rules::RuleWrite,
    suggest::{RecordedDecision, Suggestion},
    taint::{Provenance, Taint, TaintTracker},
};
