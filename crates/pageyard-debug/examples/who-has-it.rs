//! Three mistakes with memory, each named with who had it: a write after a free, a second free, and a leak.
//!
//! ```sh
//! cargo run --release -p pageyard-debug --example who-has-it
//! ```

use pageyard::{Order, TryLock};
use pageyard_arena::{Arena, Block};
use pageyard_debug::{Owner, tagged};
use std::error::Error;
use std::ptr::NonNull;
use std::sync::Arc;

type Watched = Arena<TryLock, pageyard_arena::arena::Poison<Arc<Owner>>>;

/// Takes a page for a driver that keeps its address.
#[inline(never)]
fn receive_buffer(arena: &Watched) -> Result<NonNull<u8>, Box<dyn Error>> {
    Ok(tagged("receive ring", || arena.alloc(Order::ZERO))?.into_raw())
}

#[inline(never)]
fn close_ring(arena: &Watched, at: NonNull<u8>) {
    // SAFETY: `at` came from `into_raw`, and is given back once.
    let block = unsafe { Block::from_raw_in(arena, at) };
    tagged("closing", || drop(block));
}

/// The driver's mistake: it still writes to the page.
#[inline(never)]
fn late_packet(at: NonNull<u8>) {
    // SAFETY: none. The memory is mapped, but somebody else's.
    unsafe { at.add(0x40).cast::<[u8; 6]>().write(*b"packet") };
}

/// Takes a huge page, and forgets it.
#[inline(never)]
fn forgetful_cache(arena: &Watched) -> Result<(), Box<dyn Error>> {
    std::mem::forget(arena.alloc(Order::HUGE)?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let owner = Arc::new(Owner::default());
    let who = owner.clone();
    let arena: Watched = Arena::builder()
        .size(16 << 20)
        .observer(owner.clone())
        .poison(move |seen| println!("1. {seen}\n{}\n", who.frame(seen.pfn)))
        .build_locked()?;

    let at = receive_buffer(&arena)?;
    close_ring(&arena, at);
    late_packet(at);
    let page = arena.alloc(Order::ZERO)?; // the same frame: the write is found now
    let pfn = page.pfn();
    drop(page);

    let cx = pageyard::Cx::on(pageyard::CpuId(0));
    // SAFETY: the frame is not ours any more, which is the mistake: the engine refuses.
    let twice = unsafe { arena.engine() }.free(&cx, pfn, Order::ZERO);
    println!("2. a second free: {}\n{}\n", twice.unwrap_err(), owner.frame(pfn));

    forgetful_cache(&arena)?;
    drop(arena);
    if let Some(leaks) = owner.leaks() {
        println!("3. at the end still {leaks}");
    }
    Ok(())
}
