//! Translates the mounts of [`super::super::mounts`] into arguments of bubblewrap.

use std::{ffi::CString, io, os::unix::ffi::OsStrExt as _, path::Path};

use super::{
    super::{
        SetupError,
        mounts::{DEVICES, RESOLVERS, TEMPORARY, protected_mounts},
    },
    FIRST_EMPTY, MAX_DENIED_FILES,
};
use crate::{Access, Network, Profile};

/// The mounts as arguments of bubblewrap, in the order in which it creates them.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) all: Vec<CString>,
    /// The number of empty files it needs, from file descriptor `FIRST_EMPTY` on.
    pub(super) empty_files: i32,
}

impl Arguments {
    fn push(&mut self, text: &str) {
        self.all.extend(CString::new(text));
    }

    /// Adds all arguments or none: a missing one would change the meaning of the others.
    fn mount(&mut self, option: &str, path: &Path) {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
        self.push(option);
        if option.contains("bind") {
            self.all.push(path.clone());
        }
        self.all.push(path);
    }

    fn tmpfs(&mut self, path: &Path, mode: &str, size: u64) {
        for text in ["--perms", mode, "--size", &size.max(4_096).to_string()] {
            self.push(text);
        }
        self.mount("--tmpfs", path);
    }

    pub(super) fn build(&mut self, profile: &Profile) -> Result<(), SetupError> {
        for option in [
            "--unshare-user-try",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-uts",
            "--unshare-cgroup",
            "--die-with-parent",
            "--as-pid-1",
        ] {
            self.push(option);
        }
        if profile.network != Network::Host {
            self.push("--unshare-net");
        }
        self.mount("--ro-bind", Path::new("/"));
        let is_directory = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        // Bubblewrap cannot mount one tmpfs at several places, so each gets a part of the bytes.
        let part = profile.limits.scratch / 4;
        for path in TEMPORARY.iter().map(Path::new).filter(|path| is_directory(path)) {
            if !path.starts_with("/dev") {
                let size = if path == Path::new("/tmp") { 2 * part } else { part };
                self.tmpfs(path, "1777", size);
            }
        }
        let has_run = is_directory(Path::new("/run"));
        if has_run {
            self.tmpfs(Path::new("/run"), "755", 64 << 10);
            if profile.network == Network::Host {
                for path in RESOLVERS {
                    self.mount("--ro-bind-try", Path::new(path));
                }
            }
        }
        self.tmpfs(Path::new("/dev"), "755", 64 << 10);
        for path in DEVICES {
            self.mount("--dev-bind-try", Path::new(path));
        }
        for (to, name) in [
            ("/proc/self/fd", "/dev/fd"),
            ("/proc/self/fd/0", "/dev/stdin"),
            ("/proc/self/fd/1", "/dev/stdout"),
            ("/proc/self/fd/2", "/dev/stderr"),
        ] {
            for text in ["--symlink", to, name] {
                self.push(text);
            }
        }
        self.tmpfs(Path::new("/dev/shm"), "1777", part);
        self.mount("--proc", Path::new("/proc"));
        self.roots(profile)?;
        self.denied(profile)?;
        for path in ["/proc", "/dev"].into_iter().chain(has_run.then_some("/run")) {
            self.mount("--remount-ro", Path::new(path));
        }
        for text in ["--chdir", "/"] {
            self.push(text);
        }
        Ok(())
    }

    fn roots(&mut self, profile: &Profile) -> Result<(), SetupError> {
        let mut roots: Vec<_> = profile.roots.iter().collect();
        roots.sort_by_key(|root| root.path.components().count());
        for root in roots {
            if !root.path.is_absolute() || root.path.parent().is_none() {
                let shown = root.path.display();
                return Err(SetupError::profile(format!("`{shown}` cannot be a root")));
            }
            let is_writable = root.access == Access::Write;
            self.mount(if is_writable { "--bind" } else { "--ro-bind" }, &root.path);
        }
        for (path, is_whole) in protected_mounts(profile) {
            self.mount(if is_whole { "--ro-bind" } else { "--bind" }, &path);
        }
        Ok(())
    }

    fn denied(&mut self, profile: &Profile) -> Result<(), SetupError> {
        for path in &profile.denied.edit {
            if path.exists() {
                self.mount("--ro-bind", path);
            }
        }
        for path in &profile.denied.read {
            // For a symlink, its target is hidden.
            let path = match path.canonicalize() {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                path => path.map_err(SetupError::machine("bubblewrap: denied paths"))?,
            };
            if path.is_dir() {
                self.tmpfs(&path, "0000", 4_096);
                self.mount("--remount-ro", &path);
                continue;
            }
            let index = usize::try_from(self.empty_files).unwrap_or(MAX_DENIED_FILES);
            if index >= MAX_DENIED_FILES {
                return Err(SetupError::profile("too many files are denied one by one"));
            }
            let fd = (FIRST_EMPTY + self.empty_files).to_string();
            self.empty_files += 1;
            let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { continue };
            for text in ["--perms", "0000", "--ro-bind-data", &fd] {
                self.push(text);
            }
            self.all.push(path);
        }
        Ok(())
    }
}
