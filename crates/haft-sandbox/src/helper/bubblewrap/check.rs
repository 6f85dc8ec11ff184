//! Verifies the namespaces and mounts that bubblewrap created: bubblewrap is not trusted.

use std::{
    fs::File,
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags};

use super::{
    super::{
        SetupError,
        mounts::{DEVICES, TEMPORARY, protected_mounts},
    },
    Handover, error, namespaces_of_self,
};
use crate::{Network, Profile};

/// Verifies namespaces, mounts, roots, protected names and denied paths.
pub(super) fn check(profile: &Profile, handover: &Handover) -> Result<(), SetupError> {
    if std::process::id() != 1 {
        return Err(error("the helper is not the first process of its pid namespace"));
    }
    let own = namespaces_of_self()?;
    for (kind, outside) in &handover.namespaces {
        let is_shared = own.get(kind).is_none_or(|link| link == outside);
        if is_shared && (kind != "net" || profile.network != Network::Host) {
            return Err(error(format!("the {kind} namespace is shared with the host")));
        }
    }
    let mut text = String::new();
    File::open("/proc/self/mountinfo")
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(SetupError::machine("bubblewrap: mounts"))?;
    let pinned = protected_mounts(profile);
    check_mounts(&text, profile, &pinned)?;
    for path in TEMPORARY.iter().map(Path::new).chain([Path::new("/dev"), Path::new("/run")]) {
        let is_directory = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        let kind = rustix::fs::statfs(path).map(|fs| u64::try_from(fs.f_type).unwrap_or_default());
        if is_directory && kind != Ok(TMPFS) {
            return Err(error(format!("`{}` is shared with the host", path.display())));
        }
    }
    for root in &profile.roots {
        let shown = root.path.display();
        let stat = rustix::fs::lstat(&root.path).map_err(SetupError::os("bubblewrap: roots"))?;
        if root.identity.is_some_and(|identity| identity != (stat.st_dev, stat.st_ino)) {
            return Err(SetupError::profile(format!(
                "`{shown}` was replaced by another directory after authorization"
            )));
        }
    }
    for (path, is_whole) in &pinned {
        let flags = rustix::fs::statvfs(path).map_err(SetupError::os("bubblewrap: names"))?.f_flag;
        if *is_whole && !flags.contains(StatVfsMountFlags::RDONLY) {
            return Err(error(format!("`{}` is not read-only", path.display())));
        }
    }
    for path in &profile.denied.read {
        let is_hidden = match path.canonicalize() {
            Ok(path) => is_closed(&path),
            // A path below a hidden directory cannot be looked up.
            Err(_) => true,
        };
        if !is_hidden {
            return Err(error(format!("`{}` can be read", path.display())));
        }
    }
    Ok(())
}

const TMPFS: u64 = 0x0102_1994;

fn is_closed(path: &Path) -> bool {
    let is_without_mode = path.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o777 == 0);
    let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    is_without_mode && matches!(opened, Err(rustix::io::Errno::ACCESS))
}

/// Checks that every mount is `nosuid`, and read-only unless the profile allows writes, and that
/// the directories above protected names are mount points, which cannot be moved.
fn check_mounts(
    text: &str,
    profile: &Profile,
    pinned: &[(PathBuf, bool)],
) -> Result<(), SetupError> {
    let mounts: Vec<_> = text.lines().filter_map(Mount::read).collect();
    for mount in &mounts {
        // A mount that is covered by another at the same place cannot be reached.
        let is_covered =
            mounts.iter().any(|other| other.parent == mount.id && other.point == mount.point);
        let point = &mount.point;
        let may_write = TEMPORARY.iter().any(|path| point.starts_with(path))
            || DEVICES.iter().any(|path| point == Path::new(path))
            || profile.writable().any(|root| point.starts_with(&root.path));
        let is_good = mount.has("nosuid") && (mount.has("ro") || may_write);
        if !is_good && !is_covered {
            let (point, options) = (point.display(), mount.options);
            return Err(error(format!("the mount `{point}` has the options {options}")));
        }
    }
    match pinned.iter().find(|(path, _)| !mounts.iter().any(|mount| mount.point == *path)) {
        Some((path, _)) => Err(error(format!("`{}` is not a mount point", path.display()))),
        None => Ok(()),
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    id: &'a str,
    parent: &'a str,
    point: PathBuf,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut fields = line.split(' ');
        let (id, parent) = (fields.next()?, fields.next()?);
        let mut fields = fields.skip(2);
        let (point, options) = (unescaped(fields.next()?), fields.next()?);
        Some(Self { id, parent, point, options })
    }

    fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|one| one == option)
    }
}

/// Decodes a path of `mountinfo`, where blanks and backslashes are three octal digits.
fn unescaped(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Root};

    const GOOD: &str = "\
66 42 254:0 / / ro,nosuid,nodev,relatime - ext4 /dev/vda rw
82 66 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw
83 82 0:27 / /dev/shm ro,nosuid,nodev - tmpfs tmpfs rw
86 66 0:41 / /tmp rw,nosuid,nodev,relatime - tmpfs tmpfs rw
89 66 0:6 /null /dev/null rw,nosuid,relatime - devtmpfs devtmpfs rw
90 66 254:0 /w /home/a\\040b rw,nosuid,nodev - ext4 /dev/vda rw
91 90 254:0 /w/.git /home/a\\040b/.git rw,nosuid,nodev - ext4 /dev/vda rw
";

    fn verdict(text: &str) -> Result<(), String> {
        let path = PathBuf::from("/home/a b");
        let pinned = [(path.join(".git"), false)];
        let root = Root { path, access: Access::Write, identity: None };
        let profile = Profile { roots: vec![root], ..Profile::default() };
        check_mounts(text, &profile, &pinned).map_err(|error| error.message)
    }

    #[test]
    fn expected_mounts_are_accepted() {
        assert_eq!(verdict(GOOD), Ok(()));
    }

    #[test]
    fn writable_setuid_and_missing_mounts_are_refused() {
        for (from, to, named) in [
            ("/ / ro,nosuid", "/ / rw,nosuid", "`/`"),
            ("/ / ro,nosuid,nodev", "/ / ro,nodev", "`/`"),
            ("/tmp rw,nosuid", "/tmp rw", "`/tmp`"),
            ("/tmp rw", "/srv rw", "`/srv`"),
            ("83 82", "83 66", "`/dev/shm`"),
            ("/home/a\\040b/.git rw", "/home/a\\040b/other rw", "`/home/a b/.git`"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD, "{from}");
            let message = verdict(&text).unwrap_err();
            assert!(message.contains(named), "{from}: {message}");
        }
    }
}
