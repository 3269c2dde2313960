//! What a call from C costs beside the same call in Rust: pages of one arena each, taken and given back in bursts, A B
//! A B in one process, with a second Rust arena as the A/A pair.
//!
//! `cargo run --release -p pageyard-capi --example overhead`

use pageyard::{Order, PAGE_SIZE};
use pageyard_arena::{Arena, Block};
use pageyard_capi::{
    ArenaHandle, Error, PAGEYARD_BACKING_BASE, pageyard_alloc, pageyard_arena_new, pageyard_free,
};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::null_mut;
use std::time::Instant;

const BYTES: usize = 256 << 20;
const ROUNDS: usize = 41;
const PAIRS: usize = 1 << 20;

type AllocC = unsafe extern "C" fn(ArenaHandle, usize, *mut *mut c_void) -> Error;
type FreeC = unsafe extern "C" fn(ArenaHandle, *mut c_void, usize) -> Error;

/// Nanoseconds a pair.
fn timed(burst: usize, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..PAIRS / burst).for_each(|_| run());
    start.elapsed().as_nanos() as f64 / PAIRS as f64
}

fn in_rust(arena: &Arena, burst: usize) -> f64 {
    let mut held: Vec<Block<&Arena>> = Vec::with_capacity(burst);
    timed(burst, || {
        held.extend((0..burst).map_while(|_| arena.alloc(Order::ZERO).ok()));
        assert_eq!(held.len(), burst);
        held.clear();
    })
}

fn in_c(arena: ArenaHandle, burst: usize) -> f64 {
    // As a linker sees them: not inlined.
    let (alloc, free): (AllocC, FreeC) = black_box((pageyard_alloc, pageyard_free));
    let mut held = vec![null_mut(); burst];
    timed(burst, || {
        // SAFETY: there is room for each, and each is given back once.
        unsafe {
            let got = held.iter_mut().all(|at| alloc(arena, PAGE_SIZE as usize, at) == Error::Ok);
            assert!(got && held.iter().all(|at| free(arena, *at, PAGE_SIZE as usize) == Error::Ok));
        }
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let backing = pageyard_arena::backing::Backing::AnonymousBase;
    let arena = || Arena::builder().size(BYTES).backing(backing).build();
    let (first, second) = (arena()?, arena()?);
    let mut third = ArenaHandle { handle: 0 };
    // SAFETY: there is room for it.
    assert_eq!(unsafe { pageyard_arena_new(BYTES, PAGEYARD_BACKING_BASE, &raw mut third) }, Error::Ok);
    println!("ns to take a page and give it back, medians of {ROUNDS}");
    println!("{:>6} {:>8} {:>8} {:>8} {:>8}", "burst", "Rust", "again", "C", "C more");
    for burst in [8, 64] {
        let (mut rust, mut again, mut c) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            rust.push(in_rust(&first, burst));
            c.push(in_c(third, burst));
            again.push(in_rust(&second, burst));
        }
        let (rust, again, c) = (median(rust), median(again), median(c));
        println!("{burst:>6} {rust:>8.2} {again:>8.2} {c:>8.2} {:>8.2}", c - (rust + again) / 2.0);
    }
    Ok(())
}
