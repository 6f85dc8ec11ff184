//! A panic hook that redacts secrets.
//!
//! The runtime catches a panic of a body. But the process-wide panic hook runs before that, and the
//! default one prints the message to standard error. Only the program may install a panic hook, so
//! this file only provides it.

use std::panic::PanicHookInfo;

use super::Redactor;

/// A hook as [`std::panic::set_hook`] takes it.
type PanicHook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync + 'static>;

impl Redactor {
    /// Returns a panic hook that redacts every panic message and passes it to `print`. Secrets that
    /// are added later are redacted too. Install it once, at the start of the program: otherwise a
    /// body that panics with a secret in its message prints it to standard error before the runtime
    /// can catch it.
    ///
    /// ```
    /// use haft_sanitize::{KnownSecrets, Redactor};
    ///
    /// let secrets = KnownSecrets::new();
    /// let redactor = Redactor::new(secrets.clone());
    /// std::panic::set_hook(redactor.panic_hook(|text| eprintln!("{text}")));
    /// secrets.add("door", "open sesame")?; // `panic!("open sesame")` prints no secret from now on
    /// # Ok::<(), haft_sanitize::AddSecretError>(())
    /// ```
    #[must_use]
    pub fn panic_hook(&self, print: impl Fn(&str) + Send + Sync + 'static) -> PanicHook {
        // Prepared now: lazy initialization inside of a panic hook could panic itself.
        self.prepare();
        let redactor = self.clone();
        Box::new(move |panic| {
            let thread = std::thread::current();
            let name = thread.name().unwrap_or("<unnamed>");
            let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
            let message = panic.payload_as_str().unwrap_or("a payload that is not text");
            let text = format!("thread '{name}' panicked{place}:\n{message}");
            print(&redactor.sanitize_and_redact(&text).0.unwrap_or(text));
        })
    }
}
