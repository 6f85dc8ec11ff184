//! Throughput of two threads, each with its own run of one runtime: read the wall time per call.
//!
//! Both threads make all calls, so two threads without contention take as long as one, and the wall
//! time per call is half.

use std::sync::Arc;

use crate::{
    baseline,
    harness::{Bench, Subject, Unit},
    ours,
};

/// Adds the cases.
pub(crate) fn add(bench: &mut Bench) {
    let calls = bench.group("threads", Unit::Call);
    for threads in [1, 2] {
        bench.case(format!("baseline, {threads} threads"), calls * threads, move |_, calls| {
            let subjects = (0..threads).map(|_| baseline::Baseline::new()).collect();
            run(subjects, calls / threads);
        });
    }
    let turns = ours::Turns::new();
    for threads in [1, 2] {
        let turns = Arc::clone(&turns);
        bench.case(format!("haft, {threads} threads"), calls * threads, move |_, calls| {
            run((0..threads).map(|_| turns.turn()).collect(), calls / threads);
        });
    }
}

/// Makes this many calls with each subject, on a thread of its own.
fn run<S: Subject + Send>(subjects: Vec<S>, calls: u32) {
    std::thread::scope(|threads| {
        for subject in subjects {
            threads.spawn(move || {
                let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build();
                let tokio = tokio.unwrap_or_else(|e| panic!("{e}"));
                tokio.block_on(subject.one(calls));
            });
        }
    });
}
