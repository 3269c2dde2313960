//! The plan of a storm, and its report.

use super::fault::Fault;
use super::kinds::{Kind, Mix};
use pageyard::engine::BiasStats;
use pageyard::{Context, MemoryMap, Order, PageAllocator, PerCpu, TryLock};
use std::any::Any;
use std::fmt;
use std::time::Duration;

/// How long a storm runs, and what it does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the first round; the others' follow from it.
    pub seed: u64,
    /// Time for all rounds.
    pub time: Duration,
    /// Rounds, where the time allows.
    pub rounds: u64,
    /// Threads, where the variant does not say.
    pub threads: u32,
    /// Operations of a thread in each of a round's stretches, and stretches, where they are not drawn.
    pub stretches: Option<(u32, usize)>,
    /// Kinds of operations.
    pub mix: Mix,
    /// Rules that are not checked, as [`Rule::parse`](super::Rule::parse) returns them.
    pub ignored: u32,
    /// Whether to go on with another round after a fault.
    pub go_on: bool,
    /// Whether to say every few seconds how far it is.
    pub chatty: bool,
}

impl Default for Plan {
    /// Makes a plan of ten seconds with everything.
    fn default() -> Self {
        Plan {
            seed: 1,
            time: Duration::from_secs(10),
            rounds: u64::MAX,
            threads: 9,
            stretches: None,
            mix: Mix::ALL,
            ignored: 0,
            go_on: false,
            chatty: false,
        }
    }
}

/// Which CPU a thread names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    /// Its own, which no other thread names, and it drains no others.
    Own,
    /// Any.
    Any,
}

/// How a storm's threads are interrupted.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    /// Time between two signals of one timer.
    pub period: Duration,
    /// Whether each thread has a second timer, whose handlers are soft interrupts: a hard one may interrupt them.
    pub soft: bool,
    /// Returns whether a handler may run now. One that may not is run later, through [`interrupt`](super::interrupt).
    pub enter: fn(Context) -> bool,
}

impl Signals {
    /// Makes hard interrupts that may always run.
    #[must_use]
    pub fn every(period: Duration) -> Signals {
        Signals { period, soft: false, enter: |_| true }
    }
}

/// A guard that a thread keeps.
pub type Guard = Box<dyn Any>;

/// How an engine's lists are protected, and what that allows.
pub struct Variant<'a, P> {
    /// The name.
    pub name: &'static str,
    /// How its threads name CPUs.
    pub naming: Naming,
    /// The only number of threads that it allows.
    pub threads: Option<u32>,
    /// CPUs of an instance; with [`Naming::Own`] there are as many as threads.
    pub cpus: u32,
    /// Makes an engine, or its protection.
    pub make: Make<'a, P>,
    /// The largest order that it serves.
    pub largest: Order,
    /// Whether a thread's requests may wait.
    pub waits: bool,
    /// Each thread's first step. The guard is kept until the thread ends.
    pub enter: &'a (dyn Fn() -> Guard + Sync),
    /// The signals that interrupt its threads. None where handlers may not allocate.
    pub signals: Option<Signals>,
    /// Looks at a round's engine before it is dropped, while nothing runs, and at the report so far; returns whether
    /// the storm has seen enough.
    pub enough: &'a Enough<'a, P>,
}

/// A look at the report so far and, of an engine of Pageyard, at its protection and bias.
pub type Enough<'a, P> = dyn Fn(&Report, Option<(&P, BiasStats)>) -> bool + 'a;

/// How the engine of a round is made.
#[derive(Clone, Copy)]
pub enum Make<'a, P> {
    /// Pageyard's, with this protection of its lists.
    Pageyard(&'a (dyn Fn() -> P + Sync)),
    /// Another, for a map and a number of CPUs. Operations that only Pageyard's engine has do nothing on it.
    Other(&'a (dyn Fn(&MemoryMap<'_>, u32) -> Box<dyn PageAllocator + Send> + Sync)),
}

impl<'a, P: PerCpu> Variant<'a, P> {
    /// Makes a variant whose threads may name any of three CPUs, without signals.
    #[must_use]
    pub fn new(name: &'static str, make: Make<'a, P>) -> Self {
        Variant {
            name,
            naming: Naming::Any,
            threads: None,
            cpus: 3,
            make,
            largest: Order::MAX,
            waits: true,
            enter: &|| Box::new(()),
            signals: None,
            enough: &|_, _| false,
        }
    }
}

impl<'a> Variant<'a, TryLock> {
    /// Makes a variant of another engine than Pageyard's, which has no protection to name.
    #[must_use]
    pub fn other(name: &'static str, make: Make<'a, TryLock>, largest: Order) -> Self {
        Variant { largest, ..Variant::new(name, make) }
    }
}

/// A fault, and where it came up.
#[derive(Clone, Debug)]
pub struct Found {
    /// The fault.
    pub fault: Fault,
    /// The seed and number of its round.
    pub seed: u64,
    /// The number of its round.
    pub round: u64,
    /// Its machine.
    pub machine: &'static str,
    /// Time since the storm began.
    pub after: Duration,
    /// The last operations of the threads where it came up.
    pub log: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name, says) = super::Rule::ALL[self.fault.rule as usize];
        write!(f, "{name}: {says}")?;
        if let Some(pfn) = self.fault.pfn {
            write!(f, " (frame {pfn:#x}, pageblock {})", pfn >> 9)?;
        }
        if let Some(thread) = self.fault.thread {
            write!(f, ", found by thread {thread}")?;
        }
        write!(f, ": {}", self.fault.text)?;
        let seconds = self.after.as_secs_f64();
        write!(
            f,
            "\n  round {} with seed {}, on \"{}\", after {seconds:.1} s",
            self.round, self.seed, self.machine
        )
    }
}

/// The totals of a storm.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// Those with an observer, or with frames that are cleared.
    pub watched: u64,
    /// Operations of each kind.
    pub kinds: [u64; Kind::ALL.len()],
    /// Of calls on ranges, those that succeeded, by kind.
    pub done: [u64; Kind::ALL.len()],
    /// Requests that were refused.
    pub refused: u64,
    /// Frames that compaction moved.
    pub moves: u64,
    /// Callbacks that panicked.
    pub panics: u64,
    /// Handlers that ran, of hard and of soft interrupts.
    pub handlers: [u64; 2],
    /// Blocks that they allocated.
    pub by_handlers: u64,
    /// Blocks that several threads freed at once.
    pub contested: u64,
    /// Pageblocks that were isolated until nothing of them could be handed out.
    pub closed: u64,
    /// The faults; one, unless it was to go on.
    pub faults: Vec<Found>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls: u64 = self.kinds.iter().sum();
        write!(
            f,
            "{} rounds, {} of them watched, {calls} operations, {} requests refused, {} frames moved, {} callbacks panicked, \
             {} blocks allocated in {} handlers, {} blocks freed by several threads, {} pageblocks kept isolated",
            self.rounds,
            self.watched,
            self.refused,
            self.moves,
            self.panics,
            self.by_handlers,
            self.handlers.iter().sum::<u64>(),
            self.contested,
            self.closed
        )?;
        let done = [Kind::Exact, Kind::Contig, Kind::Cma, Kind::Offline, Kind::FreeParts];
        done.iter().try_for_each(|kind| write!(f, ", {} {} done", self.done[*kind as usize], kind.name()))
    }
}
