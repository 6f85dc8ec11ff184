//! Progress of a call as notifications: only if the client asked, and strictly increasing.
//!
//! The runtime sends up to ten reports at once and then one per `Config::progress_every`, ten per
//! second: beyond that rate only the last counts.

use futures_util::FutureExt as _;
use haft::{
    events::{Event, EventStream, StreamItem},
    tool::{CallId, Progress, RunId},
};
use rmcp::model::{ProgressNotificationParam, ProgressToken};

/// How many events wait for a client. Progress is dropped first.
const MAX_EVENTS: usize = 256;
/// How much of a message or of partial output is shown, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// Follows the progress of one call.
pub(super) struct ProgressReports {
    events: EventStream,
    run: RunId,
    call: CallId,
    token: ProgressToken,
    last: Option<f64>,
}

impl ProgressReports {
    pub(super) fn of(
        runtime: &haft::Runtime,
        run: RunId,
        call: CallId,
        token: ProgressToken,
    ) -> Self {
        Self { events: runtime.events(MAX_EVENTS), run, call, token, last: None }
    }

    /// Waits for the next report.
    pub(super) async fn next(&mut self) -> Option<ProgressNotificationParam> {
        loop {
            let item = self.events.next().await?;
            if let Some(report) = self.report(&item) {
                return Some(report);
            }
        }
    }

    /// Returns the next report that is there already.
    pub(super) fn try_next(&mut self) -> Option<ProgressNotificationParam> {
        self.next().now_or_never().flatten()
    }

    fn report(&mut self, item: &StreamItem) -> Option<ProgressNotificationParam> {
        let record = item.event()?;
        let Event::Progress { call, note } = &record.event else { return None };
        if *call != self.call || *record.at.run() != self.run {
            return None;
        }
        let (fraction, message) = match note {
            Progress::Progress(fraction, message) => (fraction.map(f64::from), message.as_str()),
            Progress::Partial(text) | Progress::Keyed(_, text) => (None, text.as_str()),
        };
        let progress = next_value(self.last, fraction)?;
        self.last = Some(progress);
        let mut report = ProgressNotificationParam::new(self.token.clone(), progress);
        if fraction.is_some() {
            report = report.with_total(1.0);
        }
        let message: String = message.trim().chars().take(MAX_MESSAGE_CHARS).collect();
        Some(if message.is_empty() { report } else { report.with_message(message) })
    }
}

/// Returns the next value, which must be above the last. A note without a number advances a little,
/// so that a client that waits sees that the call is alive.
fn next_value(last: Option<f64>, fraction: Option<f64>) -> Option<f64> {
    const SMALL_STEP: f64 = 1e-6;
    match (last, fraction) {
        (None, fraction) => Some(fraction.unwrap_or(0.0)),
        (Some(last), Some(fraction)) => (fraction > last).then_some(fraction),
        (Some(last), None) => Some(last + SMALL_STEP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_only_increase() {
        let mut last = None;
        let mut sent = Vec::new();
        for fraction in [Some(0.0), Some(0.5), Some(0.5), None, Some(0.2), Some(1.0), None] {
            if let Some(value) = next_value(last, fraction) {
                sent.push(value);
                last = Some(value);
            }
        }
        assert_eq!(sent, [0.0, 0.5, 0.500001, 1.0, 1.000001]);
        assert!(sent.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
