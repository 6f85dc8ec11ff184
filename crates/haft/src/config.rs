//! Limits of the runtime as plain data, each default with its reason.
//!
//! Behaviour is set on the runtime's builder instead. Nothing here reads the environment;
//! `from_env` takes the variables as a value.

use std::time::Duration;

use haft_core::{Error, ErrorKind, Rate, RetryPolicy};
use haft_policy::CallLimits;

use crate::{frame::Frame, schema::RepairPolicy};

/// The runtime's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// How many calls of one turn run concurrently.
    pub max_concurrency: usize,
    /// Timeout of one attempt, unless the tool sets its own.
    pub timeout: Duration,
    /// Timeout of a whole call, from authorization on, unless the tool sets its own.
    pub deadline: Duration,
    /// Timeout of one approval request.
    pub approval_timeout: Duration,
    /// How many approval requests are open at once; the others are queued.
    pub prompts_at_once: usize,
    /// How many approval requests a run may make per minute; further calls are denied.
    pub max_prompts: usize,
    /// How many calls may be queued for approval; further calls are denied.
    pub max_waiting_prompts: usize,
    /// After this many denials in a row for one tool, the run's calls of it are denied without
    /// asking.
    pub max_refusals: u32,
    /// Timeout of one check, hook or guard.
    pub policy_timeout: Duration,
    /// How long a cancelled body may take to end by itself before it is dropped.
    pub grace: Duration,
    /// Minimum interval between progress events of one call; notes in between are merged.
    pub progress_every: Duration,
    /// How many background tasks may be outstanding, over all runs. With 0, background work is
    /// completed before the call is answered.
    pub max_background: usize,
    /// Timeout of background work, and how long its result waits to be fetched.
    pub background_ttl: Duration,
    /// How long closing the runtime waits for background work before it cancels it.
    pub background_grace: Duration,
    /// Largest arguments that are parsed at all, in bytes.
    pub max_arguments: usize,
    /// Largest result that is processed, in bytes, even if a tool declares `"unbounded"`.
    pub max_result: usize,
    /// How many bytes of large results the default in-memory store keeps.
    pub max_artifacts: usize,
    /// How many threads run blocking bodies.
    pub max_threads: usize,
    /// Maximum nesting depth of calls.
    pub max_depth: u32,
    /// How many records the memory journal keeps.
    pub max_records: usize,
    /// Rate limit over all tools together, in addition to what tools declare.
    pub rate: Option<Rate>,
    /// Retry policy for failed attempts, unless the tool sets its own.
    pub retry: Option<RetryPolicy>,
    /// Circuit breaker for tools that fail repeatedly; `None` disables it.
    pub breaker: Option<Breaker>,
    /// How many bytes of results the cache keeps for tools that declare `cache`.
    pub max_cache: usize,
    /// How many bytes of records the memory journal keeps, approximately.
    pub max_record_bytes: usize,
    /// Whether arguments and results are recorded on spans, redacted. They may contain private
    /// data.
    pub trace_content: bool,
    /// What is repaired in arguments before they are rejected.
    pub repair: RepairPolicy,
    /// How many tokens the definitions of tools may take in a request. Above it, tools with `Auto`
    /// exposure are deferred, those of sources first; `None` never defers them. It needs the tool
    /// [`SearchTools`](crate::search::SearchTools).
    pub max_tool_tokens: Option<u64>,
    /// Which results are enclosed in untrusted-content markers for the model (prompt injection).
    pub frame: Frame,
}

/// When the circuit breaker of a tool opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Opens after this many failures within the cooldown.
    pub failures: u32,
    /// Stays open this long.
    pub cooldown: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            // Fewer happen by chance; more only waste the caller's time.
            failures: 5,
            // Long enough for a service to recover, short enough to wait for.
            cooldown: Duration::from_secs(30),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // A common default: enough to overlap I/O waits, few enough not to overload services.
            max_concurrency: 10,
            // Longer than a slow build step, shorter than a person waits.
            timeout: Duration::from_secs(120),
            // Enough for five attempts.
            deadline: Duration::from_secs(600),
            // A person may be away; an unattended question still ends within minutes.
            approval_timeout: Duration::from_secs(300),
            // People read one thing at a time.
            prompts_at_once: 1,
            // One every two seconds: an approver who answers faster does not read the request.
            max_prompts: 30,
            // No person works through more, and each keeps its call waiting.
            max_waiting_prompts: 100,
            // The model already has its answer; repeated requests wear the approver down (approval
            // fatigue).
            max_refusals: 5,
            // Checks are lookups; one that takes half a minute is broken.
            policy_timeout: Duration::from_secs(30),
            // Enough to close a connection, too short to be noticed as a hang.
            grace: Duration::from_millis(250),
            // As fast as a person can follow; more only costs observers.
            progress_every: Duration::from_millis(100),
            // Each is a task and, once finished, a result in memory.
            max_background: 256,
            // An hour: past that the conversation has moved on.
            background_ttl: Duration::from_secs(3_600),
            // A caller that closes the runtime wants it to end now.
            background_grace: Duration::ZERO,
            // A model writes far less; a whole file as an argument still fits.
            max_arguments: 4 << 20,
            // A larger result is a bug in the tool, and copying it would hurt the process.
            max_result: 8 << 20,
            // About a thousand large results; affordable even for an idle process.
            max_artifacts: 64 << 20,
            // Blocking bodies mostly wait; more threads than this is a leak.
            max_threads: 64,
            // Deeper than any reasonable composition of tools.
            max_depth: 8,
            // More than a person reads.
            max_records: 1_000,
            // Each tool's own rate limit is enough, unless the host pays for all of them together.
            rate: None,
            // Only the tool knows whether its failures can be retried.
            retry: None,
            breaker: Some(Breaker::default()),
            // Over a thousand results of the usual size.
            max_cache: 64 << 20,
            // Large arguments are kept whole; this bounds their total.
            max_record_bytes: 16 << 20,
            // Content may be private, so recording it is opt-in.
            trace_content: false,
            // Models make small mistakes often, lossless repairs are safe, and asking again costs a
            // turn.
            repair: RepairPolicy::Lossless,
            // A tenth of a context window of 200 000 tokens; a model also chooses worse among more.
            max_tool_tokens: Some(20_000),
            // The markers cost about thirty tokens; a forged result (prompt injection) costs more.
            frame: Frame::Always,
        }
    }
}

impl Config {
    /// Returns the configuration with the limits of a policy file in place of its own.
    #[must_use]
    pub fn with_limits(mut self, limits: &CallLimits) -> Self {
        self.timeout = limits.timeout.unwrap_or(self.timeout);
        self.deadline = limits.deadline.unwrap_or(self.deadline);
        self.approval_timeout = limits.approval_timeout.unwrap_or(self.approval_timeout);
        self.policy_timeout = limits.policy_timeout.unwrap_or(self.policy_timeout);
        self.max_result = limits.max_result.unwrap_or(self.max_result);
        self.max_concurrency = limits.concurrency.unwrap_or(self.max_concurrency);
        self.max_tool_tokens = limits.max_tool_tokens.or(self.max_tool_tokens);
        self
    }

    /// Reads settings from environment variables: `HAFT_MAX_CONCURRENCY`, a number, and
    /// `HAFT_REPAIR`, one of `off`, `lossless` and `python`.
    ///
    /// ```
    /// use haft::Config;
    /// use haft::schema::RepairPolicy;
    ///
    /// let vars = [("HAFT_MAX_CONCURRENCY", "4"), ("HAFT_REPAIR", "off")];
    /// let config = Config::from_env(vars).unwrap();
    /// assert_eq!((config.max_concurrency, config.repair), (4, RepairPolicy::Off));
    /// assert!(Config::from_env([("HAFT_MAX_CONCURRENCY", "many")]).is_err());
    /// assert!(Config::from_env([("HAFT_REPAIR", "some")]).is_err());
    /// ```
    ///
    /// # Errors
    /// Fails if the number is not a whole number above zero, or the repair policy is unknown.
    pub fn from_env<K: AsRef<str>, V: AsRef<str>>(
        vars: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, Error> {
        let mut config = Self::default();
        for (name, value) in vars {
            if name.as_ref() == "HAFT_REPAIR" {
                let word = value.as_ref().trim();
                config.repair = RepairPolicy::parse(word).ok_or_else(|| {
                    Error::new(
                        ErrorKind::BadConfig,
                        format!(
                            "`HAFT_REPAIR` must be `off`, `lossless` or `python`, got `{word}`"
                        ),
                    )
                    .hint("omit it for the default, `lossless`")
                })?;
            }
            if name.as_ref() == "HAFT_MAX_CONCURRENCY" {
                config.max_concurrency =
                    value.as_ref().trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                        Error::new(
                            ErrorKind::BadConfig,
                            format!(
                                "`HAFT_MAX_CONCURRENCY` must be a whole number above zero, got `{}`",
                                value.as_ref()
                            ),
                        )
                        .hint("omit it for the default, 10")
                    })?;
            }
        }
        Ok(config)
    }

    /// Rejects limits of zero, with which no call could run.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let zero = [
            ("max_concurrency", self.max_concurrency == 0),
            ("timeout", self.timeout.is_zero()),
            ("deadline", self.deadline.is_zero()),
            ("approval_timeout", self.approval_timeout.is_zero()),
            ("prompts_at_once", self.prompts_at_once == 0),
            ("policy_timeout", self.policy_timeout.is_zero()),
            ("background_ttl", self.background_ttl.is_zero()),
            ("max_arguments", self.max_arguments == 0),
            ("max_result", self.max_result == 0),
            ("max_threads", self.max_threads == 0),
            ("rate", self.rate.is_some_and(|rate| rate.count == 0)),
            ("retry", self.retry.as_ref().is_some_and(|retry| retry.max_attempts == 0)),
            ("breaker.failures", self.breaker.is_some_and(|breaker| breaker.failures == 0)),
        ];
        match zero.iter().find(|(_, is_zero)| *is_zero) {
            Some((name, _)) => Err(Error::new(
                ErrorKind::BadConfig,
                format!("`{name}` is zero, so no call could run"),
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_file_replace_only_what_they_set() {
        let mut limits = CallLimits::default();
        assert_eq!(Config::default().with_limits(&limits), Config::default());
        limits.timeout = Some(Duration::from_secs(90));
        limits.deadline = Some(Duration::from_secs(300));
        limits.approval_timeout = Some(Duration::from_secs(3_600));
        limits.policy_timeout = Some(Duration::from_secs(10));
        limits.max_result = Some(50_000);
        limits.concurrency = Some(4);
        limits.max_tool_tokens = Some(7);
        let config = Config::default().with_limits(&limits);
        let times =
            [config.timeout, config.deadline, config.approval_timeout, config.policy_timeout];
        assert_eq!(times.map(|time| time.as_secs()), [90, 300, 3_600, 10]);
        assert_eq!((config.max_result, config.max_concurrency), (50_000, 4));
        assert_eq!(config.max_tool_tokens, Some(7));
        assert_eq!(config.grace, Config::default().grace);
    }
}
