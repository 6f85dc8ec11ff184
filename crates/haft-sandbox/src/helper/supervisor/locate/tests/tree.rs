//! Random small directory trees, and random paths in and around them.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::kernel::{Kernel, Question};

/// A source of choices: first the bytes of an input, then a seeded generator (SplitMix64).
pub(super) struct Random {
    bytes: VecDeque<u8>,
    state: u64,
}

impl Random {
    pub(super) fn seeded(seed: u64) -> Self {
        Self { bytes: VecDeque::new(), state: seed }
    }

    /// Chooses by the bytes, so that a fuzzer can change one choice. The generator that follows
    /// them has the length as its seed.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.iter().copied().collect(), state: bytes.len() as u64 }
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        if let Some(first) = self.bytes.pop_front() {
            let second = if bound > 256 { self.bytes.pop_front() } else { None };
            return (usize::from(first) | usize::from(second.unwrap_or_default()) << 8) % bound;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % u64::try_from(bound).unwrap()).unwrap()
    }

    pub(super) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

/// A tree on disk, with the names that paths are built from.
pub(super) struct Tree {
    pub(super) root: PathBuf,
    names: Vec<Vec<u8>>,
    /// Entries, relative to the root.
    entries: Vec<Vec<u8>>,
    directories: Vec<PathBuf>,
    unsearchable: Vec<PathBuf>,
    /// File descriptors of the second process.
    pub(super) fds: Vec<i32>,
    /// Paths in `/proc` or `/dev` that resolve to files of the second process.
    prefixes: Vec<Vec<u8>>,
    _temporary: TempDir,
}

/// Names for entries. The pid of this process is one: it must be refused only in `/proc`.
fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = ["a", "b", "c", "d", "with space", "new\nline", "...", "self"]
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    names.push(b"\xff\xfe".to_vec());
    names.push(b"gone (deleted)".to_vec());
    names.push(vec![b'n'; 255]);
    names.push(std::process::id().to_string().into_bytes());
    names
}

impl Tree {
    pub(super) fn new(random: &mut Random, kernel: &mut Kernel) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        let mut tree = Self {
            names: names(),
            entries: Vec::new(),
            directories: vec![root.clone()],
            unsearchable: Vec::new(),
            fds: Vec::new(),
            prefixes: Vec::new(),
            root,
            _temporary: temporary,
        };
        // The second process first: symlinks go through its file descriptors.
        tree.add_directories(random);
        tree.add_descriptors(random, kernel);
        for _ in 0..18 {
            tree.add_symlink(random);
        }
        tree.add_chain(random);
        let link = tree.root.join(OsStr::from_bytes(random.pick::<Vec<u8>>(&tree.entries)));
        let kept = kernel.ask(Question::KeepNoFollow, libc::AT_FDCWD, link.as_os_str().as_bytes());
        tree.fds.extend(kept.map(|(_, fd)| fd));
        tree.add_prefixes(kernel);
        for _ in 0..2 {
            // Last, because no file can be created in it afterwards.
            if random.one_in(2) && tree.directories.len() > 1 {
                let at = 1 + random.below(tree.directories.len() - 1);
                let mode = *random.pick(&[0o000, 0o600, 0o100]);
                let directory = tree.directories[at].clone();
                if fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).is_ok() {
                    tree.unsearchable.push(directory);
                }
            }
        }
        tree
    }

    fn record(&mut self, path: PathBuf, is_directory: bool) {
        let below = path.strip_prefix(&self.root).unwrap();
        self.entries.push(below.as_os_str().as_bytes().to_vec());
        if is_directory {
            self.directories.push(path);
        }
    }

    /// Returns a new path in one of the directories, `None` if the name exists.
    fn unused_path(&self, random: &mut Random) -> Option<PathBuf> {
        let name = random.pick(&self.names);
        let path = random.pick(&self.directories).join(OsStr::from_bytes(name));
        // Real paths stay shorter than what the kernel can return.
        let is_short = path.as_os_str().len() < 1500;
        (is_short && path.symlink_metadata().is_err()).then_some(path)
    }

    fn add_directories(&mut self, random: &mut Random) {
        for _ in 0..14 {
            let Some(path) = self.unused_path(random) else { continue };
            let is_directory = !random.one_in(3);
            if is_directory {
                fs::create_dir(&path).unwrap();
            } else {
                fs::File::create(&path).unwrap();
            }
            self.record(path, is_directory);
        }
        if self.entries.is_empty() {
            let path = self.root.join("a");
            fs::create_dir(&path).unwrap();
            self.record(path, true);
        }
    }

    /// Lets the second process open entries, a pipe and a removed directory, and enter a directory.
    fn add_descriptors(&mut self, random: &mut Random, kernel: &mut Kernel) {
        let here = libc::AT_FDCWD;
        let gone = self.root.join("gone");
        fs::create_dir(&gone).unwrap();
        let mut paths = vec![gone.clone(), random.pick(&self.directories).clone()];
        paths.push(self.root.join(OsStr::from_bytes(random.pick::<Vec<u8>>(&self.entries))));
        for path in paths {
            let (_, fd) = kernel.ask(Question::Keep, here, path.as_os_str().as_bytes()).unwrap();
            self.fds.push(fd);
        }
        self.fds.push(kernel.ask(Question::KeepPipe, here, b"/").unwrap().1);
        let working = if random.one_in(12) { &gone } else { random.pick(&self.directories) };
        kernel.ask(Question::Enter, here, working.as_os_str().as_bytes()).unwrap();
        fs::remove_dir(&gone).unwrap();
    }

    fn add_symlink(&mut self, random: &mut Random) {
        let Some(path) = self.unused_path(random) else { return };
        let mut target = match random.below(8) {
            // A symlink to itself: a loop.
            0 => path.file_name().unwrap().as_bytes().to_vec(),
            1 => random.pick(&self.names).clone(),
            2 | 3 => self.absolute(random),
            4 => {
                let up = random.below(4);
                let mut target = b"../".repeat(up);
                target.extend(random.pick(&self.entries));
                target
            }
            5 => {
                let fd = *random.pick(&self.fds);
                let starts = [
                    "/proc/self/cwd".to_owned(),
                    "/proc/thread-self/cwd".to_owned(),
                    "/proc/self/root".to_owned(),
                    format!("/proc/self/fd/{fd}"),
                    format!("/dev/fd/{fd}"),
                ];
                let mut target = random.pick(&starts).clone().into_bytes();
                if random.one_in(2) {
                    target.push(b'/');
                    target.extend(random.pick(&self.names));
                }
                target
            }
            6 => random.pick(&[&b"."[..], b"..", b"/", b"./.", b"../..", b"//"]).to_vec(),
            _ => {
                // Many `.` components.
                let mut target = b"./".repeat(random.below(2047 - 130));
                target.extend(random.pick(&self.names));
                target
            }
        };
        if random.one_in(5) {
            target.extend(random.pick(&[&b"/"[..], b"//", b"/.", b"/.."]).iter());
        }
        if target.len() < 4096 && symlink(OsStr::from_bytes(&target), &path).is_ok() {
            self.record(path, false);
        }
    }

    /// Adds a chain of symlinks, about as long as the kernel follows.
    fn add_chain(&mut self, random: &mut Random) {
        let len = 36 + random.below(8);
        let end = random.pick(&self.entries).clone();
        // Each may add many components before the next one.
        let rest = if random.one_in(3) { b"/.".repeat(random.below(2000)) } else { Vec::new() };
        for number in 0..len {
            let mut target = match number + 1 {
                next if next == len => end.clone(),
                next => format!("chain{next}").into_bytes(),
            };
            target.extend(&rest);
            if target.len() < 4096 {
                let path = self.root.join(format!("chain{number}"));
                symlink(OsStr::from_bytes(&target), path).unwrap();
            }
        }
        for number in [0, 0, 1, 2, 3, 4, len - 1] {
            self.entries.push(format!("chain{number}").into_bytes());
        }
    }

    fn add_prefixes(&mut self, kernel: &Kernel) {
        use super::super::CallingThread as _;
        let (pid, tid) = (kernel.pid(), kernel.tid());
        let root = self.root.display();
        let mut all = vec![
            "/proc/self/cwd".to_owned(),
            "/proc/thread-self/cwd".to_owned(),
            format!("/proc/self/root{root}"),
            format!("/proc/self/task/{tid}/cwd"),
            format!("/proc/{pid}/cwd"),
            format!("/proc/{tid}/cwd"),
            format!("/proc/{pid}/task/{pid}/cwd"),
            "/proc/self/../self/./cwd".to_owned(),
            format!("/proc/thread-self/root/proc/self/cwd"),
            "/proc/net".to_owned(),
            "/proc/mounts".to_owned(),
            "/proc/self/exe".to_owned(),
            "/proc/self/ns/mnt".to_owned(),
            "/proc/self".to_owned(),
            "/proc/thread-self".to_owned(),
            "/dev/fd".to_owned(),
            "/dev/stdin".to_owned(),
            "/proc/self/fd/99".to_owned(),
            "/proc/0".to_owned(),
        ];
        for fd in &self.fds {
            all.push(format!("/proc/self/fd/{fd}"));
            all.push(format!("/proc/self/task/{tid}/fd/{fd}"));
            all.push(format!("/dev/fd/{fd}"));
        }
        self.prefixes = all.into_iter().map(String::into_bytes).collect();
    }

    fn absolute(&self, random: &mut Random) -> Vec<u8> {
        let mut path = self.root.as_os_str().as_bytes().to_vec();
        path.push(b'/');
        path.extend(random.pick(&self.entries));
        path
    }

    /// Returns a random path, which often exists.
    pub(super) fn path(&self, random: &mut Random) -> Vec<u8> {
        let mut path = match random.below(8) {
            0 | 1 => random.pick(&self.prefixes).clone(),
            2 => random.pick(&self.names).clone(),
            3 => random.pick(&self.entries).clone(),
            _ => self.absolute(random),
        };
        let more = *random.pick(&[0, 0, 0, 1, 1, 2, 3]);
        for _ in 0..more {
            let part = match random.below(7) {
                0 => b"..".to_vec(),
                1 => b".".to_vec(),
                2 => Vec::new(),
                3 => random.pick(&self.entries).clone(),
                4 if random.one_in(4) => vec![b'n'; 256],
                _ => random.pick(&self.names).clone(),
            };
            path.extend([b"/", part.as_slice()].concat());
        }
        if random.one_in(6) {
            path.extend(random.pick(&[&b"/"[..], b"//", b"/.", b"/./", b"/.."]).iter());
        }
        if random.one_in(12) {
            let at = path.iter().position(|byte| *byte == b'/').unwrap_or_default();
            let dots = b"/./".repeat(random.below(400));
            path.splice(at..at, dots);
        }
        path.truncate(4095);
        path
    }

    /// Returns where a relative path starts: the working directory or a file descriptor, sometimes
    /// a closed one.
    pub(super) fn base(&self, random: &mut Random) -> i32 {
        match random.below(3) {
            0 => *random.pick(&self.fds),
            1 if random.one_in(20) => 99,
            _ => libc::AT_FDCWD,
        }
    }

    pub(super) fn holds(&self, path: &Path) -> bool {
        path.starts_with(&self.root)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for directory in &self.unsearchable {
            let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
        }
    }
}
