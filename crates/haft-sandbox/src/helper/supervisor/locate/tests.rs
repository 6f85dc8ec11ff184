//! Path resolution compared with the kernel (differential test): each path is also opened by a
//! second process, and the file or the errno must be the same.

mod compare;
mod kernel;
mod own_process;
mod race;
mod tree;

use self::{
    compare::{Comparison, compare_input},
    kernel::{Kernel, Question},
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
            let mut random = Random::seeded(seed);
            let tree = Tree::new(&mut random, &mut kernel);
            for _ in 0..paths {
                let path = tree.path(&mut random);
                let base = tree.base(&mut random);
                comparison.compare(&mut kernel, &tree, base, &path);
            }
            kernel.ask(Question::Close, libc::AT_FDCWD, b"/").unwrap();
        }
        comparison.assert_equal();
        // If all paths failed, the test would prove little.
        let is_enough = comparison.hits > trees * paths / 2 && comparison.made > trees * paths / 50;
        assert!(is_enough, "{} found, {} made", comparison.hits, comparison.made);
    });
}

/// Inputs of the fuzz target `paths`: its seeds, and random bytes.
#[test]
fn fuzzed_paths_resolve_as_in_the_kernel() {
    if kernel::is_second_process() {
        return;
    }
    in_thread(|| {
        let test = full_name(module_path!(), "fuzzed_paths_resolve_as_in_the_kernel");
        let mut kernel = Kernel::start(&test);
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/paths");
        let mut inputs: Vec<_> = std::fs::read_dir(seeds)
            .unwrap()
            .map(|seed| std::fs::read(seed.unwrap().path()).unwrap())
            .collect();
        assert!(inputs.len() >= 3);
        let mut random = Random::seeded(7);
        let bytes = |random: &mut Random| u8::try_from(random.below(256)).unwrap();
        let count = if is_long() { 4000 } else { 60 };
        inputs.extend((0..count).map(|_| {
            let len = random.below(400);
            (0..len).map(|_| bytes(&mut random)).collect()
        }));
        let mut comparison = Comparison::default();
        for input in &inputs {
            compare_input(&mut kernel, &mut comparison, input);
        }
        comparison.assert_equal();
        assert!(comparison.hits > 5 * inputs.len() as u64, "{} found", comparison.hits);
    });
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
