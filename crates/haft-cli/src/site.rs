//! Finds and reads the configuration files of a directory, and decides what trust covers.
//!
//! The root is the outermost project directory above the working directory. The files of every
//! directory from the root down are read, so no file below can move the root or remove a deny rule
//! from above.
//! INVARIANT: a file that trust does not cover can only tighten.
//! FAIL CLOSED: an existing file that cannot be read stops the command before anything runs.

use std::{
    collections::BTreeMap,
    error::Error,
    fs, io,
    path::{Path, PathBuf},
};

use haft::{
    host::config_files::{CONFIG_FILES, LOCAL_FILE},
    policy::{
        ConfigFile, ConfigLayer, FileFormat, HookScript, HookSpec, LoadOptions, RuleWrite, Rules,
        TrustedDirs, UntrustedReason,
    },
};

use crate::{args, error::Problem, host_env::HostEnv, input, location, scripts, trust_file};

/// A directory and the location of its configuration files.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// Where the command was started, by its canonical path.
    pub(crate) here: PathBuf,
    /// The outermost project directory above it, or itself.
    pub(crate) root: PathBuf,
    /// The project directory for hooks and "always" rules: the outermost trusted one at or above
    /// the working directory, else the root. A marker that a command plants above a trusted
    /// directory moves the root, and must not move this.
    pub(crate) project: PathBuf,
    /// Assumed trust; `None` means that the trust file decides.
    assumed: Option<bool>,
    home: Option<PathBuf>,
    user: Option<PathBuf>,
    managed: Option<PathBuf>,
    config: Option<PathBuf>,
}

/// Which files of a site trust covers.
pub(crate) struct Covered {
    /// The options for the loader.
    options: LoadOptions,
    /// Whether trust covers every file of the project.
    pub(crate) is_trusted: bool,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    /// The scripts of the project's hooks, as trust covers them.
    scripts: BTreeMap<PathBuf, HookScript>,
    /// The files, as they were read.
    pub(crate) files: Vec<ConfigFile>,
}

impl Site {
    /// Finds the files of the working directory.
    pub(crate) fn find(host: &HostEnv, from: &args::Rules) -> Self {
        Self { config: from.config.clone(), ..Self::at(host, &host.here) }
    }

    /// Finds the files of another directory.
    pub(crate) fn at(host: &HostEnv, directory: &Path) -> Self {
        let here = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let home = host.home.as_ref().map(|h| h.canonicalize().unwrap_or_else(|_| h.clone()));
        let root = haft::policy::project_root(&here, home.as_deref(), is_marker);
        let mut site = Self {
            project: root.clone(),
            root,
            here,
            assumed: None,
            home: host.home.clone(),
            user: host.user.clone(),
            managed: host.managed.clone(),
            config: None,
        };
        let (book, _) = site.book();
        if let Some(trusted) = site.trusted_directory(&book) {
            site.project = trusted;
        }
        site
    }

    /// The same with assumed trust.
    pub(crate) fn assuming(&self, trusted: bool) -> Self {
        Self { assumed: Some(trusted), ..self.clone() }
    }

    /// The directories from the working directory up to the root.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.here.ancestors().take_while(|directory| directory.starts_with(&self.root))
    }

    /// The trusted files below some directories. If a sandboxed command changed one, it would lose
    /// trust; if it deleted one, its deny rules would be gone.
    pub(crate) fn trusted_files(&self, below: &[PathBuf]) -> Vec<PathBuf> {
        let (book, _) = self.book();
        let all = book.entries().flat_map(|entry| {
            entry.files.keys().map(|name| entry.directory.join(name)).collect::<Vec<_>>()
        });
        let is_below = |path: &PathBuf| below.iter().any(|root| path.starts_with(root));
        all.filter(|path| is_below(path) && path.is_file()).take(MAX_PROTECTED).collect()
    }

    /// Returns a function that checks whether trust covers a file with this content.
    pub(crate) fn covers_content(&self) -> impl Fn(&Path, &[u8]) -> bool + Send + Sync + 'static {
        let (book, assumed) = (self.book().0, self.assumed);
        move |file, content| {
            assumed.unwrap_or_else(|| book.covers(file, content, trust_file::identify).is_ok())
        }
    }

    /// The home directory of the user.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The configuration directory of the user.
    #[cfg(feature = "mcp")]
    pub(crate) fn user(&self) -> Option<&Path> {
        self.user.as_deref()
    }

    /// The path of the trust file.
    pub(crate) fn trust_file(&self) -> Option<PathBuf> {
        self.user.as_ref().map(|user| user.join(TrustedDirs::FILE))
    }

    /// The settings of the user and of the organisation: no command may write them, also inside its
    /// workspace.
    pub(crate) fn settings(&self) -> Vec<PathBuf> {
        let drop_ins = self.managed.as_ref().map(|managed| managed.with_extension("d"));
        let named = self.user.iter().chain(&self.managed).chain(&drop_ins).chain(&self.config);
        let named = named.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()));
        named.chain(self.linked_settings()).collect()
    }

    /// The targets of the user's settings that are symlinks, as in a dotfiles repository.
    fn linked_settings(&self) -> impl Iterator<Item = PathBuf> {
        let own = ["config.toml", TrustedDirs::FILE].into_iter();
        let own = own.filter_map(|name| Some(self.user.as_ref()?.join(name)));
        let claude = self.home.iter().map(|home| home.join(".claude/settings.json"));
        let linked = own.chain(claude).filter(|path| path.is_symlink());
        linked.filter_map(|path| path.canonicalize().ok())
    }

    /// Reads every existing file, highest precedence first.
    pub(crate) fn files(&self) -> Result<Vec<ConfigFile>, Problem> {
        let mut files = Vec::new();
        let named =
            [(ConfigLayer::Managed, &self.managed), (ConfigLayer::CommandLine, &self.config)];
        for (layer, path) in named.into_iter().filter_map(|(l, p)| Some((l, p.as_ref()?))) {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let is_settings = path.extension().is_some_and(|e| e == "json");
            let anchor = path.parent().unwrap_or(&self.here).to_owned();
            if layer == ConfigLayer::Managed && is_settings {
                files.extend(drop_ins(&path)?);
            }
            let form = if is_settings { FileFormat::Settings } else { FileFormat::Toml };
            let text = input::named_config(&path)?;
            files.push(ConfigFile { layer, form, path, anchor, text });
        }
        files.extend(drop_ins(&haft::policy::managed_settings_file())?);
        let (user, home) = (self.user.as_deref(), self.home.as_deref());
        for candidate in haft::policy::files_from(&self.here, &self.root, user, home) {
            // FAIL CLOSED: an unreadable file might contain a deny rule.
            if let Some(text) = haft::policy::read_config_file(&candidate.path)? {
                files.push(candidate.with(text));
            }
        }
        files.sort_by_key(|file| file.layer);
        Ok(files)
    }

    /// Reads and merges the files.
    pub(crate) fn read(&self) -> Result<(haft::policy::PolicyConfig, Covered), Problem> {
        let files = self.files()?;
        let mut covered = self.covered(&files);
        let mut loaded = haft::policy::PolicyConfig::read(&files, &covered.options)?;
        let roots = loaded.context.roots.clone();
        for hook in &mut loaded.hooks {
            hook.scripts = self.pinned_scripts(hook, &covered.scripts, &roots);
        }
        covered.files = files;
        Ok((loaded, covered))
    }

    /// The rules alone, for a reload.
    pub(crate) fn rules(&self) -> Result<Rules, Box<dyn Error + Send + Sync>> {
        let (loaded, _) = self.read().map_err(|problem| problem.to_string())?;
        Ok(Rules::new(loaded.rules, loaded.context)?)
    }

    /// Whether the project declares a tool that trust would enable.
    pub(crate) fn would_bring(&self, tool: &str) -> bool {
        let declares = |site: &Self| {
            let read = site.read();
            read.is_ok_and(|(loaded, _)| loaded.tools.iter().any(|known| known.spec.name == tool))
        };
        !declares(self) && declares(&self.assuming(true))
    }

    /// The hooks of the project that trust would enable.
    pub(crate) fn untrusted_hooks(&self, own: &[HookSpec]) -> Vec<HookSpec> {
        let Ok((loaded, _)) = self.assuming(true).read() else { return Vec::new() };
        let is_own = |hook: &HookSpec| own.iter().any(|own| own.location == hook.location);
        loaded.hooks.into_iter().filter(|hook| !is_own(hook)).collect()
    }

    /// Decides which of the files trust covers.
    fn covered(&self, files: &[ConfigFile]) -> Covered {
        let home = self.home.clone();
        if let Some(trusted) = self.assumed {
            let options = LoadOptions { home, trusted, ..LoadOptions::default() };
            let (scripts, files) = (BTreeMap::new(), Vec::new());
            return Covered { options, is_trusted: trusted, notes: Vec::new(), scripts, files };
        }
        let (book, mut notes) = self.book();
        let (mut untrusted_files, mut scripts) = (BTreeMap::new(), BTreeMap::new());
        for file in files.iter().filter(|file| file.layer.is_from_project()) {
            match self.covers(&book, file) {
                Ok(covered) => scripts.extend(covered),
                Err(why) => {
                    untrusted_files.insert(file.path.clone(), why);
                }
            }
        }
        for candidate in self.directories().flat_map(haft::policy::project_files) {
            let is_read = files.iter().any(|file| file.path == candidate.path);
            if !is_read && book.lists(&candidate.path) {
                notes.push(format!(
                    "`{}` was trusted and no longer exists, so its deny rules do not apply; if that \
                     is intended, run `haft trust`",
                    candidate.path.display()
                ));
            }
        }
        let local = self.trusted_directory(&book).map(|directory| directory.join(LOCAL_FILE));
        let is_trusted = local.is_some() && untrusted_files.is_empty();
        // An allow rule in a file that trust does not cover would have no effect.
        let keep = local.filter(|local| !untrusted_files.contains_key(local));
        let options = LoadOptions { home, trusted: true, untrusted_files, always_file: keep };
        Covered { options, is_trusted, notes, scripts, files: Vec::new() }
    }

    /// Reads the trust file. FAIL CLOSED: an unreadable one trusts nothing, and a note is printed.
    fn book(&self) -> (TrustedDirs, Vec<String>) {
        let Some(path) = self.trust_file() else { return Default::default() };
        let (book, mut notes) = match trust_file::read(&path) {
            Ok(book) => (book, Vec::new()),
            Err(problem) => {
                let note = format!(
                    "the list of trusted directories cannot be read, so none is trusted: {problem}"
                );
                (TrustedDirs::default(), vec![note])
            }
        };
        if book.is_outdated(&self.root) && self.trusted_directory(&book).is_none() {
            notes.push(format!(
                "{} was trusted by an older haft, which did not record the trusted files; run \
                 `haft trust` to list them and to trust the directory again",
                self.root.display()
            ));
        }
        (book, notes)
    }

    /// The outermost trusted directory between the root and the working directory, else the root if
    /// a directory above it is trusted.
    fn trusted_directory(&self, book: &TrustedDirs) -> Option<PathBuf> {
        let is_same = |directory: &Path, id| id == trust_file::identify(directory);
        let entries = book.entries_above(&self.here);
        let trusted: Vec<&Path> = entries
            .filter(|entry| is_same(&entry.directory, entry.id))
            .map(|entry| entry.directory.as_path())
            .collect();
        let inside = trusted.iter().rfind(|directory| directory.starts_with(&self.root));
        match inside {
            Some(directory) => Some(directory.to_path_buf()),
            None => trusted.first().map(|_| self.root.clone()),
        }
    }

    /// Wraps the write of an "always" rule: the file must be covered as it was, or be new in a
    /// trusted directory, and stays covered with what was written.
    pub(crate) fn record(&self, write: RuleWrite<'_>) -> Result<(), Problem> {
        let Some(path) = self.trust_file() else {
            return Err(Problem::new("there is no trust file, so no rule can be stored"));
        };
        let file = write.file().to_owned();
        trust_file::update(&path, |book| {
            let was_covered = match write.before() {
                Some(text) => book.covers(&file, text.as_bytes(), trust_file::identify).is_ok(),
                None => file
                    .parent()
                    .is_some_and(|above| book.trusted_by(above, trust_file::identify).is_some()),
            };
            if !was_covered {
                let why = format!("`{}` has changed since it was trusted", file.display());
                return Err(Problem::new(why).hint("`haft trust` lists what it contains now"));
            }
            let after = write.after().as_bytes().to_vec();
            write.commit()?;
            book.record(&file, &after, trust_file::identify);
            Ok(())
        })
    }
}

/// The limit on files that are protected one by one; each costs every command a mount.
const MAX_PROTECTED: usize = 128;

/// The content of a script; `None` if it does not exist.
type ScriptContent = Result<Option<Vec<u8>>, haft::Error>;

impl Site {
    /// Checks whether trust covers a file and every script that its hooks run. Returns the scripts
    /// with the content that was checked (TOCTOU: the same content must run).
    fn covers(
        &self,
        book: &TrustedDirs,
        file: &ConfigFile,
    ) -> Result<BTreeMap<PathBuf, HookScript>, UntrustedReason> {
        book.covers(&file.path, file.text.as_bytes(), trust_file::identify)?;
        let mut covered = BTreeMap::new();
        for (script, content) in self.scripts_of(file) {
            let is_same = match &content {
                Ok(Some(bytes)) => book.covers(&script, bytes, trust_file::identify).is_ok(),
                // A trusted script that is missing has changed; one that never existed has not.
                Ok(None) => !book.lists(&script),
                Err(_) => false,
            };
            let above = script.parent().unwrap_or(&script);
            // A program outside of every trusted directory does not belong to the project.
            if book.entries_above(above).next().is_none() {
                continue;
            }
            match content {
                Ok(content) if is_same => {
                    let pinned = HookScript::new(&script, content.as_deref());
                    covered.insert(script, pinned);
                }
                _ => {
                    let shown = script.strip_prefix(&file.anchor).unwrap_or(&script);
                    return Err(UntrustedReason::Script(shown.display().to_string()));
                }
            }
        }
        Ok(covered)
    }

    /// Returns the files that a hook runs.
    pub(crate) fn scripts(&self, hook: &HookSpec) -> scripts::Scripts {
        scripts::of(hook, scripts::Start { project: &self.project, home: self.home.as_deref() })
    }

    /// A note for a project hook whose files cannot all be found.
    pub(crate) fn partial_note(&self, hook: &HookSpec) -> Option<String> {
        let is_partial = hook.layer.is_from_project() && self.scripts(hook).is_partial;
        is_partial.then(|| {
            format!(
                "haft cannot find all files that the hook `{}` runs, so trust may not cover them; \
                 name the script directly, for example `hooks/guard.sh`",
                location::at(&hook.location, &self.root)
            )
        })
    }

    /// Returns the scripts of a hook with the content that they must still have when the hook runs
    /// (TOCTOU): the trusted ones, and those of the user's hooks that a tool could change.
    fn pinned_scripts(
        &self,
        hook: &HookSpec,
        covered: &BTreeMap<PathBuf, HookScript>,
        roots: &[PathBuf],
    ) -> Vec<HookScript> {
        let is_writable = |path: &Path| {
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            path.starts_with(&self.root) || roots.iter().any(|root| path.starts_with(root))
        };
        let pin = |script: PathBuf| match covered.get(&script) {
            Some(known) => Some(known.clone()),
            None if is_writable(&script) => {
                let content = haft::policy::read_regular_file(&script, HookScript::MAX_BYTES);
                Some(HookScript::new(&script, content.ok().flatten().as_deref()))
            }
            None => None,
        };
        self.scripts(hook).files.into_iter().filter_map(pin).collect()
    }

    /// Returns the scripts that the hooks of a file run, with their content; `None` if a file does
    /// not exist. An unreadable script can be neither trusted nor compared.
    pub(crate) fn scripts_of(&self, file: &ConfigFile) -> Vec<(PathBuf, ScriptContent)> {
        // Most files have no hook and need not be parsed twice. A key may be written with escapes.
        if !file.text.contains("hooks") && !file.text.contains('\\') {
            return Vec::new();
        }
        // An invalid file stops the command where its rules are loaded.
        let Ok(loaded) = self.load_files(std::slice::from_ref(file), true) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for script in loaded.hooks.iter().flat_map(|hook| self.scripts(hook).files) {
            let content = haft::policy::read_regular_file(&script, HookScript::MAX_BYTES);
            found.push((script, content));
        }
        found
    }

    /// Loads a few files alone, with or without trust.
    pub(crate) fn load_files(
        &self,
        files: &[ConfigFile],
        trusted: bool,
    ) -> Result<haft::policy::PolicyConfig, Problem> {
        let options = LoadOptions { home: self.home.clone(), trusted, ..LoadOptions::default() };
        Ok(haft::policy::PolicyConfig::read(files, &options)?)
    }
}

/// Whether a project marker exists; a dangling symlink counts.
fn is_marker(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The limit on files in `managed-settings.d`; more than any real organisation has.
const MAX_DROP_INS: usize = 1_000;

/// Reads the drop-in files that are merged on top of an organisation's settings.
fn drop_ins(settings: &Path) -> Result<Vec<ConfigFile>, Problem> {
    let directory = settings.with_extension("d");
    let cannot = |e: io::Error| {
        Problem::new(format!("cannot read the directory `{}`: {e}", directory.display()))
    };
    let entries = match fs::read_dir(&directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(cannot)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(cannot)?.file_name());
        if names.len() > MAX_DROP_INS {
            let why = format!("`{}` has more than {MAX_DROP_INS} files", directory.display());
            return Err(Problem::new(why));
        }
    }
    let mut files = Vec::new();
    for candidate in haft::policy::managed_drop_ins(settings, names) {
        if let Some(text) = haft::policy::read_config_file(&candidate.path)? {
            files.push(candidate.with(text));
        }
    }
    Ok(files)
}

/// Reads the configuration of one directory, for `haft trust`. This alone has no effect.
pub(crate) fn files_in(directory: &Path) -> Result<Vec<ConfigFile>, Problem> {
    let mut files = Vec::new();
    for candidate in haft::policy::project_files(directory) {
        if let Some(text) = haft::policy::read_config_file(&candidate.path)? {
            files.push(candidate.with(text));
        }
    }
    Ok(files)
}

/// Whether a name is the first part of a configuration file's path.
pub(crate) fn is_config_name(name: &std::ffi::OsStr) -> bool {
    CONFIG_FILES.iter().any(|file| file.path.split('/').next().is_some_and(|first| name == first))
}
