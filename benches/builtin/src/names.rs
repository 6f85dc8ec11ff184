//! The cost of the supervisor of protected names: creating files, compared with an unsupervised
//! command in the same sandbox and with a plain process.
//!
//! The command is this program, which creates files in its working directory and ends.

use std::{
    fs::{self, File},
    io::Write as _,
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
/// Directories of the second load, as `npm install` creates them, with ten files each.
const DIRECTORIES: u32 = 3_000;
const FILES: u32 = 10;

/// Does the work of the command: files, or a tree.
pub(crate) fn work(load: &str) -> Result<(), String> {
    let text = |e: std::io::Error| e.to_string();
    if load == "creates" {
        for number in 0..CREATES {
            File::create(format!("file{number}")).map_err(text)?;
        }
        return Ok(());
    }
    let content = [b'x'; 8 << 10];
    for directory in 0..DIRECTORIES {
        let name = format!("module{}/part{directory}", directory % 300);
        fs::create_dir_all(&name).map_err(text)?;
        for number in 0..FILES {
            let len = (2 << 10) + (directory * FILES + number) as usize * 613 % (6 << 10);
            let mut file = File::create(format!("{name}/file{number}.js")).map_err(text)?;
            file.write_all(content.get(..len).unwrap_or_default()).map_err(text)?;
        }
    }
    Ok(())
}

struct Place {
    home: TempDir,
    tokio: Runtime,
    program: PathBuf,
}

pub(crate) fn groups() -> Result<Vec<Group>, String> {
    let text = |e: std::io::Error| e.to_string();
    let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let place = Rc::new(Place {
        home: tempfile::tempdir().map_err(text)?,
        tokio: tokio.map_err(text)?,
        program: std::env::current_exe().map_err(text)?,
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
        let loads = [("creates", CREATES), ("tree", 1)];
        for (load, times) in loads {
            let case = |name: &str, is_supervised: bool| -> Result<Case, String> {
                let directory = directory(&place, &format!("{tier}-{load}-{name}"))?;
                let mut profile = profile(&directory)?;
                if !is_supervised {
                    profile.protected = Vec::new();
                }
                let (place, sandbox, there) = (place.clone(), sandbox.clone(), directory.clone());
                let run = move || confined(&place, &sandbox, &profile, load);
                Ok(Case::new(name, run).cleaned(move || empty(&there)))
            };
            let there = directory(&place, &format!("{tier}-{load}-plain"))?;
            let (here, at) = (place.clone(), there.clone());
            let plain = Case::baseline("plain spawn", move || spawned(&here, &at, load));
            let cases = vec![
                case("supervised", true)?,
                case("unsupervised", false)?,
                plain.cleaned(move || empty(&there)),
            ];
            let name = format!("names: {load}, tier {tier}");
            groups.push(Group { name, cases, times, rest: Duration::ZERO, has_cpu: false });
        }
        let directory = directory(&place, &format!("{tier}-launch"))?;
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
        });
    }
    Ok(groups)
}

fn directory(place: &Place, name: &str) -> Result<PathBuf, String> {
    let home = place.home.path().canonicalize().map_err(|e| e.to_string())?;
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
