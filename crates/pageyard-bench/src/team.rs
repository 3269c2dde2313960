//! Threads that stay, each on its own CPU: what an allocator keeps for a thread outlives a sample.

use pageyard_arena::rseq::register_thread;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// Threads for samples that take more than one.
pub(super) struct Team {
    workers: Vec<Sender<Job>>,
}

impl Team {
    /// Starts a thread on each CPU.
    pub fn new(cpus: &[usize]) -> Team {
        let workers = cpus.iter().map(|cpu| {
            let cpu = *cpu;
            let (jobs, work): (Sender<Job>, Receiver<Job>) = channel();
            std::thread::spawn(move || {
                let _pinned = Pinned::to(cpu);
                // Where glibc has not done it; the subject reports a failure and is then skipped.
                let _registered = register_thread();
                work.into_iter().for_each(|job| job());
            });
            jobs
        });
        Team { workers: workers.collect() }
    }

    /// Returns how many threads there are.
    pub fn len(&self) -> usize {
        self.workers.len()
    }

    /// Runs a job on this many threads, which start together. `None` where there are fewer, or one of them panicked.
    pub fn run<R: Send + 'static>(
        &self,
        threads: usize,
        job: impl Fn(usize) -> R + Send + Sync + 'static,
    ) -> Option<Vec<R>> {
        if threads > self.len() {
            return None;
        }
        let job = Arc::new(job);
        let arrived = Arc::new(AtomicUsize::new(0));
        let results: Vec<Receiver<R>> = (0..threads)
            .map(|i| {
                let (send, receive) = channel();
                let (job, arrived) = (job.clone(), arrived.clone());
                let work = Box::new(move || {
                    start_together(&arrived, threads);
                    let _ = send.send(job(i));
                });
                // A worker that has gone away drops the job, and the result never comes.
                let _ = self.workers[i].send(work);
                receive
            })
            .collect();
        results.into_iter().map(|r| r.recv().ok()).collect()
    }
}

/// Spins until all have arrived, so that no thread has to be woken; yields the CPU if that takes long.
fn start_together(arrived: &AtomicUsize, threads: usize) {
    // ORDER: Relaxed: it orders nothing, each thread has its job already.
    arrived.fetch_add(1, Ordering::Relaxed);
    let mut spins = 0u32;
    while arrived.load(Ordering::Relaxed) < threads {
        spins += 1;
        if spins.is_multiple_of(1 << 16) {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// Keeps the thread that made it on one CPU, as long as it lives.
pub(super) struct Pinned(Option<CpuSet>);

impl Pinned {
    /// Moves the calling thread; where that is not allowed, it stays where it was.
    pub fn to(cpu: usize) -> Pinned {
        let before = sched_getaffinity(None).ok();
        let mut only = CpuSet::new();
        only.set(cpu);
        Pinned(before.filter(|_| sched_setaffinity(None, &only).is_ok()))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// Returns the CPUs that this thread may use.
pub(super) fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_of_a_team_does_its_part_and_a_panic_is_no_result() {
        let team = Team::new(&[cpus()[0], cpus()[0]]);
        assert_eq!(team.run(2, |i| i * 10), Some(vec![0, 10]));
        assert_eq!(team.run(3, |i| i), None);
        assert_eq!(team.run(2, |i| assert_eq!(i, 0)), None);
    }
}
