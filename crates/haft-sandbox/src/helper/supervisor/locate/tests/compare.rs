//! Compares the supervisor's path resolution with the kernel's, for paths in a random tree.
//!
//! Shared by the tests and the fuzz target `paths`.

use std::{
    ffi::OsStr,
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
};

use rustix::{fs::FileType, io::Errno};

use super::{
    super::{Located, Locator, look, real_path},
    kernel::{Found, Kernel, Question},
    tree::{Random, Tree},
};

/// Paths of one input that are built from names in the tree.
const DRAWN_PATHS: usize = 12;
/// Paths of one input that are any bytes.
const MAX_INPUT_PATHS: usize = 8;

/// Resolves and opens a path, as the syscalls of `acts` do.
pub(super) fn found(
    kernel: &mut Kernel,
    base: i32,
    path: &[u8],
    is_followed: bool,
) -> Result<Found, Errno> {
    let mut locator = Locator::new(kernel);
    let fd = match locator.locate(base, path)? {
        Located::Entry(entry) if !is_followed && !entry.is_directory => {
            let (fd, _) = look(&entry)?;
            assert_eq!(real_path(fd.as_fd())?, entry.path);
            fd
        }
        located => {
            let (fd, path) = locator.existing(located)?;
            assert_eq!(real_path(fd.as_fd())?, path);
            fd
        }
    };
    Found::of(fd.as_fd())
}

/// Returns where a new file would be created, `None` if the path exists.
fn new(kernel: &mut Kernel, base: i32, path: &[u8], is_followed: bool) -> Option<PathBuf> {
    let mut locator = Locator::new(kernel);
    let mut located = locator.locate(base, path).ok()?;
    loop {
        let Located::Entry(entry) = located else { return None };
        if entry.is_directory {
            return None;
        }
        match look(&entry) {
            Err(Errno::NOENT) => return Some(entry.path),
            Ok((_, FileType::Symlink)) if is_followed => located = locator.follow(&entry).ok()?,
            _ => return None,
        }
    }
}

/// What was compared, and what differed.
#[derive(Default)]
pub(super) struct Comparison {
    pub(super) hits: u64,
    pub(super) made: u64,
    differences: Vec<String>,
}

impl Comparison {
    pub(super) fn compare(&mut self, kernel: &mut Kernel, tree: &Tree, base: i32, path: &[u8]) {
        let what = || format!("base {base}, {:?}", OsStr::from_bytes(path));
        let mut differences = Vec::new();
        kernel.send(Question::Follow, base, path);
        kernel.send(Question::NoFollow, base, path);
        for is_followed in [true, false] {
            let own = found(kernel, base, path, is_followed);
            let theirs = kernel.receive().map(|(found, _)| found);
            self.hits += u64::from(theirs.is_ok());
            if own != theirs {
                let line = format!("followed {is_followed}: {own:?} {theirs:?} {}", what());
                differences.push((line, own == Err(Errno::ACCESS)));
            }
        }
        for (line, is_refused) in differences {
            if !(is_refused && leads_through_supervisor(kernel, base, path)) {
                self.differences.push(line);
            }
        }
        for (question, is_followed) in [(Question::Create, true), (Question::CreateNew, false)] {
            let Some(own) = new(kernel, base, path, is_followed) else { continue };
            if !tree.holds(&own) {
                continue;
            }
            // If the kernel refuses to create it, the supervisor does not create it either.
            let Ok((theirs, _)) = kernel.ask(question, base, path) else { continue };
            self.made += 1;
            if theirs.path != own {
                let line = format!("{question:?}: {own:?} {theirs:?} {}", what());
                self.differences.push(line);
            }
        }
    }

    pub(super) fn assert_equal(&self) {
        let shown: Vec<_> = self.differences.iter().take(20).cloned().collect();
        assert!(shown.is_empty(), "{}:\n{}", self.differences.len(), shown.join("\n"));
    }
}

/// Returns whether a path leads through the process directory of the supervisor, by the kernel's
/// resolution of its beginning. Only the supervisor refuses such a path.
fn leads_through_supervisor(kernel: &mut Kernel, base: i32, path: &[u8]) -> bool {
    let own = std::process::id().to_string();
    let directory = Path::new("/proc").join(&own);
    let mut end = 0;
    for part in path.split(|byte| *byte == b'/') {
        end += part.len();
        if part == own.as_bytes() {
            let beginning = path.get(..end).unwrap();
            let found = kernel.ask(Question::NoFollow, base, beginning);
            if found.is_ok_and(|(found, _)| found.path == directory) {
                return true;
            }
        }
        end += 1;
    }
    false
}

/// Compares the paths of one input. A NUL ends its first part, which chooses the tree and paths in
/// it. Each further part is a path, after a byte that chooses where it starts.
pub(super) fn compare_input(kernel: &mut Kernel, comparison: &mut Comparison, input: &[u8]) {
    let mut parts = input.split(|byte| *byte == 0);
    let mut random = Random::from_bytes(parts.next().unwrap_or_default());
    let tree = Tree::new(&mut random, kernel);
    for _ in 0..DRAWN_PATHS {
        let path = tree.path(&mut random);
        let base = tree.base(&mut random);
        comparison.compare(kernel, &tree, base, &path);
    }
    for part in parts.take(MAX_INPUT_PATHS) {
        // An empty path is refused before it is resolved (`Caller::path`).
        let Some((start, path @ [_, ..])) = part.split_first() else { continue };
        let mut random = Random::from_bytes(&[*start]);
        let path = match start % 4 {
            0 => [tree.root.as_os_str().as_bytes(), b"/", path].concat(),
            _ => path.to_vec(),
        };
        let base = tree.base(&mut random);
        comparison.compare(kernel, &tree, base, path.get(..4095).unwrap_or(&path));
    }
    kernel.ask(Question::Close, libc::AT_FDCWD, b"/").unwrap();
}
