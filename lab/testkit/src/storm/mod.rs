//! A mixed stress of the engine: every kind of call at once, from more threads than CPUs, and rules that must hold.
//!
//! * `subject`: the engine's calls, the one file to change when one is renamed.
//! * `kinds`, `plan`: what is done, for how long, and with what result; `machine`: the memory and settings of a round.
//! * `watched`: an observer, or something that clears frames, whose calls are compared with what is so.
//! * `oracle`: who owns each frame, a second opinion that shares nothing with the engine; `movers`: the shared owner of
//!   frames that can be moved; `ranges`: pageblocks that are isolated and leased;
//!   `isolation`: one that is isolated; `board`: the blocks that threads contest.
//! * `worker`: a thread; `taking`, `giving`, `wrong`, `isolating`, `spans`, `compacting` and `contest`: its
//!   operations;
//!   `signals`, `handler`: what interrupts it, and the handlers; `helper`: what compaction and reclaim call back, and
//!   how it misbehaves.
//! * `round`, `verdict`: a round, and what must hold at its end; `fault`, `journal`: what did not hold, and what led to
//!   it.
//!
//! Each round has its own engine, machine and settings. Its threads alternate between stretches of two kinds: in one
//! everything happens; in the other no thread takes memory, so that all threads can free the same blocks and exactly
//! one free of each must succeed.
//!
//! The seed decides what each thread does, not how threads interleave: a fault need not recur in the same round.
//!
//! # What it covers
//! | | covered | elsewhere |
//! |---|---|---|
//! | protections of lists | restartable sequences, with pageblocks biased to CPUs or not; try-lock; exclusive by CPU; alone, with one thread | |
//! | other engines | Linux's under each protection of its lists, in `pageyard-linux/tests/storm.rs`: single, bulk, splits, drains, contested frees, hard and soft interrupts | what only Pageyard's engine has, requests that wait |
//! | machines | one to five zones; one, two and three nodes, one without CPUs; holes; zones that share a pageblock; nearly full and half empty | |
//! | calls | single, bulk, by number, up to order 18, splits, zeros, drains, isolation, leases, direct and background compaction and reclaim, wrong calls, CPUs that do not exist, ranges of any length, contiguous ranges and areas, pageblocks that go offline, frees of parts | memory that is added or accepted, walks over free blocks: `pageyard/tests/engine/range_threads.rs`, `shuttle` |
//! | contents | requests for zeros, `init_on_alloc`, `init_on_free` (one round in eight) | |
//! | observers | every event is one of a live block (one round in eight) | observers that panic: `pageyard/tests/engine/observer.rs` |
//! | interruptions | signal handlers that allocate and free, callbacks that panic, refuse and free | every instruction of a sequence: `pageyard-arena/tests/interrupted`; threads that stop: `pageyard/tests/stop` |
//! | handles of an arena, pools of buffers | | storms of their own: `pageyard-arena/examples/stress` |
//! | missing barriers | no: too rare | `pageyard-arena/tests/reordering.rs`, `shuttle` |

mod board;
mod compacting;
mod contest;
mod fault;
mod giving;
mod handler;
mod helper;
mod isolating;
mod isolation;
mod journal;
mod kinds;
mod machine;
mod movers;
mod oracle;
mod plan;
mod ranges;
mod round;
mod shared;
mod signals;
mod spans;
mod subject;
mod taking;
mod verdict;
mod watched;
mod worker;
mod wrong;

pub use fault::{Fault, Rule};
pub use handler::interrupt;
pub use kinds::{Kind, Mix};
pub use plan::{Found, Guard, Make, Naming, Plan, Report, Signals, Variant};

use machine::Machine;
use pageyard::PerCpu;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time between two lines that say how far a storm is.
const CHAT: Duration = Duration::from_secs(20);

/// The round that runs, and its seed.
static CURRENT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Returns the number and the seed of the round that runs: for a message when the process is about to die.
#[must_use]
pub fn current() -> (u64, u64) {
    // ORDER: Relaxed: it is for people to read.
    let [number, seed] = CURRENT.each_ref().map(|word| word.load(Relaxed));
    (number, seed)
}

/// Declares the totals of a storm: counts that add up, and are printed by their names.
#[macro_export]
macro_rules! totals {
    ($(#[$of:meta])* pub struct $name:ident { $($(#[$about:meta])* pub $count:ident: u64,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name { $($(#[$about])* pub $count: u64,)* }

        impl ::std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                $(self.$count += other.$count;)*
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Debug::fmt(self, f)
            }
        }
    };
}

/// A round, for what runs in it.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Its number.
    pub number: u64,
    /// Its seed.
    pub seed: u64,
    /// When the storm began.
    pub start: Instant,
}

/// Runs rounds until the time is over, there were as many as planned, or one returns `true`.
pub fn rounds<R: Default + fmt::Display>(
    plan: &Plan,
    name: &str,
    mut round: impl FnMut(&Turn, &mut R) -> bool,
) -> R {
    let start = Instant::now();
    let (mut report, mut said) = (R::default(), Duration::ZERO);
    for number in 0..plan.rounds {
        if start.elapsed() >= plan.time {
            break;
        }
        let seed = plan.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        CURRENT[0].store(number, Relaxed);
        CURRENT[1].store(seed, Relaxed);
        if round(&Turn { number, seed, start }, &mut report) {
            break;
        }
        if plan.chatty && start.elapsed() - said >= CHAT {
            said = start.elapsed();
            println!("{name}: {} s: {report}", said.as_secs());
        }
    }
    report
}

/// Runs rounds until the time is over, the variant has seen enough, or the first fault.
///
/// A thread of a [`Naming::Own`] variant names its own CPU only; no other call runs while the instance is made, judged
/// and dropped.
pub fn run<P: PerCpu>(plan: &Plan, variant: &Variant<'_, P>) -> Report {
    let _guard = (variant.enter)();
    let (small, roomy) = (Machine::small(), Machine::roomy());
    rounds(plan, variant.name, |turn, report| {
        // Small and roomy in turn. The largest machine takes longest: its turn comes now and then.
        let nth = (turn.number / 2) as usize;
        let machine = if turn.number.is_multiple_of(2) {
            &small[nth % small.len()]
        } else if nth % 16 == 15 {
            &roomy[roomy.len() - 1]
        } else {
            &roomy[nth % (roomy.len() - 1)]
        };
        round::run(plan, variant, machine, turn, report)
    })
}
