//! The supervisor of names resolves every path to the same file as the kernel, or fails with the
//! same errno; a new file is created where the kernel creates it; no path leads into the
//! supervisor's own process.
//!
//! The code under test and the comparison are those of the tests of `haft-sandbox`. They are
//! private there, so this program compiles the same files. The kernel's answers come from a second
//! process, which is this program started again.
#![no_main]

/// The modules that the included files refer to, under the same names.
#[cfg(target_os = "linux")]
#[path = "."] // the paths below start at this file
#[expect(dead_code, reason = "the fuzzer uses a part of the files")]
mod helper {
    pub(crate) mod sys {
        /// The fuzzer restores its working directory after each input, so none of its own is
        /// needed.
        pub(crate) fn unshare_fs() -> std::io::Result<()> {
            Ok(())
        }
    }

    #[path = "."]
    pub(crate) mod supervisor {
        #[path = "../../crates/haft-sandbox/src/helper/supervisor/locate.rs"]
        mod locate;

        use self::locate::{CallingThread, Located, Locator, kind, look, real_path, unshare_fs};

        #[path = "."]
        pub(crate) mod compared {
            #[path = "../../crates/haft-sandbox/src/helper/supervisor/locate/tests/compare.rs"]
            mod compare;
            #[path = "../../crates/haft-sandbox/src/helper/supervisor/locate/tests/kernel.rs"]
            mod kernel;
            #[path = "../../crates/haft-sandbox/src/helper/supervisor/locate/tests/tree.rs"]
            mod tree;

            use std::sync::Mutex;

            use rustix::fs::{Mode, OFlags};

            use self::{
                compare::{Comparison, compare_input},
                kernel::Kernel,
            };

            static KERNEL: Mutex<Option<Kernel>> = Mutex::new(None);

            /// Starts the second process, or is it and never returns.
            pub(crate) fn start() {
                if kernel::is_second_process() {
                    std::process::exit(0);
                }
                super::unshare_fs().unwrap();
                *KERNEL.lock().unwrap() = Some(Kernel::start("paths"));
            }

            pub(crate) fn run(input: &[u8]) {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let before = rustix::fs::open(".", flags, Mode::empty()).unwrap();
                let mut kernel = KERNEL.lock().unwrap();
                let mut comparison = Comparison::default();
                compare_input(kernel.as_mut().unwrap(), &mut comparison, input);
                rustix::process::fchdir(before).unwrap();
                comparison.assert_equal();
            }
        }
    }
}

#[cfg(target_os = "linux")]
libfuzzer_sys::fuzz_target!(
    init: helper::supervisor::compared::start(),
    |input: &[u8]| helper::supervisor::compared::run(input)
);

// Only Linux has the supervisor.
#[cfg(not(target_os = "linux"))]
libfuzzer_sys::fuzz_target!(|_input: &[u8]| {});
