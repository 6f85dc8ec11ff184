//! Calls with cold caches: between two calls the caches are swept, as they are while a model takes
//! seconds to write. Only the calls are measured.

use std::{cell::RefCell, hint::black_box};

use crate::{
    add::questions,
    agentkit, baseline,
    harness::{Bench, Sample, Subject, Unit, measure},
    ours, rig,
};

/// Calls of one measurement.
const CALLS: u32 = 60;
/// More than the last level of cache of most processors.
const SWEPT_BYTES: usize = 64 << 20;

/// Adds the cases.
pub(crate) fn add(bench: &mut Bench) {
    bench.group("cold", Unit::Call);
    case(bench, "baseline", baseline::Baseline::new());
    case(bench, "haft", ours::Turn::new());
    case(bench, "rig-core", rig::Core::new());
    case(bench, "rig-agent", rig::Agent::new());
    case(bench, "agentkit", agentkit::Agentkit::new());
}

fn case(bench: &mut Bench, name: &str, subject: impl Subject + 'static) {
    let swept = RefCell::new(Vec::new());
    bench.timed_case(format!("{name} cold"), CALLS, move |tokio, calls| {
        let mut total = Sample { cpu: 0.0, wall: 0.0 };
        for question in questions(calls) {
            sweep(&mut swept.borrow_mut());
            let one = measure(tokio, &|tokio, _| tokio.block_on(subject.ask(question)), 1);
            total.cpu += one.cpu / f64::from(calls);
            total.wall += one.wall / f64::from(calls);
        }
        total
    });
}

/// Writes to every cache line of a buffer.
fn sweep(buffer: &mut Vec<u8>) {
    buffer.resize(SWEPT_BYTES, 0);
    for byte in buffer.iter_mut().step_by(64) {
        *byte = byte.wrapping_add(1);
    }
    black_box(buffer);
}
