//! What people have written about this place: which files there are, what they say together, and a
//! runtime that follows them.
//!
//! In: where the command was started, and the folders of this person. Out: rules that can be loaded
//! again, hooks, limits, a budget. Notes go to stderr once. The library reads texts; this room reads
//! the disk.
//!
//! FAIL CLOSED: a file that is there and cannot be read, or says something that cannot be
//! understood, stops the command before anything runs.

use std::{
    collections::BTreeMap,
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft::{
    Config, Event, File, FileNote, Form, Layer, Live, Policy, Rules, RunBuilder, Runtime,
    RuntimeBuilder, TrustBook, Where,
};
use haft_hooks::{Hooks, ProjectDir};

use crate::{
    args, explain, input,
    problem::Problem,
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
    pub(crate) said: haft::Setup,
    live: Arc<Live>,
    config: Config,
    variables: BTreeMap<String, String>,
    is_quiet: bool,
}

/// A folder, its files, and whether it is trusted.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Where the command was started.
    pub(crate) here: PathBuf,
    /// The folder whose files count.
    pub(crate) root: PathBuf,
    /// Whether this person trusts it.
    pub(crate) trusted: bool,
    home: Option<PathBuf>,
    user: Option<PathBuf>,
    managed: Option<PathBuf>,
    config: Option<PathBuf>,
}

impl Site {
    /// Finds the folder and the files that speak about it. Notes go to `notes`.
    pub(crate) fn find(
        around: &Around,
        from: &args::Rules,
        notes: &mut Vec<String>,
    ) -> Result<Self, Problem> {
        let mut site = Self::at(around, &around.here)?;
        site.config = from.config.clone();
        site.trusted = match around.book() {
            Ok(book) => book.is_trusted(&site.canonical()),
            Err(problem) => {
                notes.push(format!(
                    "the book of trusted folders cannot be read, so none is: {problem}"
                ));
                false
            }
        };
        Ok(site)
    }

    /// Takes a folder as if the command had been started there.
    pub(crate) fn at(around: &Around, folder: &Path) -> Result<Self, Problem> {
        let root = haft::project_root(folder, around.home.as_deref(), |path| {
            path.symlink_metadata().is_ok()
        });
        Ok(Self {
            here: folder.to_owned(),
            root,
            trusted: false,
            home: around.home.clone(),
            user: around.user.clone(),
            managed: around.managed.clone(),
            config: None,
        })
    }

    /// The folder by the path that links lead to.
    pub(crate) fn canonical(&self) -> PathBuf {
        self.root.canonicalize().unwrap_or_else(|_| self.root.clone())
    }

    /// Reads every file that is there, strongest first.
    pub(crate) fn files(&self) -> Result<Vec<File>, Problem> {
        let mut files = Vec::new();
        let named = [(Layer::Managed, &self.managed), (Layer::CommandLine, &self.config)];
        for (layer, path) in named.into_iter().filter_map(|(l, p)| Some((l, p.as_ref()?))) {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let form = match path.extension().is_some_and(|e| e == "json") {
                true => Form::Settings,
                false => Form::Toml,
            };
            let anchor = path.parent().unwrap_or(&self.here).to_owned();
            let text = input::file(&path)?; // named, so it must be there
            files.push(File { layer, form, path, anchor, text });
        }
        for candidate in haft::files_of(&self.root, self.user.as_deref(), self.home.as_deref()) {
            match std::fs::symlink_metadata(&candidate.path) {
                Err(e) if is_absent(&e) => continue,
                // What is there must be readable: a rule that nobody could read might have denied.
                _ => {
                    let text = input::file(&candidate.path)?;
                    files.push(candidate.with(text));
                }
            }
        }
        files.sort_by_key(|file| file.layer);
        Ok(files)
    }

    /// Reads the files and what they say together.
    pub(crate) fn read(&self) -> Result<haft::Setup, Problem> {
        let files = self.files()?;
        Ok(haft::Setup::read(&files, &self.place())?)
    }

    /// Whether the folder declares a tool that would count if it were trusted.
    pub(crate) fn would_bring(&self, tool: &str) -> bool {
        if self.trusted {
            return false;
        }
        let said = Self { trusted: true, ..self.clone() }.read();
        said.is_ok_and(|said| said.tools.iter().any(|declared| declared.spec.name == tool))
    }

    /// What the library is told about the folder.
    fn place(&self) -> Where {
        Where {
            home: self.home.clone(),
            trusted: self.trusted,
            keep: Some(self.root.join("haft.local.toml")),
        }
    }

    fn rules(&self) -> Result<Rules, Box<dyn Error + Send + Sync>> {
        let files = self.files().map_err(|problem| problem.to_string())?;
        let said = haft::Setup::read(&files, &self.place())?;
        Ok(Rules::new(said.rules, said.ground)?)
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl Around {
    /// The file of trusted folders.
    pub(crate) fn book_file(&self) -> Option<PathBuf> {
        self.user.as_ref().map(|user| user.join(TrustBook::FILE))
    }

    /// Reads the trusted folders; a file that is not there trusts nobody.
    pub(crate) fn book(&self) -> Result<TrustBook, Problem> {
        let Some(path) = self.book_file() else { return Ok(TrustBook::default()) };
        match path.symlink_metadata() {
            Err(e) if is_absent(&e) => Ok(TrustBook::default()),
            _ => Ok(TrustBook::parse(&input::file(&path)?)?),
        }
    }
}

impl Setup {
    /// Reads everything that is said about the folder the command was started in.
    pub(crate) fn open(around: &Around, from: &args::Rules) -> Result<Self, Problem> {
        let mut notes = Vec::new();
        let site = Site::find(around, from, &mut notes)?;
        let said = site.read()?;
        notes.extend(said.notes.iter().map(|note| shown(note, &site.here)));
        if !from.quiet {
            tell(&notes);
        }
        let loader = site.clone();
        let live = Live::with_loader(move || loader.rules())?;
        let mut limits = said.limits;
        if around.says_concurrency {
            limits.concurrency = None; // whoever sets a variable means this time
        }
        let config = limits.apply(around.config.clone());
        Ok(Self {
            site,
            said,
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

    /// Sets a runtime up as the files say.
    pub(crate) fn runtime(&self, runtime: RuntimeBuilder) -> RuntimeBuilder {
        let runtime = runtime.config(self.config.clone()).policy(self.policy());
        // Loud, whatever else is quiet: a check that was not made is not a detail.
        runtime.observer(|event: &Event| {
            if let Event::HookFailedOpen { hook, why, .. } = event {
                let (hook, why) = (style::visible(hook), style::visible(why).replace('\n', " "));
                let text = format_args!("hook `{hook}` FAILED OPEN, the call goes on: {why}");
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

    /// What hooks may know of this place.
    pub(crate) fn project(&self) -> ProjectDir {
        let mut project = ProjectDir::new(&self.site.root);
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
