//! Starts commands in a sandbox: probes the level that this machine supports, then launches the
//! helper process, which sets up the sandbox. So no memory of the runtime is copied, and no code
//! runs between fork and exec here. A socket carries the orders; when it closes, the helper knows
//! that the runtime is gone. In: a command and a profile. Out: a [`RunningProcess`], or an error.
//!
//! FAIL CLOSED: a level is detected once and then required. A launch that cannot get it fails.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use haft_core::BoundedBuffer;
use tokio::{
    io::AsyncWriteExt as _,
    net::{UnixStream, unix::pipe},
};

use crate::{
    Command, Error, ErrorKind, Helper, Level, Obstacle, ProcessPipes, Profile, RunningProcess,
    Tier, exhausted, obstacles,
    pass_file::{receive, send_file},
    protocol::{
        Act, Fault, HELPER_ARGUMENT, HelperRequest, MAX_INPUT_BYTES, MAX_REQUEST_BYTES,
        PIPED_INPUT, Report, Run, VERSION,
    },
};

/// Starts confined commands at one level.
#[derive(Debug, Clone)]
pub struct Sandbox {
    helper: PathBuf,
    tier: Tier,
    cgroup: Option<PathBuf>,
    bubblewrap: Option<PathBuf>,
    obstacles: Vec<Obstacle>,
}

/// The standard input of a command.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    Bytes(&'a [u8]),
    /// The reading end of a pipe.
    Pipe(BorrowedFd<'a>),
}

/// Timeout of the setup, which normally takes a few milliseconds.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(20);

/// The system's bubblewrap. One in another directory may be untrusted.
const BUBBLEWRAP: &str = "/usr/bin/bwrap";

/// Start of the note that a weaker tier carries.
const NO_NAMESPACES: &str = "no namespaces: ";

/// Delays before a probe that hit a resource limit is retried.
const PROBE_RETRY_DELAYS: &[Duration] = &[Duration::from_millis(50), Duration::from_millis(300)];

impl Sandbox {
    /// Detects the strongest level that this machine supports.
    ///
    /// # Errors
    /// Fails if there is none, and says what is missing and how to get it. Fails with
    /// [`ErrorKind::Transient`] if the probe hit a resource limit; retry later.
    pub async fn detect(helper: Helper) -> Result<Self, Error> {
        Self::detect_with(helper, Path::new(BUBBLEWRAP)).await
    }

    /// Like [`detect`](Self::detect), with another path of bubblewrap.
    #[doc(hidden)]
    pub async fn detect_with(helper: Helper, bubblewrap: &Path) -> Result<Self, Error> {
        let strongest = match Self::at_with(helper.clone(), Level::Namespaces, bubblewrap).await {
            Err(error) if error.kind() == ErrorKind::TierMissing => error,
            result => return result,
        };
        let obstacles = obstacles(&helper, &strongest);
        match Self::at(helper, Level::Landlock).await {
            Ok(mut sandbox) => {
                sandbox.obstacles = obstacles;
                let why = strongest.to_string();
                let why = why.lines().next().unwrap_or_default();
                sandbox.tier.notes.push(format!("{NO_NAMESPACES}{why}"));
                Ok(sandbox)
            }
            Err(error) if error.kind() == ErrorKind::TierMissing => Err(error.because(strongest)),
            Err(error) => Err(error),
        }
    }

    /// Requires one level.
    ///
    /// # Errors
    /// Fails if this machine does not support it.
    pub async fn at(helper: Helper, level: Level) -> Result<Self, Error> {
        Self::at_with(helper, level, Path::new(BUBBLEWRAP)).await
    }

    async fn at_with(helper: Helper, level: Level, bubblewrap: &Path) -> Result<Self, Error> {
        let mut sandbox = Self::unprobed(helper, level)?;
        let forbidden = match sandbox.probed_tier(level).await {
            Ok(tier) => {
                sandbox.tier = tier;
                return Ok(sandbox);
            }
            Err(error) => error,
        };
        let is_missing = forbidden.kind() == ErrorKind::TierMissing;
        if !is_missing || level != Level::Namespaces || !bubblewrap.is_file() {
            return Err(forbidden);
        }
        // The system may allow bubblewrap to create the namespaces that we may not create.
        match sandbox.through_bubblewrap(bubblewrap).await {
            Err(error) if error.kind() == ErrorKind::TierMissing => Err(forbidden),
            result => result,
        }
    }

    /// Lets bubblewrap create the namespaces, even if the helper could.
    #[doc(hidden)]
    pub async fn at_through_bubblewrap(helper: Helper, program: &Path) -> Result<Self, Error> {
        Self::unprobed(helper, Level::Namespaces)?.through_bubblewrap(program).await
    }

    async fn through_bubblewrap(mut self, program: &Path) -> Result<Self, Error> {
        self.bubblewrap = Some(program.to_owned());
        self.tier = self.probed_tier(Level::Namespaces).await?;
        Ok(self)
    }

    fn unprobed(helper: Helper, level: Level) -> Result<Self, Error> {
        if cfg!(not(target_os = "linux")) || level == Level::None {
            return Err(Error::new(ErrorKind::TierMissing, "no mechanism to confine processes")
                .hint("processes are confined with Linux namespaces, Landlock and seccomp; run haft on Linux 5.13 or later, or in a Linux machine or container of your system"));
        }
        let helper = helper.path()?;
        let tier = Tier::none("not probed");
        Ok(Self { helper, tier, cgroup: None, bubblewrap: None, obstacles: Vec::new() })
    }

    /// Enforces the memory limit with cgroups in this directory. It is below `/sys/fs/cgroup`, has
    /// the controller `memory`, and the operator delegated it to the user of this program.
    ///
    /// Without it, the cgroup of this process is used if it is delegated. Otherwise the memory of a
    /// command is sampled. The notes of the [`Tier`] say which.
    ///
    /// # Errors
    /// Fails with [`ErrorKind::BadProfile`] if no cgroup with a limit can be created there.
    pub async fn with_cgroup(mut self, directory: impl Into<PathBuf>) -> Result<Self, Error> {
        self.cgroup = Some(directory.into());
        let tier = self.probed_tier(self.tier.level).await?;
        let kept = std::mem::replace(&mut self.tier, tier).notes;
        self.tier.notes.extend(kept.into_iter().filter(|note| note.starts_with(NO_NAMESPACES)));
        Ok(self)
    }

    async fn probed_tier(&self, level: Level) -> Result<Tier, Error> {
        let orders = self.orders(level, Profile::default(), Act::Probe, Some(10_000));
        let mut running = self.probe(&orders).await.map_err(|error| match error.kind() {
            ErrorKind::Launch => {
                let error = error.of(ErrorKind::TierMissing);
                let found = match level {
                    Level::Namespaces => obstacles(&Helper::At(self.helper.clone()), &error),
                    Level::Landlock | Level::None => Vec::new(),
                };
                let hint = obstacles::summary(&found);
                error.hint(hint.unwrap_or_else(|| requirements(level).to_owned()))
            }
            ErrorKind::Transient => error.hint(
                "the tier of this machine could not be detected; a weaker tier is not used instead",
            ),
            _ => error,
        })?;
        let tier = running.tier().clone();
        running.wait().await;
        Ok(tier)
    }

    /// Returns orders for the helper of this sandbox.
    pub(crate) fn orders(
        &self,
        level: Level,
        profile: Profile,
        act: Act,
        deadline_ms: Option<u64>,
    ) -> HelperRequest {
        let (cgroup, bubblewrap) = (self.cgroup.clone(), self.bubblewrap.clone());
        let bubblewrap = bubblewrap.filter(|_| level == Level::Namespaces);
        HelperRequest { version: VERSION, level, profile, act, deadline_ms, cgroup, bubblewrap }
    }

    /// Launches a probe, and retries it if it hit a resource limit.
    ///
    /// FAIL CLOSED: such a failure says nothing about what the machine supports, so the caller must
    /// not fall back to a weaker level.
    async fn probe(&self, orders: &HelperRequest) -> Result<RunningProcess, Error> {
        for pause in PROBE_RETRY_DELAYS {
            match self.launch(orders, Input::Bytes(&[]), 0, 0).await {
                Err(error) if error.kind() == ErrorKind::Transient => {
                    tokio::time::sleep(*pause).await;
                }
                result => return result,
            }
        }
        self.launch(orders, Input::Bytes(&[]), 0, 0).await
    }

    /// Returns what is enforced for a command with the default profile. [`RunningProcess::tier`]
    /// has the value of a single command.
    #[must_use]
    pub fn tier(&self) -> &Tier {
        &self.tier
    }

    /// Returns what forbids namespaces on this machine, if a weaker level was detected because of
    /// it.
    #[must_use]
    pub fn obstacles(&self) -> &[Obstacle] {
        &self.obstacles
    }

    /// Starts a command.
    ///
    /// # Errors
    /// Fails if the program is missing, the profile contradicts the disk, or a step of the setup
    /// fails. Nothing ran then.
    pub async fn start(&self, command: Command, profile: Profile) -> Result<RunningProcess, Error> {
        let (input, keep, kill_above) = (command.input.clone(), command.keep, command.kill_above);
        let orders = self.run_orders(command, profile)?;
        self.launch(&orders, Input::Bytes(&input), keep, kill_above).await
    }

    /// Starts a command whose standard streams stay open, such as a server. Its output is neither
    /// kept nor limited here, and the reader must read all of it. The input of the command is not
    /// used.
    ///
    /// # Errors
    /// Like [`start`](Self::start).
    pub async fn start_piped(
        &self,
        command: Command,
        profile: Profile,
    ) -> Result<(RunningProcess, ProcessPipes), Error> {
        let orders = self.run_orders(command, profile)?;
        let no_pipe =
            |e: io::Error| Error::new(ErrorKind::Transient, format!("no pipe: {e}")).because(e);
        let (input, writer) = io::pipe().map_err(no_pipe)?;
        let stdin = pipe::Sender::from_owned_fd(writer.into()).map_err(no_pipe)?;
        let mut running = self.launch(&orders, Input::Pipe(input.as_fd()), 0, u64::MAX).await?;
        match (running.stdout.take(), running.stderr.take()) {
            (Some(stdout), Some(stderr)) => Ok((running, ProcessPipes { stdin, stdout, stderr })),
            _ => Err(Error::new(ErrorKind::Launch, "a standard stream of the command is missing")),
        }
    }

    /// Returns the orders for a command.
    fn run_orders(&self, command: Command, profile: Profile) -> Result<HelperRequest, Error> {
        let bad = |message: &str| Error::new(ErrorKind::BadCommand, message);
        if command.argv.iter().any(|arg| arg.contains('\0')) {
            return Err(bad("an argument contains a NUL byte"));
        }
        if command.argv.first().is_none_or(String::is_empty) {
            return Err(bad("the command is empty"));
        }
        if command.input.len() > MAX_INPUT_BYTES {
            return Err(bad("the input is too long"));
        }
        let directory = match command.directory {
            Some(directory) => Some(directory),
            None => profile.roots.first().map(|root| (root.path.clone(), PathBuf::new())),
        };
        let environment = command.environment.iter().map(|(n, v)| (n.to_owned(), v.to_owned()));
        let act = Act::Run(Run {
            environment: environment.collect(),
            home: command.home,
            argv: command.argv,
            directory,
        });
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(self.orders(self.tier.level, profile, act, command.deadline.map(millis)))
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// Like [`start`](Self::start).
    pub async fn run(
        &self,
        command: Command,
        profile: Profile,
    ) -> Result<crate::ProcessResult, Error> {
        Ok(self.start(command, profile).await?.wait().await)
    }

    pub(crate) async fn launch(
        &self,
        orders: &HelperRequest,
        input: Input<'_>,
        keep: usize,
        kill_above: u64,
    ) -> Result<RunningProcess, Error> {
        let failed = |step: &str, e: io::Error| {
            let error = match exhausted::limit_of(&e) {
                Some(limit) => Error::new(
                    ErrorKind::Transient,
                    format!("the helper cannot be started: {limit}"),
                )
                .hint("raise this limit, or start fewer commands at once"),
                None => Error::new(
                    ErrorKind::Launch,
                    format!("the helper cannot be started: {step}: {e}"),
                ),
            };
            error.because(e)
        };
        let text = serde_json::to_vec(orders).map_err(|e| {
            Error::new(ErrorKind::BadProfile, "a path of the profile is not valid UTF-8").because(e)
        })?;
        if text.len() > MAX_REQUEST_BYTES {
            return Err(Error::new(ErrorKind::BadCommand, "the command is too long"));
        }
        let (ours, theirs) =
            std::os::unix::net::UnixStream::pair().map_err(|e| failed("socket pair", e))?;
        ours.set_nonblocking(true).map_err(|e| failed("socket", e))?;
        let control = UnixStream::from_std(ours).map_err(|e| failed("socket", e))?;
        let mut helper = tokio::process::Command::new(&self.helper);
        // No kill on drop: a helper that sees the socket close kills all processes of the command.
        // A helper that is killed may not.
        helper
            .arg0("haft-sandbox")
            .arg(HELPER_ARGUMENT)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = helper.spawn().map_err(|e| failed("spawn", e))?;
        // It owns our copy of the helper's end of the socket, which must be closed here.
        drop(helper);
        let mut running = RunningProcess {
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            helper: child,
            control,
            received: Vec::new(),
            kept: [BoundedBuffer::new(keep), BoundedBuffer::new(keep)],
            tier: Tier::none("not started"),
            kill_above,
            is_control_closed: false,
            is_flooded: false,
            is_helper_gone: false,
            is_finished: false,
            last: None,
            refused: Vec::new(),
            listener: None,
        };
        let exchange = async {
            // A helper that refuses does not read everything. Its report says why, so the write
            // error is ignored.
            let _ = running.control.write_all(&head(&text, input)).await;
            let _ = match input {
                Input::Bytes(bytes) => running.control.write_all(bytes).await,
                Input::Pipe(file) => send_file(&running.control, file).await,
            };
            first_report(&mut running).await
        };
        let report = tokio::time::timeout(LAUNCH_TIMEOUT, exchange).await;
        let timed_out = || {
            let seconds = LAUNCH_TIMEOUT.as_secs();
            let message = format!("the helper did not answer within {seconds} seconds");
            Error::new(ErrorKind::Transient, message)
        };
        match report.map_err(|_| timed_out())? {
            Some(Report::Started(tier)) if tier.level == orders.level => {
                running.tier = tier;
                Ok(running)
            }
            Some(Report::Refused { step, message, fault }) => {
                // Wait for its exit, so that a retry does not meet its resources.
                let _ = tokio::time::timeout(LAUNCH_TIMEOUT, running.wait()).await;
                Err(match kind(fault) {
                    ErrorKind::BadCommand => Error::new(ErrorKind::BadCommand, message),
                    kind => Error::new(kind, format!("{step}: {message}")),
                })
            }
            Some(_) => Err(Error::new(ErrorKind::Protocol, "the helper sent an unexpected report")),
            None => {
                let _ = tokio::time::timeout(LAUNCH_TIMEOUT, running.wait()).await;
                let stderr = String::from_utf8_lossy(running.kept[1].bytes()).trim().to_owned();
                if let Some(signal) = running.helper_signal() {
                    let message = format!("the helper was killed by signal {signal}");
                    return Err(Error::new(ErrorKind::Transient, message));
                }
                let no_report = Error::new(ErrorKind::Launch, "the helper exited without a report");
                Err(no_report.hint(if stderr.is_empty() {
                    "the helper program must call `haft_sandbox::init()` first in `main`".to_owned()
                } else {
                    stderr
                }))
            }
        }
    }
}

/// The orders with their length and that of the input before them.
fn head(orders: &[u8], input: Input<'_>) -> Vec<u8> {
    let input_length = match input {
        Input::Bytes(bytes) => bytes.len() as u64,
        Input::Pipe(_) => PIPED_INPUT,
    };
    let lengths = [orders.len() as u64, input_length].map(u64::to_le_bytes);
    [lengths.as_flattened(), orders].concat()
}

fn kind(fault: Fault) -> ErrorKind {
    match fault {
        Fault::Machine => ErrorKind::Launch,
        Fault::Transient => ErrorKind::Transient,
        Fault::Profile => ErrorKind::BadProfile,
        Fault::Command => ErrorKind::BadCommand,
    }
}

/// Returns what forbids namespaces, if that is why there are none.
fn obstacles(helper: &Helper, error: &Error) -> Vec<Obstacle> {
    let text = error.to_string();
    let why = text.lines().next().unwrap_or_default();
    // The message starts with the step that failed. Without Landlock there is no level at all.
    if why.starts_with("landlock") {
        return Vec::new();
    }
    let found = Obstacle::find(helper);
    if found.is_empty() { vec![Obstacle::unknown(why)] } else { found }
}

fn requirements(level: Level) -> &'static str {
    match level {
        Level::Namespaces => {
            "tier A needs user namespaces (sysctl `kernel.unprivileged_userns_clone`, `user.max_user_namespaces`, an AppArmor profile that allows them, or a container that does) and Landlock"
        }
        _ => {
            "tier B needs Landlock: Linux 5.13 or later with `landlock` among its security modules"
        }
    }
}

/// Reads the first report: whether the command started. [`RunningProcess`] reads later lines.
async fn first_report(running: &mut RunningProcess) -> Option<Report> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = running.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = running.received.drain(..=end).collect();
            running.read_reports();
            return serde_json::from_slice(&line).ok();
        }
        if running.received.len() > 1 << 20 {
            return None;
        }
        match receive(&running.control, &mut buffer).await {
            Ok((n @ 1.., file)) => {
                running.received.extend_from_slice(&buffer[..n]);
                running.listener = file.or(running.listener.take());
            }
            _ => return None,
        }
    }
}
