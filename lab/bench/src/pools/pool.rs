//! The interface of a pool of buffers, and the timed loops, compiled for each pool.

use crate::harness::clock::{clock_cost, now_ns};
use crate::harness::team::Team;
use serde::Serialize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// Where buffers are given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Where {
    /// On the CPU that took them.
    Same,
    /// On another.
    Across,
}

impl Where {
    /// Returns its name, as options and documents have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Where::Same => "same",
            Where::Across => "across",
        }
    }
}

/// Buffers that are handed over at a time.
pub(super) const GROUP: usize = 64;

/// Groups on their way at most.
const ON_THE_WAY: usize = 16;

/// The settings of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub threads: usize,
    pub at: Where,
    pub batch: usize,
    /// Buffers that each thread takes.
    pub buffers: usize,
}

/// A pool of buffers. Pools live as long as the program.
pub(super) trait Pool: Send + Sync + 'static {
    /// Buffers that one call takes or gives back: a divisor of all batches.
    const AT_A_TIME: usize = 1;

    /// A buffer, its holder's alone; or as many as a call takes.
    type Buffer: Send + 'static;
    /// One CPU's part of the pool.
    type User;

    /// Makes a CPU's part, for one thread at a time.
    fn user(&'static self, cpu: usize) -> Option<Self::User>;

    /// Takes a buffer.
    fn get(&'static self, user: &mut Self::User, cpu: usize) -> Option<Self::Buffer>;

    /// Gives a buffer back on the CPU that took it.
    fn put(&'static self, user: &mut Self::User, cpu: usize, buffer: Self::Buffer);

    /// Makes the part of a CPU that only gives buffers back; where it needs none, `None`.
    fn giver(&'static self, _: usize) -> Option<Self::User> {
        None
    }

    /// Gives a buffer back on a CPU that did not take it.
    fn put_across(&'static self, giver: &mut Option<Self::User>, cpu: usize, buffer: Self::Buffer);

    /// Ends a sample on one CPU.
    fn end(&'static self, _: &mut Self::User, _: usize) {}
}

/// Makes a value that lives as long as the program.
pub(super) fn forever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// It cannot be measured in this setting.
pub(super) struct Cannot;

/// A pool under its name.
pub(super) trait Measured {
    /// Returns the name.
    fn name(&self) -> &'static str;

    /// Takes a sample: taking, giving back and both, in nanoseconds a buffer; `None` where it was disturbed or ran out.
    fn measure(&mut self, team: &Team, work: &Work) -> Result<Option<[f64; 3]>, Cannot>;
}

/// A pool of this project or its like, in this process.
pub(super) struct Inside<P: 'static> {
    pub name: &'static str,
    pub pool: &'static P,
}

/// The time that one thread spent, in nanoseconds, the clock's cost taken off.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    get: f64,
    put: f64,
    both: f64,
    buffers: usize,
}

impl<P: Pool> Measured for Inside<P> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn measure(&mut self, team: &Team, work: &Work) -> Result<Option<[f64; 3]>, Cannot> {
        let (pool, work) = (self.pool, *work);
        let clock = clock_cost();
        let spent = match work.at {
            Where::Same if work.threads == 1 => Some(vec![same(pool, 0, &work, clock)]),
            Where::Same => team.run(work.threads, move |cpu| same(pool, cpu, &work, clock)),
            Where::Across => across(pool, team, &work, clock),
        };
        let spent: Option<Vec<Spent>> = spent.and_then(|all| all.into_iter().collect());
        Ok(spent.map(|all| {
            let threads = all.len() as f64;
            let mean =
                |of: fn(&Spent) -> f64| all.iter().map(|s| of(s) / s.buffers as f64).sum::<f64>() / threads;
            match work.at {
                Where::Same => [mean(|s| s.get), mean(|s| s.put), mean(|s| s.both)],
                // One side each: their sums.
                Where::Across => {
                    let (get, put) = (threads * mean(|s| s.get), threads * mean(|s| s.put));
                    [get, put, get + put]
                }
            }
        }))
    }
}

/// Takes batches and gives them back on one CPU: first with the clock read between the halves, then without.
fn same<P: Pool>(pool: &'static P, cpu: usize, work: &Work, clock: f64) -> Option<Spent> {
    let mut user = pool.user(cpu)?;
    let mut held = Vec::with_capacity(work.batch);
    let rounds = (work.buffers / work.batch).max(1);
    let mut spent = Spent { buffers: rounds * work.batch, ..Spent::default() };
    for _ in 0..rounds {
        let start = now_ns();
        take(pool, &mut user, cpu, &mut held, work.batch)?;
        let middle = now_ns();
        give(pool, &mut user, cpu, &mut held);
        spent.get += (middle - start) as f64 - clock;
        spent.put += (now_ns() - middle) as f64 - clock;
    }
    let start = now_ns();
    for _ in 0..rounds {
        take(pool, &mut user, cpu, &mut held, work.batch)?;
        give(pool, &mut user, cpu, &mut held);
    }
    spent.both = (now_ns() - start) as f64;
    pool.end(&mut user, cpu);
    Some(spent)
}

#[inline(never)]
fn take<P: Pool>(
    pool: &'static P,
    user: &mut P::User,
    cpu: usize,
    held: &mut Vec<P::Buffer>,
    batch: usize,
) -> Option<()> {
    for _ in 0..batch / P::AT_A_TIME {
        held.push(pool.get(user, cpu)?);
    }
    Some(())
}

#[inline(never)]
fn give<P: Pool>(pool: &'static P, user: &mut P::User, cpu: usize, held: &mut Vec<P::Buffer>) {
    for buffer in held.drain(..) {
        pool.put(user, cpu, buffer);
    }
}

/// A group of buffers on its way.
type Group<P> = Vec<<P as Pool>::Buffer>;

/// Takes buffers on one CPU and gives them back on another, a group at a time; each side times what it does with the
/// pool.
fn across<P: Pool>(pool: &'static P, team: &Team, work: &Work, clock: f64) -> Option<Vec<Option<Spent>>> {
    let groups = work.buffers / GROUP;
    let (send, receive) = sync_channel::<Group<P>>(ON_THE_WAY);
    let (send_empty, receive_empty) = sync_channel::<Group<P>>(2 * ON_THE_WAY);
    let ends = Arc::new((Mutex::new(Some((send, receive_empty))), Mutex::new(Some((receive, send_empty)))));
    team.run(2, move |cpu| match cpu {
        0 => {
            let (send, empty) = ends.0.lock().ok()?.take()?;
            taking(pool, groups, clock, &send, &empty)
        }
        _ => {
            let (receive, empty) = ends.1.lock().ok()?.take()?;
            giving(pool, clock, &receive, &empty)
        }
    })
}

fn taking<P: Pool>(
    pool: &'static P,
    groups: usize,
    clock: f64,
    send: &SyncSender<Group<P>>,
    empty: &Receiver<Group<P>>,
) -> Option<Spent> {
    let mut user = pool.user(0)?;
    let mut spent = Spent { buffers: groups * GROUP, ..Spent::default() };
    // Buffers go to memory of this CPU first: the group's was just read on the other.
    let mut held = Vec::with_capacity(GROUP);
    for _ in 0..groups {
        let start = now_ns();
        take(pool, &mut user, 0, &mut held, GROUP)?;
        spent.get += (now_ns() - start) as f64 - clock;
        let mut group = empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(GROUP));
        group.append(&mut held);
        send.send(group).ok()?;
    }
    pool.end(&mut user, 0);
    Some(spent)
}

fn giving<P: Pool>(
    pool: &'static P,
    clock: f64,
    receive: &Receiver<Group<P>>,
    empty: &SyncSender<Group<P>>,
) -> Option<Spent> {
    let mut user = pool.giver(1);
    let mut spent = Spent::default();
    let mut held = Vec::with_capacity(GROUP);
    for mut group in receive {
        spent.buffers += group.len() * P::AT_A_TIME;
        held.append(&mut group);
        let start = now_ns();
        give_across(pool, &mut user, &mut held);
        spent.put += (now_ns() - start) as f64 - clock;
        let _ = empty.try_send(group);
    }
    if let Some(user) = &mut user {
        pool.end(user, 1);
    }
    (spent.buffers > 0).then_some(spent)
}

#[inline(never)]
fn give_across<P: Pool>(pool: &'static P, user: &mut Option<P::User>, group: &mut Group<P>) {
    for buffer in group.drain(..) {
        pool.put_across(user, 1, buffer);
    }
}
