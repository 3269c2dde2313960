//! Threads that stay, each on its own CPU: what an allocator keeps for a thread outlives a sample. They start together,
//! and what they do counts while all of them run.

use super::clock::now_ns;
use pageyard_arena::rseq::register_thread;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// Threads for samples that take more than one.
pub(crate) struct Team {
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
        // All have ended when this returns, whether they panicked or not.
        let results: Vec<Option<R>> = results.into_iter().map(|r| r.recv().ok()).collect();
        results.into_iter().collect()
    }

    /// Runs a job as [`Team::run`] does, and says how long each thread took and how far their times overlap.
    pub fn together<R: Send + 'static>(
        &self,
        threads: usize,
        job: impl Fn(usize) -> R + Send + Sync + 'static,
    ) -> Option<Together<R>> {
        let ran = self.run(threads, move |i| {
            let start = now_ns();
            let result = job(i);
            (result, Span { start, end: now_ns() })
        })?;
        let overlap = overlap(&ran.iter().map(|(_, span)| *span).collect::<Vec<_>>());
        Some(Together { threads: ran.into_iter().map(|(r, span)| (r, span.ns())).collect(), overlap })
    }
}

/// A stretch of time, by the clock of [`now_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: u64,
    pub end: u64,
}

impl Span {
    /// Returns how long it is, in nanoseconds.
    pub fn ns(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns the time in which all of these run; empty where there is none.
    pub fn common(spans: &[Span]) -> Option<Span> {
        Some(Span { start: spans.iter().map(|s| s.start).max()?, end: spans.iter().map(|s| s.end).min()? })
    }
}

/// Returns the time in which all of these run, as a share of the time from the first start to the last end.
pub(crate) fn overlap(spans: &[Span]) -> f64 {
    let (start, end) = (spans.iter().map(|s| s.start).min(), spans.iter().map(|s| s.end).max());
    let Some(((start, end), common)) = start.zip(end).zip(Span::common(spans)) else { return 0.0 };
    common.ns() as f64 / Span { start, end }.ns().max(1) as f64
}

/// The least overlap of threads whose whole time counts.
pub(crate) const OVERLAP: f64 = 0.8;

/// The results and times of threads that started together.
pub(crate) struct Together<R> {
    /// Each thread's result, and how long it ran, in nanoseconds.
    pub threads: Vec<(R, u64)>,
    /// The share of the time in which all ran.
    pub overlap: f64,
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
pub(crate) struct Pinned(Option<CpuSet>);

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
pub(crate) fn cpus() -> Vec<usize> {
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

    #[test]
    fn a_run_is_over_when_every_thread_is_even_if_one_panicked() {
        let team = Team::new(&[cpus()[0], cpus()[0]]);
        let ended = Arc::new(AtomicUsize::new(0));
        let end = ended.clone();
        let run = team.run(2, move |i| {
            assert_ne!(i, 0, "the first thread panics");
            std::thread::sleep(std::time::Duration::from_millis(50));
            end.fetch_add(1, Ordering::SeqCst)
        });
        assert_eq!((run, ended.load(Ordering::SeqCst)), (None, 1));
    }

    #[test]
    fn threads_overlap_while_all_of_them_run() {
        let span = |start, end| Span { start, end };
        assert_eq!(overlap(&[span(0, 100)]), 1.0);
        assert_eq!(overlap(&[span(0, 80), span(20, 100)]), 0.6);
        assert_eq!(overlap(&[span(0, 50), span(50, 100)]), 0.0);
        assert_eq!(overlap(&[span(0, 40), span(50, 100)]), 0.0);
        let team = Team::new(&[cpus()[0]]);
        let one = team.together(1, |i| i + 1).unwrap();
        assert_eq!((one.threads[0].0, one.overlap), (1, 1.0));
    }
}
