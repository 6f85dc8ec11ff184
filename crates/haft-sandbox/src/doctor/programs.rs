//! Self-test with real programs and the protected names of a real workspace.
//!
//! Git, a compiler and a pipe must work. A command must not be able to plant configuration or hooks
//! (code execution outside of the sandbox). The host compares the workspace before, during and
//! after a command.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use haft_core::{Capabilities, Capability};

use super::{has_set_id_file, put};
use crate::{
    Access, Command, DoctorFinding, Error, Exit, ExpectedResult, Level, ObservedResult, Profile,
    Sandbox, Workspace,
};

/// Timeout of each command.
const DEADLINE: Duration = Duration::from_secs(60);
/// The exit code of a script whose program is not installed.
const MISSING: i32 = 99;
/// Entries in a listing; none of these workspaces has more.
const MAX_LISTED: usize = 10_000;
/// The git configuration inside, with the author of commits.
const GIT_CONFIG: &str =
    "[user]\n\tname = haft doctor\n\temail = doctor@localhost\n[safe]\n\tdirectory = *\n";

/// A program that must work.
struct Program {
    name: &'static str,
    tried: &'static str,
    script: &'static str,
    /// Why it may fail without namespaces, as in the notes of that tier.
    landlock_limit: Option<&'static str>,
}

const fn program(
    name: &'static str,
    tried: &'static str,
    script: &'static str,
    landlock_limit: Option<&'static str>,
) -> Program {
    Program { name, tried, script, landlock_limit }
}

const NO_NEW_GIT_FILES: Option<&str> =
    Some("without namespaces no new files can be created in `.git`");
const NO_MODES: Option<&str> = Some("without namespaces file modes cannot be changed");

#[rustfmt::skip] // a table
const PROGRAMS: &[Program] = &[
    program("git-status", "see a changed file with `git status`", r#"test "$(git status --porcelain --untracked-files=no)" = " M notes.txt""#, None),
    program("git-add", "add a file with `git add`", "git add notes.txt", NO_NEW_GIT_FILES),
    program("git-commit", "commit it with `git commit`", "git add notes.txt && git commit -q -m second && test \"$(git log -1 --format=%s)\" = second", NO_NEW_GIT_FILES),
    program("git-log", "read the history with `git log`", r#"git log --format=%s | grep -q "^first$""#, None),
    program("compiler", "compile, link and start a program", "cd sub
        if command -v cc >/dev/null; then
            echo 'int main(void) { return 0; }' > built.c && cc -o built built.c && ./built
        elif rustc -V >/dev/null 2>&1; then
            echo 'fn main() {}' > built.rs && rustc -o built built.rs && ./built
        else exit 99; fi", NO_MODES),
    program("pipe", "sort a thousand numbers through a pipe", r#"test "$(seq 1000 | sort -n | tail -1)" = 1000"#, None),
];

/// A file that makes another program execute code, and a script that tries to create or change it.
struct Plant {
    name: &'static str,
    path: &'static str,
    script: &'static str,
}

const fn plant(name: &'static str, path: &'static str, script: &'static str) -> Plant {
    Plant { name, path, script }
}

#[rustfmt::skip] // a table
const PLANTS: &[Plant] = &[
    plant("plant-haft-toml", "haft.toml", "echo x > haft.toml"),
    plant("plant-haft-local-link", "haft.local.toml", "ln notes.txt haft.local.toml"),
    plant("plant-nested-haft-toml", "sub/haft.toml", "echo x > sub/haft.toml"),
    plant("plant-nested-haft-local", "sub/haft.local.toml", "mv sub/stay sub/haft.local.toml"),
    plant("plant-own-directory", ".haft/rules.toml", "mkdir -p .haft && echo x > .haft/rules.toml"),
    plant("plant-hook", ".git/hooks/pre-commit", "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit"),
    plant("plant-git-config", ".git/config", "echo '[core] hooksPath = /tmp' >> .git/config"),
    plant("plant-git-config-replaced", ".git/config", "echo x > .git/new-config && mv .git/new-config .git/config"),
    plant("plant-worktree-config", ".git/config.worktree", "echo x > .git/config.worktree"),
    plant("plant-common-directory", ".git/commondir", "echo ../sub > .git/commondir"),
    plant("plant-module-hook", ".git/modules/m/hooks/post-checkout", "mkdir -p .git/modules/m/hooks && echo x > .git/modules/m/hooks/post-checkout"),
    plant("plant-nested-hook", "sub/nested/.git/hooks/pre-commit", "mkdir -p sub/nested/.git/hooks && echo x > sub/nested/.git/hooks/pre-commit"),
    plant("plant-nested-git-config", "sub/nested/.git/config", "echo x >> sub/nested/.git/config"),
    plant("plant-nested-common-directory", "sub/nested/.git/commondir", "echo ../x > sub/nested/.git/commondir"),
    plant("plant-new-repository-hook", "sub/new/.git/hooks/x", "mkdir -p sub/new/.git/hooks && echo x > sub/new/.git/hooks/x"),
    plant("plant-moved-hooks", "sub/moved/.git/hooks/x", "mkdir -p sub/moved/.git sub/tree && echo x > sub/tree/x && mv sub/tree sub/moved/.git/hooks"),
    plant("plant-servers", ".mcp.json", "ln -s notes.txt .mcp.json"),
    plant("plant-nested-servers", "sub/.mcp.json", "echo {} > sub/.mcp.json"),
    plant("plant-agent-settings", ".claude/settings.json", "mkdir -p .claude && echo {} > .claude/settings.json"),
    plant("plant-directory-environment", ".envrc", "mv notes.txt .envrc"),
    plant("plant-editor-tasks", ".vscode/tasks.json", "mkdir -p .vscode && echo {} > .vscode/tasks.json"),
    plant("plant-pipeline", ".github/workflows/x.yml", "mkdir -p .github/workflows && echo x > .github/workflows/x.yml"),
];

/// Two workspaces below a directory. Dropping it removes them.
struct Projects(PathBuf);

impl Projects {
    /// Creates a workspace. Returns its root, and whether the host could create a repository in it.
    async fn create(&self, name: &str) -> io::Result<(PathBuf, bool)> {
        let root = self.0.join(name);
        fs::create_dir_all(root.join("sub/nested"))?;
        put(&root.join("notes.txt"), "first\n")?;
        put(&root.join("sub/stay"), "stay\n")?;
        let mut has_git = true;
        for (directory, args) in [
            (root.clone(), &["init", "-q"][..]),
            (root.clone(), &["add", "notes.txt"]),
            (root.clone(), &["commit", "-q", "-m", "first"]),
            (root.join("sub/nested"), &["init", "-q"]),
        ] {
            has_git = has_git && host_git(&directory, args).await;
        }
        if !has_git {
            // The names are protected even if git is not installed.
            for git in [root.join(".git"), root.join("sub/nested/.git")] {
                fs::create_dir_all(&git)?;
                if !git.join("config").exists() {
                    put(&git.join("config"), "[core]\n")?;
                }
            }
        }
        Ok((root, has_git))
    }
}

impl Drop for Projects {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs git on the host, with this configuration only.
async fn host_git(directory: &Path, args: &[&str]) -> bool {
    let mut git = tokio::process::Command::new("git");
    git.args(["-c", "user.name=haft", "-c", "user.email=doctor@localhost", "-c", "gc.auto=0"])
        .args(args)
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap_or(directory))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let status = tokio::time::timeout(DEADLINE, git.status()).await;
    status.is_ok_and(|status| status.is_ok_and(|status| status.success()))
}

/// Runs all programs and plants below `directory`.
pub(super) async fn run(sandbox: &Sandbox, directory: &Path) -> Result<Vec<DoctorFinding>, Error> {
    let projects = Projects(directory.join("projects"));
    let mut findings = Vec::new();
    findings.extend(programs(sandbox, &projects).await?);
    findings.extend(plants(sandbox, &projects).await?);
    Ok(findings)
}

async fn workspace(projects: &Projects, name: &str) -> Result<(PathBuf, bool, Profile), Error> {
    let made = projects.create(name).await;
    let (root, has_git) = made.map_err(|e| {
        let message = format!("a workspace for the self-test cannot be created: {e}");
        Error::new(crate::ErrorKind::BadProfile, message).because(e)
    })?;
    let workspace = Workspace::builder().root(&root, Access::Write).build()?;
    let profile = Profile::of(Capabilities::from([Capability::Filesystem]), &workspace);
    Ok((root, has_git, profile))
}

fn command(script: &str) -> Command {
    Command::shell(script).home_file(".gitconfig", GIT_CONFIG).deadline(DEADLINE)
}

async fn programs(sandbox: &Sandbox, projects: &Projects) -> Result<Vec<DoctorFinding>, Error> {
    let (root, has_git, profile) = workspace(projects, "programs").await?;
    let mut findings = Vec::new();
    let changed = fs::File::options().append(true).open(root.join("notes.txt"));
    let _ = changed.and_then(|mut file| io::Write::write_all(&mut file, b"second\n"));
    for program in PROGRAMS {
        let observed = if program.name.starts_with("git-") && !has_git {
            ObservedResult::Skipped("git is not installed".to_owned())
        } else {
            let ended = sandbox.run(command(program.script), profile.clone()).await?;
            match (ended.exit, program.landlock_limit) {
                (Exit::Code(0), _) => ObservedResult::Allowed,
                (Exit::Code(MISSING), _) => {
                    ObservedResult::Skipped("it is not installed".to_owned())
                }
                (_, Some(why)) if sandbox.tier().level == Level::Landlock => {
                    ObservedResult::Skipped(why.to_owned())
                }
                (Exit::Code(code), _) => ObservedResult::Refused(code),
                (Exit::Signal(signal), _) => ObservedResult::Killed(signal),
                (Exit::Unknown, _) => ObservedResult::Refused(0),
            }
        };
        findings.push(finding(
            "programs",
            program.name,
            program.tried,
            ExpectedResult::Allowed,
            observed,
        ));
    }
    findings.push(state(
        "project-no-set-id",
        "look for set-id files that programs left, from outside",
        !has_set_id_file(&root),
    ));
    Ok(findings)
}

async fn plants(sandbox: &Sandbox, projects: &Projects) -> Result<Vec<DoctorFinding>, Error> {
    let (root, _, profile) = workspace(projects, "planted").await?;
    let mut findings = Vec::new();

    let before = listing(&root);
    let waits = command("echo ready; sleep 60");
    let mut running = sandbox.start(waits, profile.clone()).await?;
    let has_begun = running.next().await.is_some();
    let during = listing(&root);
    running.stop().await;
    let is_same = |now: &Option<Vec<_>>| has_begun && before.is_some() && *now == before;
    findings.push(state(
        "listing-while-running",
        "compare the workspace on the host while a command runs, byte for byte",
        is_same(&during),
    ));
    findings.push(state(
        "listing-afterwards",
        "compare the workspace on the host after a command, byte for byte",
        is_same(&listing(&root)),
    ));

    let contents: Vec<_> = PLANTS.iter().map(|plant| content(&root.join(plant.path))).collect();
    // Each in its own subshell, so that a failure ends only that one.
    let script: Vec<_> = PLANTS
        .iter()
        .map(|plant| format!("( {} ) >/dev/null 2>&1; echo \"{} $?\"", plant.script, plant.name))
        .collect();
    let ended = sandbox.run(command(&script.join("\n")), profile).await?;
    let text = String::from_utf8_lossy(ended.stdout.bytes());
    for (plant, before) in PLANTS.iter().zip(contents) {
        let code = text.lines().find_map(|line| {
            let (name, code) = line.split_once(' ')?;
            (name == plant.name).then(|| code.parse::<i32>().ok())?
        });
        let is_changed = content(&root.join(plant.path)) != before;
        let observed = match code {
            _ if is_changed => ObservedResult::Allowed,
            Some(0) => ObservedResult::Allowed,
            Some(code) => ObservedResult::Refused(code),
            None => ObservedResult::Skipped("its result is unknown".to_owned()),
        };
        let tried = format!("plant `{}` with `{}`", plant.path, plant.script);
        findings.push(finding("planted", plant.name, &tried, ExpectedResult::Refused, observed));
    }
    Ok(findings)
}

fn finding(
    group: &str,
    name: &str,
    tried: &str,
    expected: ExpectedResult,
    observed: ObservedResult,
) -> DoctorFinding {
    let (name, group, tried) = (name.to_owned(), group.to_owned(), tried.to_owned());
    DoctorFinding { name, group, tried, expected, observed }
}

/// A finding about the state of the host.
fn state(name: &str, tried: &str, is_so: bool) -> DoctorFinding {
    let observed = if is_so { ObservedResult::Allowed } else { ObservedResult::Refused(0) };
    finding("planted", name, tried, ExpectedResult::Allowed, observed)
}

/// Returns the bytes of a file or the target of a symlink, `None` if the path does not exist.
fn content(path: &Path) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt as _;
    let meta = path.symlink_metadata().ok()?;
    if meta.is_symlink() {
        return path.read_link().ok().map(|to| to.into_os_string().into_vec());
    }
    Some(if meta.is_file() { fs::read(path).unwrap_or_default() } else { Vec::new() })
}

/// Path, mode, link count and contents of everything below a directory. `None` if a part of it
/// cannot be read.
type Listing = Option<Vec<(PathBuf, u32, u64, Option<Vec<u8>>)>>;

fn listing(directory: &Path) -> Listing {
    use std::os::unix::fs::MetadataExt as _;
    let mut all = Vec::new();
    let mut todo = vec![directory.to_path_buf()];
    while let Some(here) = todo.pop() {
        for entry in here.read_dir().ok()? {
            let path = entry.ok()?.path();
            let meta = path.symlink_metadata().ok()?;
            if meta.is_dir() {
                todo.push(path.clone());
            }
            let content = content(&path);
            all.push((path, meta.mode(), if meta.is_dir() { 0 } else { meta.nlink() }, content));
            if all.len() > MAX_LISTED {
                return None;
            }
        }
    }
    all.sort();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_and_plants_are_unique() {
        let names = PROGRAMS.iter().map(|one| one.name).chain(PLANTS.iter().map(|one| one.name));
        let mut names: Vec<_> = names.collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn listing_shows_new_names_modes_and_bytes() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let mut seen = vec![listing(directory.path())];
        put(&file, "one").unwrap();
        seen.push(listing(directory.path()));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
        seen.push(listing(directory.path()));
        fs::remove_file(&file).unwrap();
        put(&file, "two").unwrap();
        seen.push(listing(directory.path()));
        fs::create_dir(directory.path().join("empty")).unwrap();
        seen.push(listing(directory.path()));
        assert!(seen.iter().all(Option::is_some));
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "{seen:?}");
        assert_eq!(seen.last(), Some(&listing(directory.path())));
        assert_eq!(listing(&directory.path().join("missing")), None);
    }
}
