//! What a request met on its way: a CPU that another task wants, and how its asynchronous compaction ended.

use pageyard::compaction::{Contention, Outcome, Step};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How a request's asynchronous compaction ended, in the last zone that it compacted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A suitable block was free.
    Succeeded,
    /// The scanners met.
    Met,
    /// Another CPU held a lock that it needed.
    Lock,
    /// Its CPU was wanted.
    Cpu,
    /// There was no target left, although the scanners had not met.
    NoTarget,
    /// It gave way for another reason.
    Other,
}

impl End {
    /// Every end.
    pub const ALL: [End; 6] = [End::Succeeded, End::Met, End::Lock, End::Cpu, End::NoTarget, End::Other];

    /// Returns the end in words, to follow "a compaction that".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            End::Succeeded => "succeeded",
            End::Met => "ended where its scanners met",
            End::Lock => "gave way to the holder of a lock",
            End::Cpu => "gave way to a task that wanted the CPU",
            End::NoTarget => "found no more targets",
            End::Other => "gave way for another reason",
        }
    }
}

/// Requests by how their asynchronous compaction ended; those without one are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ends {
    requests: [u64; End::ALL.len()],
    served: [u64; End::ALL.len()],
}

impl Ends {
    /// Returns the requests with an end, and how many of them got their block, then or later on their way.
    #[must_use]
    pub fn of(&self, end: End) -> (u64, u64) {
        (self.requests[end as usize], self.served[end as usize])
    }

    pub(super) fn count(&mut self, end: Option<End>, served: bool) {
        if let Some(end) = end {
            self.requests[end as usize] += 1;
            self.served[end as usize] += u64::from(served);
        }
    }
}

thread_local! {
    /// When this thread's CPU is wanted next.
    static WANTED: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Whether this thread's compaction is asynchronous.
    static IS_ASYNC: Cell<bool> = const { Cell::new(false) };
    /// The reason for which it gave way.
    static WHY: Cell<Option<Contention>> = const { Cell::new(None) };
    /// How this thread's last asynchronous compaction ended.
    static END: Cell<Option<End>> = const { Cell::new(None) };
}

/// Notes a step of a compaction on this thread.
pub(super) fn note(step: Step) {
    match step {
        Step::Begun { waits, .. } => {
            IS_ASYNC.set(!waits);
            WHY.set(None);
        }
        Step::GaveWay(why) => WHY.set(Some(why)),
        Step::Ended { outcome, .. } if IS_ASYNC.get() => END.set(Some(match (outcome, WHY.get()) {
            (Outcome::Success, _) => End::Succeeded,
            (Outcome::Contended, Some(Contention::Lock)) => End::Lock,
            (Outcome::Contended, Some(Contention::Cpu)) => End::Cpu,
            (Outcome::Contended, Some(Contention::Targets)) => End::NoTarget,
            (Outcome::Contended, _) => End::Other,
            _ => End::Met,
        })),
        _ => {}
    }
}

/// Takes how this thread's last asynchronous compaction ended, if there was one since the last call.
pub(super) fn take_end() -> Option<End> {
    END.take()
}

/// Returns whether another task wants this thread's CPU, which it does whenever so much time has passed since the
/// thread last gave it up.
pub(super) fn is_wanted(after: Duration) -> bool {
    match WANTED.get() {
        Some(wanted) => Instant::now() >= wanted,
        None => {
            WANTED.set(Some(Instant::now() + after));
            false
        }
    }
}

/// The thread gives its CPU up, if another task wants it.
///
/// # Linux
/// `cond_resched`.
pub(super) fn give_up(after: Duration) {
    if is_wanted(after) {
        WANTED.set(Some(Instant::now() + after));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::Pfn;

    fn run(waits: bool, why: Option<Contention>, outcome: Outcome) -> Option<End> {
        note(Step::Begun { migrate: Pfn(0), free: Pfn(0), waits });
        why.into_iter().for_each(|why| note(Step::GaveWay(why)));
        note(Step::Ended { migrate: Pfn(0), free: Pfn(0), outcome });
        take_end()
    }

    #[test]
    fn an_end_is_told_with_its_own_reason_and_of_asynchronous_compactions_only() {
        assert_eq!(run(false, Some(Contention::Cpu), Outcome::Contended), Some(End::Cpu));
        assert_eq!(run(false, None, Outcome::Contended), Some(End::Other), "the last reason is not its own");
        assert_eq!(run(false, None, Outcome::PartialSkipped), Some(End::Met));
        assert_eq!(run(true, Some(Contention::Lock), Outcome::Contended), None);
    }

    #[test]
    fn a_cpu_is_wanted_after_a_while_until_it_is_given_up() {
        let after = Duration::from_millis(2);
        assert!(!is_wanted(after));
        std::thread::sleep(after);
        assert!(is_wanted(after) && is_wanted(after));
        give_up(after);
        assert!(!is_wanted(Duration::from_secs(1)));
    }
}
