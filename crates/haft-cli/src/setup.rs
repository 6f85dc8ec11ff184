//! Loads the configuration of a directory and configures a runtime with it.
//!
//! In: the working directory and the user's directories. Out: reloadable rules, hooks, limits, a
//! budget. Notes are printed to stderr once (`shown_notes`). `site` finds the files.
//!
//! FAIL CLOSED: an unreadable or invalid file stops the command before anything runs.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
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
    shown_notes::ShownNotes,
    site::Site,
    style::{self, DIM},
};

/// The mode whose note is printed every time.
const BYPASS_MODE: &str = "`bypassPermissions`";

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
    /// What is ignored or handled differently; empty if notes are off.
    pub(crate) notes: Vec<String>,
    shown_notes: ShownNotes,
    /// The user of the process.
    person: Option<String>,
    /// The session that calls belong to.
    session: String,
    /// Where the conversation is stored.
    transcript: Option<PathBuf>,
    /// Inputs of files of MCP servers that were answered, by file and id.
    #[cfg(feature = "mcp")]
    pub(crate) inputs: std::sync::Mutex<BTreeMap<(PathBuf, String), String>>,
}

impl Setup {
    /// Loads the configuration of the working directory. A note is printed once, until a file
    /// changes.
    pub(crate) fn open(host: &HostEnv, from: &args::Rules) -> Result<Self, Problem> {
        let setup = Self::load(host, from, host.state.as_deref())?;
        if !setup.is_quiet {
            // Printed every time: everything may be allowed.
            let notes = setup.notes.iter().cloned();
            let (loud, ordinary) = notes.partition::<Vec<_>, _>(|note| note.contains(BYPASS_MODE));
            print_notes(&loud);
            print_notes(&setup.shown_notes.new_ones(ordinary));
        }
        Ok(setup)
    }

    /// The same for a command that is about the files: it prints all `notes` itself.
    pub(crate) fn open_for_review(host: &HostEnv, from: &args::Rules) -> Result<Self, Problem> {
        Self::load(host, from, None)
    }

    fn load(host: &HostEnv, from: &args::Rules, state: Option<&Path>) -> Result<Self, Problem> {
        let site = Site::find(host, from);
        let (loaded, covered) = site.read()?;
        let mut notes = covered.notes;
        notes.extend(loaded.notes.iter().map(|note| shown(note, &site.here)));
        notes.extend(loaded.hooks.iter().filter_map(|hook| site.partial_note(hook)));
        let shown_notes = ShownNotes::open(state, &covered.files);
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
            notes: if from.quiet { Vec::new() } else { notes },
            shown_notes,
            person: host.person.clone(),
            session: session_id(&host.variables),
            transcript: None,
            #[cfg(feature = "mcp")]
            inputs: std::sync::Mutex::default(),
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
            print_notes(&self.shown_notes.new_ones(hooks.notes().to_vec()));
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
        project.passed_variables.clone_from(&self.loaded.hooks_env);
        project.session = Some(self.session.clone());
        project.transcript.clone_from(&self.transcript);
        project
    }

    /// Starts a run with the configured budget.
    pub(crate) fn run(&self, runtime: &Runtime) -> RunBuilder {
        let run = runtime.run_builder().one_shot().working_directory(&self.site.here);
        self.identify(run.budget(self.loaded.budget.clone()))
    }

    /// Names the user of a run, for rules, records and hooks.
    pub(crate) fn identify(&self, run: RunBuilder) -> RunBuilder {
        identify(run, self.person.as_deref())
    }

    /// The user, for runs that start later.
    pub(crate) fn person(&self) -> Option<String> {
        self.person.clone()
    }

    /// The session, for hooks.
    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    /// Sets the conversation that calls belong to: its id, and the file it is stored in.
    pub(crate) fn set_conversation(&mut self, id: &str, transcript: PathBuf) {
        id.clone_into(&mut self.session);
        self.transcript = Some(transcript);
    }
}

/// Names the user of a run.
pub(crate) fn identify(run: RunBuilder, person: Option<&str>) -> RunBuilder {
    match person {
        Some(person) => run.user(person),
        None => run,
    }
}

/// The variable with which a program says that several commands belong to one session.
const SESSION_VARIABLE: &str = "HAFT_SESSION_ID";
/// The longest id that is taken from the variable.
const MAX_SESSION_BYTES: usize = 128;

/// The id of the session: that of the variable, or a new one as a random UUID.
fn session_id(variables: &BTreeMap<String, String>) -> String {
    let is_plain = |id: &&String| {
        let is_safe = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
        !id.is_empty() && id.len() <= MAX_SESSION_BYTES && id.bytes().all(is_safe)
    };
    if let Some(given) = variables.get(SESSION_VARIABLE).filter(is_plain) {
        return given.clone();
    }
    // Each state has keys of its own from the system's randomness.
    let [high, low] = [0_u8, 1].map(|n| RandomState::new().hash_one(n));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff,
    )
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
