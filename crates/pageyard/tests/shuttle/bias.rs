//! Pageblocks that are biased to a CPU: of all frees of one allocation, right ones and stale ones, one wins, on
//! whatever threads and whatever becomes of the bias meanwhile.

use crate::common::{BLOCK, Block, Machine, PAGEBLOCK, explore, once, stop_everywhere, stop_from_here};
use crate::sequences::{Sequences, run_on};
use pageyard::engine::BiasState;
use pageyard::engine::Internals;
use pageyard::{Config, CpuId, CpuSet, Cx, Frames, FreeError, Migratetype, Order, PageAllocator, Pfn};
use shuttle::rand::Rng;
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Biased = Arc<Machine<Sequences>>;

fn machine(pageblocks: u64, cpus: u32, moves: bool) -> Biased {
    run_on(Some(0));
    Machine::of(pageblocks, Config::new(cpus), Sequences::new(cpus, moves))
}

/// Runs parts, each in a thread on a CPU of its own choice, or on none.
fn all<T: Send + 'static>(
    m: &Biased,
    parts: impl IntoIterator<Item = (Option<u32>, Box<dyn FnOnce(&Machine<Sequences>) -> T + Send>)>,
) -> Vec<T> {
    let spawn = |(cpu, part): (Option<u32>, Box<dyn FnOnce(&Machine<Sequences>) -> T + Send>)| {
        let m = m.clone();
        thread::spawn(move || {
            run_on(cpu);
            part(&m)
        })
    };
    let threads: Vec<_> = parts.into_iter().map(spawn).collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

/// Takes a frame whose pageblock is then biased to the first CPU, or to the one that this thread has moved to.
fn take_biased(m: &Machine<Sequences>) -> Block {
    let block = m.movable(0, 0).unwrap();
    assert!(matches!(m.engine.bias_of(block.0), Some(BiasState::Biased(_))));
    block
}

/// Lets threads free one block that each takes for its own; exactly one is right.
fn one_of(cpus: &'static [Option<u32>], moves: bool) {
    explore(&format!("one block freed on {cpus:?}"), move || {
        let m = machine(1, 3, moves);
        let block = take_biased(&m);
        m.disown(block);
        let free: fn(&Machine<Sequences>, Block) -> bool = |m, block| match m.try_free(0, block) {
            Ok(()) => true,
            Err(FreeError::NotAllocated) => false,
            Err(why) => panic!("{why}"),
        };
        let parts = cpus.iter().map(|cpu| {
            let part: Box<dyn FnOnce(&Machine<Sequences>) -> bool + Send> = Box::new(move |m| free(m, block));
            (*cpu, part)
        });
        let won = all(&m, parts.collect::<Vec<_>>()).into_iter().filter(|won| *won).count();
        assert_eq!(won, 1, "of several frees of one block one wins");
        m.end([]);
    });
}

#[test]
fn the_owner_and_another_cpu_free_one_block() {
    one_of(&[Some(0), Some(1)], false);
}

#[test]
fn the_owner_and_two_others_free_one_block() {
    one_of(&[Some(0), Some(1), Some(2)], false);
}

#[test]
fn two_threads_of_the_owner_and_another_cpu_free_one_block() {
    one_of(&[Some(0), Some(0), Some(1)], false);
}

#[test]
fn threads_that_move_free_one_block() {
    one_of(&[Some(0), Some(1), Some(2), Some(0)], true);
}

#[test]
fn threads_without_sequences_free_one_block() {
    one_of(&[Some(0), None, None], false);
    one_of(&[Some(0), Some(1), None, Some(0)], true);
}

/// How many blocks were handed out, and how many frees said that they freed one.
#[derive(Default)]
struct Books {
    taken: AtomicU64,
    freed: AtomicU64,
}

impl Books {
    fn take(&self, m: &Machine<Sequences>) -> Option<Block> {
        let request =
            pageyard::Request::new(Order::ZERO, Migratetype::Movable).with(pageyard::RequestFlags::MEMALLOC);
        let pfn = m.engine.alloc(&Cx::on(CpuId(0)), &request).ok()?;
        self.taken.fetch_add(1, Relaxed);
        Some((pfn, 0))
    }

    /// Frees a block that was this thread's once.
    fn free(&self, m: &Machine<Sequences>, block: Block) {
        if m.try_free(0, block).is_ok() {
            self.freed.fetch_add(1, Relaxed);
        }
    }

    fn judge(&self, m: &Machine<Sequences>) {
        run_on(Some(0));
        let census = m.engine.audit().unwrap();
        assert!(census.is_conserved(), "{census:?}");
        let live = self.taken.load(Relaxed).checked_sub(self.freed.load(Relaxed));
        assert_eq!(live.map(Frames), Some(census.allocated), "each free that says so freed one block");
    }
}

/// Threads take and free, and free again what is theirs no more: across drains, claims of the pageblock elsewhere and
/// new biases.
fn stale_frees(name: &str, cpus: &'static [Option<u32>], pageblocks: u64, rounds: u32, moves: bool) {
    explore(name, move || {
        let m = machine(pageblocks, 3, moves);
        let books = Arc::new(Books::default());
        let parts = cpus.iter().map(|cpu| {
            let books = books.clone();
            let part: Box<dyn FnOnce(&Machine<Sequences>) + Send> = Box::new(move |m| {
                let mut old = Vec::new();
                for _ in 0..rounds {
                    let Some(block) = books.take(m) else { continue };
                    old.push(block);
                    books.free(m, block);
                    let stale = old[shuttle::rand::thread_rng().gen_range(0..old.len())];
                    books.free(m, stale);
                    if shuttle::rand::thread_rng().gen_ratio(1, 2) {
                        m.engine.drain(CpuSet::All);
                    }
                }
            });
            (*cpu, part)
        });
        all(&m, parts.collect::<Vec<_>>());
        books.judge(&m);
    });
}

#[test]
fn stale_frees_across_a_new_bias() {
    stale_frees("stale frees", &[Some(0), Some(1), Some(2)], 1, 3, false);
}

#[test]
fn stale_frees_of_threads_that_share_a_cpu() {
    stale_frees("stale frees on one CPU", &[Some(0), Some(0), Some(1)], 1, 3, false);
}

#[test]
fn stale_frees_of_threads_that_move_and_of_strangers() {
    stale_frees("stale frees of movers", &[Some(0), Some(1), None], 2, 3, true);
}

#[test]
fn a_split_a_bulk_free_and_single_frees_of_a_biased_pageblock() {
    explore("split and bulk", || {
        let m = machine(1, 3, false);
        take_biased(&m);
        let large = m.movable(0, 3).unwrap();
        m.disown(large);
        let free_whole: Box<dyn FnOnce(&Machine<Sequences>) -> u64 + Send> =
            Box::new(move |m| u64::from(m.try_free(0, large).is_ok()) * 8);
        let split: Box<dyn FnOnce(&Machine<Sequences>) -> u64 + Send> = Box::new(move |m| {
            let cx = Cx::on(CpuId(0));
            if m.engine.split(&cx, large.0, Order::of(3), Order::ZERO).is_err() {
                return 0;
            }
            let parts: Vec<_> = (0..8).map(|n| Pfn(large.0.0 + n)).collect();
            let mut refused = 0;
            m.engine.free_bulk(&cx, &parts, Order::ZERO, &mut |_, _| refused += 1);
            8 - refused
        });
        let free_part: Box<dyn FnOnce(&Machine<Sequences>) -> u64 + Send> =
            Box::new(move |m| u64::from(m.try_free(0, (Pfn(large.0.0 + 5), 0)).is_ok()));
        let freed: u64 =
            all(&m, [(Some(0), free_whole), (Some(1), split), (Some(2), free_part)]).into_iter().sum();
        run_on(Some(0));
        let census = m.engine.audit().unwrap();
        assert!(census.is_conserved() && freed == 8, "{freed} of 8 frames freed: {census:?}");
        assert_eq!(census.allocated, Frames(1));
    });
}

#[test]
fn a_barrier_that_fails_begins_no_bias_and_a_bias_without_one_is_busy() {
    once(|| {
        run_on(Some(0));
        let m = Machine::of(1, Config::new(2), Sequences::new(2, false));
        m.engine.percpu().refuse_barriers(true);
        let first = m.movable(0, 0).unwrap();
        assert_eq!(m.engine.bias_of(first.0), Some(BiasState::Shared));
        assert_eq!(m.engine.bias_stats().armed, 0);
        m.free(0, first);
        m.engine.drain(CpuSet::All);
        // So that no CPU works on it any more.
        let whole = m.exact(0, BLOCK).unwrap();
        m.free(0, whole);
        m.engine.percpu().refuse_barriers(false);
        let second = take_biased(&m);
        m.engine.percpu().refuse_barriers(true);
        let elsewhere = {
            let m = m.clone();
            thread::spawn(move || {
                run_on(Some(1));
                assert_eq!(m.try_free(1, second), Err(FreeError::Busy), "never without the barrier");
            })
        };
        elsewhere.join().unwrap();
        assert_eq!(
            m.try_free(0, second),
            Err(FreeError::Busy),
            "not even its owner, once it is being revoked"
        );
        m.engine.percpu().refuse_barriers(false);
        m.end([second]);
    });
}

#[test]
fn a_bias_that_is_taken_away_again_and_again_is_asked_for_less_and_less() {
    once(|| {
        let m = machine(2, 2, false);
        let mut asked = Vec::new();
        let elsewhere = {
            let m = m.clone();
            thread::spawn(move || {
                for _ in 0..400 {
                    run_on(Some(0));
                    // All of a pageblock, so that the next one is another.
                    let block = m.movable(0, 0).unwrap();
                    run_on(Some(1));
                    m.free(1, block);
                    m.engine.drain(CpuSet::All);
                    let whole = m.exact(0, BLOCK).or_else(|| m.exact(PAGEBLOCK, BLOCK)).unwrap();
                    m.free(1, whole);
                    asked.push(m.engine.bias_stats().armed);
                }
                asked
            })
        };
        let asked = elsewhere.join().unwrap();
        let stats = m.engine.bias_stats();
        assert!(stats.revoked >= 3 && stats.revoked <= stats.armed && stats.armed < 12, "{stats:?}");
        assert_eq!(asked[300], asked[399], "{asked:?}");
        m.end([]);
    });
}

/// Frees a block that each of two or three threads takes for its own, while the second frees it, takes its pageblock
/// again until that is biased to its CPU, and is stopped as it frees the block once more.
fn across_a_new_bias(name: &str, cpus: &'static [Option<u32>], first_bias: bool) {
    // The first and the last are stopped in their frees, up to what wins the tag.
    stop_everywhere(name, &[14, 14, 14][..cpus.len()], move || {
        let m = machine(1, 3, false);
        // Nothing else is in the pageblock, and no CPU works on it.
        run_on(if first_bias { Some(0) } else { None });
        let block = m.movable(0, 0).unwrap();
        m.disown(block);
        let books = Arc::new(Books::default());
        books.taken.store(1, Relaxed);
        let parts = cpus.iter().enumerate().map(|(n, cpu)| {
            let books = books.clone();
            let part: Box<dyn FnOnce(&Machine<Sequences>) + Send> = Box::new(move |m| {
                books.free(m, block);
                if n != 1 {
                    return;
                }
                // A CPU that lost a pageblock asks for none at once.
                for turn in 0..4 {
                    m.engine.drain(CpuSet::All);
                    if let Some(whole) = m.exact(0, BLOCK) {
                        m.free(0, whole);
                    }
                    let again = books.take(m).unwrap();
                    if turn == 3 {
                        stop_from_here();
                    }
                    books.free(m, again);
                }
            });
            (*cpu, part)
        });
        all(&m, parts.collect::<Vec<_>>());
        books.judge(&m);
    });
}

#[test]
fn a_free_elsewhere_that_is_stopped_across_a_new_bias() {
    across_a_new_bias("a free elsewhere", &[Some(1), Some(0)], false);
}

#[test]
fn a_free_without_sequences_that_is_stopped_across_a_new_bias() {
    across_a_new_bias("a stranger's free", &[None, Some(0)], false);
}

#[test]
fn a_revocation_that_is_stopped_across_a_new_bias_and_another_revocation() {
    across_a_new_bias("two revocations", &[Some(1), Some(0), Some(2)], true);
}
