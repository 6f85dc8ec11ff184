//! `haft trust`: whether the allows, hooks and roots that a folder brings along count.
//!
//! Shows what that is before it asks. Denies and asks of a folder always count, so there is nothing
//! to trust about them.

use std::{
    fs,
    io::{BufRead as _, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use haft::{Decision, HookSpec, Mode, TrustBook};
use serde_json::{Value, json};

use crate::{
    args, explain, hooks,
    problem::Problem,
    setup::{Around, Site},
    style::{self, BOLD, NAME, WARN},
};

pub(crate) fn run(args: &args::Trust, around: &Around) -> Result<ExitCode, Problem> {
    let Some(file) = around.book_file() else {
        return Err(Problem::new("there is no folder for your settings")
            .hint("set `HOME` or `XDG_CONFIG_HOME`"));
    };
    let mut book = around.book()?;
    if args.list {
        return list(&book, args.output);
    }
    let folder = match &args.folder {
        Some(folder) => folder
            .canonicalize()
            .map_err(|e| Problem::new(format!("there is no folder `{}`: {e}", folder.display())))?,
        None => around.here.clone(),
    };
    if !folder.is_dir() {
        return Err(Problem::new(format!("`{}` is no folder", folder.display())));
    }
    let mut site = Site::at(around, &folder)?;
    site.root = site.canonical();
    let root = site.root.clone();
    let was = book.is_trusted(&root);
    // What cannot be read cannot be shown, and what cannot be shown is not trusted. It can be revoked.
    let brings = if args.revoke { Brings::default() } else { Brings::of(&mut site)? };
    if !args.revoke && !args.output.json {
        style::say(brings.page(&root))?;
    }
    let changed = if args.revoke {
        let changed = book.remove(&root);
        if let Some(above) = book.trusted_by(&root) {
            return Err(Problem::new(format!(
                "`{}` is still trusted, because `{}` is",
                root.display(),
                above.display()
            ))
            .hint(format!("`haft trust --revoke {}` takes that back", above.display())));
        }
        changed
    } else if was {
        false
    } else {
        if !args.yes {
            confirm(&root)?;
        }
        book.add(&root)?
    };
    if changed {
        write(&file, &book)?;
    }
    let is = book.is_trusted(&root);
    if args.output.json {
        let whole =
            json!({"folder": root, "trusted": is, "changed": changed, "brings": brings.json()});
        style::say(format_args!("{whole}\n"))?;
    } else {
        let how = match (is, changed) {
            (true, true) => "is now trusted",
            (true, false) => "was trusted already",
            (false, true) => "is trusted no longer",
            (false, false) => "was not trusted",
        };
        style::say(format_args!("{} {how}\n", style::visible(&root.display().to_string())))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(book: &TrustBook, output: args::Output) -> Result<ExitCode, Problem> {
    let folders: Vec<&Path> = book.folders().collect();
    if output.json {
        style::say(format_args!("{}\n", json!(folders)))?;
    } else {
        let lines = folders.iter().map(|f| style::visible(&f.display().to_string()) + "\n");
        style::say(lines.collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What counts once the folder is trusted.
#[derive(Default)]
struct Brings {
    allows: Vec<(String, String)>,
    hooks: Vec<(String, String)>,
    tools: Vec<(String, String)>,
    roots: Vec<PathBuf>,
    mode: Option<Mode>,
}

impl Brings {
    fn of(site: &mut Site) -> Result<Self, Problem> {
        site.trusted = false;
        let before = site.read()?;
        site.trusted = true;
        let after = site.read()?;
        let here = site.root.clone();
        let allows = after.rules.iter().filter(|rule| {
            rule.decision == Decision::Allow && rule.enabled && rule.layer.comes_with_the_folder()
        });
        let theirs = |hook: &&HookSpec| hook.layer.comes_with_the_folder();
        Ok(Self {
            allows: allows
                .map(|rule| {
                    let patterns: Vec<&str> = rule.matches.iter().map(|p| p.as_str()).collect();
                    (explain::at(&rule.place, &here), patterns.join(", "))
                })
                .collect(),
            hooks: after
                .hooks
                .iter()
                .filter(theirs)
                .map(|hook| {
                    (
                        explain::at(&hook.place, &here),
                        format!("{}: {}", hook.event, hooks::called(&hook.handler)),
                    )
                })
                .collect(),
            tools: after
                .tools
                .iter()
                .filter(|tool| tool.layer.comes_with_the_folder())
                .map(|tool| {
                    let what = format!("{}: {}", tool.spec.name, tool.shown());
                    (explain::at(&tool.place, &here), what)
                })
                .collect(),
            roots: after
                .ground
                .roots
                .into_iter()
                .filter(|r| !before.ground.roots.contains(r))
                .collect(),
            mode: (after.ground.mode != before.ground.mode).then_some(after.ground.mode),
        })
    }

    fn page(&self, root: &Path) -> String {
        let shown = style::visible(&root.display().to_string());
        let mut out = format!("{}\n", style::paint(BOLD, shown));
        for (place, pattern) in &self.allows {
            out += &format!(
                "  allows        {}  {}\n",
                style::visible(pattern),
                style::paint(NAME, place)
            );
        }
        for (place, hook) in &self.hooks {
            out += &format!(
                "  {}  {}  {}\n",
                style::paint(WARN, "runs a hook "),
                style::visible(hook),
                style::paint(NAME, place)
            );
        }
        for (place, tool) in &self.tools {
            out += &format!(
                "  {}  {}  {}\n",
                style::paint(WARN, "adds a tool "),
                style::visible(tool),
                style::paint(NAME, place)
            );
        }
        for root in &self.roots {
            out += &format!("  opens folder  {}\n", style::visible(&root.display().to_string()));
        }
        if let Some(mode) = self.mode {
            out += &format!("  sets the mode {}\n", style::paint(WARN, mode.as_str()));
        }
        if self.allows.is_empty()
            && self.hooks.is_empty()
            && self.tools.is_empty()
            && self.roots.is_empty()
            && self.mode.is_none()
        {
            out += "  brings nothing that would have to be trusted\n";
        }
        out
    }

    fn json(&self) -> Value {
        let list = |all: &[(String, String)], key: &str| {
            all.iter().map(|(at, what)| json!({"at": at, key: what})).collect::<Vec<_>>()
        };
        json!({"allows": list(&self.allows, "match"), "hooks": list(&self.hooks, "hook"),
            "tools": list(&self.tools, "tool"),
            "roots": self.roots, "mode": self.mode})
    }
}

fn confirm(root: &Path) -> Result<(), Problem> {
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Err(Problem::new("nobody can be asked here, so nothing was changed")
            .hint("`--yes` trusts the folder without asking"));
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

/// Writes the book beside itself first, so that a broken write leaves the old one.
#[expect(clippy::disallowed_methods, reason = "the command keeps the person's own settings")]
fn write(file: &Path, book: &TrustBook) -> Result<(), Problem> {
    let cannot =
        |e: std::io::Error| Problem::new(format!("cannot write `{}`: {e}", file.display()));
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(cannot)?;
    }
    let beside = file.with_extension(format!("toml.{}", std::process::id()));
    fs::write(&beside, book.to_text()).map_err(cannot)?;
    fs::rename(&beside, file).map_err(|e| {
        let _ = fs::remove_file(&beside);
        cannot(e)
    })
}
