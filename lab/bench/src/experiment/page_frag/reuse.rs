//! How soon a CPU gets a frame again, and from whom; and from whom it gets the zone lock: whether what it touches is
//! still in its caches.

use super::notes::{Notes, Stage};
use pageyard::Pfn;
use pageyard_linux::place::{FreeObserver, FreeStage};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// CPUs that are told apart.
const CPUS: usize = 2;

/// No CPU has received into the frame.
const NO_CPU: u8 = u8::MAX;

/// The frames that packets were received into: by CPU, in order.
pub(super) struct Frames {
    received: [Mutex<Vec<u32>>; CPUS],
    /// The CPU that last received into each frame.
    last: Vec<AtomicU8>,
    /// Packets whose frame another CPU had received into last.
    from_another: AtomicU64,
    locks: Arc<Locks>,
}

/// Who took the zone lock for a free, and after whom.
struct Locks {
    /// The CPU that took it last.
    last: AtomicU8,
    /// Times that it was taken after another CPU.
    from_another: AtomicU64,
}

impl Locks {
    /// Notes that a CPU has just taken it.
    fn taken(&self, cpu: u8) {
        // ORDER: Relaxed: the holder of the lock alone writes.
        let before = self.last.swap(cpu, Relaxed);
        self.from_another.fetch_add(u64::from(before != NO_CPU && before != cpu), Relaxed);
    }
}

thread_local! {
    /// Where this thread notes the locks that it takes, and which CPU it is.
    static NOTED: RefCell<Option<(Arc<Locks>, u8)>> = const { RefCell::new(None) };
}

/// A thread that notes its locks.
pub(super) struct Noted;

impl Drop for Noted {
    fn drop(&mut self) {
        NOTED.take();
    }
}

/// Notes who takes the zone lock.
pub(super) struct Taking;

/// A stay in a place; that of the lock's taking ends when the lock is held.
pub(super) struct Stay(FreeStage);

impl Drop for Stay {
    fn drop(&mut self) {
        if self.0 == FreeStage::RawSpinLock {
            NOTED.with_borrow(|noted| noted.iter().for_each(|(locks, cpu)| locks.taken(*cpu)));
        }
    }
}

impl FreeObserver for Taking {
    type Stay = Stay;

    fn enter(place: FreeStage) -> Stay {
        Stay(place)
    }
}

/// The figures of frame reuse in a pass.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Reuse {
    /// Packets received into a frame that another CPU had received into last.
    pub from_another: u64,
    /// Times that a free took the zone lock after another CPU's had.
    pub locks_from_another: u64,
    /// Frames received into at all.
    pub distinct: u64,
    /// The mean number of other frames that a CPU received into between two uses of one; not a number where none was
    /// used twice.
    pub between: f64,
}

impl Frames {
    /// Notes nothing yet, of frames up to this one.
    pub fn below(frames: u64) -> Frames {
        let last = (0..frames).map(|_| AtomicU8::new(NO_CPU)).collect();
        let locks = Arc::new(Locks { last: AtomicU8::new(NO_CPU), from_another: AtomicU64::new(0) });
        Frames { received: Default::default(), last, from_another: AtomicU64::new(0), locks }
    }

    /// Forgets what was received; who last received into a frame stays known.
    pub fn forget(&self) {
        self.received.iter().for_each(|r| r.lock().unwrap_or_else(PoisonError::into_inner).clear());
        // ORDER: Relaxed, in this file: a frame changes hands through an allocator, which orders what is noted of it.
        self.from_another.store(0, Relaxed);
        self.locks.from_another.store(0, Relaxed);
    }

    /// Returns what was seen since.
    pub fn reuse(&self) -> Reuse {
        let received = self.received.each_ref().map(|r| r.lock().unwrap_or_else(PoisonError::into_inner));
        let mut all: Vec<u32> = received.iter().flat_map(|r| r.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let (times, frames) = received
            .iter()
            .map(|r| between(r))
            .fold((0, 0), |(times, frames), (t, f)| (times + t, frames + f));
        Reuse {
            from_another: self.from_another.load(Relaxed),
            locks_from_another: self.locks.from_another.load(Relaxed),
            distinct: all.len() as u64,
            between: frames as f64 / times as f64,
        }
    }
}

impl Notes for Frames {
    type FreeObserver = Taking;
    type Stay = ();
    type Thread = Noted;

    fn begin(&self, cpu: usize) -> Noted {
        NOTED.set(Some((self.locks.clone(), cpu as u8)));
        Noted
    }

    #[inline]
    fn at(&self, _: Stage) {}

    fn received(&self, cpu: usize, page: Pfn) {
        self.received[cpu].lock().unwrap_or_else(PoisonError::into_inner).push(page.0 as u32);
        let before = self.last[page.0 as usize].swap(cpu as u8, Relaxed);
        self.from_another.fetch_add(u64::from(before != NO_CPU && before != cpu as u8), Relaxed);
    }
}

/// Returns how often a frame was used that had been used before, and the number of distinct other frames used in
/// between, summed up.
fn between(used: &[u32]) -> (u64, u64) {
    let mut last = HashMap::new();
    // Marks the last use of each frame, so that a sum over a stretch of time counts distinct frames.
    let mut marks = Sums(vec![0; used.len() + 1]);
    let (mut times, mut frames) = (0, 0);
    for (now, frame) in used.iter().enumerate() {
        if let Some(before) = last.insert(*frame, now) {
            times += 1;
            frames += (marks.up_to(now) - marks.up_to(before + 1)) as u64;
            marks.add(before, -1);
        }
        marks.add(now, 1);
    }
    (times, frames)
}

/// Sums of the first numbers of a row that changes: a Fenwick tree.
struct Sums(Vec<i64>);

impl Sums {
    /// Adds to the number at `at`.
    fn add(&mut self, at: usize, n: i64) {
        let mut node = at + 1;
        while node < self.0.len() {
            self.0[node] += n;
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the sum of the first `n` numbers.
    fn up_to(&self, n: usize) -> i64 {
        let (mut node, mut sum) = (n, 0);
        while node > 0 {
            sum += self.0[node];
            node &= node - 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_uses_each_other_frame_counts_once() {
        assert_eq!(between(&[]), (0, 0));
        assert_eq!(between(&[1, 2, 3]), (0, 0));
        assert_eq!(between(&[1, 1, 1]), (2, 0));
        assert_eq!(between(&[1, 2, 2, 3, 2, 1]), (3, 1 + 2));
        // By definition.
        let mut rng = fastrand::Rng::with_seed(3);
        let used: Vec<u32> = (0..500).map(|_| rng.u32(..40)).collect();
        let (mut times, mut frames) = (0, 0);
        for now in 0..used.len() {
            if let Some(before) = used[..now].iter().rposition(|f| *f == used[now]) {
                let distinct: std::collections::HashSet<_> = used[before + 1..now].iter().collect();
                times += 1;
                frames += distinct.len() as u64;
            }
        }
        assert_eq!(between(&used), (times, frames));
    }

    #[test]
    fn a_frame_that_changes_hands_is_counted_and_its_last_user_is_remembered() {
        let frames = Frames::below(8);
        for (cpu, page) in [(0, 1), (0, 1), (1, 1), (1, 2), (0, 2)] {
            frames.received(cpu, Pfn(page));
        }
        assert_eq!(
            frames.reuse(),
            Reuse { from_another: 2, locks_from_another: 0, distinct: 2, between: 0.0 }
        );
        frames.forget();
        frames.received(1, Pfn(2));
        let reuse = frames.reuse();
        assert_eq!((reuse.from_another, reuse.distinct), (1, 1));
        assert!(reuse.between.is_nan(), "nothing was used twice");
    }

    #[test]
    fn a_lock_that_changes_hands_is_counted() {
        let frames = Frames::below(1);
        let takes = |cpu: usize, times: usize| {
            let _noted = frames.begin(cpu);
            (0..times).for_each(|_| {
                drop((Taking::enter(FreeStage::RawSpinLock), Taking::enter(FreeStage::FreeOnePage)))
            });
        };
        takes(0, 3);
        takes(1, 2);
        takes(0, 1);
        drop(Taking::enter(FreeStage::RawSpinLock));
        assert_eq!(frames.reuse().locks_from_another, 2, "and what no noted thread takes belongs to none");
    }
}
