//! What a frame costs in bursts, by the size of the arena: with the lists that an arena has unless told otherwise, and
//! with those of other sizes. Nanoseconds for a frame taken and given back, medians; variants take turns.
//!
//! `cargo run --release -p pageyard-arena --example bursts`

use pageyard::{Config, Order};
use pageyard_arena::rseq::possible_cpus;
use pageyard_arena::{Arena, ArenaError, Block};
use std::hint::black_box;
use std::time::Instant;

/// `percpu_pagelist_high_fraction`: lists that may hold an eighth of the arena, which is the default, and others.
const FRACTIONS: [u64; 7] = [8, 1, 2, 4, 16, 64, 8];
const SIZES: [usize; 5] = [64 << 20, 256 << 20, 1 << 30, 4 << 30, 16 << 30];
const BURSTS: [usize; 4] = [32, 128, 512, 2048];
/// Frames of a sample, and samples.
const FRAMES: usize = 1 << 16;
const SAMPLES: usize = 21;

fn arena(bytes: usize, fraction: u64) -> Result<Arena, ArenaError> {
    let config =
        Config { compaction: true, percpu_pagelist_high_fraction: fraction, ..Config::pool(possible_cpus()) };
    Arena::builder().size(bytes).config(config).build()
}

/// Takes bursts of frames and gives each burst back, first in, first out; returns nanoseconds a frame.
#[inline(never)]
fn bursts(arena: &Arena, burst: usize) -> f64 {
    let mut held: Vec<Block<&Arena>> = Vec::with_capacity(burst);
    let start = Instant::now();
    for _ in 0..FRAMES / burst {
        for _ in 0..burst {
            held.push(arena.alloc(Order::ZERO).expect("the arena is larger than a burst"));
        }
        black_box(held.drain(..)).for_each(drop);
    }
    start.elapsed().as_nanos() as f64 / FRAMES as f64
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() -> Result<(), ArenaError> {
    println!(
        "| arena | burst | default | again | best of others | which | default by best |\n|---|---|---|---|---|---|---|"
    );
    for bytes in SIZES {
        let arenas: Vec<Arena> = FRACTIONS.into_iter().map(|f| arena(bytes, f)).collect::<Result<_, _>>()?;
        for burst in BURSTS {
            let mut samples = FRACTIONS.map(|_| Vec::new());
            for turn in 0..=SAMPLES {
                for (arena, samples) in arenas.iter().zip(&mut samples) {
                    let ns = bursts(arena, burst);
                    // The first turn warms up.
                    if turn > 0 {
                        samples.push(ns);
                    }
                }
            }
            let ns = samples.map(median);
            let (own, again, others) = (ns[0], ns[6], &ns[1..6]);
            let best = others.iter().copied().fold(f64::INFINITY, f64::min);
            let which = FRACTIONS[1 + others.iter().position(|n| *n == best).unwrap_or(0)];
            println!(
                "| {} MiB | {burst} | {own:.2} | {again:.2} | {best:.2} | 1/{which} | {:.2} |",
                bytes >> 20,
                own / best.min(own)
            );
        }
    }
    Ok(())
}
