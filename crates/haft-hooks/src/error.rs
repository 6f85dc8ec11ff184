//! The error of this crate: a hook that is not configured correctly.

use std::fmt;

/// Why a hook cannot be configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookError {
    hook: String,
    message: String,
    hint: Option<String>,
}

impl HookError {
    pub(crate) fn new(hook: &str, message: impl Into<String>) -> Self {
        Self { hook: hook.to_owned(), message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the hook: its event and its location in the file.
    #[must_use]
    pub fn hook(&self) -> &str {
        &self.hook
    }

    /// Returns how to fix it.
    #[must_use]
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hook `{}`: {}", self.hook, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for HookError {}
