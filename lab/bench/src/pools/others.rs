//! A floor, and what programs use where they have no pool of pages: a list behind a mutex; caches for each thread that
//! exchange full stacks for empty ones under a lock, as sample programs for AF_XDP do; DPDK's pools.

use super::pool::{Cannot, GROUP, Inside, Measured, Pool, Where, Work, forever};
use crate::harness::clock::clock_cost;
use crate::harness::load::Load;
use crate::harness::noise::Skipped;
use crate::harness::subject::Subject;
use crate::harness::team::Team;
use crate::peers;
use std::sync::Mutex;

/// Buffers that each has.
const BUFFERS: u64 = 1 << 14;

/// A floor: an array of numbers for each CPU, no checks; across CPUs, the numbers come from nowhere and go nowhere.
pub(super) fn floor() -> Box<dyn Measured> {
    Box::new(Inside { name: "floor-array", pool: forever(Floor) })
}

/// Makes the others.
pub(super) fn all(skipped: &mut Vec<Skipped>, cpus: &[usize]) -> Vec<Box<dyn Measured>> {
    let mutexed = Mutexed(Mutex::new((0..BUFFERS).collect()));
    let full = (0..BUFFERS).collect::<Vec<_>>().chunks(GROUP).map(<[u64]>::to_vec).collect();
    let cached = Cached(Mutex::new(Stacks { full, empty: Vec::new() }));
    let mut all: Vec<Box<dyn Measured>> = vec![
        Box::new(Inside { name: "mutexed-list", pool: forever(mutexed) }),
        Box::new(Inside { name: "cached-lists", pool: forever(cached) }),
    ];
    let (name, peer) = peers::dpdk(cpus);
    match peer {
        Ok(subject) => all.push(Box::new(Outside { name, subject })),
        Err(why) => skipped.push(Skipped { allocator: name, why }),
    }
    all
}

struct Floor;

impl Pool for Floor {
    type Buffer = u64;
    type User = (Vec<u64>, usize);

    fn user(&'static self, _: usize) -> Option<Self::User> {
        Some(((0..BUFFERS).collect(), BUFFERS as usize))
    }

    #[inline(always)]
    fn get(&'static self, (slots, top): &mut Self::User, _: usize) -> Option<u64> {
        // Across CPUs nothing comes back: begin again.
        *top = if *top == 0 { slots.len() } else { *top } - 1;
        slots.get(*top).copied()
    }

    #[inline(always)]
    fn put(&'static self, (slots, top): &mut Self::User, _: usize, buffer: u64) {
        if let Some(slot) = slots.get_mut(*top) {
            *slot = buffer;
            *top += 1;
        }
    }

    fn giver(&'static self, cpu: usize) -> Option<Self::User> {
        self.user(cpu)
    }

    #[inline(always)]
    fn put_across(&'static self, giver: &mut Option<Self::User>, cpu: usize, buffer: u64) {
        if let Some(giver) = giver {
            giver.1 %= giver.0.len();
            self.put(giver, cpu, buffer);
        }
    }
}

/// A list behind a mutex.
struct Mutexed(Mutex<Vec<u64>>);

impl Pool for Mutexed {
    type Buffer = u64;
    type User = ();

    fn user(&'static self, _: usize) -> Option<()> {
        Some(())
    }

    #[inline(always)]
    fn get(&'static self, (): &mut (), _: usize) -> Option<u64> {
        self.0.lock().ok()?.pop()
    }

    #[inline(always)]
    fn put(&'static self, (): &mut (), _: usize, buffer: u64) {
        if let Ok(mut list) = self.0.lock() {
            list.push(buffer);
        }
    }

    #[inline(always)]
    fn put_across(&'static self, _: &mut Option<()>, cpu: usize, buffer: u64) {
        self.put(&mut (), cpu, buffer);
    }
}

/// Full and empty stacks that caches exchange.
struct Stacks {
    full: Vec<Vec<u64>>,
    empty: Vec<Vec<u64>>,
}

/// A cache for each thread: a stack that it takes from and one that it gives to, of a batch each.
struct Cached(Mutex<Stacks>);

impl Pool for Cached {
    type Buffer = u64;
    type User = [Vec<u64>; 2];

    fn user(&'static self, _: usize) -> Option<Self::User> {
        Some([Vec::with_capacity(GROUP), Vec::with_capacity(GROUP)])
    }

    #[inline(always)]
    fn get(&'static self, [from, to]: &mut Self::User, _: usize) -> Option<u64> {
        if let Some(buffer) = from.pop() {
            return Some(buffer);
        }
        if !to.is_empty() {
            std::mem::swap(from, to);
            return from.pop();
        }
        let mut stacks = self.0.lock().ok()?;
        let full = stacks.full.pop()?;
        stacks.empty.push(std::mem::replace(from, full));
        drop(stacks);
        from.pop()
    }

    #[inline(always)]
    fn put(&'static self, [_, to]: &mut Self::User, _: usize, buffer: u64) {
        if to.len() == GROUP
            && let Ok(mut stacks) = self.0.lock()
        {
            let empty = stacks.empty.pop().unwrap_or_else(|| Vec::with_capacity(GROUP));
            stacks.full.push(std::mem::replace(to, empty));
        }
        to.push(buffer);
    }

    fn giver(&'static self, cpu: usize) -> Option<Self::User> {
        self.user(cpu)
    }

    #[inline(always)]
    fn put_across(&'static self, giver: &mut Option<Self::User>, cpu: usize, buffer: u64) {
        if let Some(giver) = giver {
            self.put(giver, cpu, buffer);
        }
    }

    /// Puts the buffers that the thread has left back in the shared stacks.
    fn end(&'static self, user: &mut Self::User, _: usize) {
        if let Ok(mut stacks) = self.0.lock() {
            stacks.full.extend(user.iter_mut().map(std::mem::take).filter(|stack| !stack.is_empty()));
        }
    }
}

/// A peer in a process of its own.
struct Outside {
    name: &'static str,
    subject: Box<dyn Subject>,
}

impl Measured for Outside {
    fn name(&self) -> &'static str {
        self.name
    }

    fn measure(&mut self, team: &Team, work: &Work) -> Result<Option<[f64; 3]>, Cannot> {
        match work.at {
            Where::Across => {
                let crossed = self.subject.cross(team, work.buffers / GROUP).ok_or(Cannot)?;
                let figures = [crossed.alloc, crossed.free, crossed.alloc + crossed.free];
                Ok((crossed.missing == 0).then_some(figures))
            }
            Where::Same => {
                let order = (0..work.batch as u32).collect();
                let load = Load::of_rounds(order, false, (work.buffers / work.batch).max(1));
                let taken = self.subject.sample(team, work.threads, &load).ok_or(Cannot)?;
                let clock = clock_cost();
                let each: Option<Vec<[f64; 3]>> = taken.iter().map(|t| t.each(&load, clock)).collect();
                Ok(each.map(|all| {
                    let mean = |n: usize| all.iter().map(|e| e[n]).sum::<f64>() / all.len() as f64;
                    [mean(0), mean(1), mean(2)]
                }))
            }
        }
    }
}
