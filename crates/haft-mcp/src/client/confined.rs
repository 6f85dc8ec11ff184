//! A stdio server in the sandbox: it sees the system's programs, its own empty home directory, and
//! what its configuration lists.
//!
//! FAIL CLOSED: without a sandbox the server does not start.

use std::{path::Path, time::Duration};

use super::{
    config::{ServerSandbox, StdioCommand},
    process::{ServerStreams, StderrTail},
};

#[cfg(unix)]
pub(super) use self::unix::ConfinedProcess;

#[cfg(unix)]
mod unix {
    use haft::tool::{Capabilities, Capability};
    use haft_sandbox::{
        Access, Command, Environment, Helper, Network, Profile, ReadableFiles, RunningProcess,
        Sandbox, Workspace,
    };

    use super::{Duration, Path, ServerSandbox, ServerStreams, StderrTail, StdioCommand};
    use crate::client::task::spawn;

    /// A confined server. Dropping it kills all its processes.
    pub(in crate::client) struct ConfinedProcess(RunningProcess);

    impl ConfinedProcess {
        pub(in crate::client) async fn start(
            command: &StdioCommand,
            sandbox: &ServerSandbox,
            helper: Option<&Path>,
            stderr: &StderrTail,
        ) -> Result<(Self, ServerStreams), String> {
            let text = |error: haft_sandbox::SandboxError| error.to_string().replace('\n', "; ");
            let helper = helper.map_or(Helper::ThisProgram, |path| Helper::At(path.to_owned()));
            let detected = Sandbox::detect(helper).await.map_err(text)?;
            let workspace = workspace(sandbox)?;
            let workspace = workspace.as_ref();
            let mut line = Command::new(&command.program).args(&command.args);
            let environment = command.environment.iter();
            line = line.environment(
                environment.fold(Environment::new(), |all, (name, value)| all.set(name, value)),
            );
            // A directory that the server may not see is replaced by the first that it may.
            let start = command.directory.as_ref().zip(workspace);
            let start = start.and_then(|(path, workspace)| workspace.resolve(path).ok());
            if let Some(start) = start {
                line = line.current_dir(&start);
            }
            let profile = profile(sandbox, workspace);
            let (running, pipes) = detected.start_piped(line, profile).await.map_err(text)?;
            spawn(stderr.clone().read(pipes.stderr));
            let streams =
                ServerStreams { stdin: Box::new(pipes.stdin), stdout: Box::new(pipes.stdout) };
            Ok((Self(running), streams))
        }

        /// Waits for its exit after its input was closed, then kills what is left.
        pub(in crate::client) async fn stop(mut self, grace: Duration) {
            if tokio::time::timeout(grace, self.0.wait()).await.is_err() {
                self.0.stop().await;
            }
        }
    }

    /// The directories with an access mode of their own; `None` if there are none.
    fn workspace(sandbox: &ServerSandbox) -> Result<Option<Workspace>, String> {
        if sandbox.write.is_empty() && !sandbox.read.iter().any(|path| path.is_dir()) {
            return Ok(None);
        }
        let mut builder = Workspace::builder();
        let directories = sandbox.read.iter().filter(|path| path.is_dir());
        let read = directories.map(|path| (path, Access::Read));
        let write = sandbox.write.iter().map(|path| (path, Access::Write));
        for (path, access) in write.chain(read) {
            builder = builder.root(path, access);
        }
        builder.build().map(Some).map_err(|error| error.to_string().replace('\n', "; "))
    }

    fn profile(sandbox: &ServerSandbox, workspace: Option<&Workspace>) -> Profile {
        let files = Capabilities::from([Capability::Filesystem]);
        let mut profile =
            workspace.map(|workspace| Profile::of(files, workspace)).unwrap_or_default();
        if sandbox.network {
            profile.network = Network::Host;
        }
        let files = sandbox.read.iter().filter(|path| !path.is_dir());
        profile.reads = ReadableFiles::Only(files.cloned().collect());
        let hidden = sandbox.hidden.iter().filter(|path| path.symlink_metadata().is_ok());
        profile.denied.read = hidden.cloned().collect();
        // A server may run for days. Memory, processes and files stay limited.
        profile.limits.cpu_seconds = u64::MAX;
        profile
    }
}

#[cfg(not(unix))]
pub(super) struct ConfinedProcess;

#[cfg(not(unix))]
impl ConfinedProcess {
    pub(super) async fn start(
        _command: &StdioCommand,
        _sandbox: &ServerSandbox,
        _helper: Option<&Path>,
        _stderr: &StderrTail,
    ) -> Result<(Self, ServerStreams), String> {
        Err("this system has no sandbox".to_owned())
    }

    pub(super) async fn stop(self, _grace: Duration) {}
}
