//! Path resolution compared with the kernel (differential test): each path is also opened by a
//! second process, and the file or the errno must be the same.

mod kernel;
mod own_process;
mod race;
mod tree;

use std::os::fd::AsFd as _;

use self::{
    kernel::{Found, Kernel, Question},
    tree::{Random, Tree},
};
use super::*;

fn is_long() -> bool {
    std::env::var_os("HAFT_LONG_TESTS").is_some()
}

/// Runs a test in a new thread, which may drop capabilities and has its own working directory, as
/// the supervisor has.
#[expect(clippy::disallowed_methods, reason = "a test without a runtime")]
fn in_thread(test: impl FnOnce() + Send + 'static) {
    let test = || {
        unshare_fs().unwrap();
        test();
    };
    if let Err(panic) = std::thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Resolves and opens a path, as the syscalls of `acts` do.
fn found(kernel: &mut Kernel, base: i32, path: &[u8], is_followed: bool) -> Result<Found, Errno> {
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

#[test]
fn paths_resolve_as_in_the_kernel() {
    if kernel::is_second_process() {
        return;
    }
    in_thread(|| {
        let mut kernel =
            Kernel::start(&full_name(module_path!(), "paths_resolve_as_in_the_kernel"));
        let (trees, paths) = if is_long() { (600, 200) } else { (30, 100) };
        let mut comparison = Comparison::default();
        for seed in 0..trees {
            let mut random = Random(seed);
            let tree = Tree::new(&mut random, &mut kernel);
            for _ in 0..paths {
                let path = tree.path(&mut random);
                let base = match random.below(3) {
                    0 => *random.pick(&tree.fds),
                    1 if random.one_in(20) => 99,
                    _ => libc::AT_FDCWD,
                };
                comparison.compare(&mut kernel, &tree, base, &path, seed);
            }
            kernel.ask(Question::Close, libc::AT_FDCWD, b"/").unwrap();
        }
        let shown: Vec<_> = comparison.differences.iter().take(20).cloned().collect();
        assert!(shown.is_empty(), "{}:\n{}", comparison.differences.len(), shown.join("\n"));
        // If all paths failed, the test would prove little.
        let is_enough = comparison.hits > trees * paths / 2 && comparison.made > trees * paths / 50;
        assert!(is_enough, "{} found, {} made", comparison.hits, comparison.made);
    });
}

#[derive(Default)]
struct Comparison {
    hits: u64,
    made: u64,
    differences: Vec<String>,
}

impl Comparison {
    fn compare(&mut self, kernel: &mut Kernel, tree: &Tree, base: i32, path: &[u8], seed: u64) {
        let what = || format!("tree {seed}, base {base}, {:?}", OsStr::from_bytes(path));
        kernel.send(Question::Follow, base, path);
        kernel.send(Question::NoFollow, base, path);
        for is_followed in [true, false] {
            let own = found(kernel, base, path, is_followed);
            let theirs = kernel.receive().map(|(found, _)| found);
            self.hits += u64::from(theirs.is_ok());
            if own != theirs {
                let line = format!("followed {is_followed}: {own:?} {theirs:?} {}", what());
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
}

/// Returns the full name of a test for `--exact`.
fn full_name(module: &str, test: &str) -> String {
    format!("{}::{test}", module.split_once("::").unwrap().1)
}

/// A caller whose paths start in one directory.
struct Here(OwnedFd);

impl CallingThread for Here {
    fn tid(&self) -> u32 {
        rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
    }

    fn tgid(&mut self) -> Result<u32, Errno> {
        Ok(std::process::id())
    }

    fn check(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn directory(&mut self, _fd: i32) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.0, ".", DIRECTORY, Mode::empty())
    }
}
