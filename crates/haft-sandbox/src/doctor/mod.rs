//! The self-test of the sandbox: tries forbidden acts inside and reports what happened.
//!
//! The acts are data: a name, a group, what is tried, what is expected. They run where a command
//! runs, with everything enforced. So the table shows what this machine really enforces.

mod outside;
mod programs;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixListener,
    path::Path,
    process::{Child, Stdio},
};

use haft_core::config_files::{CONFIG_FILES, RESERVED_DIRECTORY};
use serde::{Deserialize, Serialize};

use crate::{
    Access, DoctorFinding, Error, ErrorKind, ExpectedResult, ObservedResult, Obstacle,
    ProcessLimits, Profile, Sandbox, Tier, Workspace,
    protocol::{Act, Scene},
    sandbox::Input,
};

/// The results of a self-test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DoctorReport {
    /// What was enforced.
    pub tier: Tier,
    /// What forbids namespaces, if the tier is weaker because of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<Obstacle>,
    /// One finding per act.
    pub findings: Vec<DoctorFinding>,
}

impl DoctorReport {
    /// Iterates over the unexpected results.
    pub fn bad(&self) -> impl Iterator<Item = &DoctorFinding> {
        self.findings.iter().filter(|finding| !finding.is_good())
    }

    /// Iterates over the acts that could not be tried.
    pub fn skipped(&self) -> impl Iterator<Item = &DoctorFinding> {
        self.findings
            .iter()
            .filter(|finding| matches!(finding.observed, ObservedResult::Skipped(_)))
    }
}

impl Sandbox {
    /// Tries all forbidden acts inside the sandbox and returns the results. Takes a second or two.
    ///
    /// `directory` is an empty directory for the targets of the acts. It is emptied again.
    ///
    /// # Errors
    /// Fails if the directory cannot be used or the sandbox cannot be set up.
    pub async fn self_test(&self, directory: &Path) -> Result<DoctorReport, Error> {
        let cannot = |e: io::Error| {
            Error::new(
                ErrorKind::BadProfile,
                format!("`{}` cannot be used for the self-test: {e}", directory.display()),
            )
            .because(e)
        };
        let stage = Stage::build(directory).map_err(cannot)?;
        let workspace =
            Workspace::builder().root(stage.scene.inside.clone(), Access::Write).build()?;
        let profile = Profile {
            roots: workspace.roots(),
            protected: protected(),
            limits: stage.scene.limits.clone(),
            ..Profile::default()
        };
        let mut scene = stage.scene.clone();
        scene.level = Some(self.tier().level);
        let level = self.tier().level;
        let orders = self.orders(level, profile.clone(), Act::Trial(scene), Some(120_000));
        let mut running = self.launch(&orders, Input::Bytes(&[]), 1 << 20, 16 << 20).await?;
        let ended = running.wait().await;
        let text = String::from_utf8_lossy(ended.stdout.bytes());
        let mut findings: Vec<DoctorFinding> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        findings.push(finding(
            "untouched",
            "compare everything outside afterwards",
            ExpectedResult::Allowed,
            stage.is_untouched(),
        ));
        findings.push(finding(
            "no-set-id-left",
            "look for set-id files in the workspace afterwards, from outside",
            ExpectedResult::Allowed,
            !has_set_id_file(&stage.scene.inside),
        ));
        findings.extend(outside::run(self, &profile, &stage.scene.inside).await);
        findings.extend(programs::run(self, stage.directory()).await?);
        findings.push(finding(
            "complete",
            "finish all acts",
            ExpectedResult::Allowed,
            ended.is_success(),
        ));
        let obstacles = self.obstacles().to_vec();
        Ok(DoctorReport { tier: ended.tier, obstacles, findings })
    }
}

/// Returns the protected names of the self-test: a repository, and every file that configures haft.
fn protected() -> Vec<String> {
    let config = CONFIG_FILES.iter().filter_map(|file| file.path.split('/').next());
    let mut names: Vec<String> = [".git/hooks", ".git/config", RESERVED_DIRECTORY]
        .into_iter()
        .chain(config)
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn finding(name: &str, tried: &str, expected: ExpectedResult, is_so: bool) -> DoctorFinding {
    DoctorFinding {
        name: name.to_owned(),
        group: "afterwards".to_owned(),
        tried: tried.to_owned(),
        expected,
        observed: if is_so { ObservedResult::Allowed } else { ObservedResult::Refused(0) },
    }
}

/// Limits that are small enough to be reached quickly.
const SELF_TEST_LIMITS: ProcessLimits = ProcessLimits {
    cpu_seconds: 60,
    memory: 1 << 30,
    resident: 512 << 20,
    open_files: 64,
    file_size: 1 << 20,
    processes: 40,
    scratch: 4 << 20,
};

const SECRET: &str = "haft: not to be touched";

/// The targets of the acts. Dropping it removes them.
struct Stage {
    scene: Scene,
    victim: Child,
    _tcp: TcpListener,
    _udp: UdpSocket,
    _sockets: Vec<UnixListener>,
}

impl Stage {
    fn build(directory: &Path) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        let (inside, outside) = (directory.join("inside"), directory.join("outside"));
        for directory in [
            &inside,
            &inside.join("sub"),
            &inside.join(".git"),
            &inside.join(".git/hooks"),
            &outside,
        ] {
            fs::create_dir(directory)?;
        }
        for file in ["notes.txt", "sub/old", "sub/gone", "sub/stay", ".git/config"] {
            put(&inside.join(file), "haft")?;
        }
        put(&outside.join("secret.txt"), SECRET)?;
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        let mut sockets = Vec::new();
        let socket = outside.join("socket");
        // A long path does not fit into a socket address; then there is no socket to connect to.
        sockets.extend(UnixListener::bind(&socket).ok());
        let abstract_name = format!("haft-self-test-{}", std::process::id());
        sockets.extend(abstract_listener(&abstract_name));
        let victim = std::process::Command::new("sleep")
            .arg("300")
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let scene = Scene {
            inside,
            outside,
            victim: i32::try_from(victim.id()).unwrap_or_default(),
            tcp: tcp.local_addr()?.port(),
            udp: udp.local_addr()?.port(),
            socket,
            abstract_name,
            limits: SELF_TEST_LIMITS,
            level: None,
        };
        Ok(Self { scene, victim, _tcp: tcp, _udp: udp, _sockets: sockets })
    }

    /// Returns the directory of the caller.
    fn directory(&self) -> &Path {
        self.scene.inside.parent().unwrap_or(&self.scene.inside)
    }

    /// Returns whether everything outside is unchanged.
    fn is_untouched(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let outside = &self.scene.outside;
        let names = outside
            .read_dir()
            .map(|all| all.flatten().map(|entry| entry.file_name()).collect::<Vec<_>>());
        let is_same = |path: &Path| {
            let same = fs::read(path).is_ok_and(|bytes| bytes == SECRET.as_bytes());
            same && path.metadata().is_ok_and(|meta| meta.nlink() == 1 && meta.mode() & 0o002 == 0)
        };
        names.is_ok_and(|names| names.iter().all(|name| name == "secret.txt" || name == "socket"))
            && is_same(&outside.join("secret.txt"))
            && fs::read(self.scene.inside.join(".git/config")).is_ok_and(|bytes| bytes == b"haft")
            && CONFIG_FILES.iter().all(|file| !self.scene.inside.join(file.path).exists())
            && !self.scene.inside.join(RESERVED_DIRECTORY).exists()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = fs::remove_dir_all(&self.scene.inside);
        let _ = fs::remove_dir_all(&self.scene.outside);
    }
}

/// Returns whether a file below a directory has a set-id bit. A directory that cannot be read
/// counts as having one.
fn has_set_id_file(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = directory.read_dir() else { return true };
    entries.flatten().any(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => has_set_id_file(&entry.path()),
        Ok(meta) => !meta.is_symlink() && meta.mode() & 0o6000 != 0,
        Err(_) => true,
    })
}

fn put(path: &Path, text: &str) -> io::Result<()> {
    File::create_new(path)?.write_all(text.as_bytes())
}

#[cfg(target_os = "linux")]
fn abstract_listener(name: &str) -> Option<UnixListener> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).ok()?;
    UnixListener::bind_addr(&address).ok()
}

#[cfg(not(target_os = "linux"))]
fn abstract_listener(_: &str) -> Option<UnixListener> {
    None
}
