//! The values of a spec's options: interrupt, exposure, rate, cache, retry and so on.
//!
//! Texts such as `"10/second"` or `"20s"` have one grammar, parsed by `const` functions. The
//! attribute macro calls them at compile time, the builder at run time. No call parses them.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// What an interrupt does to a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interrupt {
    /// The call is cancelled at once, and its result says so.
    Cancel,
    /// The call finishes and the new message waits.
    Block,
}

/// Whether the model sees the tool from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exposure {
    /// Always shown.
    Always,
    /// Shown while the token budget allows.
    #[default]
    Auto,
    /// Only found by tool search.
    Deferred,
}

/// Whether the tool needs approval when no rule and no guard decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// A rule or a person must allow it.
    #[default]
    Required,
    /// No approval by default. A rule can still ask or deny.
    None,
}

/// Where the body runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Child processes run in the sandbox, Rust code in this process.
    #[default]
    Auto,
    /// In the sandbox or not at all. For a body that runs in this process this is a build error.
    Required,
}

/// What happens to arguments that are not in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownFields {
    /// The call is rejected, with the nearest valid name.
    #[default]
    Refuse,
    /// They are dropped before guards, rules and body run.
    Ignore,
    /// The schema decides. For schemas from other systems.
    Schema,
}

/// How large a result may be before the rest is offloaded to an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultLimit {
    /// At most this number of characters.
    Chars(usize),
    /// No limit of its own. The runtime's hard limit still applies.
    Unbounded,
}

impl Default for ResultLimit {
    /// About twelve thousand tokens.
    fn default() -> Self {
        Self::Chars(50_000)
    }
}

impl From<usize> for ResultLimit {
    fn from(chars: usize) -> Self {
        Self::Chars(chars)
    }
}

/// The window of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// One second.
    Second,
    /// Sixty seconds.
    Minute,
    /// Sixty minutes.
    Hour,
    /// Twenty-four hours.
    Day,
}

impl Window {
    /// Returns its length.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        })
    }

    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }
}

/// How often a tool may run.
///
/// ```
/// use haft_core::Rate;
///
/// assert_eq!(Rate::parse("10/second").unwrap().count, 10);
/// assert!(Rate::parse("0/minute").is_err());
/// assert!(Rate::parse("ten per hour").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// The number of calls …
    pub count: u32,
    /// … in each window.
    pub per: Window,
}

impl std::str::FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).map_err(RateError)
    }
}

/// Says why a text is not a [`Rate`].
///
/// ```
/// let rate: haft_core::Rate = "10/minute".parse().unwrap();
/// assert_eq!(rate.count, 10);
/// let error = "often".parse::<haft_core::Rate>().unwrap_err();
/// assert!(error.to_string().contains("10/second"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateError(&'static str);

impl std::fmt::Display for RateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for RateError {}

impl Rate {
    /// Parses `N/second`, `N/minute`, `N/hour` or `N/day`.
    ///
    /// # Errors
    /// Describes the format of a rate.
    pub const fn parse(text: &str) -> Result<Rate, &'static str> {
        const EXPECTED: &str = "expected a rate: a whole number above zero, a slash, and second, minute, hour or day, as in \"10/second\"";
        let bytes = text.as_bytes();
        let (count, at) = match number(bytes) {
            Some(found) => found,
            None => return Err(EXPECTED),
        };
        if count == 0 || count > u32::MAX as u64 || at >= bytes.len() || bytes[at] != b'/' {
            return Err(EXPECTED);
        }
        let per = if ends_with(bytes, at + 1, b"second") {
            Window::Second
        } else if ends_with(bytes, at + 1, b"minute") {
            Window::Minute
        } else if ends_with(bytes, at + 1, b"hour") {
            Window::Hour
        } else if ends_with(bytes, at + 1, b"day") {
            Window::Day
        } else {
            return Err(EXPECTED);
        };
        Ok(Rate { count: count as u32, per })
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, self.per.as_str())
    }
}

/// Parses a duration such as `500ms`, `20s`, `5m`, `2h` or `1d`.
///
/// # Errors
/// Describes the format of a duration. Zero is rejected: no call could run within it.
pub const fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str =
        "expected a duration: a whole number above zero and ms, s, m, h or d, as in \"20s\"";
    let bytes = text.as_bytes();
    let (count, at) = match number(bytes) {
        Some(found) => found,
        None => return Err(EXPECTED),
    };
    let unit = if ends_with(bytes, at, b"ms") {
        1
    } else if ends_with(bytes, at, b"s") {
        1_000
    } else if ends_with(bytes, at, b"m") {
        60_000
    } else if ends_with(bytes, at, b"h") {
        3_600_000
    } else if ends_with(bytes, at, b"d") {
        86_400_000
    } else {
        return Err(EXPECTED);
    };
    match count.checked_mul(unit) {
        None | Some(0) => Err(EXPECTED),
        // A century: longer than any wait, and far from an overflow of deadlines.
        Some(ms) if ms > 3_155_760_000_000 => Err(EXPECTED),
        Some(ms) => Ok(Duration::from_millis(ms)),
    }
}

/// Parses leading digits. Returns the number and the index of its end.
const fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut at = 0;
    let mut value: u64 = 0;
    while at < bytes.len() && bytes[at].is_ascii_digit() {
        value = match value.checked_mul(10) {
            Some(v) => match v.checked_add((bytes[at] - b'0') as u64) {
                Some(v) => v,
                None => return None,
            },
            None => return None,
        };
        at += 1;
    }
    if at == 0 { None } else { Some((value, at)) }
}

const fn ends_with(bytes: &[u8], from: usize, word: &[u8]) -> bool {
    if bytes.len() != from + word.len() {
        return false;
    }
    let mut at = 0;
    while at < word.len() {
        if bytes[from + at] != word[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Caches successful results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// The time to live.
    #[serde(serialize_with = "millis")]
    pub ttl: Duration,
    /// The scope: results are shared only within one value of it.
    ///
    /// `user`, `session`, `run` and `agent` refer to the ids of the call; if the host set none,
    /// nothing is cached. Any other text is a shared scope for all calls. `None` means per user
    /// (calls without a user share), or per run if the tool depends on `RunState`.
    pub scope: Option<String>,
}

impl Cache {
    /// Caches results for this time.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, scope: None }
    }

    /// Sets the scope within which results are shared.
    #[must_use]
    pub fn within(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }
}

/// How the delay grows between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// The same delay every time.
    Fixed,
    /// One, two, three times the first delay.
    Linear,
    /// Doubling.
    #[default]
    Exponential,
}

/// How often and when a failed attempt is retried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The total number of attempts, the first included.
    pub max_attempts: u32,
    /// How the delay grows.
    pub backoff: Backoff,
    /// The first delay.
    #[serde(serialize_with = "millis", deserialize_with = "from_millis")]
    pub initial_delay: Duration,
    /// The longest delay.
    #[serde(serialize_with = "millis", deserialize_with = "from_millis")]
    pub max_delay: Duration,
    /// Whether delays are randomized, so that callers do not retry at the same time.
    pub jitter: bool,
    /// Retries only failures with one of these codes (`timed_out`), or from an error whose type
    /// name contains one of these texts, ignoring case (`io::error`). Empty means all retryable
    /// failures.
    pub retry_on: Vec<String>,
}

impl RetryPolicy {
    /// Returns the delay after the attempt with this number (from 1) has failed.
    ///
    /// With `jitter`, the random value `chance` from 0 to 1 scales the delay between 0.5 and 1.5.
    /// The result never exceeds `max_delay`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use haft_core::RetryPolicy;
    ///
    /// let retries = RetryPolicy { jitter: false, ..RetryPolicy::default() };
    /// assert_eq!(retries.delay(3, 0.5), Duration::from_secs(4));
    /// ```
    #[must_use]
    pub fn delay(&self, failed: u32, chance: f64) -> Duration {
        let failed = failed.max(1);
        let times = match self.backoff {
            Backoff::Fixed => 1,
            Backoff::Linear => failed,
            Backoff::Exponential => 1_u32.checked_shl(failed - 1).unwrap_or(u32::MAX),
        };
        let delay = self.initial_delay.checked_mul(times).unwrap_or(Duration::MAX);
        let delay = delay.min(self.max_delay);
        if !self.jitter {
            return delay;
        }
        let factor = if chance.is_finite() { 0.5 + chance.clamp(0.0, 1.0) } else { 1.0 };
        let seconds = delay.as_secs_f64() * factor;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).min(self.max_delay)
    }
}

impl Default for RetryPolicy {
    /// Three attempts within about three seconds.
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff: Backoff::Exponential,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
            jitter: true,
            retry_on: Vec::new(),
        }
    }
}

/// Serializes a duration as text in milliseconds, which `parse_duration` accepts.
pub(crate) fn millis<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{}ms", time.as_millis()))
}

/// Reads what [`millis`] wrote.
fn from_millis<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let millis = text.strip_suffix("ms").and_then(|millis| millis.parse().ok());
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| D::Error::custom(format_args!("`{text}` is not a time such as `250ms`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delay_follows_the_backoff_and_never_exceeds_the_maximum() {
        let of = |backoff, failed| {
            let retries = RetryPolicy { backoff, jitter: false, ..RetryPolicy::default() };
            retries.delay(failed, 0.0).as_secs()
        };
        let first = |backoff| [1, 2, 3, 4].map(|n| of(backoff, n));
        assert_eq!(first(Backoff::Fixed), [1, 1, 1, 1]);
        assert_eq!(first(Backoff::Linear), [1, 2, 3, 4]);
        assert_eq!(first(Backoff::Exponential), [1, 2, 4, 8]);
        for backoff in [Backoff::Linear, Backoff::Exponential] {
            assert_eq!(of(backoff, 100), 60);
            assert_eq!(of(backoff, u32::MAX), 60);
        }
        let spread = RetryPolicy::default();
        let at = |chance| spread.delay(1, chance).as_millis();
        assert_eq!([0.0, 0.5, 1.0, f64::NAN, 7.0].map(at), [500, 1000, 1500, 1000, 1500]);
        assert_eq!(spread.delay(50, 1.0), spread.max_delay, "jitter does not exceed the maximum");
    }

    #[test]
    fn rates_and_durations_parse_or_are_rejected() {
        assert_eq!(Rate::parse("3/day").unwrap(), Rate { count: 3, per: Window::Day });
        for bad in ["", "/s", "1", "1/", "1/s", "-1/second", "0/hour", "1 /day", "99999999999/day"]
        {
            assert!(Rate::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(parse_duration("2h").unwrap(), Duration::from_secs(7_200));
        for bad in ["", "5", "s", "0s", "1w", "1 s", "99999999999999999999s", "999999999999d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
