//! Secrets of a runtime: which tools get them, `secret://name` references, and the redaction of
//! everything that leaves the runtime.
//!
//! `haft-sanitize` finds secrets in text. This module knows tools, and where text leaves.

mod redact;
mod references;
mod scanned_cache;
mod store;

pub use haft_core::Secret;
pub use haft_sanitize::{AddSecretError, KnownSecrets, Redactor, StreamRedactor};

pub use self::store::Secrets;
pub(crate) use self::{
    redact::{Redact, RuntimeRedactor, secret_arguments},
    references::{SecretUser, resolve, secret_for_body},
};
