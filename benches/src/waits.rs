//! Bodies that wait: each call sleeps for a millisecond, as a tool that asks a server would.
//!
//! CPU time per call shows what a task, a timer and a wake-up cost in each subject.

use std::time::Duration;

use crate::{
    add, agentkit, baseline,
    harness::{Bench, Subject, Unit},
    ours, rig,
};

/// Calls of one measurement: each takes a millisecond.
const CALLS: u32 = 300;

/// Adds the cases.
pub(crate) fn add(bench: &mut Bench) {
    bench.group("waits", Unit::Call);
    case(bench, "baseline", baseline::Baseline::new());
    case(bench, "haft", ours::Turn::new());
    case(bench, "rig-core", rig::Core::new());
    case(bench, "rig-agent", rig::Agent::new());
    case(bench, "agentkit", agentkit::Agentkit::new());
}

fn case(bench: &mut Bench, name: &str, subject: impl Subject + 'static) {
    bench.case(format!("{name} waits"), CALLS, move |tokio, calls| {
        add::set_wait(Duration::from_millis(1));
        tokio.block_on(subject.one(calls));
        add::set_wait(Duration::ZERO);
    });
}
