//! The three arrays, in parts: each is allocated, filled, worked on and checked by one thread of a team.

use super::agreement::{Agreement, Distances, Values};
use super::elements::Elements;
use super::error::StreamError;
use super::kernel::Kernel;
use crate::harness::clock::now_ns;
use crate::harness::team::{Span, Team};
use std::collections::TryReserveError;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};

/// One thread's part of the arrays.
struct Part {
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
}

impl Part {
    /// Allocates so many elements of each array and fills them on the calling thread, whose node they are then on.
    fn new(elements: usize) -> Result<Part, TryReserveError> {
        let Values([a, b, c]) = Values::FIRST;
        Ok(Part { a: filled(elements, a)?, b: filled(elements, b)?, c: filled(elements, c)? })
    }

    fn run(&mut self, kernel: Kernel) {
        kernel.run(&mut self.a, &mut self.b, &mut self.c);
    }
}

/// Allocates an array, and writes every element of it.
fn filled(elements: usize, value: f64) -> Result<Vec<f64>, TryReserveError> {
    let mut array = Vec::new();
    array.try_reserve_exact(elements)?;
    // A zero that the compiler knows would become memory that no one has touched.
    array.resize(elements, black_box(value));
    Ok(array)
}

/// The arrays, in one part for each thread.
pub(super) struct Arrays {
    parts: Arc<Vec<Mutex<Part>>>,
    elements: Elements,
}

impl Arrays {
    /// Allocates and fills the arrays, each part on its own thread.
    ///
    /// # Errors
    /// [`StreamError::Refused`] where the host has too little memory, [`StreamError::Thread`] where a thread failed.
    pub fn new(team: &Team, threads: usize, elements: Elements) -> Result<Arrays, StreamError> {
        let parts = team.run(threads, move |thread| Part::new(elements.share(threads, thread)));
        let parts = parts.ok_or(StreamError::Thread)?.into_iter().collect::<Result<Vec<Part>, _>>();
        let parts = parts.map_err(|_| StreamError::Refused { need: elements.all_bytes() })?;
        Ok(Arrays { parts: Arc::new(parts.into_iter().map(Mutex::new).collect()), elements })
    }

    /// Returns how many threads they are for.
    pub fn threads(&self) -> usize {
        self.parts.len()
    }

    /// Does an operation on all parts at once, and returns the nanoseconds from the first thread's start to the last
    /// one's end.
    ///
    /// # Errors
    /// [`StreamError::Thread`] where a thread failed.
    pub fn run(&self, team: &Team, kernel: Kernel) -> Result<u64, StreamError> {
        let spans = self.each(team, move |part| {
            let start = now_ns();
            part.run(kernel);
            Span { start, end: now_ns() }
        })?;
        let (start, end) = (spans.iter().map(|s| s.start).min(), spans.iter().map(|s| s.end).max());
        start.zip(end).map(|(start, end)| Span { start, end }.ns()).ok_or(StreamError::Thread)
    }

    /// Compares every element with what so many repetitions come to.
    ///
    /// # Errors
    /// [`StreamError::Invalid`] where an array does not hold that, [`StreamError::Thread`] where a thread failed.
    pub fn validate(&self, team: &Team, repetitions: usize) -> Result<[Agreement; 3], StreamError> {
        let expected = Values::after(repetitions);
        let parts = self.each(team, move |part| Distances::of([&part.a, &part.b, &part.c], expected))?;
        let all = parts.into_iter().fold(Distances::default(), Distances::and);
        let elements = self.elements.get();
        let agreements = all.agreements(expected, elements);
        match agreements.iter().find(|agreement| !agreement.is_valid()) {
            None => Ok(agreements),
            Some(wrong) => Err(StreamError::Invalid { threads: self.threads(), elements, agreement: *wrong }),
        }
    }

    /// Runs a job on each part, on the thread that filled it.
    fn each<R: Send + 'static>(
        &self,
        team: &Team,
        job: impl Fn(&mut Part) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, StreamError> {
        let parts = self.parts.clone();
        // No thread waits for a lock here: each has its own part.
        let run = team.run(self.threads(), move |thread| {
            job(&mut parts[thread].lock().unwrap_or_else(PoisonError::into_inner))
        });
        run.ok_or(StreamError::Thread)
    }

    /// Changes one element of the array `a`, as a fault of the memory would.
    #[cfg(test)]
    pub fn spoil(&self, part: usize, element: usize, value: f64) {
        self.parts[part].lock().unwrap().a[element] = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::team::cpus;

    /// Runs so many whole repetitions on two threads of one CPU.
    fn ran(repetitions: usize) -> (Team, Arrays) {
        let team = Team::new(&[cpus()[0], cpus()[0]]);
        let arrays = Arrays::new(&team, 2, Elements::new(1001).unwrap()).unwrap();
        for kernel in std::iter::repeat_n(Kernel::ALL, repetitions).flatten() {
            arrays.run(&team, kernel).unwrap();
        }
        (team, arrays)
    }

    #[test]
    fn a_right_result_is_valid() {
        let (team, arrays) = ran(4);
        let agreements = arrays.validate(&team, 4).unwrap();
        assert_eq!(agreements.map(|a| a.array), ["a", "b", "c"]);
        assert!(agreements.iter().all(|a| a.average_relative_error == 0.0 && a.wrong_elements == 0));
    }

    #[test]
    fn a_wrong_result_is_found_and_refused_in_a_sentence() {
        let (team, arrays) = ran(4);
        let right = Values::after(4).0[0];
        // An element of the second thread's part, one bit away in its last digits.
        arrays.spoil(1, 400, right + right * 1e-12);
        let wrong = arrays.validate(&team, 4).unwrap_err();
        assert!(
            matches!(&wrong, StreamError::Invalid { threads: 2, elements: 1001, agreement }
                if agreement.array == "a" && agreement.wrong_elements == 1),
            "{wrong:?}"
        );
        let why = wrong.to_string();
        assert!(why.contains("not valid") && why.contains("array a") && why.contains("2 threads"), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
        arrays.spoil(1, 400, right);
        assert!(arrays.validate(&team, 4).is_ok());
    }

    #[test]
    fn a_repetition_too_few_or_an_operation_left_out_is_found() {
        let (team, arrays) = ran(4);
        assert!(arrays.validate(&team, 5).is_err() && arrays.validate(&team, 3).is_err());
        for kernel in [Kernel::Copy, Kernel::Scale, Kernel::Triad] {
            arrays.run(&team, kernel).unwrap();
        }
        assert!(arrays.validate(&team, 5).is_err(), "Add was left out");
    }

    #[test]
    fn memory_that_the_host_refuses_is_an_error() {
        let team = Team::new(&[cpus()[0]]);
        // 2^61 bytes.
        let elements = Elements::new(1 << 58).unwrap();
        let refused = Arrays::new(&team, 1, elements).err();
        assert_eq!(refused, Some(StreamError::Refused { need: elements.all_bytes() }));
    }
}
