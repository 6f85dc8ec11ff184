//! `haft trust`: trusts a directory, so that its allow rules, hooks, tools and roots take effect.
//!
//! Lists them before it asks, and records a digest of each listed file (TOCTOU): a file that is new
//! or has changed is not covered, and is listed and asked about again. Deny and ask rules need no
//! trust.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
};

use haft::policy::{ConfigFile, TrustEntry, TrustedDirs, UntrustedReason};
use haft_core::sync::lock;
use haft_tools::Skills;
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    host_env::HostEnv,
    inventory::Inventory,
    mcp_servers,
    site::Site,
    style::{self, BOLD, DIM, NAME, WARN},
    sub_agents::{self, FoundAgent, FoundAgents},
    trust_effects::TrustEffects,
    trust_file,
};

pub(crate) fn run(args: &args::Trust, host: &HostEnv) -> Result<ExitCode, Problem> {
    let site = Site::at(host, &host.here);
    let Some(file) = site.trust_file() else {
        return Err(Problem::new("there is no directory for your settings")
            .hint("set `HOME` or `XDG_CONFIG_HOME`"));
    };
    let book = trust_file::read(&file)?;
    if args.list {
        return list(&book, args.output);
    }
    let site = match &args.directory {
        Some(named) => Site::at(host, &directory(named)?),
        None => site,
    };
    if args.revoke { revoke(&site.root, &file, args.output) } else { trust(args, &site, &file) }
}

fn directory(named: &Path) -> Result<PathBuf, Problem> {
    let found = named
        .canonicalize()
        .map_err(|e| Problem::new(format!("there is no directory `{}`: {e}", named.display())))?;
    if found.is_dir() {
        Ok(found)
    } else {
        Err(Problem::new(format!("`{}` is not a directory", found.display())))
    }
}

fn revoke(root: &Path, file: &Path, output: args::Output) -> Result<ExitCode, Problem> {
    let (changed, above) = trust_file::update(file, |book| {
        let changed = book.remove(root);
        Ok((changed, book.entries_above(root).next().map(|entry| entry.directory.clone())))
    })?;
    if let Some(above) = above {
        return Err(Problem::new(format!(
            "`{}` is still trusted, because `{}` is",
            root.display(),
            above.display()
        ))
        .hint(format!("revoke that with `haft trust --revoke {}`", above.display())));
    }
    print_change(root, false, changed, None, output)
}

fn trust(args: &args::Trust, site: &Site, file: &Path) -> Result<ExitCode, Problem> {
    let root = &site.root;
    // FAIL CLOSED: an unreadable file cannot be listed, so it is not trusted.
    site.assuming(true).read()?;
    let shown = Listing::of(site, &trust_file::read(file)?)?;
    if !args.output.json {
        style::print_page_or_stop(shown.page())?;
    }
    let changed = if shown.is_covered() {
        // Missing files are removed without a question: that only makes the result stricter.
        trust_file::update(file, |book| {
            shown.forget(book);
            Ok(())
        })?;
        false
    } else {
        if !args.yes {
            confirm(root)?;
        }
        trust_file::update(file, |book| Ok(book.add(shown.entry.clone())?))?
    };
    print_change(root, true, changed, Some(&shown), args.output)
}

fn print_change(
    root: &Path,
    is_trusted: bool,
    changed: bool,
    shown: Option<&Listing>,
    output: args::Output,
) -> Result<ExitCode, Problem> {
    if output.json {
        let mut whole = json!({"directory": root, "trusted": is_trusted, "changed": changed});
        whole["brings"] = shown.map(Listing::brings).unwrap_or_else(|| Listing::default().brings());
        if let Some(shown) = shown {
            whole["files"] = shown.states();
            whole["problems"] = json!(shown.problems);
        }
        style::print(format_args!("{whole}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let how = match (is_trusted, changed) {
        (true, true) => "is now trusted",
        (true, false) => "was trusted already",
        (false, true) => "is no longer trusted",
        (false, false) => "was not trusted",
    };
    style::print_page(format_args!("{} {how}\n", style::visible(&root.display().to_string())))?;
    Ok(ExitCode::SUCCESS)
}

fn list(book: &TrustedDirs, output: args::Output) -> Result<ExitCode, Problem> {
    let directories: Vec<&Path> = book.directories().collect();
    if output.json {
        style::print(format_args!("{}\n", json!(directories)))?;
    } else {
        let lines = directories.iter().map(|f| style::visible(&f.display().to_string()) + "\n");
        style::print(lines.collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The listing of a directory, and the trust entry that records exactly this listing.
struct Listing {
    entry: TrustEntry,
    /// Whether it was trusted before, so that only changes are listed.
    is_known: bool,
    /// Whether it is still the directory that was trusted.
    is_same: bool,
    /// The files that trust does not cover yet, and why.
    untrusted_files: BTreeMap<String, UntrustedReason>,
    /// Files that were covered and no longer exist.
    gone: Vec<String>,
    brings: Vec<(PathBuf, TrustEffects)>,
    problems: Vec<String>,
}

impl Default for Listing {
    fn default() -> Self {
        Self {
            entry: TrustEntry::new("/", None),
            is_known: false,
            is_same: false,
            untrusted_files: BTreeMap::new(),
            gone: Vec::new(),
            brings: Vec::new(),
            problems: Vec::new(),
        }
    }
}

impl Listing {
    fn of(site: &Site, book: &TrustedDirs) -> Result<Self, Problem> {
        let root = &site.root;
        let mut shown = Self {
            entry: TrustEntry::new(root, trust_file::identify(root)),
            is_known: book.entries_above(root).next().is_some(),
            is_same: book.trusted_by(root, trust_file::identify).is_some(),
            ..Self::default()
        };
        let inventory = Inventory::of(root, site.directories())?;
        shown.problems = inventory.problems;
        for (directory, files) in inventory.files {
            match TrustEffects::of(&files, site) {
                Ok(brings) => {
                    shown.brings.push((directory, brings));
                    files.iter().for_each(|file| shown.add(file, site, book));
                }
                // An invalid file stops the commands of its own directory; it does not become
                // trusted.
                Err(problem) => shown.problems.push(problem.to_string()),
            }
        }
        for directory in &inventory.skills {
            shown.add_skills(directory, book);
        }
        for directory in &inventory.agents {
            shown.add_agents(directory, book);
        }
        let directories = site.directories().map(Path::to_owned);
        for (path, directory, text) in mcp_servers::files_of(directories, root)? {
            shown.add_mcp_servers(&path, directory, &text, book);
        }
        let known = book.trusted_by(root, trust_file::identify);
        if let Some(known) = known.filter(|known| known.directory == *root) {
            let gone = known.files.keys().filter(|name| !shown.entry.files.contains_key(*name));
            shown.gone = gone.cloned().collect();
        }
        Ok(shown)
    }

    /// Adds a listed file, with the scripts that its hooks run.
    fn add(&mut self, file: &ConfigFile, site: &Site, book: &TrustedDirs) {
        let own = (file.path.clone(), Ok(Some(file.text.as_bytes().to_vec())));
        for (path, content) in std::iter::once(own).chain(site.scripts_of(file)) {
            match content {
                Ok(None) => {} // a missing file cannot be trusted
                content => self.add_file(&path, content.ok().flatten(), book),
            }
        }
    }

    /// Adds the skills of a directory. What is listed is the content that becomes trusted.
    fn add_skills(&mut self, directory: &Path, book: &TrustedDirs) {
        let read = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&read);
        let skills = Skills::new().directory_with_trust(directory, move |file, content| {
            let mut list = lock(&list);
            list.push((file.to_owned(), content.to_vec()));
            true
        });
        let mut effects = TrustEffects::default();
        for skill in skills.list() {
            let tools = match skill.allowed_tools.is_empty() {
                true => String::new(),
                false => format!(", allows {}", skill.allowed_tools.join(" ")),
            };
            let file = skill.file();
            let at = file.strip_prefix(&self.entry.directory).unwrap_or(&file);
            effects.skills.push((at.display().to_string(), format!("{}{tools}", skill.name)));
            effects.parts.push(file);
        }
        let read = std::mem::take(&mut *lock(&read));
        for (path, content) in read {
            // A skill that could not be parsed is not listed, so it does not become trusted.
            if effects.parts.contains(&path) {
                self.add_file(&path, Some(content), book);
            }
        }
        if !effects.parts.is_empty() {
            self.brings.push((directory.to_owned(), effects));
        }
    }

    /// Adds the agents of a directory. What is listed is the content that becomes trusted.
    fn add_agents(&mut self, directory: &Path, book: &TrustedDirs) {
        let mut read = Vec::new();
        let mut found = FoundAgents::default();
        found.read(directory, |file, content| {
            read.push((file.to_owned(), content.to_vec()));
            true
        });
        let mut effects = TrustEffects::default();
        for FoundAgent { path, file } in &found.agents {
            let model = file.model.as_ref().map_or_else(String::new, |m| format!(", model {m}"));
            let at = path.strip_prefix(&self.entry.directory).unwrap_or(path);
            let tools = sub_agents::tools_text(file);
            let line = format!("{}: {tools}{model}", file.name);
            effects.agents.push((at.display().to_string(), line));
            effects.parts.push(path.clone());
        }
        for (path, content) in read {
            // A file that could not be parsed is not listed, so it does not become trusted.
            if effects.parts.contains(&path) {
                self.add_file(&path, Some(content), book);
            }
        }
        self.problems.extend(found.problems);
        if !effects.parts.is_empty() {
            self.brings.push((directory.to_owned(), effects));
        }
    }

    /// Adds a file of MCP servers.
    fn add_mcp_servers(&mut self, path: &Path, directory: PathBuf, text: &str, book: &TrustedDirs) {
        let at = path.strip_prefix(&self.entry.directory).unwrap_or(path).display().to_string();
        match mcp_servers::servers_of(path, text) {
            Ok(servers) => {
                let effects = TrustEffects {
                    servers: servers.into_iter().map(|server| (at.clone(), server)).collect(),
                    parts: vec![path.to_owned()],
                    ..TrustEffects::default()
                };
                self.brings.push((directory, effects));
                self.add_file(path, Some(text.as_bytes().to_vec()), book);
            }
            Err(why) => self.problems.push(format!("`{at}`: {why}")),
        }
    }

    /// Adds a file with its content; `None` if it cannot be read.
    fn add_file(&mut self, path: &Path, content: Option<Vec<u8>>, book: &TrustedDirs) {
        let Ok(name) = path.strip_prefix(&self.entry.directory) else {
            return; // a program outside of the directory
        };
        let name = name.to_str().filter(|name| !name.contains(char::is_control));
        let (Some(name), Some(content)) = (name, content) else {
            let shown = path.display();
            self.problems.push(format!("`{shown}` cannot be read, or its name cannot be recorded"));
            return;
        };
        if let Err(why) = book.covers(path, &content, trust_file::identify) {
            self.untrusted_files.insert(name.to_owned(), why);
        }
        self.entry.files.insert(name.to_owned(), TrustedDirs::digest(&content));
    }

    /// Whether everything is trusted already.
    fn is_covered(&self) -> bool {
        self.is_same && self.untrusted_files.is_empty()
    }

    /// Removes missing files from the trust file.
    fn forget(&self, book: &mut TrustedDirs) {
        if !self.gone.is_empty() {
            // Fewer files than before, so the entry is still valid.
            let _ = book.add(self.entry.clone());
        }
    }

    /// The directories with new or changed files or scripts.
    fn changed_directories(&self) -> BTreeSet<&Path> {
        let root = &self.entry.directory;
        let changed: Vec<PathBuf> =
            self.untrusted_files.keys().map(|name| root.join(name)).collect();
        let all = self
            .brings
            .iter()
            .filter(|(_, brings)| changed.iter().any(|path| brings.parts.contains(path)));
        all.map(|(directory, _)| directory.as_path()).collect()
    }

    fn page(&self) -> String {
        let root = &self.entry.directory;
        let shown = style::visible(&root.display().to_string());
        let mut out = format!("{}\n", style::paint(BOLD, shown));
        if self.is_known {
            for (name, why) in &self.untrusted_files {
                let name = style::visible(name);
                out += &format!(
                    "  {}  {}\n",
                    style::paint(NAME, name),
                    style::paint(WARN, state(why))
                );
            }
            for name in &self.gone {
                out += &format!("  {}  is gone\n", style::paint(NAME, style::visible(name)));
            }
        }
        let changed = self.changed_directories();
        let is_shown =
            |directory: &Path| !self.is_known || changed.is_empty() || changed.contains(directory);
        let lines: String = self
            .brings
            .iter()
            .filter(|(directory, _)| is_shown(directory))
            .map(|(_, brings)| brings.lines())
            .collect();
        out += if lines.is_empty() { "  nothing here needs your trust\n" } else { &lines };
        for problem in &self.problems {
            let problem = format!("not trusted: {}", style::visible(problem).replace('\n', " "));
            out += &format!("  {}\n", style::paint(DIM, problem));
        }
        out
    }

    fn states(&self) -> Value {
        let state = |name: &String| match self.untrusted_files.get(name) {
            None => "covered",
            Some(UntrustedReason::Changed | UntrustedReason::Script(_)) => "changed",
            Some(UntrustedReason::Replaced) => "replaced",
            Some(_) => "new",
        };
        let files = self.entry.files.keys();
        let files = files.map(|name| json!({"path": name, "state": state(name)}));
        let gone = self.gone.iter().map(|name| json!({"path": name, "state": "gone"}));
        files.chain(gone).collect()
    }

    fn brings(&self) -> Value {
        let all = |part: fn(&TrustEffects) -> &[(String, String)], key: &str| {
            let all = self.brings.iter().flat_map(|(_, brings)| part(brings));
            all.map(|(at, what)| json!({"at": at, key: what})).collect::<Vec<_>>()
        };
        let roots: Vec<&PathBuf> =
            self.brings.iter().flat_map(|(_, brings)| &brings.roots).collect();
        json!({"allows": all(|b| &b.allows, "match"), "hooks": all(|b| &b.hooks, "hook"),
            "tools": all(|b| &b.tools, "tool"), "sandbox": all(|b| &b.sandbox, "opens"),
            "model": all(|b| &b.model, "sets"), "skills": all(|b| &b.skills, "skill"),
            "agents": all(|b| &b.agents, "agent"), "mcp_servers": all(|b| &b.servers, "server"),
            "roots": roots,
            "mode": self.brings.iter().find_map(|(_, brings)| brings.mode)})
    }
}

fn state(why: &UntrustedReason) -> &'static str {
    match why {
        UntrustedReason::Changed | UntrustedReason::Script(_) => "changed since it was trusted",
        UntrustedReason::Replaced => "another directory was trusted at this path",
        _ => "new since the directory was trusted",
    }
}

fn confirm(root: &Path) -> Result<(), Problem> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Problem::new("there is no terminal to ask at, so nothing was changed")
            .hint("`--yes` trusts the directory without asking"));
    }
    let mut err = anstream::stderr().lock();
    let question = format!("Trust {}? [y/N] ", style::visible(&root.display().to_string()));
    let _ = write!(err, "{}", style::paint(BOLD, question)).and_then(|()| err.flush());
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    match read {
        Ok(_) if matches!(line.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Problem::new("nothing was changed")),
    }
}
