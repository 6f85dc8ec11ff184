//! The last steps before a command is executed: resource limits, `no_new_privs`, Landlock, seccomp.
//!
//! This runs in the process that becomes the command. An error is reported through a close-on-exec
//! pipe, so "started" is reported only if `exec` succeeded.

use std::{
    collections::BTreeMap,
    ffi::CString,
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_core::protected_names::is_spelling_of;
use rustix::fs::{Mode, OFlags};

use super::{
    SetupError, Task, cgroup,
    landlock::{self, Right, Rules},
    limits,
    mounts::{DEVICES, TEMPORARY, TERMINALS},
    seccomp::Filters,
    self_test,
    supervisor::{self, Names, Refusals, Supervised, Supervisor},
    sys,
};
use crate::{
    Access, Level, Profile, ReadableFiles, exhausted,
    protocol::{Act, Fault, Run},
    workspace::{SEARCH, open_below},
};

/// Where programs are searched if the command has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// What the parent needs to follow a command.
pub(super) struct StartedCommand {
    pub(super) pid: i32,
    /// Closes when the command is executed, or carries the error.
    pub(super) result: File,
}

/// What differs between the two tiers.
#[derive(Clone)]
pub(super) struct Setting {
    /// The temporary directory, if there is one.
    pub(super) scratch: Option<PathBuf>,
    /// Processes outside of the command that count against its limit.
    pub(super) others: u64,
    /// The user that the command switches to, unless that happened before.
    pub(super) identity: Option<super::identity::Identity>,
    /// The names that it creates, changes and removes are supervised.
    pub(super) is_supervised: bool,
    pub(super) refusals: Refusals,
    /// The cgroup that the command moves itself into.
    pub(super) group: Option<Arc<File>>,
}

/// Starts the process that becomes the command, with a supervisor if needed.
pub(super) fn begin(task: &Arc<Task>, setting: &Setting) -> Result<StartedCommand, SetupError> {
    if !setting.is_supervised {
        return fork_command(task, setting, None);
    }
    let (task, setting) = (Arc::clone(task), setting.clone());
    supervisor::in_thread(move || {
        // The supervisor gets the restrictions of the command and is its parent. So it has no more
        // rights than the command, and may read its memory.
        let rules = rules(&task, &setting)?;
        if let Some(identity) = setting.identity {
            super::identity::switch_to(identity)?;
        }
        rustix::thread::set_no_new_privs(true).map_err(SetupError::os("no new privileges"))?;
        let profile = &task.orders.profile;
        rules.apply(profile.network).map_err(SetupError::machine("landlock"))?;
        // With its own mounts the command cannot reach other files to change their mode.
        let scratch = match task.orders.level {
            Level::Namespaces => None,
            _ => Some(setting.scratch.clone()),
        };
        let names = Names::new(profile, scratch, setting.refusals.clone())?;
        // The watcher of tier `landlock` has a session already.
        let _ = rustix::process::setsid();
        let (listening, supervised) = supervisor::connection()?;
        let started = fork_command(&task, &setting, Some(supervised))?;
        let listener = listening.listener();
        Ok((started, listener.map(|fd| Supervisor::new(fd, names, profile))))
    })
}

/// Forks the process that becomes the command.
fn fork_command(
    task: &Task,
    setting: &Setting,
    supervised: Option<Supervised>,
) -> Result<StartedCommand, SetupError> {
    let flags = rustix::pipe::PipeFlags::CLOEXEC;
    let (result, report) = rustix::pipe::pipe_with(flags).map_err(SetupError::os("pipe"))?;
    match sys::clone(0).map_err(SetupError::machine("fork"))? {
        sys::Side::Parent(pid) => Ok(StartedCommand { pid, result: result.into() }),
        sys::Side::Child => {
            drop(result);
            let mut report = File::from(report);
            // Returns only if a step failed.
            let result = run(task, setting, supervised, &report);
            if let Err(SetupError { step, message, fault }) = result {
                let _ = serde_json::to_writer(&mut report, &(step, message, fault));
                let _ = report.flush();
                sys::exit(127);
            }
            sys::exit(0)
        }
    }
}

impl StartedCommand {
    /// Waits until the command is executed. Returns the error if it is not.
    pub(super) fn wait(&mut self) -> Result<(), SetupError> {
        let mut text = String::new();
        (&mut self.result)
            .take(64 << 10)
            .read_to_string(&mut text)
            .map_err(SetupError::machine("begin"))?;
        if text.is_empty() {
            return Ok(());
        }
        let parsed: Result<(String, String, Fault), _> = serde_json::from_str(&text);
        let (step, message, fault) = parsed.unwrap_or(("begin".to_owned(), text, Fault::Machine));
        // If the command itself is wrong, the step does not matter to its author.
        let message = match fault {
            Fault::Command => message,
            _ => format!("{step}: {message}"),
        };
        Err(SetupError { step: "confine", message, fault })
    }
}

fn run(
    task: &Task,
    setting: &Setting,
    supervised: Option<Supervised>,
    report: &File,
) -> Result<(), SetupError> {
    let profile = &task.orders.profile;
    begin_session(supervised.is_some()).map_err(SetupError::os("session"))?;
    // First, so that everything that follows counts for the command.
    setting.group.as_deref().map_or(Ok(()), cgroup::enter)?;
    sys::reset_signals();
    sys::dup_to(task.input.as_fd(), 0).map_err(SetupError::machine("input"))?;
    // Rules and filters are compiled before they forbid to open files.
    let rules = match &supervised {
        // They are enforced already; this process gets a nested Landlock domain.
        Some(_) => Rules::default(),
        None => rules(task, setting)?,
    };
    let filters = Filters::of(task.orders.level, profile.network, supervised.is_some())
        .map_err(SetupError::message("seccomp"))?;
    if let (Some(identity), None) = (setting.identity, &supervised) {
        super::identity::switch_to(identity)?;
    }
    // After the change of user, which resets it. It covers this process only. Its descendants are
    // killed by the first process of the pid namespace, or by a helper that is still alive.
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill)
        .map_err(SetupError::os("death signal"))?;
    if let Act::Run(Run { directory, home, .. }) = &task.orders.act {
        if let Some(scratch) = &setting.scratch {
            write_home_files(scratch, home);
        }
        enter_working_directory(directory.as_ref())?;
    }
    rustix::thread::set_no_new_privs(true).map_err(SetupError::os("no new privileges"))?;
    match &supervised {
        Some(_) => landlock::enter_nested_domain().map_err(SetupError::machine("landlock"))?,
        None => rules.apply(profile.network).map_err(SetupError::machine("landlock"))?,
    }
    sys::close_on_exec_from(3).map_err(SetupError::machine("descriptors"))?;
    // Late, because the steps before open files.
    limits::apply(&profile.limits, setting.others).map_err(SetupError::message("limits"))?;
    filters.apply().map_err(SetupError::message("seccomp"))?;
    if let Some(supervised) = supervised {
        // The supervisor must be able to read the paths of this process.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable);
        supervised.install()?;
    }
    match &task.orders.act {
        Act::Probe => Ok(()),
        Act::Run(run) => Err(execute(run, setting)),
        Act::Trial(scene) => {
            // It closes the pipe, which reports the start.
            self_test::run(scene, profile, report.as_fd());
            Ok(())
        }
    }
}

/// Separates the command from the terminal and the process group of the helper.
///
/// A supervised command stays in the session of its supervisor, which is a new one. The kernel
/// schedules each session as one group (`sched_autogroup`): in two sessions, other programs get a
/// time slice at each of the four switches of a supervised syscall.
fn begin_session(is_supervised: bool) -> Result<(), rustix::io::Errno> {
    if is_supervised && sys::is_in_session_of_parent() {
        rustix::process::setpgid(None, None)
    } else {
        rustix::process::setsid().map(drop)
    }
}

/// Puts files into the private home directory. The directory is new, so no name is taken. Errors
/// are ignored: the command will report a missing file.
fn write_home_files(home: &Path, files: &BTreeMap<String, String>) {
    for (name, text) in files {
        let file = File::options().write(true).create_new(true).open(home.join(name));
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

/// Changes to the working directory of the command, below its root, without following a symlink.
fn enter_working_directory(directory: Option<&(PathBuf, PathBuf)>) -> Result<(), SetupError> {
    let missing = |e: rustix::io::Errno| match exhausted::limit(e) {
        Some(limit) => SetupError::transient("working directory", limit),
        None => SetupError {
            step: "working directory",
            message: format!("the working directory: {}", io::Error::from(e)),
            fault: Fault::Command,
        },
    };
    let Some((root, path)) = directory else {
        return rustix::process::chdir("/").map_err(missing);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root: OwnedFd = rustix::fs::open(root, flags, Mode::empty()).map_err(missing)?;
    // Works without `openat2` too, which another sandbox may refuse.
    let directory = open_below(root.as_fd(), path, SEARCH).map_err(missing)?;
    rustix::process::fchdir(directory).map_err(missing)
}

fn rules(task: &Task, setting: &Setting) -> Result<Rules, SetupError> {
    let profile = &task.orders.profile;
    let mut rules = Rules::default();
    match &profile.reads {
        ReadableFiles::Everything => rules.add("/", Right::Read),
        ReadableFiles::Only(paths) => {
            for path in ReadableFiles::SYSTEM {
                rules.add(path, Right::Read);
            }
            for path in paths {
                rules.add(path, Right::Read);
            }
        }
    }
    for device in DEVICES {
        rules.add(device, Right::Device);
    }
    if task.orders.level == Level::Namespaces {
        // In tier `landlock` these are the terminals of the host.
        rules.add(TERMINALS, Right::Device);
        for path in TEMPORARY {
            rules.add(path, Right::Write);
        }
    } else if let Some(scratch) = &setting.scratch {
        rules.add(scratch, Right::Write);
    }
    for root in &profile.roots {
        rules.add(&root.path, Right::Read);
        if root.access == Access::Write {
            let is_git = profile.git_directory(root).is_some();
            if setting.is_supervised || profile.protected.is_empty() && !is_git {
                rules.add(&root.path, Right::Write);
            } else if !is_git {
                // FAIL CLOSED: a git directory is read-only here, because only single names in it
                // may change.
                around_protected(&mut rules, &root.path, profile)?;
            }
        }
    }
    Ok(rules)
}

/// Entries that are scanned in directories with protected names.
const MAX_SIBLINGS: usize = 4_096;

/// Adds rules for a root with protected names if there is no supervisor. Landlock rules only add
/// rights, so a name cannot be excluded from a writable directory. Directories with protected names
/// are read-only, and their other entries are writable one by one. New entries there are refused:
/// one of them could have the protected name.
fn around_protected(rules: &mut Rules, root: &Path, profile: &Profile) -> Result<(), SetupError> {
    let names: Vec<Vec<_>> =
        profile.protected.iter().map(|name| Path::new(name).iter().collect()).collect();
    let mut todo = vec![(root.to_path_buf(), names)];
    let mut seen = 0;
    while let Some((directory, names)) = todo.pop() {
        let entries = directory.read_dir().map_err(SetupError::machine("landlock: roots"))?;
        for entry in entries {
            seen += 1;
            if seen > MAX_SIBLINGS {
                return Err(SetupError::profile(format!(
                    "`{}` has too many entries next to protected names",
                    directory.display()
                )));
            }
            let entry = entry.map_err(SetupError::machine("landlock: roots"))?;
            let name = entry.file_name();
            let below: Vec<Vec<_>> = names
                .iter()
                .filter(|parts| {
                    let is_one = |part: &str| part == "*" || is_spelling_of(&name, part);
                    parts.first().and_then(|part| part.to_str()).is_some_and(is_one)
                })
                .map(|parts| parts[1..].to_vec())
                .collect();
            let kind = entry.file_type().map_err(SetupError::machine("landlock: roots"))?;
            // A rule for a symlink would apply to its target.
            if kind.is_symlink() || below.iter().any(Vec::is_empty) {
                continue;
            }
            if below.is_empty() {
                rules.add(entry.path(), Right::Write);
            } else if kind.is_dir() {
                todo.push((entry.path(), below));
            }
        }
    }
    Ok(())
}

/// Executes the program. Returns only with an error.
fn execute(run: &Run, setting: &Setting) -> SetupError {
    let scratch = setting.scratch.as_deref().map(|path| path.display().to_string());
    let mut environment = run.environment.clone();
    let path =
        environment.entry("PATH".to_owned()).or_insert_with(|| DEFAULT_PATH.to_owned()).clone();
    if let Some(scratch) = scratch {
        environment.entry("TMPDIR".to_owned()).or_insert_with(|| scratch.clone());
        environment.entry("HOME".to_owned()).or_insert(scratch);
    }
    let text = |text: String| CString::new(text).ok();
    let argv: Vec<_> = run.argv.iter().cloned().filter_map(text).collect();
    let environment: Vec<_> = environment
        .into_iter()
        .filter_map(|(name, value)| text(format!("{name}={value}")))
        .collect();
    let name = run.argv.first().map_or("", String::as_str);
    let mut last = io::Error::from_raw_os_error(libc::ENOENT);
    if name.contains('/') {
        last = sys::exec(Path::new(name), &argv, &environment);
    } else {
        for directory in path.split(':').filter(|directory| directory.starts_with('/')) {
            let error = sys::exec(&Path::new(directory).join(name), &argv, &environment);
            // Any other error says more than "not found".
            if last.raw_os_error() == Some(libc::ENOENT) {
                last = error;
            }
        }
    }
    let message = match last.raw_os_error() {
        // A directory of `PATH` that the sandbox hides gives `EACCES`, whatever is in it.
        Some(libc::ENOENT | libc::EACCES) if !name.contains('/') => {
            format!("the program `{name}` is not installed, or the sandbox does not show it")
        }
        _ => format!("`{name}`: {last}"),
    };
    SetupError { step: "start", message, fault: Fault::Command }
}
