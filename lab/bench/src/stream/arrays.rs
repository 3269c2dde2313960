//! The four operations on three arrays, in one part for each thread of a team.

use super::StreamError;
use crate::harness::clock::now_ns;
use crate::harness::team::Team;
use serde::Serialize;
use std::collections::TryReserveError;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};

/// One of STREAM's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Kernel {
    /// `c = a`
    Copy,
    /// `b = 3 c`
    Scale,
    /// `c = a + b`
    Add,
    /// `a = b + 3 c`
    Triad,
}

/// The factor of Scale and Triad.
const SCALAR: f64 = 3.0;

impl Kernel {
    /// All operations, in the order of a repetition.
    pub const ALL: [Kernel; 4] = [Kernel::Copy, Kernel::Scale, Kernel::Add, Kernel::Triad];

    /// Returns the bytes counted for an element: those that the operation reads and writes.
    #[must_use]
    pub const fn bytes_per_element(self) -> u64 {
        match self {
            Kernel::Copy | Kernel::Scale => 16,
            Kernel::Add | Kernel::Triad => 24,
        }
    }

    /// Runs the operation on slices of one length.
    pub(super) fn run(self, [a, b, c]: [&mut [f64]; 3]) {
        match self {
            Kernel::Copy => {
                // A plain loop would become a call of `memcpy`, which in some C libraries writes past the caches. The
                // exclusive or with a zero that the compiler does not know costs nothing while memory is the limit.
                let zero = black_box(0_u64);
                write(c, a, a, |a, _| f64::from_bits(a.to_bits() ^ zero));
            }
            Kernel::Scale => write(b, c, c, |c, _| SCALAR * c),
            Kernel::Add => write(c, a, b, |a, b| a + b),
            Kernel::Triad => write(a, b, c, |b, c| b + SCALAR * c),
        }
    }
}

#[inline(never)]
fn write(to: &mut [f64], left: &[f64], right: &[f64], value: impl Fn(f64, f64) -> f64) {
    to.iter_mut().zip(left.iter().zip(right)).for_each(|(to, (left, right))| *to = value(*left, *right));
}

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

/// Returns what every element of the three arrays holds after this many repetitions.
fn after(repetitions: usize) -> [f64; 3] {
    let mut one = FIRST.map(|first| [first]);
    for kernel in std::iter::repeat_n(Kernel::ALL, repetitions).flatten() {
        kernel.run(one.each_mut().map(<[f64; 1]>::as_mut_slice));
    }
    one.map(|[value]| value)
}

/// The arrays.
pub(super) struct Arrays<'a> {
    team: &'a Team,
    pub parts: Arc<Vec<Mutex<Part>>>,
}

impl Arrays<'_> {
    /// Allocates and fills arrays of this many elements, each part on its own thread.
    pub fn new(team: &Team, threads: usize, elements: usize) -> Result<Arrays<'_>, StreamError> {
        let share = move |thread| elements / threads + usize::from(thread < elements % threads);
        let parts = team.run(threads, move |thread| part(share(thread))).ok_or(StreamError::Thread)?;
        let parts = parts.into_iter().map(|part| part.map(Mutex::new)).collect::<Result<_, _>>();
        Ok(Arrays { team, parts: Arc::new(parts.map_err(|_| StreamError::Refused)?) })
    }

    /// Runs an operation on all parts at once, and returns the nanoseconds from the first thread's start to the last
    /// thread's end.
    pub fn run(&self, kernel: Kernel) -> Result<u64, StreamError> {
        let spans = self.each(move |part| {
            let start = now_ns();
            kernel.run(part.each_mut().map(Vec::as_mut_slice));
            (start, now_ns())
        })?;
        let (start, end) =
            spans.iter().fold((u64::MAX, 0), |(s, e), (start, end)| (s.min(*start), e.max(*end)));
        Ok((end - start).max(1))
    }

    /// Compares every element with what this many repetitions come to. The operations round alike each time, so the
    /// values are equal to the last bit.
    pub fn check(&self, repetitions: usize) -> Result<(), StreamError> {
        let expected = after(repetitions);
        let wrong = self.each(move |part| {
            let wrong = |(array, right): (&Vec<f64>, f64)| array.iter().filter(|e| **e != right).count();
            part.iter().zip(expected).map(wrong).sum::<usize>()
        })?;
        match wrong.iter().sum() {
            0 => Ok(()),
            wrong => Err(StreamError::Invalid(self.parts.len(), wrong)),
        }
    }

    /// Runs a job on each part, on the thread that filled it.
    fn each<R: Send + 'static>(
        &self,
        job: impl Fn(&mut Part) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, StreamError> {
        let parts = self.parts.clone();
        let run = self.team.run(self.parts.len(), move |thread| {
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
        // By hand: c = 2, b = 6, c = 8, a = 6 + 24; then c = 30, b = 90, c = 120, a = 90 + 360.
        assert_eq!(after(1), [30.0, 6.0, 8.0]);
        assert_eq!(after(2), [450.0, 90.0, 120.0]);
        assert!(after(MOST_SAMPLES + 1).iter().all(|v| v.is_finite()));
    }

    #[test]
    fn a_wrong_element_an_operation_left_out_and_refused_memory_are_found() {
        let team = Team::new(&[cpus()[0], cpus()[0]]);
        let arrays = Arrays::new(&team, 2, 1001).unwrap();
        let run = |kernels: &[Kernel]| assert!(kernels.iter().all(|kernel| arrays.run(*kernel).is_ok()));
        (0..4).for_each(|_| run(&Kernel::ALL));
        assert_eq!(arrays.check(4), Ok(()));
        assert!(arrays.check(3).is_err() && arrays.check(5).is_err());
        for wrong in [after(4)[0].next_up(), f64::NAN] {
            arrays.parts[1].lock().unwrap()[0][400] = wrong;
            assert_eq!(arrays.check(4), Err(StreamError::Invalid(2, 1)));
        }
        arrays.parts[1].lock().unwrap()[0][400] = after(4)[0];
        run(&[Kernel::Copy, Kernel::Scale, Kernel::Triad]);
        assert!(arrays.check(5).is_err(), "Add was left out");
        // Memory that the host refuses.
        assert_eq!(Arrays::new(&team, 1, 1 << 58).err(), Some(StreamError::Refused));
    }
}
