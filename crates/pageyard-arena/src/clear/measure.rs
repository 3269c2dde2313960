//! Which primitive is fastest on this machine, and from which size.

use super::clearer::Clearer;
use super::extent::Extent;
use super::primitive::Primitive;
use pageyard::{Frames, PAGE_SIZE};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Memory that no cache holds whole.
const BYTES: usize = 64 << 20;

/// Bytes cleared cold at a time: enough to make the clock's cost negligible.
const STRETCH: usize = 4 << 20;

/// Turns of each measurement; the fastest counts, since whatever disturbs it makes it slower.
const TURNS: usize = 5;

/// A primitive replaces the one that was tried before it if it is faster by this share: memory for a plain reason.
const CLEARLY: f64 = 0.97;

/// Chooses; none where there is no memory to measure with.
pub(super) fn choose() -> Option<Clearer> {
    let mut memory: Vec<MaybeUninit<u8>> = Vec::new();
    memory.try_reserve_exact(BYTES + PAGE_SIZE as usize).ok()?;
    // SAFETY: bytes that need not hold anything.
    unsafe { memory.set_len(BYTES + PAGE_SIZE as usize) };
    let to_frame = memory.as_ptr().align_offset(PAGE_SIZE as usize);
    let memory = memory.get_mut(to_frame..to_frame + BYTES)?;
    // Faults are not what is measured.
    let mut extent = Extent::new(memory)?;
    // SAFETY: `memset` bypasses no caches.
    unsafe { Primitive::Memset.write(&mut extent) };
    let hot = best(|p| hot(p, memory, PAGE_SIZE as usize))?;
    let cold = best(|p| cold(p, memory))?;
    // From the size on from which streaming wins although each turn finds what the last one left in the caches.
    let mut sizes = (16..=26).map(|log| 1_usize << log);
    let wins = |bytes: usize| Some(self::hot(cold, memory, bytes)? < self::hot(hot, memory, bytes)?);
    let mut wins = wins;
    let threshold = sizes.find(|bytes| wins(*bytes) == Some(true)).unwrap_or(2 * BYTES);
    Some(Clearer::chosen(hot, cold, Frames(threshold as u64 / PAGE_SIZE)))
}

/// Returns the fastest primitive that this processor has; of two that differ by little, the one that is listed first.
fn best(mut time: impl FnMut(Primitive) -> Option<Duration>) -> Option<Primitive> {
    let mut best: Option<(Primitive, Duration)> = None;
    for primitive in Primitive::available() {
        let taken = time(primitive)?;
        if best.is_none_or(|(_, least)| taken.as_secs_f64() < CLEARLY * least.as_secs_f64()) {
            best = Some((primitive, taken));
        }
    }
    best.map(|(primitive, _)| primitive)
}

/// Clears the same bytes again and again; returns the least time for 1 MiB, or for all of them if there are more.
fn hot(primitive: Primitive, memory: &mut [MaybeUninit<u8>], bytes: usize) -> Option<Duration> {
    let mut extent = Extent::new(memory.get_mut(..bytes)?)?;
    let times = ((1 << 20) / bytes).max(1);
    // SAFETY: here and below, a fence follows, and no other thread knows of the memory.
    unsafe { primitive.write(&mut extent) };
    let turn = |_| {
        let start = Instant::now();
        for _ in 0..times {
            // SAFETY: as above.
            unsafe { primitive.write(&mut extent) };
            primitive.fence();
        }
        start.elapsed()
    };
    (0..TURNS).map(turn).min()
}

/// Clears stretches one after the other, none of which the caches hold; returns the least time of one.
fn cold(primitive: Primitive, memory: &mut [MaybeUninit<u8>]) -> Option<Duration> {
    let mut least = None;
    for stretch in memory.chunks_mut(STRETCH) {
        let mut extent = Extent::new(stretch)?;
        let start = Instant::now();
        // SAFETY: as in `hot`.
        unsafe { primitive.write(&mut extent) };
        primitive.fence();
        let taken = start.elapsed();
        least = Some(least.map_or(taken, |l: Duration| l.min(taken)));
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_is_best_unless_an_earlier_one_is_hardly_slower() {
        let all: Vec<_> = Primitive::available().collect();
        // The times of the first, of all others, and of the last.
        let of = |first: u64, others: u64, last: u64| {
            best(|primitive| {
                let time = match primitive {
                    _ if primitive == all[0] => first,
                    _ if primitive == all[all.len() - 1] => last,
                    _ => others,
                };
                Some(Duration::from_micros(time))
            })
        };
        let (first, last) = (all.first().copied(), all.last().copied());
        assert_eq!([of(1000, 1000, 1000), of(1000, 1000, 999), of(500, 1000, 1000)], [first; 3]);
        assert_eq!([of(1000, 1000, 500), of(1000, 800, 400)], [last; 2]);
        assert_eq!(best(|_| None), None);
    }
}
