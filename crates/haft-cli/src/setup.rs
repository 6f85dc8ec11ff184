//! Loads the configuration of a directory and configures a runtime with it.
//!
//! In: the working directory and the user's directories. Out: reloadable rules, hooks, limits, a
//! budget. Notes are printed to stderr once. `site` finds the files.
//!
//! FAIL CLOSED: an unreadable or invalid file stops the command before anything runs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft::{
    Config, Runtime, RuntimeBuilder,
    events::Event,
    host::RunBuilder,
    policy::{FileNote, Policy, ReloadableRules, RuleWrite, Rules},
};
use haft_hooks::{Hooks, ProjectDir};

use crate::{
    args,
    error::Problem,
    host_env::HostEnv,
    location,
    site::Site,
    style::{self, DIM},
};

/// The configuration of a directory.
pub(crate) struct Setup {
    pub(crate) site: Site,
    /// The merged content of the files.
    pub(crate) loaded: haft::policy::PolicyConfig,
    /// Whether trust covers every file of the project.
    pub(crate) is_trusted: bool,
    live: Arc<ReloadableRules>,
    config: Config,
    variables: BTreeMap<String, String>,
    is_quiet: bool,
}

impl Setup {
    /// Loads the configuration of the working directory.
    pub(crate) fn open(host: &HostEnv, from: &args::Rules) -> Result<Self, Problem> {
        let site = Site::find(host, from);
        let (loaded, covered) = site.read()?;
        let mut notes = covered.notes;
        notes.extend(loaded.notes.iter().map(|note| shown(note, &site.here)));
        notes.extend(loaded.hooks.iter().filter_map(|hook| site.partial_note(hook)));
        if !from.quiet {
            print_notes(&notes);
        }
        let (loader, recorder) = (site.clone(), site.clone());
        let live = ReloadableRules::with_loader(move || loader.rules())?.with_recorder(
            move |write: RuleWrite<'_>| recorder.record(write).map_err(|p| p.to_string()),
        );
        let mut limits = loaded.limits;
        if host.says_concurrency {
            limits.concurrency = None; // the variable overrides the files
        }
        let config = host.config.clone().with_limits(&limits);
        Ok(Self {
            site,
            loaded,
            is_trusted: covered.is_trusted,
            live: Arc::new(live),
            config,
            variables: host.variables.clone(),
            is_quiet: from.quiet,
        })
    }

    /// The rules in force.
    pub(crate) fn policy(&self) -> Arc<dyn Policy> {
        Arc::clone(&self.live) as Arc<dyn Policy>
    }

    /// The rules in force, for reading.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.live.current()
    }

    /// The limits in force: the files, then the environment.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The environment.
    pub(crate) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    pub(crate) fn here(&self) -> &Path {
        &self.site.here
    }

    /// The files and directories outside of the project's own list that control what runs: a
    /// command that could write one of them could run code outside of its sandbox later.
    pub(crate) fn steering_paths(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let scripts = self.loaded.hooks.iter().flat_map(|hook| self.site.scripts(hook).files);
        // A missing script cannot be mounted; it is compared before the hook runs.
        let scripts = scripts.filter(|script| script.symlink_metadata().is_ok());
        scripts.chain(self.site.settings()).chain(self.site.trusted_files(roots)).collect()
    }

    /// Configures a runtime.
    pub(crate) fn runtime(&self, runtime: RuntimeBuilder) -> RuntimeBuilder {
        let runtime = runtime.config(self.config.clone()).policy(self.policy());
        // Printed also with `--quiet`: a check was skipped.
        runtime.observer(|event: &Event| {
            if let Event::HookFailedOpen { hook, why, .. } = event {
                let (hook, why) = (style::visible(hook), style::visible(why).replace('\n', " "));
                let text = format_args!("hook `{hook}` FAILED OPEN, the call continues: {why}");
                style::message(format_args!("{} {text}", style::paint(style::WARN, "warning:")));
            }
        })
    }

    /// A variable of the environment.
    #[cfg(feature = "otlp")]
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The hooks of all files, ready to be called.
    pub(crate) fn hooks(&self) -> Result<Hooks, Problem> {
        let hooks = Hooks::load(&self.loaded.hooks, self.project()).map_err(|e| {
            let problem = Problem::new(format!("hook `{}`: {e}", e.hook()));
            match e.hint_text() {
                Some(hint) => problem.hint(hint),
                None => problem,
            }
        })?;
        if !self.is_quiet {
            print_notes(hooks.notes());
        }
        Ok(hooks)
    }

    /// Writes a note to stderr, unless notes are off.
    pub(crate) fn note(&self, note: String) {
        if !self.is_quiet {
            print_notes(&[note.replace('\n', " ")]);
        }
    }

    /// A note that names the workspace; `None` if notes are off.
    pub(crate) fn workspace_note(&self) -> Option<String> {
        let here = self.here().display();
        let note = format!("the workspace is the current directory, `{here}`");
        (!self.is_quiet).then_some(note)
    }

    /// The project directory and variables for hooks.
    pub(crate) fn project(&self) -> ProjectDir {
        let mut project = ProjectDir::new(&self.site.project);
        project.variables = self.variables.clone();
        project.context = self.loaded.context.clone();
        project
    }

    /// Starts a run with the configured budget.
    pub(crate) fn run(&self, runtime: &Runtime) -> RunBuilder {
        runtime
            .run_builder()
            .one_shot()
            .working_directory(&self.site.here)
            .budget(self.loaded.budget.clone())
    }
}

/// A note with its location, relative to a directory.
pub(crate) fn shown(note: &FileNote, here: &Path) -> String {
    format!("{}: {}", location::at(&note.location, here), note.message)
}

/// Writes notes to stderr.
pub(crate) fn print_notes(notes: &[String]) {
    for note in notes {
        style::message(style::paint(DIM, format_args!("note: {}", style::visible(note))));
    }
}
