use super::*;
use pageyard::{Frames, PAGE_SIZE};
use std::mem::MaybeUninit;
use std::ops::Range;

const PAGE: usize = PAGE_SIZE as usize;

/// Frames between two others, all of them dirty.
struct Dirty(Vec<u8>, usize);

impl Dirty {
    fn new(frames: usize) -> Dirty {
        let memory = vec![0xA5; (frames + 3) * PAGE];
        let at = memory.as_ptr().align_offset(PAGE) + PAGE;
        Dirty(memory, at)
    }

    fn frames(&mut self, frames: Range<usize>) -> Extent<'_> {
        let at = self.1;
        let bytes = at + frames.start * PAGE..at + frames.end * PAGE;
        Extent::of_bytes(&mut self.0[bytes]).expect("it begins and ends at frames")
    }

    /// Checks that these frames are zeros, and the bytes around them what they were.
    fn check(&self, frames: Range<usize>, what: &str) {
        let cleared = self.1 + frames.start * PAGE..self.1 + frames.end * PAGE;
        for (at, byte) in self.0.iter().enumerate() {
            let expected = if cleared.contains(&at) { 0 } else { 0xA5 };
            assert_eq!(*byte, expected, "{what}: byte {at} of {}, cleared were {cleared:?}", self.0.len());
        }
    }
}

#[test]
fn every_primitive_clears_its_frames_and_nothing_else() {
    for primitive in Primitive::ALL {
        for frames in [0, 1, 2, 3, 8] {
            let mut memory = Dirty::new(10);
            // SAFETY: the fence follows.
            unsafe { primitive.write(&mut memory.frames(1..1 + frames)) };
            primitive.fence();
            memory.check(1..1 + frames, primitive.name());
        }
        assert_eq!(Primitive::named(primitive.name()), Some(primitive));
    }
    assert!(Primitive::Memset.is_available());
}

#[test]
fn every_unit_clears_all_and_pauses_in_between() {
    let units =
        [Unit::Page, Unit::Batch(Frames(0)), Unit::Batch(Frames(3)), Unit::Batch(Frames(7)), Unit::Whole];
    for (unit, pauses) in units.into_iter().zip([6, 6, 2, 0, 0]) {
        for primitive in Primitive::available() {
            let (mut memory, mut paused) = (Dirty::new(8), 0);
            clear_in(primitive, memory.frames(0..7), unit, &mut || paused += 1);
            memory.check(0..7, primitive.name());
            assert_eq!(paused, pauses, "{unit:?}");
        }
    }
}

#[test]
fn a_clearer_clears_at_once_and_in_units() {
    for clearer in [*Clearer::of_this_machine(), Clearer::only(Primitive::Memset).unwrap()] {
        for caches in [Caches::Hot, Caches::Cold, Caches::Unknown] {
            let mut memory = Dirty::new(8);
            clearer.clear(memory.frames(1..5), caches);
            memory.check(1..5, "at once");
            let (mut memory, mut paused) = (Dirty::new(8), 0);
            clearer.clear_in(memory.frames(0..7), Unit::Batch(Frames(3)), caches, &mut || paused += 1);
            memory.check(0..7, "in units");
            assert_eq!(paused, 2);
        }
    }
}

#[test]
fn threads_clear_every_part() {
    let clearer = Clearer::only(Primitive::Memset).unwrap();
    for threads in [0, 1, 2, 3, 7] {
        let mut memory = Dirty::new(1400);
        clearer.clear_parallel(memory.frames(0..1300), Unit::Batch(Frames(100)), Caches::Unknown, threads);
        memory.check(0..1300, "parallel");
    }
}

#[test]
fn a_batch_is_cleared_whatever_its_extents() {
    let mut memory = vec![[0xA5_u8; PAGE]; 9];
    let at = memory.as_flattened().as_ptr().align_offset(PAGE);
    let whole = Extent::of_bytes(&mut memory.as_flattened_mut()[at..at + 8 * PAGE]).unwrap();
    let mut rest = whole;
    let clearer = *Clearer::of_this_machine();
    let extents = std::iter::from_fn(|| rest.take_front(Frames(3)));
    clearer.clear_batch(extents, Caches::Cold);
    assert!(memory.as_flattened()[at..at + 8 * PAGE].iter().all(|b| *b == 0));
}

#[test]
fn linux_takes_a_page_a_batch_or_all() {
    use Preemption::{Full, Lazy, None, Voluntary};
    for fast in [Primitive::RepStosb, Primitive::RepStosq] {
        for preemption in [None, Voluntary] {
            assert_eq!(Unit::of_linux(fast, preemption).frames(), Frames(8192));
        }
    }
    assert_eq!(Unit::of_linux(Primitive::Memset, Voluntary), Unit::Page);
    for preemption in [Full, Lazy] {
        assert_eq!(Unit::of_linux(Primitive::Memset, preemption), Unit::Whole);
    }
}

#[test]
fn an_arena_clears_as_its_model_of_preemption_says() {
    for preemption in Preemption::ALL {
        let clearer = Clearer::only(Primitive::Memset).unwrap().under(preemption);
        let arena = crate::Arena::builder().size(8 << 20).clearer(clearer).build_locked().unwrap();
        let order = pageyard::Order::of(9);
        for _ in 0..2 {
            let mut block = arena.alloc_zeroed(order).unwrap();
            assert!(block.iter().all(|byte| *byte == 0), "{}", preemption.name());
            block.fill(0xA5);
        }
        assert_eq!(arena.clearer().preemption(), preemption);
    }
}

#[test]
fn the_choice_follows_the_caches_then_the_size() {
    let other = Primitive::available().find(|p| *p != Primitive::Memset).unwrap_or(Primitive::Memset);
    let clearer = Clearer::new(Primitive::Memset, other, Frames(10)).unwrap();
    let of = |frames, caches| clearer.choice(Frames(frames), caches);
    assert_eq!([of(1, Caches::Hot), of(100, Caches::Hot), of(9, Caches::Unknown)], [Primitive::Memset; 3]);
    assert_eq!([of(1, Caches::Cold), of(10, Caches::Unknown)], [other; 2]);
}

#[test]
fn memory_that_is_not_whole_frames_is_no_extent() {
    let mut memory = vec![MaybeUninit::<u8>::uninit(); 3 * PAGE];
    let at = memory.as_ptr().align_offset(PAGE);
    assert!(Extent::new(&mut memory[at + 1..at + 1 + PAGE]).is_none());
    assert!(Extent::new(&mut memory[at..at + PAGE - 1]).is_none());
    let lacking = Primitive::ALL.into_iter().find(|p| !p.is_available()).expect("no processor has all");
    assert_eq!(Clearer::only(lacking), Err(lacking));
}

#[test]
fn what_is_measured_can_be_used() {
    let measured = Clearer::of_this_machine();
    assert!(measured.cached().is_available() && measured.streaming().is_available());
    assert!(measured.threshold() > Frames(1));
}
