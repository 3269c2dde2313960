//! The cost of an allocation and its free on restartable sequences, beside the floor of such sequences.
//!
//! ```text
//! cargo build --release -p pageyard-arena --example pair
//! chrt -r 10 taskset -c 1 target/release/examples/pair
//! ```

use pageyard::engine::Internals;
use pageyard::{
    Alone, Config, CpuId, Cx, Frames, MapError, MemoryMap, Metadata, Migratetype, NodeId, Order, Pageyard,
    PerCpu, Pfn, Region, Request, TryLock, ZoneKind,
};
use pageyard_arena::rseq::{CpuStacks, Rseq, possible_cpus};
use std::hint::black_box;
use std::time::Instant;

/// Frames of the machine: 16 GiB.
const MEMORY: u64 = 1 << 22;
/// Pairs of a sample, and samples.
const PAIRS: usize = 1 << 15;
const SAMPLES: usize = 31;

fn engine<P: PerCpu>(percpu: P) -> Result<Pageyard<'static, P>, MapError> {
    let regions = [Region::managed(Pfn(0), Frames(MEMORY), NodeId(0), ZoneKind::Normal)];
    let map = MemoryMap::new(&regions)?;
    let config = Config::new(possible_cpus());
    let layout = Pageyard::<P>::layout(&map, &config)?.layout;
    let memory = vec![0; layout.size() + layout.align()].leak();
    Pageyard::new(&map, config, percpu, Metadata::zeroed(memory))
}

#[inline(never)]
fn engine_pass<P: PerCpu>(yard: &Pageyard<'_, P>, held: &mut [Pfn], lifo: bool) {
    let cx = Cx::on(CpuId(0));
    for slot in held.iter_mut() {
        let request = Request::new(Order::ZERO, Migratetype::Movable);
        *slot = yard.alloc(&cx, &request).expect("there is memory");
    }
    // Written out twice: a function called for each frame costs more than the work it does.
    if lifo {
        for pfn in held.iter().rev() {
            yard.free(&cx, *pfn, Order::ZERO).expect("it is allocated");
        }
    } else {
        for pfn in held.iter() {
            yard.free(&cx, *pfn, Order::ZERO).expect("it is allocated");
        }
    }
}

#[inline(never)]
fn floor_pass(stacks: &CpuStacks, held: &mut [Pfn], lifo: bool) {
    for slot in held.iter_mut() {
        *slot = Pfn(stacks.pop().expect("it is not empty"));
    }
    let free = |pfn: &Pfn| assert!(stacks.push(pfn.0));
    if lifo { held.iter().rev().for_each(free) } else { held.iter().for_each(free) }
}

/// A subject by its name: one pass over a batch.
type Subject<'a> = (&'a str, Box<dyn Fn(&mut [Pfn], bool) + 'a>);

fn main() {
    let rseq = match Rseq::new() {
        Ok(rseq) => rseq,
        Err(why) => return eprintln!("not measured: {why}"),
    };
    let stacks = CpuStacks::new(possible_cpus(), 1 << 14).expect("sequences are there");
    let biased = Rseq::new().expect("as before").biased();
    let biased = engine(biased).expect("the map is small enough");
    let restartable = engine(rseq).expect("the map is small enough");
    let trylock = engine(TryLock).expect("the map is small enough");
    // SAFETY: the only thread makes one call after the other.
    let alone = engine(unsafe { Alone::by_instance() }).expect("the map is small enough");
    let subjects: [Subject<'_>; 5] = [
        ("floor-rseq", Box::new(|held, lifo| floor_pass(&stacks, held, lifo))),
        ("pageyard", Box::new(|held, lifo| engine_pass(&restartable, held, lifo))),
        ("pageyard-biased", Box::new(|held, lifo| engine_pass(&biased, held, lifo))),
        ("pageyard-alone", Box::new(|held, lifo| engine_pass(&alone, held, lifo))),
        ("pageyard-trylock", Box::new(|held, lifo| engine_pass(&trylock, held, lifo))),
    ];
    println!("ns for an allocation and its free, order 0, median of {SAMPLES}; and times the floor");
    for lifo in [false, true] {
        for batch in [1, 2, 8, 64, 512, 1024, 4096, 16_384] {
            let mut held = vec![Pfn(0); batch];
            let mut times = vec![Vec::new(); subjects.len()];
            for sample in 0..=SAMPLES {
                for ((_, pass), times) in subjects.iter().zip(&mut times) {
                    let start = Instant::now();
                    for _ in 0..PAIRS / batch {
                        pass(black_box(&mut held), lifo);
                    }
                    let pairs = (PAIRS / batch * batch) as f64;
                    if sample > 0 {
                        times.push(start.elapsed().as_nanos() as f64 / pairs);
                    }
                }
            }
            let median = |times: &mut Vec<f64>| {
                times.sort_by(f64::total_cmp);
                times[times.len() / 2]
            };
            let medians: Vec<f64> = times.iter_mut().map(median).collect();
            print!("{} batch {batch:>5}:", if lifo { "lifo" } else { "fifo" });
            for ((name, _), ns) in subjects.iter().zip(&medians) {
                print!("  {name} {ns:.2} ({:.2})", ns / medians[0]);
            }
            println!();
        }
    }
    println!("{:?} {:?}", restartable.percpu().counts(), biased.bias_stats());
}
