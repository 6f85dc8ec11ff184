//! The cost of the supervisor of protected names: creating files, compared with an unsupervised
//! command in the same sandbox and with a plain process.
//!
//! The command is this program, which creates files in its working directory and ends. Bare creates
//! in memory cost almost nothing, so they show the supervisor alone. The load of `npm install` runs
//! in memory and on the disk of this program; the name of a group has the file system.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    rc::Rc,
    time::Duration,
};

use haft_core::{Capabilities, Capability};
use haft_sandbox::{Access, Helper, Level, Profile, Sandbox, Workspace};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{Case, Group, without};

/// The argument that makes this program the command.
pub(crate) const WORK: &str = "make-names";
/// Files of the first load, all in one directory and empty.
const CREATES: u32 = 20_000;
/// Packages of the second load, which has the syscalls of `npm install`: 30 000 files.
const PACKAGES: u32 = 300;
const FILES: u32 = 100;
/// Rounds of the second load: a run takes seconds.
const MAX_NPM_ROUNDS: usize = 5;

/// Does the work of the command.
pub(crate) fn work(load: &str) -> Result<(), String> {
    let done = match load {
        "creates" => make_files(),
        "npm" => install_packages(),
        _ => return Err(format!("unknown load `{load}`")),
    };
    done.map_err(|e| e.to_string())
}

fn make_files() -> io::Result<()> {
    for number in 0..CREATES {
        File::create(format!("file{number}"))?;
    }
    Ok(())
}

/// Writes packages as npm does: each below a temporary name, with files of 1 to 8 KiB in a few
/// directories, then renamed, with a symlink to its program. Nothing is flushed to disk.
fn install_packages() -> io::Result<()> {
    let content = [b'x'; 8 << 10];
    fs::create_dir_all("node_modules/.bin")?;
    for package in 0..PACKAGES {
        let (own, new) = (format!("node_modules/p{package}"), format!("node_modules/.p{package}"));
        for number in 0..FILES {
            let directory = match number % 10 {
                0 => new.clone(),
                part => format!("{new}/lib/part{part}"),
            };
            if number < 10 {
                fs::create_dir_all(&directory)?;
            }
            let mut file = File::create(format!("{directory}/file{number}.js"))?;
            let len = (1 << 10) + (package * FILES + number) as usize * 613 % (7 << 10);
            file.write_all(content.get(..len).unwrap_or_default())?;
        }
        fs::set_permissions(format!("{new}/file0.js"), fs::Permissions::from_mode(0o755))?;
        fs::rename(&new, &own)?;
        symlink(format!("../p{package}/file0.js"), format!("node_modules/.bin/p{package}"))?;
    }
    File::create(".package-lock.json")?.write_all(&content)?;
    fs::rename(".package-lock.json", "package-lock.json")
}

struct Place {
    /// On the disk of this program.
    disk: TempDir,
    /// In memory, if there is a file system in memory.
    memory: Option<TempDir>,
    tokio: Runtime,
    program: PathBuf,
}

pub(crate) fn groups() -> Result<Vec<Group>, String> {
    let text = |e: io::Error| e.to_string();
    let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let program = std::env::current_exe().map_err(text)?;
    let memory = TempDir::new_in("/dev/shm").ok().filter(|it| file_system(it.path()) == "tmpfs");
    if memory.is_none() {
        without("files in memory", "/dev/shm is no tmpfs");
    }
    let place = Rc::new(Place {
        disk: TempDir::new_in(program.parent().unwrap_or(Path::new("."))).map_err(text)?,
        memory,
        tokio: tokio.map_err(text)?,
        program,
    });
    let mut groups = Vec::new();
    for (level, tier) in [(Level::Namespaces, "A"), (Level::Landlock, "B")] {
        let sandbox = match place.tokio.block_on(Sandbox::at(Helper::ThisProgram, level)) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                without(&format!("tier {tier}"), &error.to_string());
                continue;
            }
        };
        let npm = ("npm", 1, MAX_NPM_ROUNDS);
        let memory = place.memory.as_ref().map(|memory| memory.path());
        let loads = [
            (memory, ("creates", CREATES, usize::MAX)),
            (memory, npm),
            (Some(place.disk.path()), npm),
        ];
        for (home, (load, times, max_rounds)) in loads {
            let Some(home) = home else { continue };
            let case = |name: &str, is_supervised: bool| -> Result<Case, String> {
                let directory = directory(home, &format!("{tier}-{load}-{name}"))?;
                let mut profile = profile(&directory)?;
                if !is_supervised {
                    profile.protected = Vec::new();
                }
                let (place, sandbox, there) = (place.clone(), sandbox.clone(), directory.clone());
                let run = move || confined(&place, &sandbox, &profile, load);
                Ok(Case::new(name, run).cleaned(move || empty(&there)))
            };
            let there = directory(home, &format!("{tier}-{load}-plain"))?;
            let (here, at) = (place.clone(), there.clone());
            let plain = Case::baseline("plain spawn", move || spawned(&here, &at, load));
            let mut cases = vec![case("supervised", true)?];
            // Landlock does not control `chmod`, so tier B refuses it without a supervisor.
            if level == Level::Namespaces || load != "npm" {
                cases.push(case("unsupervised", false)?);
            }
            cases.push(plain.cleaned(move || empty(&there)));
            let name = format!("names: {load}, {}, tier {tier}", file_system(home));
            let rest = Duration::ZERO;
            // The helper is not waited for in time, so its CPU time would be missing.
            groups.push(Group { name, cases, times, rest, has_cpu: false, max_rounds });
        }
        let directory = directory(place.disk.path(), &format!("{tier}-launch"))?;
        let profile = profile(&directory)?.read_only();
        let (place, sandbox) = (place.clone(), sandbox.clone());
        let ours = Case::new("haft, read-only", move || {
            let command = haft_sandbox::Command::new("/bin/true");
            ended(place.tokio.block_on(sandbox.run(command, profile.clone())))
        });
        let name = format!("names: read-only launch, tier {tier}");
        groups.push(Group {
            name,
            cases: vec![ours],
            times: 1,
            rest: Duration::from_millis(20),
            has_cpu: false,
            max_rounds: usize::MAX,
        });
    }
    Ok(groups)
}

/// Returns the name of the file system of a directory.
fn file_system(directory: &Path) -> String {
    match rustix::fs::statfs(directory).map(|it| it.f_type) {
        Ok(0x0102_1994) => "tmpfs".to_owned(),
        Ok(0xef53) => "ext4".to_owned(),
        Ok(0x5846_5342) => "xfs".to_owned(),
        Ok(0x9123_683e) => "btrfs".to_owned(),
        Ok(0x794c_7630) => "overlayfs".to_owned(),
        Ok(other) => format!("file system {other:#x}"),
        Err(_) => "unknown file system".to_owned(),
    }
}

fn directory(home: &Path, name: &str) -> Result<PathBuf, String> {
    let home = home.canonicalize().map_err(|e| e.to_string())?;
    let directory = home.join(name.replace(' ', "-"));
    fs::create_dir_all(&directory).map_err(|e| e.to_string())?;
    Ok(directory)
}

fn profile(directory: &Path) -> Result<Profile, String> {
    let workspace = Workspace::builder().root(directory, Access::Write).build();
    let workspace = workspace.map_err(|e| e.to_string())?;
    Ok(Profile::of(Capabilities::from([Capability::Filesystem]), &workspace))
}

/// Removes what a run has created. The directory stays: the profile identifies it by its inode.
fn empty(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
}

fn confined(place: &Place, sandbox: &Sandbox, profile: &Profile, load: &str) -> Result<(), String> {
    let program = place.program.to_str().ok_or("the path of this program is no text")?;
    let command = haft_sandbox::Command::new(program).args([WORK, load]);
    ended(place.tokio.block_on(sandbox.run(command, profile.clone())))
}

fn ended(
    ended: Result<haft_sandbox::ProcessResult, haft_sandbox::SandboxError>,
) -> Result<(), String> {
    match ended.map_err(|e| e.to_string())? {
        ended if ended.is_success() => Ok(()),
        ended => {
            let said = String::from_utf8_lossy(ended.stderr.bytes()).into_owned();
            Err(format!("the command ended with {:?}, {:?}: {said}", ended.exit, ended.exit_reason))
        }
    }
}

fn spawned(place: &Place, directory: &Path, load: &str) -> Result<(), String> {
    let mut command = Command::new(&place.program);
    command.args([WORK, load]).current_dir(directory).stdin(Stdio::null());
    let done = command.output().map_err(|e| e.to_string())?;
    if done.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }
}
