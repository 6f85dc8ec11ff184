//! `haft call … --trace`: the walk of one call with its times, as a small waterfall.
//!
//! In: the stamped events of the call. Out: the phases between them, on stderr as bars that stand
//! where their time was, or as data. Each event ends a phase; what a body took is known from its own
//! event, and what lies before it is the layers around it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use haft::{Event, EventMeta, Observer, Phase, WaitReason};
use serde_json::{Value, json};

use crate::style::{self, BOLD, DIM, NAME};

/// How wide the bars are at most.
const WIDTH: usize = 40;
/// So many events are kept; a body may tell any number of notes.
const MOST: usize = 10_000;

/// Keeps the events of a call.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Vec<(EventMeta, Event)>>>);

impl Observer for Trace {
    fn observe(&self, _: &Event) {}

    fn observe_at(&self, at: &EventMeta, event: &Event) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !event.is_note() && kept.len() < MOST {
            kept.push((at.clone(), event.clone()));
        }
    }
}

/// A stretch of time in the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    name: String,
    /// After the beginning of everything.
    from: Duration,
    took: Duration,
}

impl Trace {
    /// The walk as data.
    pub(crate) fn to_json(&self, call: &str) -> Value {
        let stretches = self.stretches(call);
        let row = |s: &Stretch| json!({"phase": s.name, "from_us": micros(s.from), "took_us": micros(s.took)});
        json!({
            "total_us": micros(total(&stretches)),
            "phases": stretches.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// Writes the walk to stderr.
    pub(crate) fn tell(&self, call: &str) {
        style::talk(page(&self.stretches(call)).trim_end());
    }

    fn stretches(&self, call: &str) -> Vec<Stretch> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.sort_by_key(|(at, _)| at.seq);
        stretches(&kept, call)
    }
}

/// Cuts the walk of a call into what lies between its events.
fn stretches(events: &[(EventMeta, Event)], id: &str) -> Vec<Stretch> {
    let Some(began) = events.first().map(|(at, _)| at.time) else { return Vec::new() };
    let mut walk = Walk { began, mark: began, is_inside: false, out: Vec::new() };
    for (at, event) in events {
        let own = |call: &haft::CallId| *call == *id;
        match event {
            Event::Planned { call, .. } if own(call) => walk.until(at, "admit"),
            Event::Started { call, .. } if own(call) => walk.until(at, "plan"),
            Event::PhaseFinished { call, phase } if own(call) => walk.until(at, word(*phase)),
            Event::Asked { call, .. } if own(call) => walk.until(at, "judge"),
            Event::Answered { call, .. } if own(call) => walk.until(at, "approval"),
            Event::Rewritten { call, .. }
            | Event::Permitted { call, .. }
            | Event::Refused { call, .. }
                if own(call) =>
            {
                walk.until(at, "judge");
            }
            // Behind a layer that has told something, it is one of the others that ends here.
            Event::Running { call } if own(call) => {
                walk.until(at, if walk.is_inside { "layers" } else { "journal" });
            }
            Event::AttemptFinished { call, attempt, took, .. } if own(call) => {
                let body = at.time.checked_sub(*took).unwrap_or(at.time);
                walk.to(body, "layers");
                walk.until(at, &format!("attempt {attempt}"));
            }
            Event::Finished { call, .. } if own(call) => walk.until(at, "settle"),
            // A call that the body made: where it was, beside what it was part of.
            Event::Finished { call, tool_name: meant, elapsed, .. }
                if call.is_within(&id.into()) =>
            {
                let from = at.time.checked_sub(*elapsed).unwrap_or(at.time);
                let name = format!("> {}", style::cell(meant.as_str()));
                walk.out.push(Stretch {
                    name,
                    from: from.saturating_duration_since(began),
                    took: *elapsed,
                });
            }
            Event::Waited { call, what, .. } if own(call) => {
                walk.until(at, what.as_str());
                walk.is_inside |= *what != WaitReason::Place;
            }
            Event::Cached { call, .. } if own(call) => {
                walk.until(at, "cache");
                walk.is_inside = true;
            }
            _ => {}
        }
    }
    walk.out.sort_by_key(|stretch| stretch.from);
    walk.out
}

struct Walk {
    began: Instant,
    mark: Instant,
    /// Whether a layer around the body has told something.
    is_inside: bool,
    out: Vec<Stretch>,
}

impl Walk {
    fn until(&mut self, at: &EventMeta, name: &str) {
        self.to(at.time, name);
    }

    fn to(&mut self, time: Instant, name: &str) {
        let from = self.mark.saturating_duration_since(self.began);
        let took = time.saturating_duration_since(self.mark);
        self.mark = self.mark.max(time);
        match self.out.last_mut() {
            // What goes on under the same name is one stretch.
            Some(last) if last.name == name && last.from + last.took == from => last.took += took,
            _ => self.out.push(Stretch { name: name.to_owned(), from, took }),
        }
    }
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Check => "check",
        Phase::Before => "hooks",
        Phase::Message => "message",
        Phase::Gate => "gate",
        Phase::After => "after",
        Phase::Shape => "shape",
        _ => "other",
    }
}

fn page(stretches: &[Stretch]) -> String {
    let whole = total(stretches);
    let mut out = format!("{}\n", style::paint(BOLD, format_args!("trace: {} µs", micros(whole))));
    let names = stretches.iter().map(|s| style::width(&s.name)).max().unwrap_or(0);
    let times = micros(whole).to_string().len();
    for stretch in stretches {
        let (name, took) = (&stretch.name, micros(stretch.took));
        let space = " ".repeat(names - style::width(name));
        let (before, bar) = bar(stretch, whole);
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

/// Where a bar begins and how long it is; whatever took no time worth showing has a mark still.
fn bar(stretch: &Stretch, whole: Duration) -> (usize, usize) {
    let column = |time: Duration| {
        let share = time.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to the width"
        )]
        let column = (share * WIDTH as f64).round().clamp(0.0, WIDTH as f64) as usize;
        column
    };
    let from = column(stretch.from).min(WIDTH - 1);
    let to = column(stretch.from + stretch.took).max(from + 1);
    (from, to - from)
}

fn total(stretches: &[Stretch]) -> Duration {
    stretches.iter().map(|s| s.from + s.took).max().unwrap_or_default()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(name: &str, from: u64, took: u64) -> Stretch {
        Stretch {
            name: name.to_owned(),
            from: Duration::from_micros(from),
            took: Duration::from_micros(took),
        }
    }

    #[test]
    fn bars_stand_where_their_time_was() {
        let walk = [
            stretch("admit", 0, 100),
            stretch("approval", 100, 500),
            stretch("attempt 1", 600, 399),
            stretch("settle", 999, 1),
        ];
        let plain = anstream::adapter::strip_str(&page(&walk)).to_string();
        insta::assert_snapshot!(plain, @r"
        trace: 1000 µs
          admit       100 µs  ####
          approval    500 µs      ####################
          attempt 1   399 µs                          ################
          settle        1 µs                                         #
        ");
    }

    #[test]
    fn a_walk_that_took_no_time_still_has_its_marks() {
        assert_eq!(bar(&stretch("x", 0, 0), Duration::ZERO), (0, 1));
        assert_eq!(bar(&stretch("x", 10, 0), Duration::from_micros(10)), (WIDTH - 1, 1));
        assert!(page(&[]).contains("0 µs"));
    }
}
