//! Paths that change while they are resolved (TOCTOU): the returned path belongs to the returned
//! file.

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use super::*;

/// The directories of the race, and every path that each has at some time. `w/d` and `w/e` are
/// exchanged: one is a directory, the other a symlink to `out`.
const PLACES: [(&str, &[&str]); 6] = [
    ("", &[""]),
    ("w", &["w"]),
    ("w/d", &["w/d", "w/e"]),
    ("w/d/sub", &["w/d/sub", "w/e/sub"]),
    ("out", &["out"]),
    ("out/sub", &["out/sub"]),
];

#[test]
fn path_race_never_reports_a_wrong_path() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let identity = |fd: BorrowedFd<'_>| {
        let stat = rustix::fs::fstat(fd).unwrap();
        (stat.st_dev, stat.st_ino)
    };
    let open = |path: &Path| rustix::fs::open(path, DIRECTORY - OFlags::DIRECTORY, Mode::empty());
    let mut known = HashMap::new();
    for (place, paths) in PLACES {
        std::fs::create_dir_all(root.join(place)).unwrap();
        std::fs::File::create(root.join(place).join("x")).unwrap();
        for name in ["", "x"] {
            let at = |path: &str| match (path, name) {
                ("", "") => root.clone(),
                (path, "") => root.join(path),
                (path, name) => root.join(path).join(name),
            };
            let fd = open(&at(place)).unwrap();
            known.insert(
                identity(fd.as_fd()),
                paths.iter().map(|path| at(path)).collect::<Vec<_>>(),
            );
        }
    }
    std::os::unix::fs::symlink("../out", root.join("w/e")).unwrap();
    let (is_done, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (root.join("w/d"), root.join("w/e"));
            while !is_done.load(Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &one, CWD, &other, flags).unwrap();
                swaps.fetch_add(1, Relaxed);
            }
        });
        let finish = Finish(&is_done);
        let mut caller = Here(open(&root).unwrap());
        let absolute = root.join("w/d/sub/x");
        let paths = [
            &b"w/d/x"[..],
            b"w/e/x",
            b"w/d/sub/x",
            b"w/d/../x",
            b"w/d/sub/../../x",
            b"w/d",
            b"w/e/../d/x",
            b"w/e/sub/../x/",
            b"w/d/new",
            b"w/d/sub/.",
            absolute.as_os_str().as_bytes(),
        ];
        let min_calls = if is_long() { 500_000 } else { 20_000 };
        let mut seen = BTreeSet::new();
        for number in 0..min_calls * 10 {
            // The first path has three possible results, and each must be seen.
            if number >= min_calls && seen.len() >= 3 {
                break;
            }
            let which = number % paths.len();
            let mut locator = Locator::new(&mut caller);
            let Ok(located) = locator.locate(libc::AT_FDCWD, paths[which]) else { continue };
            if let Located::Entry(entry) = &located {
                let parent = entry.path.parent().unwrap();
                let allowed = &known[&identity(entry.parent.as_fd())];
                assert!(allowed.iter().any(|path| path == parent), "{parent:?} {allowed:?}");
            }
            let Ok((fd, path)) = locator.existing(located) else { continue };
            let allowed = &known[&identity(fd.as_fd())];
            assert!(allowed.contains(&path), "{path:?} {allowed:?}");
            if which == 0 {
                seen.insert(path);
            }
        }
        drop(finish);
        assert!(seen.len() >= 3, "the race was not met: {seen:?}, {swaps:?} swaps");
    });
}

/// Stops the other thread, even after a panic.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
