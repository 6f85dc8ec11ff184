//! What can be written in a file: plain numbers with a reason each.
//!
//! Behaviour is handed to the runtime's builder instead. Nothing here reads the environment;
//! `from_env` takes the variables as a value.

use std::time::Duration;

use haft_core::{Rate, RetryPolicy};

use crate::{
    error::{Error, ErrorKind},
    frame::Frame,
    schema::RepairPolicy,
};

/// The runtime's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// How many calls of one turn run at once.
    pub max_concurrency: usize,
    /// How long one attempt may take, unless the tool says otherwise.
    pub timeout: Duration,
    /// How long a call may take in all, from permission on, unless the tool says otherwise.
    pub deadline: Duration,
    /// How long a person may think.
    pub approval_timeout: Duration,
    /// How many questions are open at once; the others stand in line.
    pub prompts_at_once: usize,
    /// How many questions a run may ask in a minute; past that its calls are denied.
    pub max_prompts: usize,
    /// How many calls may stand in line to be asked about; past that they are denied.
    pub max_waiting_prompts: usize,
    /// After how many noes in a row to one tool a run is no longer asked about it.
    pub max_refusals: u32,
    /// How long a check, a hook or a guard may take.
    pub judge_timeout: Duration,
    /// How long a cancelled body may take to end by itself.
    pub grace: Duration,
    /// How often a call may tell how far it is; what it tells in between is put together.
    pub progress_every: Duration,
    /// How many results may be outstanding that come later, over all runs; none means that work which
    /// would go on after its answer is done before it.
    pub max_background: usize,
    /// How long late work may take, and how long its result waits to be heard of.
    pub background_ttl: Duration,
    /// How long closing the runtime waits for late work before it is told to stop.
    pub background_grace: Duration,
    /// The longest arguments that are read at all, in bytes.
    pub max_arguments: usize,
    /// The largest result that is looked at, in bytes, even when a tool says `"unbounded"`.
    pub max_result: usize,
    /// How many bytes of large results are kept in memory, where no other store is set.
    pub max_artifacts: usize,
    /// How many threads run blocking bodies.
    pub max_threads: usize,
    /// How deep calls may nest.
    pub max_depth: u32,
    /// How many records the memory journal keeps.
    pub max_records: usize,
    /// How often all tools together may run. It adds to what tools declare and replaces none of it.
    pub rate: Option<Rate>,
    /// How failed attempts are repeated, unless the tool says otherwise.
    pub retry: Option<RetryPolicy>,
    /// When a tool that fails again and again is left alone; nothing for never.
    pub breaker: Option<Breaker>,
    /// How many bytes of results are kept for tools that declare `cache`.
    pub max_cache: usize,
    /// How many bytes of records the memory journal keeps, as near as that can be told.
    pub max_record_bytes: usize,
    /// Whether arguments and results are put on spans, redacted. They may hold anything.
    pub trace_content: bool,
    /// What is repaired in arguments before they are refused.
    pub repair: RepairPolicy,
    /// Which results stand between marks when a model reads them.
    pub frame: Frame,
}

/// When a tool that fails again and again is left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// After so many failures within the cooldown.
    pub failures: u32,
    /// For so long.
    pub cooldown: Duration,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            // Fewer happen by chance; more only wear out whoever waits.
            failures: 5,
            // Long enough for a service to come back, short enough to be waited for.
            cooldown: Duration::from_secs(30),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // What the field settled on: enough to overlap waiting, few enough to be kind to peers.
            max_concurrency: 10,
            // Longer than a slow build step, shorter than a person's patience.
            timeout: Duration::from_secs(120),
            // Five attempts' worth.
            deadline: Duration::from_secs(600),
            // A person may be at lunch; an unattended question should still end in this hour.
            approval_timeout: Duration::from_secs(300),
            // People read one thing at a time.
            prompts_at_once: 1,
            // One every other second: whoever answers faster does not read.
            max_prompts: 30,
            // Nobody works through more than this, and each waits with its call.
            max_waiting_prompts: 100,
            // The model has had its answer; asking on only tires the person into a yes.
            max_refusals: 5,
            // Judges look things up; one that needs half a minute is broken.
            judge_timeout: Duration::from_secs(30),
            // Enough to close a connection, not enough to be noticed as a hang.
            grace: Duration::from_millis(250),
            // As often as an eye can follow; more only costs whoever listens.
            progress_every: Duration::from_millis(100),
            // Each is a task and, once done, a result in memory.
            max_background: 256,
            // An hour: past that the conversation has moved on.
            background_ttl: Duration::from_secs(3_600),
            // Whoever closes wants to be gone.
            background_grace: Duration::ZERO,
            // A model writes far less; a whole file in an argument still fits.
            max_arguments: 4 << 20,
            // Past this a result is a mistake, and copying it would hurt the process.
            max_result: 8 << 20,
            // A thousand large results; an idle process does not miss it.
            max_artifacts: 64 << 20,
            // Blocking bodies mostly wait; more threads than this is a leak.
            max_threads: 64,
            // Deeper than any honest composition of tools.
            max_depth: 8,
            // More than anybody scrolls through.
            max_records: 1_000,
            // Each tool's own rate is enough, unless somebody pays for all of them together.
            rate: None,
            // Trying again is the tool's to say: it knows what its failures mean.
            retry: None,
            breaker: Some(Breaker::default()),
            // Over a thousand results of the usual bound, and little beside a browser tab.
            max_cache: 64 << 20,
            // Large arguments are kept whole; this many of them are still no burden.
            max_record_bytes: 16 << 20,
            // What people and tools say is nobody else's, until somebody decides so.
            trace_content: false,
            // Models slip often, and what is repaired loses nothing; asking again costs a turn.
            repair: RepairPolicy::Lossless,
            // Thirty tokens are cheap, and a forged result costs more than all of them.
            frame: Frame::Always,
        }
    }
}

impl Config {
    /// Takes over what the environment says. Known: `HAFT_MAX_CONCURRENCY`, a number, and
    /// `HAFT_REPAIR`, one of `off`, `lossless` and `python`.
    ///
    /// ```
    /// use haft::{Config, RepairPolicy};
    ///
    /// let vars = [("HAFT_MAX_CONCURRENCY", "4"), ("HAFT_REPAIR", "off")];
    /// let config = Config::from_env(vars).unwrap();
    /// assert_eq!((config.max_concurrency, config.repair), (4, RepairPolicy::Off));
    /// assert!(Config::from_env([("HAFT_MAX_CONCURRENCY", "many")]).is_err());
    /// assert!(Config::from_env([("HAFT_REPAIR", "some")]).is_err());
    /// ```
    ///
    /// # Errors
    /// Fails when a number is no whole number above zero, or a word is none of those known.
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
                    .hint("leave it out to repair what loses nothing")
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
                        .hint("leave it out to run 10 calls of a turn at once")
                    })?;
            }
        }
        Ok(config)
    }

    /// Refuses what would let nothing run.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let zero = [
            ("max_concurrency", self.max_concurrency == 0),
            ("timeout", self.timeout.is_zero()),
            ("deadline", self.deadline.is_zero()),
            ("approval_timeout", self.approval_timeout.is_zero()),
            ("prompts_at_once", self.prompts_at_once == 0),
            ("judge_timeout", self.judge_timeout.is_zero()),
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
                format!("`{name}` of zero would let no call run"),
            )),
            None => Ok(()),
        }
    }
}
