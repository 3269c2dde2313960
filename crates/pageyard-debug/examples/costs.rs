//! What observers cost: a page taken and given back, in an arena behind locks, without any and under each.
//!
//! ```sh
//! cargo run --release -p pageyard-debug --example costs
//! ```
//!
//! The first line is there twice: what the two differ by is what the machine does by itself.

use pageyard::{Observer, Order, TryLock};
use pageyard_arena::Arena;
use pageyard_debug::{Faults, Owner, OwnerKnobs};
use std::error::Error;
use std::time::Instant;

const ROUNDS: usize = 21;

type Arenas<'a, O> = &'a Arena<TryLock, O>;

/// Returns the nanoseconds of one pair.
fn pair<O: Observer>(arena: Arenas<'_, O>, order: Order, pairs: u32) -> f64 {
    let begin = Instant::now();
    for _ in 0..pairs {
        drop(std::hint::black_box(arena.alloc(order)));
    }
    begin.elapsed().as_nanos() as f64 / f64::from(pairs)
}

fn main() -> Result<(), Box<dyn Error>> {
    let builder = || Arena::builder().size(64 << 20);
    let (plain, again) = (builder().build_locked()?, builder().build_locked()?);
    let off = builder().observer(Faults::off()).build_locked()?;
    let tags = builder().observer(Owner::new(OwnerKnobs { depth: 0 })).build_locked()?;
    let stacks = builder().observer(Owner::default()).build_locked()?;
    let poison = builder().poison(|seen| eprintln!("{seen}")).build_locked()?;
    for order in [Order::ZERO, Order::HUGE] {
        let pairs = if order == Order::ZERO { 2_000 } else { 50 };
        type Run<'a> = (&'a str, Box<dyn Fn() -> f64 + 'a>);
        let runs: [Run<'_>; 6] = [
            ("none", Box::new(|| pair(&plain, order, pairs))),
            ("none", Box::new(|| pair(&again, order, pairs))),
            ("failures, none asked for", Box::new(|| pair(&off, order, pairs))),
            ("owner, tags alone", Box::new(|| pair(&tags, order, pairs))),
            ("owner, with stacks", Box::new(|| pair(&stacks, order, pairs))),
            ("poison", Box::new(|| pair(&poison, order, pairs))),
        ];
        let mut took: [Vec<f64>; 6] = Default::default();
        for _ in 0..ROUNDS {
            took.iter_mut().zip(&runs).for_each(|(took, (_, run))| took.push(run()));
        }
        println!("order {order}, ns a pair, median of {ROUNDS} (lowest to highest)");
        for (took, (name, _)) in took.iter_mut().zip(&runs) {
            took.sort_by(f64::total_cmp);
            println!("  {name:<26}{:>12.1}  ({:.1} to {:.1})", took[ROUNDS / 2], took[0], took[ROUNDS - 1]);
        }
    }
    Ok(())
}
