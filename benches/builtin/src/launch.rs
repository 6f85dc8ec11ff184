//! A sandboxed launch compared with a plain one and with bubblewrap. The command is `/bin/true`.
//!
//! All read the output of what they start. bubblewrap gets the profile that is closest to ours: new
//! namespaces of every kind, everything read-only except the workspace, own devices, processes and
//! temporary directory. It has no Landlock, no syscall filter, no limits and no protected names; so
//! one group of ours is without these names, and one is as the tools launch a command.

use std::{
    path::Path,
    process::{Command, Stdio},
    rc::Rc,
    time::Duration,
};

use haft_core::{Capabilities, Capability};
use haft_sandbox::{Access, Helper, Level, Profile, Sandbox, Workspace};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{Case, Group, files::runs, without};

const PROGRAM: &str = "/bin/true";
/// Our result does not wait until the helper's memory is freed, nor bubblewrap for the last of its
/// namespaces. The next measurement should not pay for it.
const PAUSE_AFTER_RUN: Duration = Duration::from_millis(20);

pub(crate) fn groups() -> Result<Vec<Group>, String> {
    let home = tempfile::tempdir().map_err(|e| e.to_string())?;
    let directory = home.path().canonicalize().map_err(|e| e.to_string())?;
    // Tier B refuses new files next to protected names; a directory in it shows the layout.
    std::fs::create_dir(directory.join("src")).map_err(|e| e.to_string())?;
    let workspace = Workspace::builder().root(&directory, Access::Write).build();
    let workspace = workspace.map_err(|e| e.to_string())?;
    let as_tools_do = Profile::of(Capabilities::from([Capability::Filesystem]), &workspace);
    let bare = Profile { protected: Vec::new(), ..as_tools_do.clone() };
    let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let tokio = Rc::new(tokio.map_err(|e| e.to_string())?);
    let home = Rc::new(home);
    let has_bwrap = runs("bwrap") && is_usable(&directory);

    let mut groups = Vec::new();
    for (level, tier) in [(Level::Namespaces, "A"), (Level::Landlock, "B")] {
        let sandbox = match tokio.block_on(Sandbox::at(Helper::ThisProgram, level)) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                without(&format!("tier {tier}"), &error.to_string());
                continue;
            }
        };
        for (words, profile) in [("protected names", &as_tools_do), ("no protected names", &bare)] {
            let fixture = Fixture { tokio: tokio.clone(), _home: home.clone() };
            let ours = ours(fixture, sandbox.clone(), profile.clone());
            let mut cases = vec![ours, Case::baseline("plain spawn", || started(&mut plain()))];
            if has_bwrap {
                let directory = directory.clone();
                // Tier B has no namespaces; bubblewrap is only shown there for reference.
                let make = if level == Level::Namespaces { Case::new } else { Case::baseline };
                cases.push(make("bwrap", move || started(&mut bubblewrap(&directory))));
            }
            let name = format!("launch: tier {tier}, {words}");
            groups.push(Group {
                name,
                cases,
                times: 1,
                rest: PAUSE_AFTER_RUN,
                has_cpu: false,
                max_rounds: usize::MAX,
            });
        }
    }
    Ok(groups)
}

struct Fixture {
    tokio: Rc<Runtime>,
    /// It contains the workspace.
    _home: Rc<TempDir>,
}

fn ours(fixture: Fixture, sandbox: Sandbox, profile: Profile) -> Case {
    Case::new("haft", move || {
        // All of it, so that the directory lives as long as the case.
        let fixture = &fixture;
        let command = haft_sandbox::Command::new(PROGRAM);
        let ended = fixture.tokio.block_on(sandbox.run(command, profile.clone()));
        match ended.map_err(|e| e.to_string())? {
            ended if ended.is_success() => Ok(()),
            ended => Err(format!("{PROGRAM} ended with {:?}, {:?}", ended.exit, ended.exit_reason)),
        }
    })
}

fn plain() -> Command {
    Command::new(PROGRAM)
}

fn bubblewrap(directory: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session"]);
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]);
    command.arg("--bind").args([directory, directory]).arg("--chdir").arg(directory).arg(PROGRAM);
    command
}

fn is_usable(directory: &Path) -> bool {
    started(&mut bubblewrap(directory)).inspect_err(|why| without("bwrap", why)).is_ok()
}

fn started(command: &mut Command) -> Result<(), String> {
    let done = command.stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() {
        Ok(())
    } else {
        Err(format!("{:?} ended with {}: {said}", command.get_program(), done.status))
    }
}
