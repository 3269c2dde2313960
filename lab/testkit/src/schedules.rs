//! Schedules of a model's threads, under `--cfg pageyard_shuttle`: drawn at random, or one that stops threads.

use shuttle::Runner;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId};
use std::cell::Cell;

/// Schedules of a model under each scheduler, unless `PAGEYARD_SCHEDULES` says how many: a number, or, with `%`, a
/// share of those that each model has.
const SCHEDULES: usize = 500;
/// The first seed, unless `SHUTTLE_RANDOM_SEED` names another.
const SEED: u64 = 24301;

/// Tries many schedules: of threads that take turns at random, and of threads with priorities that change at 2 and at 5
/// random steps (probabilistic concurrency testing), which find what needs few preemptions in special places.
pub fn explore(name: &str, model: impl Fn() + Sync + Send + Clone + 'static) {
    explore_some(name, SCHEDULES, model);
}

/// The same for a model whose schedules are long: `n` of each kind, unless `PAGEYARD_SCHEDULES` says how many.
pub fn explore_some(name: &str, n: usize, model: impl Fn() + Sync + Send + Clone + 'static) {
    let n = std::env::var("PAGEYARD_SCHEDULES").ok().and_then(|text| asked(&text, n)).unwrap_or(n);
    let start = std::time::Instant::now();
    let mut schedules = try_schedules(RandomScheduler::new_from_seed(SEED, n), model.clone());
    for changes in [2, 5] {
        schedules += try_schedules(PctScheduler::new_from_seed(SEED, changes + 1, n), model.clone());
    }
    println!("{name}: {schedules} schedules, seed {SEED}, in {:?}", start.elapsed());
}

/// Reads `100` or `20%`.
fn asked(text: &str, of: usize) -> Option<usize> {
    match text.strip_suffix('%') {
        Some(pct) => Some((of * pct.parse::<usize>().ok()? / 100).max(1)),
        None => text.parse().ok(),
    }
}

/// Runs a model whose threads take turns by themselves, once.
pub fn once(model: impl Fn() + Sync + Send + 'static) {
    try_schedules(RandomScheduler::new_from_seed(SEED, 1), model);
}

/// Tries every way to stop the first threads that the model starts once each: the first before each of its steps, or of
/// as many as `most` says, then the next before each of its own while that one is stopped, and so on; then they go on
/// in the same order, each to its end. The steps of the second count from [`stop_from_here`] on, without which it is
/// not stopped, and those of the others from their first.
pub fn stop_everywhere(name: &str, most: &[u64], model: impl Fn() + Sync + Send + 'static) {
    let start = std::time::Instant::now();
    let stops = Stops {
        most: most.to_vec(),
        at: vec![0; most.len()],
        made: vec![0; most.len()],
        phase: 0,
        begun: false,
    };
    let schedules = try_schedules(stops, model);
    println!("{name}: {schedules} places to stop, in {:?}", start.elapsed());
}

std::thread_local! {
    /// Whether a thread of the model has said so. The scheduler and its threads share one thread of the host.
    static FROM_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Says that the calling thread is to be stopped before one of its steps from now on.
pub fn stop_from_here() {
    FROM_HERE.set(true);
}

/// A scheduler that stops each of some threads once.
struct Stops {
    /// Before which of its steps each is stopped, at most; this time; and how many it has made.
    most: Vec<u64>,
    at: Vec<u64>,
    made: Vec<u64>,
    /// Which of them runs; past the last, none is stopped any more.
    phase: usize,
    begun: bool,
}

impl Scheduler for Stops {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.begun {
            // The last one that was stopped before its end is stopped a step later, and those behind it at their first
            // again.
            let later = |n: &usize| self.made[*n] == self.at[*n] && self.at[*n] < self.most[*n];
            let last = (0..self.at.len()).rev().find(later)?;
            self.at[last] += 1;
            self.at[last + 1..].fill(0);
        }
        (self.begun, self.phase) = (true, 0);
        self.made.fill(0);
        FROM_HERE.set(false);
        Some(Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        let ids: Vec<usize> = runnable.iter().map(|task| task.id().into()).collect();
        // The model itself comes first, until it waits for its threads.
        if ids.contains(&0) {
            return Some(TaskId::from(0));
        }
        while self.phase < self.at.len() {
            let n = self.phase;
            let counts = n != 1 || FROM_HERE.get();
            if ids.contains(&(n + 1)) && (!counts || self.made[n] < self.at[n]) {
                self.made[n] += u64::from(counts);
                return Some(TaskId::from(n + 1));
            }
            self.phase += 1;
        }
        ids.into_iter().min().map(TaskId::from)
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

fn try_schedules(scheduler: impl Scheduler + 'static, model: impl Fn() + Sync + Send + 'static) -> usize {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    config.silence_warnings = true;
    // An audit of a large machine reads each frame's tag, a step each.
    config.max_steps = shuttle::MaxSteps::None;
    Runner::new(scheduler, config).run(model)
}
