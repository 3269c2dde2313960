//! A database's buffer pool: pages of a file in movable memory, read and changed by four threads, and written back when
//! others need the room. Then the pool shrinks, and a compactor and a purger give its memory back to the host.
//!
//!     cargo run --release -p pageyard-arena --example buffer_pool

use pageyard::Order;
use pageyard_arena::{Arena, Handle};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

const PAGES: u64 = 60_000;
const PAGE: u64 = 4096;

struct Contents {
    memory: Handle<Arc<Arena>>,
    dirty: bool,
}

#[derive(Default)]
struct Page {
    /// None until the file was read.
    contents: RwLock<Option<Contents>>,
    used: AtomicBool,
}

#[derive(Default)]
struct Table {
    pages: HashMap<u64, Arc<Page>>,
    /// Pages in the order in which they are considered for eviction.
    clock: VecDeque<u64>,
}

struct Pool {
    arena: Arc<Arena>,
    file: File,
    capacity: AtomicU64,
    table: Mutex<Table>,
}

impl Pool {
    fn page(&self, id: u64) -> io::Result<Arc<Page>> {
        let mut table = self.table.lock().expect("no thread panics with it");
        if let Some(page) = table.pages.get(&id) {
            page.used.store(true, Relaxed);
            return Ok(page.clone());
        }
        self.evict(&mut table)?;
        table.clock.push_back(id);
        Ok(table.pages.entry(id).or_default().clone())
    }

    /// Writes pages back until there is room for one more; those in use, and those used since the last look, stay.
    fn evict(&self, table: &mut Table) -> io::Result<()> {
        for _ in 0..2 * table.clock.len() {
            if (table.pages.len() as u64) < self.capacity.load(Relaxed) {
                break;
            }
            let Some(id) = table.clock.front().copied() else { break };
            let page = &table.pages[&id];
            if Arc::strong_count(page) > 1 || page.used.swap(false, Relaxed) {
                table.clock.rotate_left(1);
                continue;
            }
            if let Some(contents) = &*page.contents.read().expect("no thread panics with it")
                && contents.dirty
            {
                self.file.write_all_at(&contents.memory.pin(), id * PAGE)?;
            }
            table.clock.pop_front();
            table.pages.remove(&id);
        }
        Ok(())
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let page = self.page(id)?;
        let mut contents = page.contents.write().expect("no thread panics with it");
        if contents.is_none() {
            let mut memory = Handle::alloc_in(self.arena.clone(), Order::ZERO).map_err(io::Error::other)?;
            self.file.read_exact_at(&mut memory.pin_mut(), id * PAGE)?;
            *contents = Some(Contents { memory, dirty: false });
        }
        let contents = contents.as_mut().expect("it was just read");
        contents.dirty = true;
        change(&mut contents.memory.pin_mut());
        Ok(())
    }
}

/// Memory of this process that the host keeps, in MiB.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0_u64);
    (pages * PAGE) >> 20
}

/// Adds one to pages, small numbers more often, from four threads.
fn work(pool: &Pool, times: u64) -> io::Result<()> {
    std::thread::scope(|scope| {
        let add = |seed| {
            move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                (0..times).try_for_each(|_| {
                    pool.change((rng.f64().powi(3) * PAGES as f64) as u64, |page| {
                        let (count, copy) = (page[..8].to_owned(), page[4088..].to_owned());
                        assert_eq!(count, copy, "a page is torn");
                        let more = 1 + u64::from_ne_bytes(count.try_into().expect("eight bytes"));
                        page[..8].copy_from_slice(&more.to_ne_bytes());
                        page[4088..].copy_from_slice(&more.to_ne_bytes());
                    })
                })
            }
        };
        let threads: Vec<_> = (0..4).map(|seed| scope.spawn(add(seed))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("pageyard-buffer-pool-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    file.set_len(PAGES * PAGE)?;
    let arena = Arc::new(Arena::builder().size(256 << 20).build()?);
    let compactor = arena.compactor().every(Duration::from_millis(20)).start()?;
    let purger = arena.purger().every(Duration::from_millis(50)).reserve(8 << 20).start()?;
    let pool = Pool { arena, file, capacity: AtomicU64::new(40_000), table: Mutex::default() };

    work(&pool, 200_000)?;
    println!("40,000 pages: {} MiB are resident", resident());
    pool.capacity.store(8_000, Relaxed);
    pool.evict(&mut pool.table.lock().expect("no thread panics with it"))?;
    std::thread::sleep(Duration::from_secs(1));
    println!("8,000 pages, a second later: {} MiB", resident());
    work(&pool, 20_000)?;

    pool.capacity.store(0, Relaxed);
    pool.evict(&mut pool.table.lock().expect("no thread panics with it"))?;
    let mut count = [0; 8];
    let sum = (0..PAGES).try_fold(0, |sum, id| {
        pool.file.read_exact_at(&mut count, id * PAGE)?;
        io::Result::Ok(sum + u64::from_ne_bytes(count))
    })?;
    assert_eq!(sum, 4 * 220_000, "changes that the file has, and that were made");
    println!("{:?}\n{:?}", compactor.stop(), purger.stop());
    println!("{:?}", pool.arena.audit()?);
    Ok(())
}
