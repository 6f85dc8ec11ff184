//! Keeps the logins of MCP servers: a file for each, which only the user can read.
//!
//! A login is asked for with every request, so that the last answer counts for a moment. A login in
//! another process is seen after that.

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft::{secrets::Secret, tool::BoxError};
use haft_mcp::client::Credentials;
use tokio::time::Instant;

use crate::trust_file;

/// The largest file that is read.
const MAX_BYTES: usize = 1 << 20;
/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(1);

/// The files of a directory.
pub(crate) struct CredentialFiles {
    directory: PathBuf,
    fresh: Duration,
    read: Mutex<HashMap<String, (Instant, Option<Secret>)>>,
}

impl CredentialFiles {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, fresh: FRESH, read: Mutex::default() }
    }

    fn path(&self, server: &str) -> Result<PathBuf, BoxError> {
        if haft_mcp::client::is_server_name(server) {
            Ok(self.directory.join(format!("{server}.json")))
        } else {
            Err("the name of the server cannot be a file name".into())
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Instant, Option<Secret>)>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Credentials for CredentialFiles {
    fn load(&self, server: &str) -> Result<Option<Secret>, BoxError> {
        if let Some((at, known)) = self.lock().get(server)
            && at.elapsed() < self.fresh
        {
            return Ok(known.clone());
        }
        let bytes = haft::policy::read_regular_file(&self.path(server)?, MAX_BYTES)?;
        let text = bytes.map(String::from_utf8).transpose()?;
        let found = text.map(|text| Secret::from(text.as_str()));
        self.lock().insert(server.to_owned(), (Instant::now(), found.clone()));
        Ok(found)
    }

    fn save(&self, server: &str, credentials: Option<Secret>) -> Result<(), BoxError> {
        let path = self.path(server)?;
        // Also if it fails: what is in the file then is not known.
        self.lock().remove(server);
        match credentials {
            Some(secret) => {
                fs::create_dir_all(&self.directory)?;
                Ok(trust_file::replace(&path, secret.reveal())?)
            }
            None => match fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
                _ => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_is_used_at_once_and_that_of_another_process_after_a_moment() {
        let name = format!("haft-credentials-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let [mut own, other] = [(), ()].map(|()| CredentialFiles::new(directory.clone()));
        let loaded = |files: &CredentialFiles| {
            files.load("hub").unwrap().map(|secret| secret.reveal().to_owned())
        };
        own.fresh = Duration::MAX;
        assert_eq!(loaded(&own), None);
        own.save("hub", Some("one".into())).unwrap();
        assert_eq!(loaded(&own).as_deref(), Some("one"));
        other.save("hub", Some("two".into())).unwrap();
        assert_eq!(loaded(&own).as_deref(), Some("one"), "for a moment");
        own.fresh = Duration::ZERO;
        assert_eq!(loaded(&own).as_deref(), Some("two"));
        other.save("hub", None).unwrap();
        assert_eq!(loaded(&own), None);
        assert!(own.load("../x").is_err());
        fs::remove_dir_all(directory).unwrap();
    }
}
