//! `haft call … --trace`: the phases of one call with their times, as a waterfall.
//!
//! In: the events of the call with timestamps. Out: the phases between them, as bars on stderr or
//! as JSON. Each event ends a phase. The time of the body comes from its own event; the time before
//! it belongs to the layers.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use haft::events::{Event, EventMeta, Observer, Phase, WaitReason};
use haft_core::sync::lock;
use serde_json::{Value, json};

use crate::style::{self, BOLD, DIM, NAME};

/// The maximum width of a bar.
const MAX_BAR_COLUMNS: usize = 40;
/// The limit on recorded events; a body may emit any number.
const MAX_EVENTS: usize = 10_000;

/// Records the events of a call.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<(EventMeta, Event)>>>);

impl Observer for Trace {
    fn observe(&self, _: &Event) {}

    fn observe_at(&self, at: &EventMeta, event: &Event) {
        let mut kept = lock(&self.0);
        if !event.is_progress() && kept.len() < MAX_EVENTS {
            kept.push((at.clone(), event.clone()));
        }
    }
}

/// One phase of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PhaseTime {
    name: String,
    /// The start, relative to the first event.
    from: Duration,
    took: Duration,
}

impl Trace {
    /// The phases as JSON.
    pub(crate) fn to_json(&self, call: &str) -> Value {
        let phases = self.phases(call);
        let row = |s: &PhaseTime| json!({"phase": s.name, "from_us": micros(s.from), "took_us": micros(s.took)});
        json!({
            "total_us": micros(total(&phases)),
            "phases": phases.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// Prints the phases to stderr.
    pub(crate) fn print(&self, call: &str) {
        style::message(page(&self.phases(call)).trim_end());
    }

    fn phases(&self, call: &str) -> Vec<PhaseTime> {
        let mut kept = lock(&self.0).clone();
        kept.sort_by_key(|(at, _)| at.seq);
        phases(&kept, call)
    }
}

/// Splits the time of a call at its events.
fn phases(events: &[(EventMeta, Event)], id: &str) -> Vec<PhaseTime> {
    let Some(began) = events.first().map(|(at, _)| at.time) else { return Vec::new() };
    let mut timeline = Timeline { began, mark: began, is_inside: false, out: Vec::new() };
    for (at, event) in events {
        let own = |call: &haft::tool::CallId| *call == *id;
        match event {
            Event::Planned { call, .. } if own(call) => timeline.until(at, "validate"),
            Event::Started { call, .. } if own(call) => timeline.until(at, "plan"),
            Event::PhaseFinished { call, phase } if own(call) => {
                timeline.until(at, phase_name(*phase))
            }
            Event::Asked { call, .. } if own(call) => timeline.until(at, "authorize"),
            Event::Answered { call, .. } if own(call) => timeline.until(at, "approval"),
            Event::Rewritten { call, .. }
            | Event::Authorized { call, .. }
            | Event::Refused { call, .. }
                if own(call) =>
            {
                timeline.until(at, "authorize");
            }
            // After an event of a layer, this is the end of another layer.
            Event::Running { call } if own(call) => {
                timeline.until(at, if timeline.is_inside { "layers" } else { "journal" });
            }
            Event::AttemptFinished { call, attempt, took, .. } if own(call) => {
                let body = at.time.checked_sub(*took).unwrap_or(at.time);
                timeline.to(body, "layers");
                timeline.until(at, &format!("attempt {attempt}"));
            }
            Event::Finished { call, .. } if own(call) => timeline.until(at, "finish"),
            // A nested call, in addition to the phase that contains it.
            Event::Finished { call, tool_name, elapsed, .. } if call.is_within(&id.into()) => {
                let from = at.time.checked_sub(*elapsed).unwrap_or(at.time);
                let name = format!("> {}", style::cell(tool_name.as_str()));
                timeline.out.push(PhaseTime {
                    name,
                    from: from.saturating_duration_since(began),
                    took: *elapsed,
                });
            }
            Event::Waited { call, what, .. } if own(call) => {
                timeline.until(at, what.as_str());
                timeline.is_inside |= *what != WaitReason::Slot;
            }
            Event::Cached { call, .. } if own(call) => {
                timeline.until(at, "cache");
                timeline.is_inside = true;
            }
            _ => {}
        }
    }
    timeline.out.sort_by_key(|phase| phase.from);
    timeline.out
}

struct Timeline {
    began: Instant,
    mark: Instant,
    /// Whether a layer around the body has emitted an event.
    is_inside: bool,
    out: Vec<PhaseTime>,
}

impl Timeline {
    fn until(&mut self, at: &EventMeta, name: &str) {
        self.to(at.time, name);
    }

    fn to(&mut self, time: Instant, name: &str) {
        let from = self.mark.saturating_duration_since(self.began);
        let took = time.saturating_duration_since(self.mark);
        self.mark = self.mark.max(time);
        match self.out.last_mut() {
            // Adjacent phases of the same name are merged.
            Some(last) if last.name == name && last.from + last.took == from => last.took += took,
            _ => self.out.push(PhaseTime { name: name.to_owned(), from, took }),
        }
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Check => "check",
        Phase::PreHooks => "hooks",
        Phase::WaitForMessageEnd => "message wait",
        Phase::WaitForLock => "lock wait",
        Phase::PostHooks => "hooks after",
        Phase::Sanitize => "sanitize",
        _ => "other",
    }
}

fn page(phases: &[PhaseTime]) -> String {
    let whole = total(phases);
    let mut out = format!("{}\n", style::paint(BOLD, format_args!("trace: {} µs", micros(whole))));
    let names = phases.iter().map(|s| style::width(&s.name)).max().unwrap_or(0);
    let times = micros(whole).to_string().len();
    for phase in phases {
        let (name, took) = (&phase.name, micros(phase.took));
        let space = " ".repeat(names - style::width(name));
        let (before, bar) = bar(phase, whole);
        out += &format!(
            "  {}{space}  {}  {}{}\n",
            style::paint(NAME, name),
            style::paint(DIM, format_args!("{took:>times$} µs")),
            " ".repeat(before),
            "#".repeat(bar),
        );
    }
    out
}

/// The start and length of a bar; at least one column.
fn bar(phase: &PhaseTime, whole: Duration) -> (usize, usize) {
    let column = |time: Duration| {
        let share = time.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to the width"
        )]
        let column =
            (share * MAX_BAR_COLUMNS as f64).round().clamp(0.0, MAX_BAR_COLUMNS as f64) as usize;
        column
    };
    let from = column(phase.from).min(MAX_BAR_COLUMNS - 1);
    let to = column(phase.from + phase.took).max(from + 1);
    (from, to - from)
}

fn total(phases: &[PhaseTime]) -> Duration {
    phases.iter().map(|s| s.from + s.took).max().unwrap_or_default()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, from: u64, took: u64) -> PhaseTime {
        PhaseTime {
            name: name.to_owned(),
            from: Duration::from_micros(from),
            took: Duration::from_micros(took),
        }
    }

    #[test]
    fn bars_start_at_their_time() {
        let timeline = [
            phase("validate", 0, 100),
            phase("approval", 100, 500),
            phase("attempt 1", 600, 399),
            phase("finish", 999, 1),
        ];
        let plain = anstream::adapter::strip_str(&page(&timeline)).to_string();
        insta::assert_snapshot!(plain, @r"
        trace: 1000 µs
          validate    100 µs  ####
          approval    500 µs      ####################
          attempt 1   399 µs                          ################
          finish        1 µs                                         #
        ");
    }

    /// Returns the time of high water. The first attempt always fails.
    #[haft::tool(
        read_only,
        capabilities(),
        cache = "1h",
        retry(max_attempts = 3, backoff = "fixed", initial_delay = "20ms", jitter = false)
    )]
    async fn tides(cx: &haft::ToolContext) -> Result<String, haft::Failure> {
        let later = haft::tool::RetryHint::Later;
        match cx.attempt() {
            1 => Err(haft::Failure::failed("the gauge does not answer").with_retry(later)),
            _ => Ok("high water at noon".to_owned()),
        }
    }

    #[test]
    fn cache_and_retries_are_phases_of_their_own() {
        let trace = Trace::default();
        let observer = trace.clone();
        let run = crate::session::block_on(async move {
            let registry = haft::ToolRegistry::builder().add(TidesTool).build()?;
            let runtime = haft::Runtime::builder().registry(registry).observer(observer).build()?;
            let call = haft::ToolCall::new("call", "tides", json!({}));
            let answers = runtime.run().turn().await?.run([call]).await;
            Ok::<_, haft::Error>(answers.len())
        });
        assert_eq!(run.unwrap().unwrap(), 1);
        let phases = trace.phases("call");
        let names: Vec<&str> = phases.iter().map(|phase| phase.name.as_str()).collect();
        let layers = ["cache", "layers", "attempt 1", "backoff", "layers", "attempt 2"];
        assert!(names.windows(layers.len()).any(|part| part == layers), "{names:?}");
        let backoff = phases.iter().find(|phase| phase.name == "backoff").unwrap();
        assert!(backoff.took >= Duration::from_millis(20), "{backoff:?}");
    }

    #[test]
    fn phases_without_duration_have_a_bar() {
        assert_eq!(bar(&phase("x", 0, 0), Duration::ZERO), (0, 1));
        assert_eq!(bar(&phase("x", 10, 0), Duration::from_micros(10)), (MAX_BAR_COLUMNS - 1, 1));
        assert!(page(&[]).contains("0 µs"));
    }
}
