//! Where the key of a model comes from: an environment variable, or a file of the user.
//!
//! FAIL CLOSED: a file that other users can read is refused.

use std::io;

use haft::secrets::Secret;

use crate::{error::Problem, host_env::HostEnv};

/// The longest key.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The key in an environment variable; `None` if it is not set or empty.
pub(crate) fn of_variable(name: &str, host: &HostEnv) -> Option<Secret> {
    let value = host.variables.get(name)?.trim();
    (!value.is_empty()).then(|| Secret::from(value))
}

/// The key behind `secret://NAME`: the file `secrets/NAME` in the configuration directory of haft.
pub(crate) fn of_secret(name: &str, host: &HostEnv) -> Result<Secret, Problem> {
    let Some(user) = &host.user else {
        return Err(Problem::new(format!("`secret://{name}` has no directory"))
            .hint("set HOME or XDG_CONFIG_HOME"));
    };
    let path = user.join("secrets").join(name);
    let shown = path.display();
    let meta = path.metadata().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::new(format!("there is no secret `{name}`"))
            .hint(format!("write the key into `{shown}`, readable by you alone")),
        _ => Problem::new(format!("cannot read `{shown}`: {error}")),
    })?;
    if !meta.is_file() || meta.len() > MAX_KEY_BYTES {
        return Err(Problem::new(format!("`{shown}` is not a file with a key")));
    }
    if is_open_to_others(&meta) {
        return Err(Problem::new(format!("other users can read the secret `{shown}`"))
            .hint(format!("`chmod 600 {shown}` makes it private")));
    }
    let text = std::fs::read(&path)
        .map_err(|error| Problem::new(format!("cannot read `{shown}`: {error}")))?;
    match String::from_utf8(text).as_deref().map(str::trim) {
        Ok(key) if !key.is_empty() => Ok(Secret::from(key)),
        _ => Err(Problem::new(format!("`{shown}` has no key"))
            .hint("the file has the key and nothing else")),
    }
}

#[cfg(unix)]
fn is_open_to_others(meta: &std::fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(meta) & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_: &std::fs::Metadata) -> bool {
    false
}
