//! Explains why a machine forbids namespaces, and how its operator can allow them.
//!
//! In: files of `/proc` about this process, and the path of the helper. Out: each obstacle with an
//! explanation and a remedy. `obstacles` is pure; only [`KernelTexts::read`] opens files.

use std::{fmt, fs::File, io::Read as _, path::Path};

use serde::{Deserialize, Serialize};

use crate::Helper;

/// What forbids namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ObstacleCause {
    /// `user.max_user_namespaces`, or the limit of another namespace kind, is 0.
    NamespaceLimit,
    /// `kernel.unprivileged_userns_clone` is 0.
    UsernsClone,
    /// `kernel.apparmor_restrict_unprivileged_userns` is 1, and this program has no profile.
    ApparmorUserns,
    /// This process runs under an enforced AppArmor profile.
    ApparmorProfile,
    /// This process has a seccomp filter, as in most containers.
    Seccomp,
    /// This process is in a chroot, where the kernel allows no user namespace.
    Chroot,
    /// This process is already in a user namespace, which allows no further one.
    Nested,
    /// Another cause. The explanation contains the message of the kernel.
    Unknown,
}

impl ObstacleCause {
    /// Returns its name, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NamespaceLimit => "namespace_limit",
            Self::UsernsClone => "userns_clone",
            Self::ApparmorUserns => "apparmor_userns",
            Self::ApparmorProfile => "apparmor_profile",
            Self::Seccomp => "seccomp",
            Self::Chroot => "chroot",
            Self::Nested => "nested",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ObstacleCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A reason why the helper may not create namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obstacle {
    /// Its cause.
    pub cause: ObstacleCause,
    /// An explanation in one sentence.
    pub explanation: String,
    /// What the operator can do, with commands and files to copy.
    pub remedy: String,
}

impl Obstacle {
    /// Finds what forbids namespaces to this helper on this machine. Empty if nothing does.
    #[must_use]
    pub fn find(helper: &Helper) -> Vec<Self> {
        let link = Path::new("/proc/self/exe");
        let program = match helper {
            Helper::At(path) => path.clone(),
            Helper::ThisProgram => link.read_link().unwrap_or_else(|_| link.to_path_buf()),
        };
        obstacles(&KernelTexts::read(), &program)
    }

    /// Creates an obstacle from a message of the kernel.
    pub(crate) fn unknown(message: &str) -> Self {
        Self {
            cause: ObstacleCause::Unknown,
            explanation: format!("namespaces cannot be created: {message}"),
            remedy: "Run haft as a user and on a kernel that may create user namespaces \
                     (`unshare --user --map-current-user true` shows whether it may)."
                .to_owned(),
        }
    }
}

/// The kinds of namespaces that have a limit in `/proc/sys/user`.
const NAMESPACE_KINDS: [&str; 7] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"];
/// Bytes of a file that are read.
const MAX_TEXT_BYTES: u64 = 64 << 10;

/// Files of `/proc` about this process. `None` is a file that does not exist.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelTexts {
    /// `/proc/sys/user/max_*_namespaces`, by kind.
    pub(crate) limits: Vec<(&'static str, String)>,
    /// `/proc/sys/kernel/unprivileged_userns_clone`.
    pub(crate) userns_clone: Option<String>,
    /// `/proc/sys/kernel/apparmor_restrict_unprivileged_userns`.
    pub(crate) apparmor_restrict: Option<String>,
    /// `/proc/self/attr/apparmor/current`.
    pub(crate) apparmor_profile: Option<String>,
    /// `/proc/self/status`.
    pub(crate) status: Option<String>,
    /// `/proc/self/uid_map`.
    pub(crate) uid_map: Option<String>,
    /// `/proc/self/mountinfo`.
    pub(crate) mounts: Option<String>,
}

impl KernelTexts {
    pub(crate) fn read() -> Self {
        let limit = |kind| {
            let path = format!("/proc/sys/user/max_{kind}_namespaces");
            Some((kind, text(Path::new(&path))?))
        };
        // The second path is for older kernels; other security modules use it too.
        let is_apparmor = Path::new("/sys/module/apparmor").exists();
        let profile = text(Path::new("/proc/self/attr/apparmor/current"));
        let old = || text(Path::new("/proc/self/attr/current")).filter(|_| is_apparmor);
        Self {
            limits: NAMESPACE_KINDS.into_iter().filter_map(limit).collect(),
            userns_clone: text(Path::new("/proc/sys/kernel/unprivileged_userns_clone")),
            apparmor_restrict: text(Path::new(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            )),
            apparmor_profile: profile.or_else(old),
            status: text(Path::new("/proc/self/status")),
            uid_map: text(Path::new("/proc/self/uid_map")),
            mounts: text(Path::new("/proc/self/mountinfo")),
        }
    }
}

fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_TEXT_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns what forbids namespaces, the most likely cause first.
pub(crate) fn obstacles(texts: &KernelTexts, program: &Path) -> Vec<Obstacle> {
    let mut found: Vec<_> = [
        namespace_limit(texts),
        userns_clone(texts),
        apparmor(texts, program),
        seccomp(texts),
        chroot(texts),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Being nested alone forbids nothing, so it is reported only if nothing else is found.
    if found.is_empty() {
        found.extend(nested(texts));
    }
    found
}

fn is(text: Option<&String>, value: &str) -> bool {
    text.is_some_and(|text| text.trim() == value)
}

fn namespace_limit(texts: &KernelTexts) -> Option<Obstacle> {
    let (kind, _) = texts.limits.iter().find(|(_, text)| text.trim() == "0")?;
    let setting = format!("user.max_{kind}_namespaces");
    Some(Obstacle {
        cause: ObstacleCause::NamespaceLimit,
        explanation: format!("the sysctl `{setting}` is 0: no {kind} namespace can be created"),
        remedy: format!(
            "Raise the limit, and keep it after a restart:\n\
             \n\
             \x20 sudo sysctl -w {setting}=15000\n\
             \x20 echo '{setting} = 15000' | sudo tee /etc/sysctl.d/60-haft.conf\n\
             \n\
             A container or another sandbox may have a limit of its own, which is raised there."
        ),
    })
}

fn userns_clone(texts: &KernelTexts) -> Option<Obstacle> {
    is(texts.userns_clone.as_ref(), "0").then(|| Obstacle {
        cause: ObstacleCause::UsernsClone,
        explanation: "the sysctl `kernel.unprivileged_userns_clone` is 0: only root may create user \
                      namespaces"
            .to_owned(),
        remedy: "Allow them, and keep the setting after a restart:\n\
                 \n\
                 \x20 sudo sysctl -w kernel.unprivileged_userns_clone=1\n\
                 \x20 echo 'kernel.unprivileged_userns_clone = 1' | sudo tee /etc/sysctl.d/60-haft.conf"
            .to_owned(),
    })
}

/// Checks two obstacles: this program has no profile, or an enforced profile denies namespaces.
fn apparmor(texts: &KernelTexts, program: &Path) -> Option<Obstacle> {
    let current = texts.apparmor_profile.as_deref().unwrap_or_default();
    let current = current.trim_matches(['\0', '\n', ' ']);
    if let Some(profile) = current.strip_suffix(" (enforce)") {
        return Some(Obstacle {
            cause: ObstacleCause::ApparmorProfile,
            explanation: format!(
                "this process runs under the AppArmor profile `{profile}`, which may deny namespaces \
                 and mounts"
            ),
            remedy: format!(
                "On the machine itself: add the lines `userns,` and `mount,` to the profile \
                 `{profile}` and load it again.\n\
                 In a container: start it with `--security-opt apparmor=unconfined`, or with a \
                 profile that has these lines."
            ),
        });
    }
    let is_unconfined = current.is_empty() || current == "unconfined";
    if !is_unconfined || !is(texts.apparmor_restrict.as_ref(), "1") {
        return None;
    }
    let mut remedy = format!(
        "Install an AppArmor profile for this program:\n\
         \n\
         \x20 sudo tee /etc/apparmor.d/haft <<'END'\n\
         {}END\n\
         \x20 sudo apparmor_parser -r /etc/apparmor.d/haft\n\
         \n\
         Or install bubblewrap with a profile that allows it namespaces (package `bubblewrap`).",
        apparmor_profile(program)
    );
    let is_of_the_system = ["/usr", "/opt", "/bin"].iter().any(|of| program.starts_with(of));
    if !is_of_the_system {
        remedy += "\n\nThe profile is for this path, and a program that replaces the file gets the \
                   same right. Install haft where only root can write, such as `/usr/local/bin`, first.";
    }
    Some(Obstacle {
        cause: ObstacleCause::ApparmorUserns,
        explanation:
            "the sysctl `kernel.apparmor_restrict_unprivileged_userns` is 1: AppArmor lets \
                      only programs with a profile use user namespaces"
                .to_owned(),
        remedy,
    })
}

/// Returns an AppArmor profile for one program that allows user namespaces and forbids nothing.
fn apparmor_profile(program: &Path) -> String {
    let mut path = String::new();
    for letter in program.display().to_string().chars() {
        // Special characters of AppArmor paths are escaped by a backslash.
        if "*?[]{}^\"\\".contains(letter) {
            path.push('\\');
        }
        path.push(letter);
    }
    format!(
        "abi <abi/4.0>,\n\
         include <tunables/global>\n\
         \n\
         profile haft \"{path}\" flags=(unconfined) {{\n\
         \x20 userns,\n\
         \x20 include if exists <local/haft>\n\
         }}\n"
    )
}

fn seccomp(texts: &KernelTexts) -> Option<Obstacle> {
    let status = texts.status.as_deref()?;
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?;
    (mode.trim() == "2").then(|| Obstacle {
        cause: ObstacleCause::Seccomp,
        explanation: "a seccomp filter is in force around this process, as in most containers; it may \
                      forbid `clone`, `unshare` and `mount`"
            .to_owned(),
        remedy: "Start the container with a filter that allows namespaces and mounts:\n\
                 \n\
                 \x20 docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
                 --security-opt systempaths=unconfined …\n\
                 \x20 podman run --security-opt seccomp=unconfined --security-opt unmask=ALL …\n\
                 \x20 Kubernetes: securityContext: { seccompProfile: { type: Unconfined }, procMount: Unmasked }\n\
                 \x20 systemd: RestrictNamespaces=no, no SystemCallFilter= without @mount\n\
                 \n\
                 haft puts a filter of its own around every command."
            .to_owned(),
    })
}

fn chroot(texts: &KernelTexts) -> Option<Obstacle> {
    let mounts = texts.mounts.as_deref().filter(|text| !text.is_empty())?;
    // The fifth field of a line is the mount point.
    let has_root = mounts.lines().any(|line| line.split(' ').nth(4) == Some("/"));
    let is_whole = (mounts.len() as u64) < MAX_TEXT_BYTES;
    (!has_root && is_whole).then(|| Obstacle {
        cause: ObstacleCause::Chroot,
        explanation: "this process is in a chroot, where the kernel allows no user namespace"
            .to_owned(),
        remedy:
            "Enter the directory as a container instead, as with `systemd-nspawn --directory DIR` \
                 or `bwrap --bind DIR / --proc /proc --dev /dev`."
                .to_owned(),
    })
}

fn nested(texts: &KernelTexts) -> Option<Obstacle> {
    let map = texts.uid_map.as_deref()?;
    let is_of_the_machine = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    (!is_of_the_machine).then(|| Obstacle {
        cause: ObstacleCause::Nested,
        explanation:
            "this process already is in a user namespace (a container or another sandbox), \
                      which forbids what haft needs inside it"
                .to_owned(),
        remedy: "Start haft outside of it, or allow nested namespaces there (bubblewrap: without \
                 `--disable-userns`; Flatpak and Snap applications: run haft on the host)."
            .to_owned(),
    })
}

/// Returns the explanations of all obstacles, for a hint.
pub(crate) fn summary(obstacles: &[Obstacle]) -> Option<String> {
    let lines: Vec<_> = obstacles.iter().map(|one| one.explanation.as_str()).collect();
    let lines = (!lines.is_empty()).then(|| lines.join("; "))?;
    Some(format!("tier A needs user namespaces: {lines}; `haft doctor` prints what to do"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that allows namespaces.
    fn unrestricted() -> KernelTexts {
        KernelTexts {
            limits: vec![("user", "96343\n".to_owned()), ("net", "96343\n".to_owned())],
            userns_clone: Some("1\n".to_owned()),
            apparmor_restrict: Some("0\n".to_owned()),
            apparmor_profile: Some("unconfined\n".to_owned()),
            status: Some(
                "Name:\thaft\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n".to_owned(),
            ),
            uid_map: Some("         0          0 4294967295\n".to_owned()),
            mounts: Some("22 1 259:1 / / rw,relatime - ext4 /dev/vda rw\n".to_owned()),
        }
    }

    fn found(texts: &KernelTexts, program: &str) -> Vec<Obstacle> {
        obstacles(texts, Path::new(program))
    }

    fn causes(texts: &KernelTexts) -> Vec<ObstacleCause> {
        found(texts, "/usr/bin/haft").into_iter().map(|one| one.cause).collect()
    }

    #[test]
    fn machine_that_allows_namespaces_has_no_obstacle() {
        assert_eq!(causes(&unrestricted()), []);
        assert_eq!(causes(&KernelTexts::default()), []);
    }

    #[test]
    fn apparmor_restriction_gives_a_profile_for_this_program() {
        let mut texts = unrestricted();
        texts.apparmor_restrict = Some("1\n".to_owned());
        let all = found(&texts, "/usr/bin/haft");
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(one.cause, ObstacleCause::ApparmorUserns);
        assert!(
            one.remedy.contains("profile haft \"/usr/bin/haft\" flags=(unconfined) {\n  userns,")
        );
        assert!(one.remedy.contains("apparmor_parser -r /etc/apparmor.d/haft"));
        assert!(!one.remedy.contains("/usr/local/bin"));
        // A program that has a profile is allowed, whatever the sysctl says.
        texts.apparmor_profile = Some("haft (unconfined)\n".to_owned());
        assert_eq!(causes(&texts), []);
    }

    #[test]
    fn apparmor_profile_escapes_the_path_and_warns_of_a_writable_one() {
        let mut texts = unrestricted();
        texts.apparmor_restrict = Some("1".to_owned());
        let remedy = &found(&texts, "/home/a b/{x}*\"/haft")[0].remedy;
        assert!(remedy.contains(r#"profile haft "/home/a b/\{x\}\*\"/haft" flags"#), "{remedy}");
        assert!(remedy.contains("/usr/local/bin"), "{remedy}");
    }

    #[test]
    fn enforced_apparmor_profile_is_named() {
        let mut texts = unrestricted();
        texts.apparmor_restrict = Some("1".to_owned());
        texts.apparmor_profile = Some("docker-default (enforce)\n".to_owned());
        let one = &found(&texts, "/usr/bin/haft")[0];
        assert_eq!(one.cause, ObstacleCause::ApparmorProfile);
        assert!(one.explanation.contains("`docker-default`"));
        assert!(one.remedy.contains("apparmor=unconfined"));
    }

    #[test]
    fn each_limit_and_setting_has_its_own_cause() {
        let mut texts = unrestricted();
        texts.limits = vec![("user", "5\n".to_owned()), ("net", "0\n".to_owned())];
        assert!(found(&texts, "/x")[0].remedy.contains("user.max_net_namespaces=15000"));
        assert_eq!(causes(&texts), [ObstacleCause::NamespaceLimit]);
        texts = unrestricted();
        texts.userns_clone = Some("0\n".to_owned());
        assert_eq!(causes(&texts), [ObstacleCause::UsernsClone]);
        texts = unrestricted();
        texts.status = Some("Seccomp:\t2\nSeccomp_filters:\t1\n".to_owned());
        assert_eq!(causes(&texts), [ObstacleCause::Seccomp]);
        assert!(found(&texts, "/x")[0].remedy.contains("seccomp=unconfined"));
        texts = unrestricted();
        texts.mounts = Some("22 1 259:1 /a /srv/a rw - ext4 /dev/vda rw\n".to_owned());
        assert_eq!(causes(&texts), [ObstacleCause::Chroot]);
    }

    #[test]
    fn nesting_is_reported_only_if_nothing_else_is_found() {
        let mut texts = unrestricted();
        texts.uid_map = Some("1000 1000 1\n".to_owned());
        assert_eq!(causes(&texts), [ObstacleCause::Nested]);
        texts.limits[0].1 = "0".to_owned();
        assert_eq!(causes(&texts), [ObstacleCause::NamespaceLimit]);
        let hint = summary(&found(&texts, "/x")).unwrap();
        assert!(hint.contains("`user.max_user_namespaces` is 0") && hint.contains("haft doctor"));
    }

    #[test]
    fn causes_have_the_same_name_in_json() {
        use ObstacleCause as C;
        for cause in [
            C::NamespaceLimit,
            C::UsernsClone,
            C::ApparmorUserns,
            C::ApparmorProfile,
            C::Seccomp,
            C::Chroot,
            C::Nested,
            C::Unknown,
        ] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
    }
}
