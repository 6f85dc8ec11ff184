//! The directories outside the workspace that sandboxed commands can access: configured roots, and
//! the toolchains in the home directory whose programs are in `PATH`.
//!
//! In: configuration and environment. Out: tools with these roots and variables, and the lines that
//! `haft doctor` suggests for `haft.toml`. INVARIANT: secrets below a root are hidden.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use haft::policy::{SandboxSettings, SourceLocation};
#[cfg(feature = "mcp")]
use haft_mcp::client::{ServerConfig, ServerTransport};
use haft_sandbox::{Access, Environment};
use haft_tools::BuiltinTools;

use crate::{
    error::Problem,
    host_env::HostEnv,
    setup::Setup,
    style::{self, BOLD},
};

/// A toolchain in the home directory.
struct Toolchain {
    /// Programs in `PATH` below one of these belong to it.
    programs: &'static [&'static str],
    /// What its programs read.
    directories: &'static [&'static str],
    /// The variables with its location, because the sandbox has another home directory.
    variables: &'static [(&'static str, &'static str)],
}

const TOOLCHAINS: &[Toolchain] = &[
    Toolchain {
        programs: &[".cargo"],
        directories: &[".cargo", ".rustup"],
        variables: &[("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")],
    },
    Toolchain {
        programs: &[".pyenv"],
        directories: &[".pyenv"],
        variables: &[("PYENV_ROOT", ".pyenv")],
    },
    Toolchain { programs: &[".nvm"], directories: &[".nvm"], variables: &[("NVM_DIR", ".nvm")] },
    Toolchain {
        programs: &["go"],
        directories: &["go/bin", "go/pkg"],
        variables: &[("GOPATH", "go")],
    },
    Toolchain {
        programs: &[".local/bin"],
        directories: &[".local/bin", ".local/lib"],
        variables: &[("PYTHONUSERBASE", ".local")],
    },
    Toolchain {
        programs: &[".volta"],
        directories: &[".volta"],
        variables: &[("VOLTA_HOME", ".volta")],
    },
    Toolchain {
        programs: &[".rbenv"],
        directories: &[".rbenv"],
        variables: &[("RBENV_ROOT", ".rbenv")],
    },
    Toolchain {
        programs: &[".bun"],
        directories: &[".bun"],
        variables: &[("BUN_INSTALL", ".bun")],
    },
    Toolchain { programs: &[".deno"], directories: &[".deno"], variables: &[] },
];

/// Caches of packages that commands could write.
const CACHES: &[&str] = &[
    ".cargo/registry",
    ".cargo/git",
    ".npm",
    ".cache/pip",
    ".cache/uv",
    ".cache/yarn",
    ".cache/go-build",
    "go/pkg/mod",
    ".m2/repository",
    ".gradle/caches",
];

/// A toolchain on this machine: existing directories with symlinks resolved, and variables.
struct Found {
    directories: Vec<PathBuf>,
    variables: Vec<(&'static str, String)>,
}

/// Finds the toolchains whose programs are in `PATH`.
fn find(home: &Path, variables: &BTreeMap<String, String>) -> Vec<Found> {
    let path = variables.get("PATH").map_or("", String::as_str);
    let entries: Vec<&Path> = path.split(':').map(Path::new).collect();
    let is_in_path = |below: &&str| entries.iter().any(|entry| entry.starts_with(home.join(below)));
    let mut found = Vec::new();
    for toolchain in TOOLCHAINS.iter().filter(|own| own.programs.iter().any(is_in_path)) {
        // A variable of the host may name another location.
        let named = |directory: &str| {
            let variable = toolchain.variables.iter().find(|(_, own)| *own == directory);
            let value = variable.and_then(|(name, _)| variables.get(*name));
            value.map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let whole = |directory: &str| named(directory).unwrap_or_else(|| home.join(directory));
        let directories: Vec<PathBuf> = toolchain
            .directories
            .iter()
            .filter_map(|directory| existing(&whole(directory), home).ok())
            .collect();
        let set = |(name, directory): &(&'static str, &'static str)| {
            let value = whole(directory).to_str().map(str::to_owned)?;
            Some((*name, value))
        };
        let variables = toolchain.variables.iter().filter_map(set).collect();
        found.push(Found { directories, variables });
    }
    found
}

/// Resolves the symlinks of a directory, and checks that commands may access it.
fn existing(path: &Path, home: &Path) -> Result<PathBuf, String> {
    let found = path.canonicalize().map_err(|e| e.to_string())?;
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    if !found.is_dir() {
        return Err("it is not a directory".to_owned());
    }
    // FAIL CLOSED: a symlink may point to secrets.
    match SandboxSettings::refuses(&found, Some(&home)) {
        Some(why) => Err(why.to_owned()),
        None => Ok(found),
    }
}

/// Adds the configured roots and variables, and those of toolchains, to the tools.
pub(crate) fn configure(mut tools: BuiltinTools, setup: &Setup) -> Result<BuiltinTools, Problem> {
    let sandbox = &setup.loaded.sandbox;
    tools = tools.confine_unasked(sandbox.confine_unasked);
    tools = tools.network_access(sandbox.network.clone());
    if let Some((directory, _)) = &sandbox.cgroup {
        tools = tools.cgroup(directory);
    }
    let home = setup.loaded.context.home.clone();
    let mut roots: Vec<(PathBuf, Access)> = Vec::new();
    let mut add =
        |path: PathBuf, access: Access| match roots.iter_mut().find(|(known, _)| *known == path) {
            Some((_, known)) if access == Access::Write => *known = access,
            Some(_) => {}
            None => roots.push((path, access)),
        };
    if let Some(home) = home.as_deref().filter(|_| sandbox.toolchains) {
        for found in find(home, setup.variables()) {
            found.directories.into_iter().for_each(|path| add(path, Access::Read));
            for (name, value) in found.variables {
                tools = tools.variable(name, value);
            }
        }
    }
    // Without a home directory no directory is known to hold secrets.
    let base = home.clone().unwrap_or_else(|| PathBuf::from("/nonexistent"));
    let named =
        [(&sandbox.read_only_roots, Access::Read), (&sandbox.writable_roots, Access::Write)];
    for (list, access) in named {
        for (path, location) in list {
            match existing(path, &base) {
                Ok(path) => add(path, access),
                // It may exist later or on another machine.
                Err(why) if !path.exists() => setup.note(left_out(location, path, &why)),
                Err(why) => {
                    let shown = path.display();
                    return Err(Problem::new(format!(
                        "{location}: commands cannot get access to `{shown}`: {why}"
                    ))
                    .hint("name the directory that the program needs, as in `~/.rustup`"));
                }
            }
        }
    }
    let home = home.map(|home| home.canonicalize().unwrap_or(home));
    for (path, access) in roots {
        for secret in home.iter().flat_map(|home| SandboxSettings::secrets_below(&path, home)) {
            tools = tools.hide(secret);
        }
        tools = match access {
            Access::Read => tools.read_only_root(path),
            Access::Write => tools.writable_root(path),
        };
    }
    let names: Vec<String> = sandbox.pass_env.iter().map(|(name, _)| name.clone()).collect();
    for (name, location) in &sandbox.pass_env {
        if !Environment::may_pass(name.trim_end_matches('*')) {
            setup.note(format!(
                "{location}: `{name}` is not passed to commands: variables of this name hold a secret or \
                 make programs load code"
            ));
        }
    }
    let given = Environment::from_host(setup.variables().clone(), &names);
    for (name, value) in given.iter() {
        tools = tools.variable(name, value);
    }
    Ok(tools)
}

/// Shows the toolchains in the home directory to a confined MCP server, as to commands.
#[cfg(feature = "mcp")]
pub(crate) fn show_to(server: &mut ServerConfig, setup: &Setup) {
    let ServerTransport::Stdio(command) = &mut server.transport else { return };
    let Some(sandbox) = &mut command.sandbox else { return };
    let Some(home) = setup.loaded.context.home.as_deref() else { return };
    if !setup.loaded.sandbox.toolchains {
        return;
    }
    let real_home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    for found in find(home, setup.variables()) {
        for (name, value) in found.variables {
            command.environment.entry(name.to_owned()).or_insert(value);
        }
        for path in found.directories {
            sandbox.hidden.extend(SandboxSettings::secrets_below(&path, &real_home));
            sandbox.read.push(path);
        }
    }
}

fn left_out(location: &SourceLocation, path: &Path, why: &str) -> String {
    format!("{location}: commands have no access to `{}`: {why}", path.display())
}

/// The lines of `haft.toml` that give commands access to the user's toolchains and caches.
pub(crate) fn suggestion(host: &HostEnv) -> Option<String> {
    let home = host.home.as_deref()?;
    let shown = |path: &Path| match path.strip_prefix(home) {
        Ok(below) => format!("\"~/{}\"", below.display()),
        Err(_) => format!("\"{}\"", path.display()),
    };
    let exists = |below: &&&str| existing(&home.join(below), home).is_ok();
    let in_path = find(home, &host.variables);
    let readable: Vec<String> =
        in_path.iter().flat_map(|found| &found.directories).map(|path| shown(path)).collect();
    let is_not_default = |below: &&&str| !readable.contains(&shown(&home.join(below)));
    let more = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.directories);
    let more: Vec<String> =
        more.filter(exists).filter(is_not_default).map(|below| shown(&home.join(below))).collect();
    let caches: Vec<String> =
        CACHES.iter().filter(exists).map(|below| shown(&home.join(below))).collect();
    if readable.is_empty() && more.is_empty() && caches.is_empty() {
        return None;
    }
    let mut out = format!("\n{}\n", style::paint(BOLD, "toolchains"));
    let mut line = |text: String| out += &format!("  {}\n", style::visible(&text));
    if !readable.is_empty() {
        line(format!(
            "commands can read these directories, because `PATH` contains them: {}",
            readable.join(", ")
        ));
    }
    if !more.is_empty() || !caches.is_empty() {
        line("to give commands access to more, add what you need to haft.toml:".to_owned());
        line("[sandbox]".to_owned());
    }
    if !more.is_empty() {
        line(format!("read_only_roots = [{}]", more.join(", ")));
    }
    if !caches.is_empty() {
        line(format!("writable_roots = [{}]", caches.join(", ")));
    }
    Some(out)
}
