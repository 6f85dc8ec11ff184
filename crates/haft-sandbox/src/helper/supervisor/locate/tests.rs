//! Where paths lead, beside the kernel. The kernel is the oracle: each path is also opened by a
//! second process, and what it finds, or its error number, must be the same.

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

/// Runs a test in a thread of its own, which may give up rights.
#[expect(clippy::disallowed_methods, reason = "a test without a runtime")]
fn in_thread(test: impl FnOnce() + Send + 'static) {
    if let Err(panic) = std::thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

/// Opens what a path leads to, as the calls of `acts` do.
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

/// Returns where a new file would be made, if there is none yet.
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
fn paths_lead_where_the_kernel_says() {
    if kernel::is_second_process() {
        return;
    }
    in_thread(|| {
        let mut kernel =
            Kernel::start(&full_name(module_path!(), "paths_lead_where_the_kernel_says"));
        let (trees, paths) = if is_long() { (600, 200) } else { (30, 100) };
        let mut seen = Seen::default();
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
                seen.compare(&mut kernel, &tree, base, &path, seed);
            }
            kernel.ask(Question::Close, libc::AT_FDCWD, b"/").unwrap();
        }
        let shown: Vec<_> = seen.differences.iter().take(20).cloned().collect();
        assert!(shown.is_empty(), "{}:\n{}", seen.differences.len(), shown.join("\n"));
        // Paths that all fail would show little.
        let is_enough = seen.hits > trees * paths / 2 && seen.made > trees * paths / 50;
        assert!(is_enough, "{} found, {} made", seen.hits, seen.made);
    });
}

#[derive(Default)]
struct Seen {
    hits: u64,
    made: u64,
    differences: Vec<String>,
}

impl Seen {
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
            // The kernel may refuse to make it, and then it is not made under supervision either.
            let Ok((theirs, _)) = kernel.ask(question, base, path) else { continue };
            self.made += 1;
            if theirs.path != own {
                let line = format!("{question:?}: {own:?} {theirs:?} {}", what());
                self.differences.push(line);
            }
        }
    }
}

/// Returns the name of a test as the test program knows it.
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

    fn directory(&mut self, _fd: i32) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.0, ".", DIRECTORY, Mode::empty())
    }
}
