//! Spreads simulations over the CPUs: each has one seed and one result, so which runs where does not matter.

use crate::error::BenchError;
use crate::harness::team::cpus;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Does the work of every number below `count`, a thread for each CPU, and returns what came of it in order. `progress`
/// is told how many of how many are done.
///
/// # Errors
/// The first that comes; what is under way then is finished and thrown away.
pub(crate) fn spread<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, BenchError> + Sync,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<T>, BenchError> {
    let next = AtomicUsize::new(0);
    let mut all: Vec<Option<T>> = (0..count).map(|_| None).collect();
    std::thread::scope(|scope| {
        let (told, done) = mpsc::channel();
        for _ in cpus() {
            let (told, next, work) = (told.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    // ORDER: Relaxed. It hands out numbers; the channel brings what came of them.
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count || told.send((n, work(n))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(told);
        for (finished, (n, came)) in (1..).zip(&done) {
            all[n] = Some(came?);
            progress(finished, count);
        }
        Ok::<(), BenchError>(())
    })?;
    Ok(all.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_first_error_ends_it() {
        let mut last = 0;
        let squares = spread(50, |n| Ok(n * n), &mut |done, _| last = done).unwrap();
        assert_eq!((squares, last), ((0..50).map(|n| n * n).collect(), 50));
        let wrong = |n| if n == 3 { Err(BenchError::Settings { why: "three".into() }) } else { Ok(n) };
        assert!(spread(1000, wrong, &mut |_, _| ()).unwrap_err().to_string().contains("three"));
        assert!(spread(0, Ok, &mut |_, _| ()).unwrap().is_empty());
    }
}
