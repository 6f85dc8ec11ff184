//! The supervisor's own process directory in `/proc` is refused in every spelling.

use super::{compare::found, kernel::Found, *};

/// Paths inside the process directory of the supervisor.
const SUFFIXES: [&str; 18] = [
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

/// Creates a `/proc` that is mounted nowhere, so that its paths do not start with `/proc`. Prints a
/// note and returns `None` without the right to do so.
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
fn proc_directory_of_the_supervisor_is_refused_in_every_spelling() {
    if kernel::is_second_process() {
        return;
    }
    in_thread(|| {
        let name = "proc_directory_of_the_supervisor_is_refused_in_every_spelling";
        let mut kernel = Kernel::start(&full_name(module_path!(), name));
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let here = libc::AT_FDCWD;
        let (own, other) = (std::process::id(), kernel.pid());
        let tid = rustix::thread::gettid();
        // File descriptors of the second process. It may open them itself with `O_PATH`.
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
        // Spellings of `/proc`.
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
                // A symlink outside of `/proc` is not refused, even if its target is there.
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
            for suffix in SUFFIXES {
                check(&mut kernel, here, &format!("{process}{suffix}"));
            }
        }
        for suffix in SUFFIXES.iter().filter(|suffix| suffix.len() > 1) {
            for base in &held {
                check(&mut kernel, *base, suffix.trim_start_matches('/'));
            }
            for id in &ids {
                check(&mut kernel, proc, &format!("{id}{suffix}"));
            }
        }
        assert!(reached.is_empty(), "{}: {:#?}", reached.len(), &reached[..reached.len().min(20)]);
        // The kernel opens most of them for the second process, so they are valid paths.
        assert!(opened > checked / 2, "{opened} of {checked}");
    });
}

#[test]
fn proc_directory_of_the_supervisor_is_refused_in_a_second_proc_mount() {
    let Some(second) = second_proc() else { return };
    let mut caller = Here(second);
    let mut locate = |path: &str| Locator::new(&mut caller).locate(libc::AT_FDCWD, path.as_bytes());
    // Another process is not refused.
    assert!(matches!(locate("1/status"), Ok(Located::Entry(_))));
    for directory in own_directories() {
        for suffix in SUFFIXES {
            let path = format!("{directory}{suffix}");
            // A thread has no threads of its own.
            let is_missing = directory.contains("/task/") && suffix == "/task/.";
            let expected = if is_missing { Errno::NOENT } else { Errno::ACCESS };
            assert_eq!(locate(&path).err(), Some(expected), "{path}");
        }
    }
}
