//! A command to be confined: what runs, with what, where, and for how long. Plain data until
//! [`Sandbox::start`](crate::Sandbox::start).

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use crate::{Environment, ResolvedPath};

/// A command to be confined.
#[derive(Debug, Clone)]
pub struct Command {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: Environment,
    pub(crate) home: BTreeMap<String, String>,
    pub(crate) input: Vec<u8>,
    pub(crate) folder: Option<(PathBuf, PathBuf)>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) keep: usize,
    pub(crate) flood: u64,
}

/// So much of each stream is kept unless somebody says otherwise: more than a model ever reads.
const KEEP: usize = 1 << 20;
/// Whoever writes more than this on a stream is stopped: reading it only to throw it away is work too.
const FLOOD: u64 = 256 << 20;

/// Bytes of the largest file that is put into a home directory.
const LARGEST_HOME_FILE: usize = 64 << 10;

impl Command {
    /// Names a program: a path, or a name that is looked for in the `PATH` of the command's own
    /// environment.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            argv: vec![program.into()],
            environment: Environment::new(),
            home: BTreeMap::new(),
            input: Vec::new(),
            folder: None,
            deadline: None,
            keep: KEEP,
            flood: FLOOD,
        }
    }

    /// Runs a text with `/bin/sh`.
    #[must_use]
    pub fn shell(script: impl Into<String>) -> Self {
        Self::new("/bin/sh").args(["-c".to_owned(), script.into()])
    }

    /// Adds an argument. It is given as it is; no shell reads it.
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

    /// Gives it these variables and no others, but for `PATH`, `HOME` and `TMPDIR`, which get a value
    /// when they have none.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Puts a small file into its private home directory, which ends with it: `.gitconfig` and the
    /// like. A name that is no plain file name, and a text beyond 64 KiB, are left out. Where there is
    /// no temporary directory, or `HOME` is another one, the command does not see it.
    #[must_use]
    pub fn home_file(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        let is_plain =
            !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
        if is_plain && text.len() <= LARGEST_HOME_FILE {
            self.home.insert(name, text);
        }
        self
    }

    /// Gives it bytes to read, at most 64 MiB. Without them its standard input is empty.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Starts it in a folder of the workspace. Without one it starts in the first root.
    #[must_use]
    pub fn folder(mut self, place: &ResolvedPath) -> Self {
        self.folder = Some((place.base().to_path_buf(), place.relative().to_path_buf()));
        self
    }

    /// Ends everything after this time.
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        self
    }

    /// Keeps so many bytes of each stream. The rest is read, counted and let go.
    #[must_use]
    pub fn keep(mut self, bytes: usize) -> Self {
        self.keep = bytes;
        self
    }

    /// Ends everything when a stream has more bytes than this.
    #[must_use]
    pub fn flood(mut self, bytes: u64) -> Self {
        self.flood = bytes;
        self
    }
}
