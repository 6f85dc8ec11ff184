//! How long a request may take, and how often it is sent again.

use std::time::Duration;

/// How long each part of a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// The connection, with TLS and a proxy. The default is 10 seconds.
    pub connect: Duration,
    /// From the request to the head of the response. A response that is not streamed begins when
    /// the model has written all of it. The default is 5 minutes.
    pub first_byte: Duration,
    /// Between two chunks of a response. The default is 2 minutes.
    pub gap: Duration,
    /// The whole call: every attempt, the waits between them, and the response. The default is 20
    /// minutes.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(5 * 60),
            gap: Duration::from_secs(2 * 60),
            total: Duration::from_secs(20 * 60),
        }
    }
}

impl Timeouts {
    /// Sets how long a connection may take.
    #[must_use]
    pub fn connect(mut self, time: Duration) -> Self {
        self.connect = time;
        self
    }

    /// Sets how long the head of a response may take.
    #[must_use]
    pub fn first_byte(mut self, time: Duration) -> Self {
        self.first_byte = time;
        self
    }

    /// Sets how long the time between two chunks may be.
    #[must_use]
    pub fn gap(mut self, time: Duration) -> Self {
        self.gap = time;
        self
    }

    /// Sets how long the whole call may take.
    #[must_use]
    pub fn total(mut self, time: Duration) -> Self {
        self.total = time;
        self
    }
}

/// How often a request is sent again after a failure that may pass: no connection, a rate limit
/// (429) or a failure of the server (5xx). A response that has begun is not requested again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retries {
    /// How often at most. The default is 3.
    pub max: u32,
    /// The wait before the first repetition; it doubles each time, with jitter. The default is
    /// half a second.
    pub first_wait: Duration,
    /// The longest wait. If a provider asks for a longer one, the call fails at once and the error
    /// says so. The default is a minute.
    pub max_wait: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max: 3, first_wait: Duration::from_millis(500), max_wait: Duration::from_secs(60) }
    }
}

impl Retries {
    /// Never sends a request again.
    #[must_use]
    pub fn none() -> Self {
        Self { max: 0, ..Self::default() }
    }

    /// Sets how often a request is sent again.
    #[must_use]
    pub fn max(mut self, count: u32) -> Self {
        self.max = count;
        self
    }

    /// Sets the wait before the first repetition.
    #[must_use]
    pub fn first_wait(mut self, time: Duration) -> Self {
        self.first_wait = time;
        self
    }

    /// Sets the longest wait.
    #[must_use]
    pub fn max_wait(mut self, time: Duration) -> Self {
        self.max_wait = time;
        self
    }
}
