//! What one file says, before files are put together.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    CallLimits, CommandTool, ConfigFile, FileNote, HookSpec, LoadOptions, Uncovered,
    sandbox::SandboxSaid,
};
use crate::policy::{
    budget::Budget,
    rule::{ConfigLayer, Rule, SourceLocation},
    rules::{ArgumentKind, Mode},
};

/// What one file says.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) layer: ConfigLayer,
    /// Whether it is the file of another program.
    pub(super) imported: bool,
    /// The file itself.
    pub(super) place: SourceLocation,
    /// Why trust does not cover it; such a file may only tighten.
    pub(super) uncovered: Option<Uncovered>,
    pub(super) mode: Option<(Mode, SourceLocation)>,
    /// Nobody may lift all questions.
    pub(super) no_bypass: bool,
    pub(super) limits: CallLimits,
    pub(super) limits_place: Option<SourceLocation>,
    pub(super) roots: Vec<(PathBuf, SourceLocation)>,
    pub(super) rules: Vec<Rule>,
    pub(super) budget: Budget,
    pub(super) about: BTreeMap<String, BTreeMap<String, ArgumentKind>>,
    pub(super) about_place: Option<SourceLocation>,
    pub(super) tools: Vec<CommandTool>,
    pub(super) sandbox: SandboxSaid,
    pub(super) hooks: Vec<Hooked>,
    /// Whether hooks that do not say for themselves refuse the call when they cannot answer.
    pub(super) hooks_guard: Option<bool>,
    /// Only the organisation's own allows count.
    pub(super) only_managed_rules: bool,
    /// Only the organisation's own hooks count.
    pub(super) only_managed_hooks: bool,
    pub(super) notes: Vec<FileNote>,
}

/// A hook, and what it says itself about failing.
#[derive(Debug)]
pub(super) struct Hooked {
    pub(super) spec: HookSpec,
    pub(super) fails_closed: Option<bool>,
}

impl Said {
    /// A file that says nothing yet.
    pub(super) fn nothing(layer: ConfigLayer, imported: bool) -> Self {
        Self {
            layer,
            imported,
            place: SourceLocation::default(),
            // FAIL CLOSED: a file is covered once `locate` has said so.
            uncovered: layer.comes_with_the_folder().then_some(Uncovered::Untrusted),
            mode: None,
            no_bypass: false,
            limits: CallLimits::default(),
            limits_place: None,
            roots: Vec::new(),
            rules: Vec::new(),
            budget: Budget::default(),
            about: BTreeMap::new(),
            about_place: None,
            tools: Vec::new(),
            sandbox: SandboxSaid::default(),
            hooks: Vec::new(),
            hooks_guard: None,
            only_managed_rules: false,
            only_managed_hooks: false,
            notes: Vec::new(),
        }
    }

    /// Takes in what is known of the file itself: whether trust covers it, and where its hooks start.
    pub(super) fn locate(&mut self, file: &ConfigFile, place: &LoadOptions) {
        self.place = SourceLocation { file: Some(Arc::new(file.path.clone())), line: 1, column: 1 };
        if !file.layer.comes_with_the_folder() {
            return;
        }
        self.uncovered = match place.trusted {
            true => place.uncovered.get(&file.path).cloned(),
            false => Some(Uncovered::Untrusted),
        };
        for hook in &mut self.hooks {
            hook.spec.directory = Some(file.anchor.clone());
        }
    }
}
