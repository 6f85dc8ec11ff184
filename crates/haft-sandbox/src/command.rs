//! A command for the sandbox: program, arguments, environment, input, working directory, timeout
//! and output limits. Plain data until [`Sandbox::start`](crate::Sandbox::start).

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::{Environment, ResolvedPath};

/// A command to run in the sandbox.
#[derive(Debug, Clone)]
pub struct Command {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: Environment,
    pub(crate) home: BTreeMap<String, String>,
    pub(crate) input: Vec<u8>,
    pub(crate) directory: Option<(PathBuf, PathBuf)>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) keep: usize,
    pub(crate) kill_above: u64,
}

/// Bytes of each stream that are kept by default: more than a model reads.
const DEFAULT_KEPT_BYTES: usize = 1 << 20;
/// A command that writes more than this on a stream is killed: discarding output costs time too.
const DEFAULT_FLOOD_BYTES: u64 = 256 << 20;

/// Size limit of a file in the private home directory.
const MAX_HOME_FILE_BYTES: usize = 64 << 10;

impl Command {
    /// Names a program: a path, or a name that is searched in the `PATH` of the command's own
    /// environment.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            argv: vec![program.into()],
            environment: Environment::new(),
            home: BTreeMap::new(),
            input: Vec::new(),
            directory: None,
            deadline: None,
            keep: DEFAULT_KEPT_BYTES,
            kill_above: DEFAULT_FLOOD_BYTES,
        }
    }

    /// Runs a script with `/bin/sh -c`.
    #[must_use]
    pub fn shell(script: impl Into<String>) -> Self {
        Self::new("/bin/sh").args(["-c".to_owned(), script.into()])
    }

    /// Adds an argument. It is passed unchanged; no shell parses it.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.argv.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.argv.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the whole environment. `PATH`, `HOME` and `TMPDIR` get a value if they have none.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Puts a small file, such as `.gitconfig`, into its private home directory, which is deleted
    /// when the command ends. An invalid file name and a text over 64 KiB are ignored. If there is
    /// no temporary directory, or `HOME` is set to another one, the command does not see the file.
    #[must_use]
    pub fn home_file(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        let is_plain =
            !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
        if is_plain && text.len() <= MAX_HOME_FILE_BYTES {
            self.home.insert(name, text);
        }
        self
    }

    /// Sets its standard input, at most 64 MiB. The default is empty.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Sets its working directory, inside the workspace. The default is the first root.
    #[must_use]
    pub fn current_dir(mut self, place: &ResolvedPath) -> Self {
        self.directory = Some((place.base().to_path_buf(), place.relative().to_path_buf()));
        self
    }

    /// Sets its timeout: all its processes are killed after this time.
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        self
    }

    /// Keeps at most this many bytes of each stream. The rest is read, counted and discarded.
    #[must_use]
    pub fn keep_bytes(mut self, bytes: usize) -> Self {
        self.keep = bytes;
        self
    }

    /// Kills all its processes when a stream exceeds this many bytes.
    #[must_use]
    pub fn kill_above(mut self, bytes: u64) -> Self {
        self.kill_above = bytes;
        self
    }
}
