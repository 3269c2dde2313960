//! The three arrays, in one part for each thread of a team.

use super::StreamError;
use super::kernel::Kernel;
use crate::harness::clock::now_ns;
use crate::harness::team::Team;
use std::collections::TryReserveError;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};

/// The value of each element of `a`, `b` and `c` before the first repetition.
const FIRST: [f64; 3] = [2.0, 2.0, 0.0];

/// One thread's part of the arrays.
type Part = [Vec<f64>; 3];

/// Allocates a thread's part and fills it on that thread, so that it lies on the thread's node.
fn part(elements: usize) -> Result<Part, TryReserveError> {
    let mut arrays: Part = Default::default();
    for (array, first) in arrays.iter_mut().zip(FIRST) {
        array.try_reserve_exact(elements)?;
        // A zero known to the compiler would become untouched memory.
        array.resize(elements, black_box(first));
    }
    Ok(arrays)
}

fn run(kernel: Kernel, part: &mut Part) {
    kernel.run(part.each_mut().map(Vec::as_mut_slice));
}

/// Returns what every element of the three arrays holds after this many repetitions.
fn after(repetitions: usize) -> [f64; 3] {
    let mut one = FIRST.map(|first| vec![first]);
    for kernel in std::iter::repeat_n(Kernel::ALL, repetitions).flatten() {
        run(kernel, &mut one);
    }
    one.map(|array| array[0])
}

/// The arrays.
pub(super) struct Arrays<'a> {
    team: &'a Team,
    parts: Arc<Vec<Mutex<Part>>>,
}

impl Arrays<'_> {
    /// Allocates and fills arrays of this many elements, each part on its own thread.
    pub fn new(team: &Team, threads: usize, elements: usize) -> Result<Arrays<'_>, StreamError> {
        let share = move |thread| elements / threads + usize::from(thread < elements % threads);
        let parts = team.run(threads, move |thread| part(share(thread))).ok_or(StreamError::Thread)?;
        let parts = parts.into_iter().map(|part| part.map(Mutex::new)).collect::<Result<_, _>>();
        Ok(Arrays { team, parts: Arc::new(parts.map_err(|_| StreamError::Refused)?) })
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.parts.len()
    }

    /// Runs an operation on all parts at once, and returns the nanoseconds from the first thread's start to the last
    /// thread's end.
    pub fn run(&self, kernel: Kernel) -> Result<u64, StreamError> {
        let spans = self.each(move |part| {
            let start = now_ns();
            run(kernel, part);
            (start, now_ns())
        })?;
        let start = spans.iter().map(|(start, _)| *start).min().unwrap_or(0);
        let end = spans.iter().map(|(_, end)| *end).max().unwrap_or(0);
        Ok(end.saturating_sub(start).max(1))
    }

    /// Compares every element with what this many repetitions come to. The operations round alike each time, so the
    /// values are equal to the last bit.
    pub fn check(&self, repetitions: usize) -> Result<(), StreamError> {
        let expected = after(repetitions);
        let wrong = self.each(move |part| {
            let pairs = part.iter().zip(expected);
            pairs.map(|(array, expected)| array.iter().filter(|e| **e != expected).count()).sum::<usize>()
        })?;
        match wrong.iter().sum() {
            0 => Ok(()),
            wrong => Err(StreamError::Invalid { threads: self.threads(), wrong }),
        }
    }

    /// Runs a job on each part, on the thread that filled it.
    fn each<R: Send + 'static>(
        &self,
        job: impl Fn(&mut Part) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, StreamError> {
        let parts = self.parts.clone();
        let run = self.team.run(self.threads(), move |thread| {
            job(&mut parts[thread].lock().unwrap_or_else(PoisonError::into_inner))
        });
        run.ok_or(StreamError::Thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::team::cpus;
    use crate::stream::MOST_SAMPLES;

    #[test]
    fn values_are_those_of_the_operations() {
        // By hand: c = 2, b = 6, c = 8, a = 6 + 24.
        assert_eq!(after(1), [30.0, 6.0, 8.0]);
        assert_eq!(after(2), [450.0, 90.0, 120.0]);
        assert!(after(MOST_SAMPLES + 1).iter().all(|v| v.is_finite()));
    }

    #[test]
    fn a_wrong_element_or_an_operation_left_out_is_found() {
        let team = Team::new(&[cpus()[0], cpus()[0]]);
        let arrays = Arrays::new(&team, 2, 1001).unwrap();
        for kernel in std::iter::repeat_n(Kernel::ALL, 4).flatten() {
            arrays.run(kernel).unwrap();
        }
        assert_eq!(arrays.check(4), Ok(()));
        assert!(arrays.check(3).is_err() && arrays.check(5).is_err());
        for wrong in [after(4)[0].next_up(), f64::NAN] {
            arrays.parts[1].lock().unwrap()[0][400] = wrong;
            assert_eq!(arrays.check(4), Err(StreamError::Invalid { threads: 2, wrong: 1 }));
        }
        arrays.parts[1].lock().unwrap()[0][400] = after(4)[0];
        for kernel in [Kernel::Copy, Kernel::Scale, Kernel::Triad] {
            arrays.run(kernel).unwrap();
        }
        assert!(arrays.check(5).is_err(), "Add was left out");
    }

    #[test]
    fn memory_that_the_host_refuses_is_an_error() {
        let team = Team::new(&[cpus()[0]]);
        assert_eq!(Arrays::new(&team, 1, 1 << 58).err(), Some(StreamError::Refused));
    }
}
