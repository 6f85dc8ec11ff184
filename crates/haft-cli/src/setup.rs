//! What people have written about this place, and a runtime that follows it.
//!
//! In: where the command was started, and the folders of this person. Out: rules that can be loaded
//! again, hooks, limits, a budget. Notes go to stderr once. Which files count is found in `site`.
//!
//! FAIL CLOSED: a file that is there and cannot be read, or says something that cannot be
//! understood, stops the command before anything runs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft::{
    Config, Event, FileNote, Policy, ReloadableRules, RuleWrite, Rules, RunBuilder, Runtime,
    RuntimeBuilder,
};
use haft_hooks::{Hooks, ProjectDir};

use crate::{
    args,
    error::Problem,
    explain,
    site::Site,
    style::{self, DIM},
};

/// Where the command was started, and what the environment says about this person.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    /// The working directory.
    pub(crate) here: PathBuf,
    /// The home folder.
    pub(crate) home: Option<PathBuf>,
    /// haft's own folder among the person's settings.
    pub(crate) user: Option<PathBuf>,
    /// haft's own folder among what programs remember for this person.
    pub(crate) state: Option<PathBuf>,
    /// One more file of the organisation's.
    pub(crate) managed: Option<PathBuf>,
    /// The environment; hooks get the harmless part of it.
    pub(crate) variables: BTreeMap<String, String>,
    /// The limits of the environment.
    pub(crate) config: Config,
    /// Whether the environment says how many calls run at once.
    pub(crate) says_concurrency: bool,
}

/// What is said about a folder.
pub(crate) struct Setup {
    pub(crate) site: Site,
    /// What the files say together.
    pub(crate) said: haft::PolicyConfig,
    /// Whether trust covers every file of the project.
    pub(crate) is_trusted: bool,
    live: Arc<ReloadableRules>,
    config: Config,
    variables: BTreeMap<String, String>,
    is_quiet: bool,
}

impl Setup {
    /// Reads everything that is said about the folder the command was started in.
    pub(crate) fn open(around: &Around, from: &args::Rules) -> Result<Self, Problem> {
        let site = Site::find(around, from);
        let (said, covered) = site.read()?;
        let mut notes = covered.notes;
        notes.extend(said.notes.iter().map(|note| shown(note, &site.here)));
        notes.extend(said.hooks.iter().filter_map(|hook| site.partial_note(hook)));
        if !from.quiet {
            tell(&notes);
        }
        let (loader, recorder) = (site.clone(), site.clone());
        let live = ReloadableRules::with_loader(move || loader.rules())?.with_recorder(
            move |write: RuleWrite<'_>| recorder.record(write).map_err(|p| p.to_string()),
        );
        let mut limits = said.limits;
        if around.says_concurrency {
            limits.concurrency = None; // whoever sets a variable means this time
        }
        let config = limits.apply(around.config.clone());
        Ok(Self {
            site,
            said,
            is_trusted: covered.is_trusted,
            live: Arc::new(live),
            config,
            variables: around.variables.clone(),
            is_quiet: from.quiet,
        })
    }

    /// The rules in force.
    pub(crate) fn policy(&self) -> Arc<dyn Policy> {
        Arc::clone(&self.live) as Arc<dyn Policy>
    }

    /// The rules in force, to be looked at.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.live.current()
    }

    /// The environment.
    pub(crate) fn variables(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    pub(crate) fn here(&self) -> &Path {
        &self.site.here
    }

    /// The files and directories outside of the project's own list that decide what runs here: a
    /// command that could write one would decide what runs outside of its sandbox later.
    pub(crate) fn steering_paths(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let scripts = self.said.hooks.iter().flat_map(|hook| self.site.scripts(hook).files);
        // One that is missing needs no place in the sandbox: it is compared before the hook runs.
        let scripts = scripts.filter(|script| script.symlink_metadata().is_ok());
        scripts.chain(self.site.settings()).chain(self.site.trusted_files(roots)).collect()
    }

    /// Sets a runtime up as the files say.
    pub(crate) fn runtime(&self, runtime: RuntimeBuilder) -> RuntimeBuilder {
        let runtime = runtime.config(self.config.clone()).policy(self.policy());
        // Loud, whatever else is quiet: a check that was not made is not a detail.
        runtime.observer(|event: &Event| {
            if let Event::HookFailedOpen { hook, why, .. } = event {
                let (hook, why) = (style::visible(hook), style::visible(why).replace('\n', " "));
                let text = format_args!("hook `{hook}` FAILED OPEN, the call continues: {why}");
                style::talk(format_args!("{} {text}", style::paint(style::WARN, "warning:")));
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
        let hooks = Hooks::load(&self.said.hooks, self.project()).map_err(|e| {
            let problem = Problem::new(format!("hook `{}`: {e}", e.hook()));
            match e.hint_text() {
                Some(hint) => problem.hint(hint),
                None => problem,
            }
        })?;
        if !self.is_quiet {
            tell(hooks.notes());
        }
        Ok(hooks)
    }

    /// Writes a note to stderr, unless notes are off.
    pub(crate) fn note(&self, note: String) {
        if !self.is_quiet {
            tell(&[note.replace('\n', " ")]);
        }
    }

    /// What hooks may know of this place.
    pub(crate) fn project(&self) -> ProjectDir {
        let mut project = ProjectDir::new(&self.site.project);
        project.variables = self.variables.clone();
        project.ground = self.said.ground.clone();
        project
    }

    /// Begins a run as the files say.
    pub(crate) fn run(&self, runtime: &Runtime) -> RunBuilder {
        runtime
            .run_builder()
            .one_shot()
            .working_directory(&self.site.here)
            .budget(self.said.budget.clone())
    }
}

/// A note, with its place seen from a folder.
pub(crate) fn shown(note: &FileNote, here: &Path) -> String {
    format!("{}: {}", explain::at(&note.place, here), note.message)
}

/// Writes notes to stderr.
pub(crate) fn tell(notes: &[String]) {
    for note in notes {
        style::talk(style::paint(DIM, format_args!("note: {}", style::visible(note))));
    }
}
