//! The least that restartable sequences can do: an array a CPU, a pop and a push of a word, no checks.

use super::answers::Unavailable;
use super::area::{Area, CPU_ID};
use super::emit::sequence;
use super::percpu::Rseq;
use std::cell::UnsafeCell;

/// Words before the items of a stack: a cache line, the first of them how many items there are.
const HEADER: usize = 8;
/// Log2 of the bytes of a stack.
const SIZE: u32 = 18;
/// Words of a stack.
const WORDS: usize = (1 << SIZE) / 8;

/// A stack of words for each CPU: a floor for benchmarks, and for nothing else.
///
/// Interrupted operations restart, as often as it takes. A pop of an empty stack, or a push to a full one, does
/// nothing and says so.
pub struct CpuStacks {
    area: Area,
    cpus: u32,
    words: Box<[UnsafeCell<u64>]>,
    _registered: Rseq,
}

// SAFETY: its words are used only by sequences on the CPU that they belong to.
unsafe impl Sync for CpuStacks {}

impl CpuStacks {
    /// Items that a stack holds.
    pub const PLACES: usize = WORDS - HEADER;

    /// Makes stacks for CPUs 0 to `cpus` - 1, each with the words 0 to `n` - 1, at most [`CpuStacks::PLACES`].
    ///
    /// # Errors
    /// [`Unavailable`].
    pub fn new(cpus: u32, n: usize) -> Result<CpuStacks, Unavailable> {
        let registered = Rseq::new()?;
        let n = n.min(CpuStacks::PLACES);
        let mut words: Box<[UnsafeCell<u64>]> =
            (0..WORDS * cpus as usize + HEADER).map(|_| UnsafeCell::new(0)).collect();
        for cpu in 0..cpus as usize {
            *words[cpu * WORDS].get_mut() = n as u64;
            for i in 0..n {
                *words[cpu * WORDS + HEADER + i].get_mut() = i as u64;
            }
        }
        Ok(CpuStacks { area: super::area::find(), cpus, words, _registered: registered })
    }

    /// Takes the newest word of this CPU's stack.
    #[inline(always)]
    #[must_use]
    pub fn pop(&self) -> Option<u64> {
        loop {
            let (t, item): (i64, u64);
            // SAFETY: 1. The stack of a CPU below `cpus` is inside `words`. 2. An item is read only below the count.
            //         3. The kernel restarts a sequence if anything else ran on the CPU since its first instruction.
            unsafe {
                sequence!(
                    {
                        "mov {n:e}, dword ptr fs:[{area} + {CPU_ID}]",
                        "cmp {cpus:e}, {n:e}",
                        "jbe 5b",
                        "shl {n}, {SIZE}",
                        "add {n}, {words}",
                        "mov {i}, qword ptr [{n}]",
                        "test {i}, {i}",
                        "jz 5b",
                        "mov {item}, qword ptr [{n} + {i} * 8 + {LAST}]",
                        "dec {i}",
                        "mov qword ptr [{n}], {i}",
                    }
                    area = in(reg) self.area.0,
                    cpus = in(reg) self.cpus,
                    words = in(reg) self.words.as_ptr(),
                    t = out(reg) t,
                    item = out(reg) item,
                    n = out(reg) _,
                    i = out(reg) _,
                    CPU_ID = const CPU_ID,
                    SIZE = const SIZE,
                    LAST = const (HEADER - 1) * 8,
                    options(nostack),
                );
            }
            match t {
                0.. => return Some(item),
                super::emit::ABORTED => {}
                _ => return None,
            }
        }
    }

    /// Adds a word to this CPU's stack; `false` where it is full.
    #[inline(always)]
    pub fn push(&self, item: u64) -> bool {
        loop {
            let t: i64;
            // SAFETY: as in `pop`; an item is written only below the number of places.
            unsafe {
                sequence!(
                    {
                        "mov {n:e}, dword ptr fs:[{area} + {CPU_ID}]",
                        "cmp {cpus:e}, {n:e}",
                        "jbe 5b",
                        "shl {n}, {SIZE}",
                        "add {n}, {words}",
                        "mov {i}, qword ptr [{n}]",
                        "cmp {i}, {PLACES}",
                        "jae 5b",
                        "mov qword ptr [{n} + {i} * 8 + {FIRST}], {item}",
                        "inc {i}",
                        "mov qword ptr [{n}], {i}",
                    }
                    area = in(reg) self.area.0,
                    cpus = in(reg) self.cpus,
                    words = in(reg) self.words.as_ptr(),
                    item = in(reg) item,
                    t = out(reg) t,
                    n = out(reg) _,
                    i = out(reg) _,
                    CPU_ID = const CPU_ID,
                    SIZE = const SIZE,
                    PLACES = const CpuStacks::PLACES,
                    FIRST = const HEADER * 8,
                    options(nostack),
                );
            }
            match t {
                0.. => return true,
                super::emit::ABORTED => {}
                _ => return false,
            }
        }
    }
}
