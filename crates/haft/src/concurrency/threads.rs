//! A thread pool for bodies that block.
//!
//! Bounded, started on demand, stopped when idle, and never joined: a body that hangs must not keep
//! the program from exiting.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_core::{Failure, FailureCode, sync::lock};

type Job = Box<dyn FnOnce() + Send>;

/// A bounded set of threads.
#[derive(Clone)]
pub(crate) struct Threads(Arc<Pool>);

struct Pool {
    max: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

/// The name of the threads that blocking bodies run on, so that a host can identify their panics.
pub const THREAD_NAME: &str = "haft-tool";

/// A thread without work for so long is given back.
const IDLE: Duration = Duration::from_secs(10);
/// Jobs that may wait for a thread. More means bodies hang; refusing says so.
const QUEUE: usize = 4_096;

impl Threads {
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Pool { max, state: Mutex::default(), work: Condvar::new() }))
    }

    /// Runs a job on a thread, soon.
    pub(crate) fn run(&self, job: Job) -> Result<(), Failure> {
        let mut state = self.0.lock();
        if state.jobs.len() >= QUEUE {
            return Err(Failure::new(
                FailureCode::NotRun,
                "too many blocking tools are waiting for a thread",
            ));
        }
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            self.0.work.notify_one();
        } else if state.threads < self.0.max {
            state.threads += 1;
            drop(state);
            let pool = Arc::clone(&self.0);
            let started = std::thread::Builder::new()
                .name(THREAD_NAME.to_owned())
                .spawn(move || pool.serve());
            if let Err(e) = started {
                let mut state = self.0.lock();
                state.threads -= 1;
                // With other threads alive the job will be reached; without any it never would.
                if state.threads == 0 {
                    state.jobs.pop_back();
                    return Err(Failure::new(FailureCode::NotRun, "no thread could be started")
                        .with_source(e));
                }
            }
        }
        Ok(())
    }
}

impl Pool {
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // Jobs catch their own panics; this keeps the count right if one does not.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, wait) =
                self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if wait.timed_out() && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn every_job_runs_on_no_more_threads_than_allowed() {
        let threads = Threads::new(3);
        let (send, receive) = mpsc::channel();
        for n in 0..50 {
            let send = send.clone();
            let job = move || send.send((n, std::thread::current().id())).unwrap();
            threads.run(Box::new(job)).unwrap();
        }
        drop(send);
        let seen: Vec<_> = receive.iter().collect();
        assert_eq!(seen.len(), 50);
        let mut ids: Vec<_> = seen.iter().map(|(_, id)| format!("{id:?}")).collect();
        ids.sort();
        ids.dedup();
        assert!(ids.len() <= 3);
    }

    #[test]
    fn a_panicking_job_costs_no_thread() {
        let threads = Threads::new(1);
        threads.run(Box::new(|| panic!("on purpose"))).unwrap();
        let (send, receive) = mpsc::channel();
        threads.run(Box::new(move || send.send(()).unwrap())).unwrap();
        receive.recv_timeout(Duration::from_secs(5)).unwrap();
    }
}
