//! Where every frame is, read from the rings while no one moves one; and what that says of an allocator.
//!
//! A frame that a ring has, or that the kernel took out of one and has not passed on, is in use. No worker has one in
//! its hands: those that live stand still with empty hands, and those that were killed have none. So every other frame
//! is free.

use crate::frames::{Store, User};
use crate::rig::Rig;
use crate::socket::CHUNK;
use std::time::{Duration, Instant};

/// Where frames are, in counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Places {
    /// On fill rings: the kernel may put a packet there.
    pub fill: u32,
    /// On RX rings: received, and not yet routed.
    pub rx: u32,
    /// On TX rings: routed, and not yet sent.
    pub tx: u32,
    /// On completion rings: sent, and not yet given back.
    pub completion: u32,
    /// Taken out of one ring by the kernel and not yet in the next.
    pub kernel: u32,
    /// Found twice, which must not be.
    pub twice: u32,
    /// Numbers in rings that are no frame's, which must not be.
    pub strange: u32,
}

/// Where every frame is.
pub struct Survey {
    /// How many are where.
    pub places: Places,
    users: Vec<User>,
}

impl Survey {
    /// Looks at every ring once, each ahead of the one that the kernel moves its frames to: a frame that moves
    /// meanwhile is seen twice and not missed.
    fn look(rig: &Rig) -> Survey {
        let mut survey = Survey { places: Places::default(), users: vec![None; rig.sizes.frames as usize] };
        for (queue, number) in rig.queues.iter().zip(0..) {
            let (input, output) = (&queue.input, &queue.output);
            survey.places.kernel += between(input.fill.consumed(), input.rx.produced());
            survey.places.kernel += between(output.tx.consumed(), output.completion.produced());
            survey.places.fill += survey.mark(number, input.fill.pending());
            survey.places.rx += survey.mark(number, input.rx.pending().map(|packet| packet.addr));
            survey.places.tx += survey.mark(number, output.tx.pending().map(|packet| packet.addr));
            survey.places.completion += survey.mark(number, output.completion.pending());
        }
        survey
    }

    fn mark(&mut self, queue: u32, addresses: impl Iterator<Item = u64>) -> u32 {
        let mut count = 0;
        for address in addresses {
            match self.users.get_mut((address / CHUNK) as usize) {
                Some(user @ None) => *user = Some(queue),
                Some(_) => self.places.twice += 1,
                None => self.places.strange += 1,
            }
            count += 1;
        }
        count
    }

    /// Looks until the kernel has nothing in between and two looks in a row agree, or for `patience`; sends what is on
    /// TX rings meanwhile. Workers and the source stand still, or have ended.
    pub fn settled(rig: &Rig, patience: Duration) -> Survey {
        let began = Instant::now();
        let mut last = Survey::look(rig);
        loop {
            for queue in &rig.queues {
                // A refusal shows in the survey: the frames stay on the TX ring.
                let _ = queue.output.kick();
            }
            std::thread::sleep(Duration::from_micros(500));
            let next = Survey::look(rig);
            let quiet = next.places.kernel == 0 && next.places.twice == 0 && next.places == last.places;
            if quiet || began.elapsed() > patience {
                return next;
            }
            last = next;
        }
    }

    /// Replaces the frames on fill rings by ones that follow each other, where no other ring has any, and looks again:
    /// a run then begins as a program does that has just started, and not with what the allocator before it left
    /// behind.
    ///
    /// Entries that the kernel has not taken are this side's to change, while it takes none: no one sends, and no
    /// packet is on its way.
    pub fn dealt(self, rig: &Rig) -> Survey {
        if !self.is_sound() || !rig.is_quiet() || self.places.rx + self.places.tx + self.places.completion > 0
        {
            return self;
        }
        let mut frames = 0..u64::from(rig.sizes.frames);
        for fill in rig.queues.iter().map(|queue| &queue.input.fill) {
            let from = fill.consumed();
            for (n, frame) in (0..fill.len()).zip(&mut frames) {
                fill.write(from.wrapping_add(n), frame * CHUNK);
            }
        }
        Survey::look(rig)
    }

    /// Returns who has each frame.
    pub fn users(&self) -> &[User] {
        &self.users
    }

    /// Returns whether every frame is in one place.
    pub fn is_sound(&self) -> bool {
        let Places { kernel, twice, strange, .. } = self.places;
        kernel == 0 && twice == 0 && strange == 0
    }

    /// Takes all that an allocator still hands out, compares it with the frames that are free, and gives exactly those
    /// back to it.
    pub fn settle(&self, store: &dyn Store) -> Balance {
        let mut has = vec![false; self.users.len()];
        let mut balance = Balance::default();
        for frame in store.drain() {
            match has.get_mut(frame.0 as usize) {
                Some(has) if !*has && self.users[frame.0 as usize].is_none() => {
                    *has = true;
                    balance.in_allocator += 1;
                }
                _ => balance.doubly_owned += 1,
            }
        }
        let free = self.users.iter().filter(|user| user.is_none()).count();
        balance.missing = free as u32 - balance.in_allocator;
        store.rebuild(&self.users);
        balance
    }
}

/// Returns how far two indices are apart: one can be read before the kernel has written it, and the other after.
fn between(taken: u32, passed_on: u32) -> u32 {
    (taken.wrapping_sub(passed_on) as i32).unsigned_abs()
}

/// An allocator's stock, compared with the free frames.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Balance {
    /// Frames that it could hand out.
    pub in_allocator: u32,
    /// Free frames that it could not: lost, unless the worker that had them was killed just now.
    pub missing: u32,
    /// Frames that it would have handed out twice, or while somebody used them.
    pub doubly_owned: u32,
}
