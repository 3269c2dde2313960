//! The promises that every allocator of frames makes, tested in one process and without packets.

use super::lock::Lock;
use super::{BATCH, Kind, User};
use crate::board::Worker;
use crate::shared;
use pageyard::Pfn;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

const QUEUES: u32 = 2;
const FRAMES: u32 = 2048;

/// Every fifth frame is on a ring of one of the queues.
fn users() -> Vec<User> {
    (0..FRAMES).map(|frame| frame.is_multiple_of(5).then_some(frame / 5 % QUEUES)).collect()
}

fn sorted(mut frames: Vec<Pfn>) -> Vec<Pfn> {
    frames.sort_unstable();
    frames
}

#[test]
fn what_was_rebuilt_hands_out_what_is_free() {
    let expected = super::free(&users());
    for kind in Kind::ALL {
        let store = kind.make(FRAMES, QUEUES, false).unwrap();
        // The second time from a state in which workers have frames.
        for _ in 0..2 {
            store.rebuild(&users());
            assert_eq!(sorted(store.drain()), expected, "{}", kind.name());
            store.rebuild(&users());
            let mut out = [Pfn(0); BATCH];
            assert_eq!(store.open(Worker(0)).get(&mut out), BATCH, "{}", kind.name());
        }
    }
}

#[test]
fn no_frame_has_two_owners_and_none_is_lost() {
    let mut random = fastrand::Rng::with_seed(14);
    for (kind, counts) in Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let store = kind.make(FRAMES, QUEUES, counts).unwrap();
        store.rebuild(&users());
        // For each queue: who receives, who takes completions, and the frames that are out.
        let mut ways: Vec<_> = (0..QUEUES)
            .map(|queue| (store.open(Worker(queue)), store.open(Worker(QUEUES + queue)), Vec::new()))
            .collect();
        let mut out: Vec<bool> = users().iter().map(Option::is_some).collect();
        for (frame, user) in (0..).zip(users()) {
            if let Some(queue) = user {
                ways[queue as usize].2.push(Pfn(frame));
            }
        }
        let mut taken = 0;
        for _ in 0..4000 {
            let (receive, complete, held) = &mut ways[random.usize(..QUEUES as usize)];
            if random.bool() {
                let mut got = [Pfn(0); BATCH];
                let count = receive.get(&mut got[..random.usize(1..=BATCH)]);
                for frame in &got[..count] {
                    let before = std::mem::replace(&mut out[frame.0 as usize], true);
                    assert!(!before, "{}: {frame} has two owners", kind.name());
                    held.push(*frame);
                }
                taken += count;
            } else {
                let rest = held.len() - random.usize(..=held.len().min(BATCH));
                let back = held.split_off(rest);
                back.iter().for_each(|frame| out[frame.0 as usize] = false);
                if random.bool() { complete.put(&back) } else { receive.put(&back) }
            }
        }
        assert!(taken > FRAMES as usize, "{}: {taken}", kind.name());
        assert_eq!(store.lines().is_some(), counts, "{}", kind.name());
        assert!(!counts || store.lines() > Some(0), "{}: two workers share its lines", kind.name());
        drop(ways);
        let free = (0..).zip(&out).filter(|(_, out)| !**out).map(|(frame, _)| Pfn(frame)).collect::<Vec<_>>();
        assert_eq!(sorted(store.drain()), free, "{}", kind.name());
    }
}

#[test]
fn one_at_a_time_has_the_lock() {
    const EACH: u32 = 20_000;
    let (lock, count): (&Lock, &AtomicU32) = (shared::value().unwrap(), shared::value().unwrap());
    std::thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                for _ in 0..EACH {
                    let _held = lock.hold(Worker(worker));
                    // Not one step: two at a time would lose some.
                    count.store(count.load(Relaxed) + 1, Relaxed);
                }
            });
        }
    });
    assert_eq!(count.load(Relaxed), 4 * EACH);
}

#[test]
fn the_lock_of_a_holder_that_died_is_opened_for_those_who_wait() {
    let lock: &Lock = shared::value().unwrap();
    std::mem::forget(lock.hold(Worker(7)));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(lock.hold(Worker(1))));
        lock.open_after(Worker(3));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished(), "somebody else died, not its holder");
        lock.open_after(Worker(7));
        waiting.join().unwrap();
    });
}
