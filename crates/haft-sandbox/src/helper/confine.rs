//! The last steps before a command begins: limits, no new privileges, Landlock, seccomp.
//!
//! This runs in the process that becomes the command. What fails here is told through a pipe that
//! closes by itself when the command begins, so that "started" is said only when it is true.

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
    Task, Trouble, cgroup, limits,
    mounts::{DEVICES, TEMPORARY},
    supervisor::{self, Names, Refusals, Supervised, Supervisor},
    sys,
};
use crate::{
    Access, Level, Profile, Reads, exhausted,
    landlock::{self, Right, Rules},
    orders::{Act, Fault, Run},
    seccomp::Filters,
    workspace::{SEARCH, open_below},
};

/// Where programs are looked for when the command brings no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// What the parent needs to follow a command.
pub(super) struct Begun {
    pub(super) pid: i32,
    /// Ends when the command begins, or says why it does not.
    pub(super) word: File,
}

/// What only one of the two tiers has.
#[derive(Clone)]
pub(super) struct Setting {
    /// The temporary folder, if there is one.
    pub(super) scratch: Option<PathBuf>,
    /// Processes that are not the command's and count against its limit.
    pub(super) others: u64,
    /// Who the command becomes now, if it is not somebody else already.
    pub(super) identity: Option<super::identity::Identity>,
    /// The names that it creates, changes and removes are supervised.
    pub(super) is_supervised: bool,
    pub(super) refusals: Refusals,
    /// The control group that the command moves itself into.
    pub(super) group: Option<Arc<File>>,
}

/// Starts the process that becomes the command, supervised where that is needed.
pub(super) fn begin(task: &Arc<Task>, setting: &Setting) -> Result<Begun, Trouble> {
    if !setting.is_supervised {
        return split(task, setting, None);
    }
    let (task, setting) = (Arc::clone(task), setting.clone());
    supervisor::in_thread(move || {
        // The supervisor becomes what the command will be, and the command is its child: so it can do
        // no more than the command, and may look at it.
        let rules = rules(&task, &setting)?;
        if let Some(identity) = setting.identity {
            super::identity::become_it(identity)?;
        }
        rustix::thread::set_no_new_privs(true).map_err(Trouble::os("no new privileges"))?;
        let profile = &task.orders.profile;
        rules.apply(profile.network).map_err(Trouble::machine("landlock"))?;
        // With mounts of its own the command reaches no other file whose mode it could change.
        let scratch = match task.orders.level {
            Level::Namespaces => None,
            _ => Some(setting.scratch.clone()),
        };
        let names = Names::new(profile, scratch, setting.refusals.clone())?;
        let (listening, supervised) = supervisor::connection()?;
        let begun = split(&task, &setting, Some(supervised))?;
        let listener = listening.listener();
        Ok((begun, listener.map(|fd| Supervisor::new(fd, names, profile))))
    })
}

/// Splits off the process that becomes the command.
fn split(task: &Task, setting: &Setting, supervised: Option<Supervised>) -> Result<Begun, Trouble> {
    let flags = rustix::pipe::PipeFlags::CLOEXEC;
    let (word, told) = rustix::pipe::pipe_with(flags).map_err(Trouble::os("pipe"))?;
    match sys::clone(0).map_err(Trouble::machine("fork"))? {
        sys::Side::Parent(pid) => Ok(Begun { pid, word: word.into() }),
        sys::Side::Child => {
            drop(word);
            let mut told = File::from(told);
            // Comes back only when something failed.
            let trouble = run(task, setting, supervised, &told);
            if let Err(Trouble { step, message, fault }) = trouble {
                let _ = serde_json::to_writer(&mut told, &(step, message, fault));
                let _ = told.flush();
                sys::exit(127);
            }
            sys::exit(0)
        }
    }
}

impl Begun {
    /// Waits until the command has begun, or says why it has not.
    pub(super) fn wait(&mut self) -> Result<(), Trouble> {
        let mut word = String::new();
        (&mut self.word)
            .take(64 << 10)
            .read_to_string(&mut word)
            .map_err(Trouble::machine("begin"))?;
        if word.is_empty() {
            return Ok(());
        }
        let said: Result<(String, String, Fault), _> = serde_json::from_str(&word);
        let (step, message, fault) = said.unwrap_or(("begin".to_owned(), word, Fault::Machine));
        // Which step it was is no matter to whoever wrote the command.
        let message = match fault {
            Fault::Command => message,
            _ => format!("{step}: {message}"),
        };
        Err(Trouble { step: "confine", message, fault })
    }
}

fn run(
    task: &Task,
    setting: &Setting,
    supervised: Option<Supervised>,
    told: &File,
) -> Result<(), Trouble> {
    let profile = &task.orders.profile;
    rustix::process::setsid().map_err(Trouble::os("session"))?;
    // First, so that everything that follows counts as the command's.
    setting.group.as_deref().map_or(Ok(()), cgroup::enter)?;
    sys::plain_signals();
    sys::put(task.input.as_fd(), 0).map_err(Trouble::machine("input"))?;
    // Everything is compiled and opened before it is forbidden.
    let rules = match &supervised {
        // They are in force already, and this process gets a domain of its own below them.
        Some(_) => Rules::default(),
        None => rules(task, setting)?,
    };
    let filters = Filters::of(task.orders.level, profile.network, supervised.is_some())
        .map_err(Trouble::words("seccomp"))?;
    if let (Some(identity), None) = (setting.identity, &supervised) {
        super::identity::become_it(identity)?;
    }
    // After the change of user, which takes it back. It reaches the command alone; what it starts is
    // ended by the first process of its namespace, or by a helper that lives.
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill).map_err(Trouble::os("death signal"))?;
    if let Act::Run(Run { folder, home, .. }) = &task.orders.act {
        if let Some(scratch) = &setting.scratch {
            fill(scratch, home);
        }
        enter(folder.as_ref())?;
    }
    rustix::thread::set_no_new_privs(true).map_err(Trouble::os("no new privileges"))?;
    match &supervised {
        Some(_) => landlock::apart().map_err(Trouble::machine("landlock"))?,
        None => rules.apply(profile.network).map_err(Trouble::machine("landlock"))?,
    }
    sys::close_on_exec_from(3).map_err(Trouble::machine("descriptors"))?;
    // Late, because what comes before opens files.
    limits::apply(&profile.limits, setting.others).map_err(Trouble::words("limits"))?;
    filters.apply().map_err(Trouble::words("seccomp"))?;
    if let Some(supervised) = supervised {
        // The supervisor must be able to read the paths of this process.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable);
        supervised.install()?;
    }
    match &task.orders.act {
        Act::Probe => Ok(()),
        Act::Run(run) => Err(start(run, setting)),
        Act::Trial(scene) => {
            // It has begun, which the end of the pipe says.
            crate::doctor::acts::run(scene, profile, told.as_fd());
            Ok(())
        }
    }
}

/// Puts files into the private home directory. The directory is new, so nothing is in the way; a
/// command that misses one of them says so itself.
fn fill(home: &Path, files: &BTreeMap<String, String>) {
    for (name, text) in files {
        let file = File::options().write(true).create_new(true).open(home.join(name));
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

/// Opens the folder the command starts in, below its root and without following a link.
fn enter(folder: Option<&(PathBuf, PathBuf)>) -> Result<(), Trouble> {
    let missing = |e: rustix::io::Errno| match exhausted::limit(e) {
        Some(limit) => Trouble::transient("working directory", limit),
        None => Trouble {
            step: "working directory",
            message: format!("the working directory: {}", io::Error::from(e)),
            fault: Fault::Command,
        },
    };
    let Some((root, path)) = folder else {
        return rustix::process::chdir("/").map_err(missing);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root: OwnedFd = rustix::fs::open(root, flags, Mode::empty()).map_err(missing)?;
    // Falls back where `openat2` is missing, as inside another sandbox.
    let folder = open_below(root.as_fd(), path, SEARCH).map_err(missing)?;
    rustix::process::fchdir(folder).map_err(missing)
}

fn rules(task: &Task, setting: &Setting) -> Result<Rules, Trouble> {
    let profile = &task.orders.profile;
    let mut rules = Rules::default();
    match &profile.reads {
        Reads::Everything => rules.add("/", Right::Read),
        Reads::Only(paths) => {
            for path in Reads::SYSTEM {
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
            match setting.is_supervised || profile.protected.is_empty() && !is_git {
                true => rules.add(&root.path, Right::Write),
                // FAIL CLOSED: what may change there is a list of names.
                false if is_git => {}
                false => around_protected(&mut rules, &root.path, profile)?,
            }
        }
    }
    Ok(rules)
}

/// More entries than this beside a protected name are not gone through.
const BESIDE: usize = 4_096;

/// Where names cannot be supervised, a name cannot be taken out of a writable directory: rules only
/// add. So the directories that have protected names in them are read-only, and everything else in them
/// is writable by itself. New entries beside a protected name are refused: one of them could have that
/// name.
fn around_protected(rules: &mut Rules, root: &Path, profile: &Profile) -> Result<(), Trouble> {
    let names: Vec<Vec<_>> =
        profile.protected.iter().map(|name| Path::new(name).iter().collect()).collect();
    let mut todo = vec![(root.to_path_buf(), names)];
    let mut seen = 0;
    while let Some((folder, names)) = todo.pop() {
        let entries = folder.read_dir().map_err(Trouble::machine("landlock: roots"))?;
        for entry in entries {
            seen += 1;
            if seen > BESIDE {
                return Err(Trouble::profile(format!(
                    "`{}` has too many entries beside protected names",
                    folder.display()
                )));
            }
            let entry = entry.map_err(Trouble::machine("landlock: roots"))?;
            let name = entry.file_name();
            let below: Vec<Vec<_>> = names
                .iter()
                .filter(|parts| {
                    let is_one = |part: &str| part == "*" || is_spelling_of(&name, part);
                    parts.first().and_then(|part| part.to_str()).is_some_and(is_one)
                })
                .map(|parts| parts[1..].to_vec())
                .collect();
            let kind = entry.file_type().map_err(Trouble::machine("landlock: roots"))?;
            // A rule for a link would be one for what it leads to.
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

/// Starts the program. Comes back only with the reason why it could not.
fn start(run: &Run, setting: &Setting) -> Trouble {
    let scratch = setting.scratch.as_deref().map(|path| path.display().to_string());
    let mut environment = run.environment.clone();
    let path = environment.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned()).clone();
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
        for folder in path.split(':').filter(|folder| folder.starts_with('/')) {
            let error = sys::exec(&Path::new(folder).join(name), &argv, &environment);
            // What is there and may not be run says more than what is not there.
            if last.raw_os_error() == Some(libc::ENOENT) {
                last = error;
            }
        }
    }
    let message = match last.raw_os_error() {
        // A folder of the search path that is hidden here gives the second, whatever is in it.
        Some(libc::ENOENT | libc::EACCES) if !name.contains('/') => {
            format!("the program `{name}` is not installed, or the sandbox does not show it")
        }
        _ => format!("`{name}`: {last}"),
    };
    Trouble { step: "start", message, fault: Fault::Command }
}
