//! The policy of `haft explain --calls`: the rules in force, with one look at the file system for
//! all calls. Nothing runs, so the calls are explained for one state of the files.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use haft::{
    host::{DeniedPaths, DeniedPathsUnknown, HardLinkedFile, OtherNames},
    policy::{
        CachedPathResolver, Explanation, FileRules, HidesRevision, Policy, PolicyFingerprint,
        PolicyRequest, PolicyTool, RuleStore, Rules, Verdict,
    },
    tool::{Operation, Scope},
};
use serde_json::Value;

/// A search for denied paths below some directories, from a working directory, and its result.
type Search = (Vec<PathBuf>, PathBuf, Result<DeniedPaths, DeniedPathsUnknown>);

/// Rules that look at each path once.
pub(crate) struct BatchPolicy {
    rules: Rules,
    denied: Mutex<Vec<Search>>,
}

impl BatchPolicy {
    pub(crate) fn of(rules: &Rules) -> Self {
        let mut context = rules.context().clone();
        context.resolver = Arc::new(CachedPathResolver::new(context.resolver));
        // Their examples were checked when they were loaded.
        let rules = Rules::new_unchecked(rules.rules().to_vec(), context);
        Self { rules, denied: Mutex::default() }
    }
}

impl Policy for BatchPolicy {
    fn decide(&self, request: &PolicyRequest<'_>) -> Verdict {
        self.rules.decide(request)
    }

    fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
        self.rules.explain(request)
    }

    fn hides(&self, tool: &PolicyTool<'_>, scope: &Scope) -> Option<String> {
        self.rules.hides(tool, scope)
    }

    fn hides_revision(&self) -> Option<HidesRevision> {
        self.rules.hides_revision()
    }

    fn rewrite(&self, request: &PolicyRequest<'_>) -> Option<Value> {
        self.rules.rewrite(request)
    }

    fn fingerprint(&self, request: &PolicyRequest<'_>) -> PolicyFingerprint {
        self.rules.fingerprint(request)
    }

    fn file_rules(&self) -> Option<&dyn FileRules> {
        Some(self)
    }

    fn rule_store(&self) -> Option<&dyn RuleStore> {
        self.rules.rule_store()
    }
}

impl FileRules for BatchPolicy {
    fn is_path_denied(&self, operation: Operation, file: &Path, scope: &Scope) -> bool {
        self.rules.is_path_denied(operation, file, scope)
    }

    fn other_names(
        &self,
        operation: Operation,
        path: &Path,
        file: &HardLinkedFile,
        scope: &Scope,
    ) -> OtherNames {
        self.rules.other_names(operation, path, file, scope)
    }

    fn denied_paths(
        &self,
        roots: &[PathBuf],
        scope: &Scope,
        now: &dyn Fn() -> Instant,
    ) -> Result<DeniedPaths, DeniedPathsUnknown> {
        let mut known = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |(own, from, _): &&Search| own == roots && **from == *scope.working_directory;
        if let Some((_, _, found)) = known.iter().find(is_same) {
            return found.clone();
        }
        let found = self.rules.denied_paths(roots, scope, now);
        known.push((roots.to_vec(), scope.working_directory.to_path_buf(), found.clone()));
        found
    }

    fn asks_about_protected(&self) -> bool {
        self.rules.asks_about_protected()
    }

    fn is_host_restricted(&self, host: &str, scope: &Scope) -> bool {
        self.rules.is_host_restricted(host, scope)
    }
}
