//! Rules that can be replaced while calls run (hot reload).
//!
//! Each query uses one set of rules, taken when it starts, so a call never sees a mixture. Rules
//! that cannot be loaded are rejected: the old ones stay in force.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
    time::Instant,
};

use haft_core::{
    BoxError, DeniedPaths, DeniedPathsUnknown, Error, ErrorKind, HardLinkedFile, Operation,
    OtherNames, Scope, Verdict, sync,
};
use serde_json::Value;

use super::{
    Explanation, FileRules, HidesRevision, Policy, PolicyFingerprint, PolicyRequest, PolicyTool,
    RuleStore, Rules, SuggestedRules,
    save_rules::{self, Recorder, RuleWrite},
};

type Load = dyn Fn() -> Result<Rules, Error> + Send + Sync;

/// Rules that can be replaced while calls run.
pub struct ReloadableRules {
    rules: RwLock<Arc<Rules>>,
    load: Option<Box<Load>>,
    recorder: Option<Box<Recorder>>,
    /// Held while a file is written and while rules are loaded: of two reloads the later one sees
    /// the later files, so the rules in force never revert.
    turn: Mutex<()>,
}

impl ReloadableRules {
    /// Makes rules without a loader; only [`replace`](Self::replace) changes them.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        let rules = RwLock::new(Arc::new(rules));
        Self { rules, load: None, recorder: None, turn: Mutex::new(()) }
    }

    /// Loads rules, and keeps the loader for reloads.
    ///
    /// # Errors
    /// Fails if they cannot be loaded now.
    pub fn with_loader<E: Into<BoxError>>(
        load: impl Fn() -> Result<Rules, E> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let load = move || load().map_err(|e| own(e.into()));
        let mut live = Self::new(load()?);
        live.load = Some(Box::new(load));
        Ok(live)
    }

    /// Wraps every write of an "always" rule. A host that records which files it trusts checks that
    /// the old content was trusted, commits the write, and records the new text. An error leaves
    /// the file unchanged, unless the write was committed.
    #[must_use]
    pub fn with_recorder<E: Into<BoxError>>(
        mut self,
        recorder: impl Fn(RuleWrite<'_>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.recorder =
            Some(Box::new(move |write: RuleWrite<'_>| recorder(write).map_err(|e| own(e.into()))));
        self
    }

    /// Returns the rules in force.
    #[must_use]
    pub fn current(&self) -> Arc<Rules> {
        Arc::clone(&sync::read(&self.rules))
    }

    /// Activates other rules.
    pub fn replace(&self, rules: Rules) {
        *sync::write(&self.rules) = Arc::new(rules);
    }

    /// Loads the rules again and activates them.
    ///
    /// # Errors
    /// Fails if they cannot be loaded; the old ones then stay in force.
    pub fn reload(&self) -> Result<(), Error> {
        let _turn = sync::lock(&self.turn);
        self.reload_in_turn()
    }

    fn reload_in_turn(&self) -> Result<(), Error> {
        let Some(load) = &self.load else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "these rules were not loaded from a file",
            ));
        };
        match load() {
            Ok(rules) => {
                self.replace(rules);
                Ok(())
            }
            Err(e) => {
                let message = format!("the previous rules stay in force\n{}", e.message());
                let hints: Vec<String> = e.hints().to_vec();
                let error = Error::new(e.kind(), message).because(e);
                Err(hints.into_iter().fold(error, Error::hint))
            }
        }
    }
}

/// Returns an error of haft as it is, and wraps any other.
fn own(error: BoxError) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => *own,
        Err(other) => Error::new(ErrorKind::BadConfig, other.to_string()).because(other),
    }
}

impl fmt::Debug for ReloadableRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloadableRules")
            .field("rules", &self.current().rules().len())
            .finish_non_exhaustive()
    }
}

impl Policy for ReloadableRules {
    fn decide(&self, request: &PolicyRequest<'_>) -> Verdict {
        self.current().decide(request)
    }

    fn decide_model_call(&self, request: &PolicyRequest<'_>) -> Verdict {
        self.current().decide_model_call(request)
    }

    fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        self.current().explain(request)
    }

    fn hides(&self, tool: &PolicyTool<'_>, scope: &Scope) -> Option<String> {
        self.current().hides(tool, scope)
    }

    fn hides_revision(&self) -> Option<HidesRevision> {
        self.current().hides_revision()
    }

    fn rewrite(&self, request: &PolicyRequest<'_>) -> Option<Value> {
        self.current().rewrite(request)
    }

    fn fingerprint(&self, request: &PolicyRequest<'_>) -> PolicyFingerprint {
        self.current().fingerprint(request)
    }

    fn file_rules(&self) -> Option<&dyn FileRules> {
        Some(self)
    }

    fn rule_store(&self) -> Option<&dyn RuleStore> {
        Some(self)
    }
}

impl FileRules for ReloadableRules {
    fn is_path_denied(&self, operation: Operation, file: &Path, scope: &Scope) -> bool {
        self.current().is_path_denied(operation, file, scope)
    }

    fn other_names(
        &self,
        operation: Operation,
        path: &Path,
        file: &HardLinkedFile,
        scope: &Scope,
    ) -> OtherNames {
        self.current().other_names(operation, path, file, scope)
    }

    fn denied_paths(
        &self,
        roots: &[PathBuf],
        scope: &Scope,
        now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        self.current().denied_paths(roots, scope, now)
    }

    fn is_host_restricted(&self, host: &str, scope: &Scope) -> bool {
        self.current().is_host_restricted(host, scope)
    }

    fn asks_about_protected(&self) -> bool {
        self.current().asks_about_protected()
    }
}

impl RuleStore for ReloadableRules {
    fn suggest_for(&self, request: &PolicyRequest<'_>) -> Option<SuggestedRules> {
        // Rules that could not be saved are not suggested.
        self.load.as_ref()?;
        self.current().suggest_for(request)
    }

    fn suggest_for_directory(&self, request: &PolicyRequest<'_>) -> Option<SuggestedRules> {
        self.load.as_ref()?;
        self.current().suggest_for_directory(request)
    }

    fn why_not_suggested(&self, request: &PolicyRequest<'_>) -> Option<String> {
        self.current().why_not_suggested(request)
    }

    fn file_rule(&self, request: &PolicyRequest<'_>) -> Option<String> {
        self.current().file_rule(request)
    }

    fn save(&self, suggested: &SuggestedRules) -> Result<(), Error> {
        let _turn = sync::lock(&self.turn);
        if self.load.is_none() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "these rules were not loaded from a file",
            ));
        }
        let rules = self.current();
        // FAIL CLOSED: rules are only written to the configured file, whatever the suggestion says.
        if rules.context().rules_file.as_deref() != Some(&*suggested.file) {
            return Err(Error::new(
                ErrorKind::BadConfig,
                format!("{} is not the file that rules are saved to", suggested.file.display()),
            ));
        }
        save_rules::save(suggested, rules.context().home.as_deref(), self.recorder.as_deref())?;
        self.reload_in_turn()
    }
}
