//! The secrets that the host registered, by name: the value, and which tools may use it.
//!
//! INVARIANT: a value is known to the redactor before a tool can get it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, RwLock},
};

use haft_core::{Error, ErrorKind, Secret, sync};
use haft_policy::NameGlob;
use haft_sanitize::{AddSecretError, KnownSecrets};

/// The secrets of a runtime. Clones share the same set, so that the host can keep one to add
/// secrets later.
///
/// ```
/// use haft::secrets::Secrets;
///
/// let secrets = Secrets::new();
/// secrets.add("mail", "correct horse battery")?;
/// secrets.add_for("pay_*", "bank", "7KQ2-99XB-4410")?;
/// assert!(secrets.add("pin", "1234").is_err(), "too short: it would match by chance");
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Secrets {
    known: KnownSecrets,
    usable: Arc<RwLock<HashMap<String, Usable>>>,
}

/// A secret as tools get it.
struct Usable {
    value: Secret,
    /// Which tools may use it; `None` for all that declare the capability.
    tools: Option<NameGlob>,
}

impl Secrets {
    /// Makes an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a secret, or replaces its value. Every tool that declares `capabilities(secrets)` may
    /// use it.
    ///
    /// # Errors
    /// Fails for a value shorter than 6 bytes, a value or name that could occur in a redaction
    /// mark, an invalid name, and beyond 1000 secrets.
    pub fn add(&self, name: impl Into<String>, value: impl Into<Secret>) -> Result<(), Error> {
        self.put(None, name.into(), value.into())
    }

    /// Adds a secret for the tools whose name matches, where `*` matches any text. They must
    /// declare `capabilities(secrets)` as well.
    ///
    /// # Errors
    /// As [`Secrets::add`].
    pub fn add_for(
        &self,
        tools: impl Into<String>,
        name: impl Into<String>,
        value: impl Into<Secret>,
    ) -> Result<(), Error> {
        self.put(Some(NameGlob::new(tools)), name.into(), value.into())
    }

    fn put(&self, tools: Option<NameGlob>, name: String, value: Secret) -> Result<(), Error> {
        // Locked during the whole addition, so that two additions of one name have one order.
        let mut usable = sync::write(&self.usable);
        self.known.add(&name, value.reveal()).map_err(setup_error)?;
        usable.insert(name, Usable { value, tools });
        Ok(())
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the secrets as the redactor knows them, with earlier values. Both share one set.
    #[must_use]
    pub fn known(&self) -> &KnownSecrets {
        &self.known
    }

    /// Returns a secret for a tool that declares the capability; `None` if there is none for this
    /// tool. The name is the one under which the tool was registered: an alias in a view does not
    /// give a tool more secrets.
    pub(super) fn get(&self, registered_name: &str, name: &str) -> Option<Secret> {
        let usable = sync::read(&self.usable);
        let secret = usable.get(name)?;
        let may_use = secret.tools.as_ref().is_none_or(|tools| tools.matches(registered_name));
        may_use.then(|| secret.value.clone())
    }
}

fn setup_error(error: AddSecretError) -> Error {
    let hint = error.hint();
    let error = Error::new(ErrorKind::BadConfig, error.to_string());
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

impl From<Secrets> for KnownSecrets {
    fn from(secrets: Secrets) -> Self {
        secrets.known
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.known, f)
    }
}
