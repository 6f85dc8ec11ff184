//! The parsed content of one file, before files are merged.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    CallLimits, CommandTool, ConfigFile, FileNote, HookSpec, LoadOptions, UntrustedReason,
    mcp::McpServerTable, model::ModelSettings, sandbox::SandboxTable,
};
use crate::{
    budget::Budget,
    context::{ArgumentKind, Mode},
    rule::{ConfigLayer, Rule, SourceLocation},
};

/// The content of one file.
#[derive(Debug)]
pub(super) struct FileContent {
    pub(super) layer: ConfigLayer,
    /// Whether it is a file of another program.
    pub(super) imported: bool,
    /// The file itself.
    pub(super) location: SourceLocation,
    /// Why trust does not cover it; such a file may only tighten.
    pub(super) untrusted_files: Option<UntrustedReason>,
    pub(super) mode: Option<(Mode, SourceLocation)>,
    /// Disables `bypassPermissions` everywhere.
    pub(super) no_bypass: bool,
    pub(super) limits: CallLimits,
    pub(super) limits_location: Option<SourceLocation>,
    pub(super) roots: Vec<(PathBuf, SourceLocation)>,
    pub(super) rules: Vec<Rule>,
    pub(super) budget: Budget,
    pub(super) about: BTreeMap<String, BTreeMap<String, ArgumentKind>>,
    pub(super) about_location: Option<SourceLocation>,
    pub(super) tools: Vec<CommandTool>,
    pub(super) sandbox: SandboxTable,
    pub(super) model: ModelSettings,
    pub(super) mcp_servers: Vec<McpServerTable>,
    pub(super) hooks: Vec<ParsedHook>,
    /// The file of `[audit]`.
    pub(super) audit: Option<(PathBuf, SourceLocation)>,
    /// Variables that hooks get (`pass_env`).
    pub(super) hooks_env: Vec<(String, SourceLocation)>,
    /// Whether hooks fail closed by default.
    pub(super) hooks_guard: Option<bool>,
    /// Only the organisation's own allows apply.
    pub(super) only_managed_rules: bool,
    /// Only the organisation's own hooks apply.
    pub(super) only_managed_hooks: bool,
    pub(super) notes: Vec<FileNote>,
}

/// A hook, and its own failure mode, if set.
#[derive(Debug)]
pub(super) struct ParsedHook {
    pub(super) spec: HookSpec,
    pub(super) fails_closed: Option<bool>,
}

impl FileContent {
    /// A file without content.
    pub(super) fn empty(layer: ConfigLayer, imported: bool) -> Self {
        Self {
            layer,
            imported,
            location: SourceLocation::default(),
            // FAIL CLOSED: a file is uncovered until `locate` has checked it.
            untrusted_files: layer.is_from_project().then_some(UntrustedReason::Untrusted),
            mode: None,
            no_bypass: false,
            limits: CallLimits::default(),
            limits_location: None,
            roots: Vec::new(),
            rules: Vec::new(),
            budget: Budget::default(),
            about: BTreeMap::new(),
            about_location: None,
            tools: Vec::new(),
            sandbox: SandboxTable::default(),
            model: ModelSettings::default(),
            mcp_servers: Vec::new(),
            hooks: Vec::new(),
            audit: None,
            hooks_env: Vec::new(),
            hooks_guard: None,
            only_managed_rules: false,
            only_managed_hooks: false,
            notes: Vec::new(),
        }
    }

    /// Sets what is known about the file itself: whether trust covers it, and the directory of its
    /// hooks.
    pub(super) fn locate(&mut self, file: &ConfigFile, options: &LoadOptions) {
        self.location =
            SourceLocation { file: Some(Arc::new(file.path.clone())), line: 1, column: 1 };
        if !file.layer.is_from_project() {
            return;
        }
        self.untrusted_files = if options.trusted {
            options.untrusted_files.get(&file.path).cloned()
        } else {
            Some(UntrustedReason::Untrusted)
        };
        for hook in &mut self.hooks {
            hook.spec.directory = Some(file.anchor.clone());
        }
    }
}
