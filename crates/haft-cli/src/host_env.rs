//! What a command gets from its host: the working directory, the user's directories, the variables.
//! `main` fills it.

use std::{collections::BTreeMap, path::PathBuf};

use haft::Config;

/// The working directory and the environment of the command.
#[derive(Debug, Clone)]
pub(crate) struct HostEnv {
    /// The working directory.
    pub(crate) here: PathBuf,
    /// The home directory.
    pub(crate) home: Option<PathBuf>,
    /// The configuration directory of haft.
    pub(crate) user: Option<PathBuf>,
    /// The state directory of haft.
    pub(crate) state: Option<PathBuf>,
    /// One more file of the organisation.
    pub(crate) managed: Option<PathBuf>,
    /// The environment variables; hooks get the harmless ones.
    pub(crate) variables: BTreeMap<String, String>,
    /// The user, by name, or by number if the name is unknown.
    pub(crate) person: Option<String>,
    /// The limits of the environment.
    pub(crate) config: Config,
    /// Whether the environment sets the concurrency limit.
    pub(crate) says_concurrency: bool,
}
