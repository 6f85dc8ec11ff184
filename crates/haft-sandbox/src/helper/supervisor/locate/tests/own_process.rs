//! The refusal of the supervisor's own process directory, by many spellings.

use super::*;

/// Ways into the process directory of the supervisor. None of them leads out of it again.
const INTO: [&str; 18] = [
    "",
    "/",
    "/.",
    "//",
    "/fd",
    "/fd/",
    "/fd/0",
    "/fd/1",
    "/mem",
    "/root",
    "/root/",
    "/root/tmp",
    "/cwd",
    "/cwd/.",
    "/task",
    "/task/.",
    "/exe",
    "/ns/mnt",
];

/// Makes a `/proc` that is mounted nowhere, so that its paths do not begin with `/proc`. `None`,
/// and a word about it, without the right to do so.
fn second_proc() -> Option<OwnedFd> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
    let made = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|context| {
        rustix::mount::fsconfig_create(context.as_fd())?;
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        rustix::mount::fsmount(context.as_fd(), flags, MountAttrFlags::empty())
    });
    made.inspect_err(|e| eprintln!("NOT TESTED: a second /proc cannot be mounted: {e}")).ok()
}

/// Spellings of the supervisor's directories, from the top of a `/proc`.
fn own_directories() -> Vec<String> {
    let (own, tid) = (std::process::id(), rustix::thread::gettid());
    vec![
        own.to_string(),
        tid.to_string(),
        format!("{own}/task/{tid}"),
        format!("{own}/task/{own}"),
        format!("{tid}/task/{own}"),
        format!("./{own}"),
        format!("self/../{own}"),
        format!("{own}/fd/.."),
        format!("{own}/task/{tid}/../{own}"),
    ]
}

#[test]
fn no_spelling_reaches_the_process_directory_of_the_supervisor() {
    if kernel::is_second_process() {
        return;
    }
    in_thread(|| {
        let name = "no_spelling_reaches_the_process_directory_of_the_supervisor";
        let mut kernel = Kernel::start(&full_name(module_path!(), name));
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let here = libc::AT_FDCWD;
        let (own, other) = (std::process::id(), kernel.pid());
        let tid = rustix::thread::gettid();
        // The second process holds these. It may open them itself, as handles.
        let mut keep = |path: &str| {
            let (found, fd) = kernel.ask(Question::Keep, here, path.as_bytes()).unwrap();
            assert_eq!(found.path, Path::new(path));
            fd
        };
        let proc = keep("/proc");
        let held: Vec<i32> = [
            format!("/proc/{own}"),
            format!("/proc/{own}/fd"),
            format!("/proc/{own}/status"),
            format!("/proc/{own}/task/{tid}"),
            format!("/proc/{tid}"),
        ]
        .iter()
        .map(|path| keep(path))
        .collect();
        let working = root.as_os_str().as_bytes();
        kernel.ask(Question::Enter, here, working).unwrap();
        let up = "../".repeat(root.iter().count());
        let link = |name: &str, target: &str| {
            std::os::unix::fs::symlink(target, root.join(name)).unwrap();
            name.to_owned()
        };
        // Spellings of the directory of all processes, of one of them, and of the supervisor.
        let tops = [
            "/proc".to_owned(),
            "//proc/.".to_owned(),
            "/proc/self/..".to_owned(),
            "/proc/thread-self/../../..".to_owned(),
            format!("/proc/{other}/root/proc"),
            format!("/proc/self/task/{}/root/proc", kernel.tid()),
            format!("/proc/self/fd/{proc}"),
            format!("/dev/fd/{proc}"),
            format!("{up}proc"),
            "/proc/self/cwd/link-proc".to_owned(),
            link("link-proc", "/proc"),
            link("link-up", &format!("{up}proc/")),
            link("link-self", "/proc/self/.."),
            link("link-link", "link-self/self/../."),
            format!("/proc/{own}/.."),
            format!("/proc/{own}/task/../.."),
        ];
        let ids = own_directories();
        let mut processes: Vec<String> =
            tops.iter().flat_map(|top| ids.iter().map(move |id| format!("{top}/{id}"))).collect();
        processes.extend(held.iter().map(|fd| format!("/proc/self/fd/{fd}")));
        processes.extend(held.iter().map(|fd| format!("/dev/fd/{fd}")));
        let direct = link("own", &format!("/proc/{own}"));
        processes.push(link("own-link", &direct));
        processes.push(link("own-fd", &format!("/proc/self/fd/{}", held[0])));
        processes.push(direct);
        let mut opened = 0;
        let mut checked = 0;
        let mut reached = Vec::new();
        let mut check = |kernel: &mut Kernel, base: i32, path: &str| {
            checked += 1;
            let path = path.as_bytes();
            for is_followed in [true, false] {
                // A symlink outside of `/proc` that leads there is no part of it.
                let found = found(kernel, base, path, is_followed);
                let is_outside = |found: &Found| !is_followed && found.path.starts_with(&root);
                let is_fd = |found: &Found| {
                    !is_followed && found.path.starts_with(format!("/proc/{other}"))
                };
                if let Ok(found) = &found
                    && !is_outside(found)
                    && !is_fd(found)
                {
                    reached.push(format!("{:?}: {found:?}", OsStr::from_bytes(path)));
                }
            }
            opened += u32::from(kernel.ask(Question::Follow, base, path).is_ok());
        };
        for process in &processes {
            for into in INTO {
                check(&mut kernel, here, &format!("{process}{into}"));
            }
        }
        for into in INTO.iter().filter(|into| into.len() > 1) {
            for base in &held {
                check(&mut kernel, *base, into.trim_start_matches('/'));
            }
            for id in &ids {
                check(&mut kernel, proc, &format!("{id}{into}"));
            }
        }
        assert!(reached.is_empty(), "{}: {:#?}", reached.len(), &reached[..reached.len().min(20)]);
        // The kernel opens most of them for the second process: they are no typing errors.
        assert!(opened > checked / 2, "{opened} of {checked}");
    });
}

#[test]
fn second_mount_of_proc_does_not_lead_to_the_supervisor_either() {
    let Some(second) = second_proc() else { return };
    let mut caller = Here(second);
    let mut locate = |path: &str| Locator::new(&mut caller).locate(libc::AT_FDCWD, path.as_bytes());
    // Another process is not refused.
    assert!(matches!(locate("1/status"), Ok(Located::Entry(_))));
    for directory in own_directories() {
        for into in INTO {
            let path = format!("{directory}{into}");
            // A thread has no threads of its own.
            let is_missing = directory.contains("/task/") && into == "/task/.";
            let expected = if is_missing { Errno::NOENT } else { Errno::ACCESS };
            assert_eq!(locate(&path).err(), Some(expected), "{path}");
        }
    }
}
