//! The sequences. Each does its work on the list of the CPU that it runs on, and commits with its last instruction.
//!
//! They all begin the same way: the CPU's number, checked against the number of CPUs; the CPU's slot, which says where
//! its lists are. A thread that is interrupted anywhere from the first instruction to the last one, before that has
//! run, goes to the abort handler and has changed nothing that matters: at most places that hold no item.
//!
//! A list's word holds everything that changes: how many items there are, where the newest ends, and how much room
//! there is. Its store is the last instruction.

use super::area::{Area, CPU_ID};
use super::emit::sequence;
use pageyard::engine::{DescriptorWatch, ListIdx, RawCpuWords, RawLists, RawPlace, Unchanged};

const WORD: usize = RawLists::WORD;
const START: usize = RawLists::START;
const PLACES: usize = RawLists::PLACES;
const HIGH: usize = RawLists::HIGH;
/// Bits of the word's two lowest fields, which are room and items, and masks of both where they lie.
const FIELD: u32 = RawLists::FIELD;
const MASK: u32 = (1 << FIELD) - 1;
const ITEMS: u32 = MASK << FIELD;
/// Where the field begins that says where the newest item ends, and a mask of as many bits.
const END: u32 = 2 * FIELD;
const ENDS: u32 = (1 << RawLists::END) - 1;
/// Where the count of pops begins.
const POPS: u32 = END + RawLists::END;
/// The addend of a push to the word: one more item, ending one step later, and room for one fewer.
const PUSH: u32 = (1 << END) + (1 << FIELD) - 1;
/// The addend of a pop: one more popped, and the opposite of a push.
const POP: u64 = (1 << POPS) - PUSH as u64;

/// Returns how far the header of a list lies after the header of its CPU's first list.
#[inline(always)]
const fn distance(list: ListIdx) -> usize {
    list.get() * RawLists::HEAD
}

/// Takes the newest item.
///
/// # Safety
/// `lists` are an instance's, alive, `list` is one of them, and no two operations on it overlap but sequences like this
/// one.
#[inline(always)]
pub(super) unsafe fn pop(area: Area, lists: RawLists, list: ListIdx) -> i64 {
    // Each register counts where it is inlined: `head` begins as the list's distance, `cpus` ends as a constant.
    let result;
    // SAFETY: 1. The header is of the CPU's own list, or of one that is always empty: the caller's promise.
    //         2. The newest item lies where the word says, after the header.
    //         3. Another sequence on this CPU, or a barrier, makes the kernel restart this one.
    unsafe {
        sequence!(
            {
                "mov {t:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "cmp {cpus:e}, {t:e}",
                "jbe 5b",
                "add {head}, qword ptr [{slots} + {t} * 8]",
                "mov {word}, qword ptr [{head} + {WORD}]",
                "test {word:e}, {ITEMS}",
                "jz 5b",
                "mov {t}, {word}",
                "shr {t}, {END}",
                "and {t:e}, {ENDS}",
                "mov {cpus}, {POP}",
                "add {word}, {cpus}",
                "jc 6b",
                "mov {t:e}, dword ptr [{head} + {t} * 4 - 4]",
                "mov qword ptr [{head} + {WORD}], {word}",
            }
            area = in(reg) area.0,
            cpus = inout(reg) u64::from(lists.cpus) => _,
            slots = in(reg) lists.slots,
            t = out(reg) result,
            head = inout(reg) distance(list) => _,
            word = out(reg) _,
            CPU_ID = const CPU_ID,
            WORD = const WORD,
            ITEMS = const ITEMS,
            END = const END,
            ENDS = const ENDS,
            POP = const POP,
            options(nostack),
        );
    }
    result
}

/// Adds an item, which becomes the newest, if what is watched still stands.
///
/// # Safety
/// As [`pop`].
#[inline(always)]
pub(super) unsafe fn push(
    area: Area,
    lists: RawLists,
    list: ListIdx,
    item: u32,
    watch: DescriptorWatch<'_>,
) -> i64 {
    let result;
    // SAFETY: 1. As in `pop`. 2. After the newest item there is room for as many as the word says. 3. As in `pop`.
    //         4. What is watched is borrowed for as long as this runs.
    unsafe {
        sequence!(
            {
                "test byte ptr [{watched} + {watch} * 8], {OUT}",
                "jnz 5b",
                "mov {t:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "cmp {cpus:e}, {t:e}",
                "jbe 5b",
                "add {head}, qword ptr [{slots} + {t} * 8]",
                "mov {word}, qword ptr [{head} + {WORD}]",
                "test {word:e}, {MASK}",
                "jz 5b",
                "mov {t}, {word}",
                "shr {t}, {END}",
                "and {t:e}, {ENDS}",
                "mov dword ptr [{head} + {t} * 4], {item:e}",
                "add {word}, {PUSH}",
                "mov qword ptr [{head} + {WORD}], {word}",
            }
            area = in(reg) area.0,
            cpus = in(reg) lists.cpus,
            slots = in(reg) lists.slots,
            item = in(reg) item,
            watched = in(reg) watch.raw().0,
            watch = in(reg) watch.raw().1,
            OUT = const DescriptorWatch::OUT,
            t = out(reg) result,
            head = inout(reg) distance(list) => _,
            word = out(reg) _,
            CPU_ID = const CPU_ID,
            WORD = const WORD,
            END = const END,
            ENDS = const ENDS,
            MASK = const MASK,
            PUSH = const PUSH,
            options(nostack),
        );
    }
    result
}

/// Takes up to `n` of the newest items, the older of them first. Returns how many.
///
/// # Safety
/// As [`pop`], and `out` has room for `n` items.
#[inline(never)]
pub(super) unsafe fn pop_many(area: Area, lists: RawLists, list: ListIdx, out: *mut u32, n: usize) -> i64 {
    let result;
    // SAFETY: 1. As in `pop`. 2. Items are read up to the newest, as many as there are; what is written is the
    //         caller's, who looks at it only after the sequence completed. 3. As in `pop`.
    unsafe {
        sequence!(
            {
                "mov {head:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "cmp {cpus:e}, {head:e}",
                "jbe 5b",
                "mov {head}, qword ptr [{slots} + {head} * 8]",
                "add {head}, {list}",
                "mov {word}, qword ptr [{head} + {WORD}]",
                "mov {t}, {word}",
                "shr {t}, {FIELD}",
                "and {t:e}, {MASK}",
                "jz 5b",
                "cmp {t}, {n}",
                "cmova {t}, {n}",
                "mov {from}, {word}",
                "shr {from}, {END}",
                "and {from:e}, {ENDS}",
                "sub {from}, {t}",
                "lea {from}, [{head} + {from} * 4]",
                "imul {pop}, {t}",
                "add {word}, {pop}",
                "jc 6b",
                // Four at a time, then one by one.
                "xor {i:e}, {i:e}",
                "mov {x}, {t}",
                "and {x}, -4",
                "jz 8f",
                "7:",
                "movdqu {four}, xmmword ptr [{from} + {i} * 4]",
                "movdqu xmmword ptr [{out} + {i} * 4], {four}",
                "add {i}, 4",
                "cmp {i}, {x}",
                "jne 7b",
                "8:",
                "cmp {i}, {t}",
                "je 9f",
                "mov {x:e}, dword ptr [{from} + {i} * 4]",
                "mov dword ptr [{out} + {i} * 4], {x:e}",
                "inc {i}",
                "jmp 8b",
                "9:",
                "mov qword ptr [{head} + {WORD}], {word}",
            }
            area = in(reg) area.0,
            cpus = in(reg) lists.cpus,
            slots = in(reg) lists.slots,
            list = in(reg) distance(list),
            out = in(reg) out,
            n = in(reg) n,
            pop = inout(reg) POP => _,
            t = out(reg) result,
            head = out(reg) _,
            word = out(reg) _,
            x = out(reg) _,
            four = out(xmm_reg) _,
            from = out(reg) _,
            i = out(reg) _,
            CPU_ID = const CPU_ID,
            WORD = const WORD,
            FIELD = const FIELD,
            MASK = const MASK,
            END = const END,
            ENDS = const ENDS,
            options(nostack),
        );
    }
    result
}

/// Adds up to `n` items, from the front, the last of them the newest. Returns how many, and the list's header.
///
/// In an empty list they start at its first place. None is added where the watched word changed.
///
/// # Safety
/// As [`pop`], and `from` has `n` items.
#[inline(never)]
pub(super) unsafe fn push_many(
    area: Area,
    lists: RawLists,
    list: ListIdx,
    from: *const u32,
    n: usize,
    watch: Unchanged<'_>,
) -> (i64, *const u8) {
    let (watched, was) = watch.raw();
    let (result, head);
    // SAFETY: 1. As in `pop`. 2. After the newest item there is room for as many as the word says, and from the start
    //         of an empty list's places for as many as make it full. 3. As in `pop`. 4. As in `push`.
    unsafe {
        sequence!(
            {
                // Two registers are read first, and hold other values from then on.
                "cmp qword ptr [{i}], {x}",
                "jne 5b",
                "mov {head:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "cmp {cpus:e}, {head:e}",
                "jbe 5b",
                "mov {head}, qword ptr [{slots} + {head} * 8]",
                "add {head}, {list}",
                "mov {word}, qword ptr [{head} + {WORD}]",
                "test {word:e}, {ITEMS}",
                "jnz 7f",
                // Empty: pops stay, the end is the start, and there is room for as many as make it full.
                "shr {word}, {POPS}",
                "shl {word}, {POPS} - {END}",
                "mov {t:e}, dword ptr [{head} + {START}]",
                "or {word}, {t}",
                "shl {word}, {END}",
                "mov {t:e}, dword ptr [{head} + {HIGH}]",
                "or {word}, {t}",
                "7:",
                "mov {t:e}, {word:e}",
                "and {t:e}, {MASK}",
                "jz 5b",
                "cmp {t}, {n}",
                "cmova {t}, {n}",
                "mov {to}, {word}",
                "shr {to}, {END}",
                "and {to:e}, {ENDS}",
                "lea {to}, [{head} + {to} * 4]",
                // Four at a time, then one by one.
                "xor {i:e}, {i:e}",
                "mov {x}, {t}",
                "and {x}, -4",
                "jz 8f",
                "7:",
                "movdqu {four}, xmmword ptr [{from} + {i} * 4]",
                "movdqu xmmword ptr [{to} + {i} * 4], {four}",
                "add {i}, 4",
                "cmp {i}, {x}",
                "jne 7b",
                "8:",
                "cmp {i}, {t}",
                "je 9f",
                "mov {x:e}, dword ptr [{from} + {i} * 4]",
                "mov dword ptr [{to} + {i} * 4], {x:e}",
                "inc {i}",
                "jmp 8b",
                "9:",
                "imul {x}, {t}, {PUSH}",
                "add {word}, {x}",
                "mov qword ptr [{head} + {WORD}], {word}",
            }
            area = in(reg) area.0,
            cpus = in(reg) lists.cpus,
            slots = in(reg) lists.slots,
            list = in(reg) distance(list),
            from = in(reg) from,
            n = in(reg) n,
            t = out(reg) result,
            head = out(reg) head,
            word = out(reg) _,
            to = out(reg) _,
            i = inout(reg) watched => _,
            x = inout(reg) was => _,
            four = out(xmm_reg) _,
            CPU_ID = const CPU_ID,
            WORD = const WORD,
            START = const START,
            HIGH = const HIGH,
            ITEMS = const ITEMS,
            END = const END,
            ENDS = const ENDS,
            POPS = const POPS,
            MASK = const MASK,
            PUSH = const PUSH,
            options(nostack),
        );
    }
    (result, head)
}

/// Takes up to `n` of the oldest items, the oldest first. Returns how many, and the list's header.
///
/// Where the newest item lies in the last place, the others move to the first ones: those hold no item, because there
/// are more than twice as many places as items.
///
/// # Safety
/// As [`pop_many`].
#[inline(never)]
pub(super) unsafe fn spill(
    area: Area,
    lists: RawLists,
    list: ListIdx,
    out: *mut u32,
    n: usize,
) -> (i64, *const u8) {
    let (result, head);
    // SAFETY: as in `pop_many`. Items are moved to places that hold none, so a restart finds what was there.
    unsafe {
        sequence!(
            {
                "mov {head:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "cmp {cpus:e}, {head:e}",
                "jbe 5b",
                "mov {head}, qword ptr [{slots} + {head} * 8]",
                "add {head}, {list}",
                "mov {word}, qword ptr [{head} + {WORD}]",
                "mov {rest}, {word}",
                "shr {rest}, {FIELD}",
                "and {rest:e}, {MASK}",
                "jz 5b",
                "mov {end}, {word}",
                "shr {end}, {END}",
                "and {end:e}, {ENDS}",
                "mov {t}, {rest}",
                "cmp {t}, {n}",
                "cmova {t}, {n}",
                "mov {from}, {end}",
                "sub {from}, {rest}",
                "lea {from}, [{head} + {from} * 4]",
                // Four at a time, then one by one.
                "xor {i:e}, {i:e}",
                "mov {x}, {t}",
                "and {x}, -4",
                "jz 8f",
                "7:",
                "movdqu {four}, xmmword ptr [{from} + {i} * 4]",
                "movdqu xmmword ptr [{out} + {i} * 4], {four}",
                "add {i}, 4",
                "cmp {i}, {x}",
                "jne 7b",
                "8:",
                "cmp {i}, {t}",
                "je 9f",
                "mov {x:e}, dword ptr [{from} + {i} * 4]",
                "mov dword ptr [{out} + {i} * 4], {x:e}",
                "inc {i}",
                "jmp 8b",
                "9:",
                "sub {rest}, {t}",
                // From here on `n` is the end of the places, and `out` their start.
                "mov {out:e}, dword ptr [{head} + {START}]",
                "mov {n:e}, dword ptr [{head} + {PLACES}]",
                "add {n}, {out}",
                "cmp {end}, {n}",
                "jne 9f",
                "lea {from}, [{from} + {t} * 4]",
                "lea {end}, [{head} + {out} * 4]",
                "xor {i:e}, {i:e}",
                "jmp 8f",
                "7:",
                "mov {x:e}, dword ptr [{from} + {i} * 4]",
                "mov dword ptr [{end} + {i} * 4], {x:e}",
                "inc {i}",
                "8:",
                "cmp {i}, {rest}",
                "jne 7b",
                "lea {end}, [{out} + {rest}]",
                "9:",
                // Room is what is missing to make it full, or what there is up to the end.
                "mov {x:e}, dword ptr [{head} + {HIGH}]",
                "sub {x:e}, {rest:e}",
                "sub {n}, {end}",
                "cmp {x}, {n}",
                "cmova {x}, {n}",
                "shr {word}, {POPS}",
                "shl {word}, {POPS} - {END}",
                "or {word}, {end}",
                "shl {word}, {FIELD}",
                "or {word}, {rest}",
                "shl {word}, {FIELD}",
                "or {word}, {x}",
                "mov qword ptr [{head} + {WORD}], {word}",
            }
            area = in(reg) area.0,
            cpus = in(reg) lists.cpus,
            slots = in(reg) lists.slots,
            list = in(reg) distance(list),
            out = inout(reg) out => _,
            n = inout(reg) n => _,
            t = out(reg) result,
            head = out(reg) head,
            word = out(reg) _,
            rest = out(reg) _,
            end = out(reg) _,
            from = out(reg) _,
            i = out(reg) _,
            x = out(reg) _,
            four = out(xmm_reg) _,
            CPU_ID = const CPU_ID,
            WORD = const WORD,
            START = const START,
            PLACES = const PLACES,
            HIGH = const HIGH,
            FIELD = const FIELD,
            END = const END,
            ENDS = const ENDS,
            POPS = const POPS,
            MASK = const MASK,
            options(nostack),
        );
    }
    (result, head)
}

/// Takes the count of pops out of a list's word. Returns the count, and the list's header.
///
/// # Safety
/// As [`pop`].
#[inline(never)]
pub(super) unsafe fn take_pops(area: Area, lists: RawLists, list: ListIdx) -> (i64, *const u8) {
    let (result, head);
    // SAFETY: as in `pop`.
    unsafe {
        sequence!(
            {
                "mov {head:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "cmp {cpus:e}, {head:e}",
                "jbe 5b",
                "mov {head}, qword ptr [{slots} + {head} * 8]",
                "add {head}, {list}",
                "mov {word}, qword ptr [{head} + {WORD}]",
                "mov {t}, {word}",
                "shr {t}, {POPS}",
                "jz 5b",
                "shl {word}, 64 - {POPS}",
                "shr {word}, 64 - {POPS}",
                "mov qword ptr [{head} + {WORD}], {word}",
            }
            area = in(reg) area.0,
            cpus = in(reg) lists.cpus,
            slots = in(reg) lists.slots,
            list = in(reg) distance(list),
            t = out(reg) result,
            head = out(reg) head,
            word = out(reg) _,
            CPU_ID = const CPU_ID,
            WORD = const WORD,
            POPS = const POPS,
            options(nostack),
        );
    }
    (result, head)
}

/// As [`win_biased`], of eight tags of one aligned word, all or none.
///
/// # Safety
/// As there; the frame's number is a multiple of eight.
#[inline(always)]
pub(super) unsafe fn win_eight_biased(area: Area, place: RawPlace, from: u8, to: u8) -> i64 {
    let result;
    // SAFETY: as in `win_biased`. Tags begin at a cache line, so the eight are aligned.
    unsafe {
        sequence!(
            {
                "mov {t:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "or {t:e}, {BIASED}",
                "cmp dword ptr [{words} + {at} * 8 + {BIAS}], {t:e}",
                "jne 5b",
                "cmp qword ptr [{tags} + {frame}], {from}",
                "jne 6b",
                "mov qword ptr [{tags} + {frame}], {to}",
            }
            area = in(reg) area.0,
            words = in(reg) place.words,
            at = in(reg) place.at,
            tags = in(reg) place.tags,
            frame = in(reg) place.frame,
            from = in(reg) u64::from_ne_bytes([from; 8]),
            to = in(reg) u64::from_ne_bytes([to; 8]),
            t = out(reg) result,
            CPU_ID = const CPU_ID,
            BIAS = const RawPlace::BIAS,
            BIASED = const RawPlace::BIASED,
            options(nostack),
        );
    }
    result
}

/// As [`win_shared`], of eight tags of one aligned word, all or none; returns whether they were `from`.
///
/// # Safety
/// As [`win_eight_biased`].
#[inline(always)]
pub(super) unsafe fn win_eight_shared(area: Area, place: RawPlace, from: u8, to: u8) -> (i64, bool) {
    let (result, was): (i64, u64);
    let from = u64::from_ne_bytes([from; 8]);
    // SAFETY: as in `win_eight_biased`.
    unsafe {
        sequence!(
            {
                "mov {t:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "test {t:e}, {t:e}",
                "js 5b",
                "cmp dword ptr [{words} + {at} * 8 + {BIAS}], 0",
                "jne 5b",
                "lock cmpxchg qword ptr [{tags} + {frame}], {to}",
            }
            area = in(reg) area.0,
            words = in(reg) place.words,
            at = in(reg) place.at,
            tags = in(reg) place.tags,
            frame = in(reg) place.frame,
            to = in(reg) u64::from_ne_bytes([to; 8]),
            inout("rax") from => was,
            t = out(reg) result,
            CPU_ID = const CPU_ID,
            BIAS = const RawPlace::BIAS,
            options(nostack),
        );
    }
    (result, was == from)
}

/// Adds to the word of the CPU that runs this; returns an answer that is not negative, and what the word is then.
///
/// # Safety
/// The words are an instance's, alive, and those of CPUs are written by this sequence only.
#[inline(always)]
pub(super) unsafe fn add(area: Area, words: RawCpuWords, n: u64) -> (i64, u64) {
    let (result, now);
    // SAFETY: 1. There is a word for each CPU below the number that it is compared with. 2. As in `pop`, 3.
    unsafe {
        sequence!(
            {
                "mov {t:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "cmp {cpus:e}, {t:e}",
                "jbe 5b",
                "imul {t}, {each}",
                "add {t}, {first}",
                "add {n}, qword ptr [{t}]",
                "mov qword ptr [{t}], {n}",
            }
            area = in(reg) area.0,
            cpus = in(reg) words.cpus,
            first = in(reg) words.first,
            each = in(reg) words.each,
            n = inout(reg) n => now,
            t = out(reg) result,
            CPU_ID = const CPU_ID,
            options(nostack),
        );
    }
    (result, now)
}

/// Replaces a tag by plain accesses where its pageblock is biased to the CPU that runs this: a negative answer is that
/// of [`NOTHING`](super::emit::NOTHING) where it is not, [`LOST`](super::emit::LOST) where the tag is another.
///
/// # Safety
/// The place is of an instance that is alive, and its tags are won by the two sequences here, or while a stranger holds
/// the pageblock shared.
#[inline(always)]
pub(super) unsafe fn win_biased(area: Area, place: RawPlace, from: u8, to: u8) -> i64 {
    let result;
    // SAFETY: 1. The place is of a pageblock and a frame that exist: the caller's promise.
    //         2. Another sequence on this CPU makes the kernel restart this one, and so does the barrier that comes
    //            between the end of a bias and any other way to win the tag.
    unsafe {
        sequence!(
            {
                "mov {t:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "or {t:e}, {BIASED}",
                "cmp dword ptr [{words} + {at} * 8 + {BIAS}], {t:e}",
                "jne 5b",
                "cmp byte ptr [{tags} + {frame}], {from}",
                "jne 6b",
                "mov byte ptr [{tags} + {frame}], {to}",
            }
            area = in(reg) area.0,
            words = in(reg) place.words,
            at = in(reg) place.at,
            tags = in(reg) place.tags,
            frame = in(reg) place.frame,
            from = in(reg_byte) from,
            to = in(reg_byte) to,
            t = out(reg) result,
            CPU_ID = const CPU_ID,
            BIAS = const RawPlace::BIAS,
            BIASED = const RawPlace::BIASED,
            options(nostack),
        );
    }
    result
}

/// Replaces a tag by a compare-and-swap where its pageblock is shared; returns what the tag was, too. A negative answer
/// is that of [`NOTHING`](super::emit::NOTHING) where it is not shared, or the thread is not registered.
///
/// # Safety
/// As [`win_biased`].
#[inline(always)]
pub(super) unsafe fn win_shared(area: Area, place: RawPlace, from: u8, to: u8) -> (i64, u8) {
    let (result, was);
    // SAFETY: as in `win_biased`; here it is a bias that begins after a barrier for all CPUs.
    unsafe {
        sequence!(
            {
                // A thread that is not registered has no number, which reads as a negative one.
                "mov {t:e}, dword ptr fs:[{area} + {CPU_ID}]",
                "test {t:e}, {t:e}",
                "js 5b",
                "cmp dword ptr [{words} + {at} * 8 + {BIAS}], 0",
                "jne 5b",
                "lock cmpxchg byte ptr [{tags} + {frame}], {to}",
            }
            area = in(reg) area.0,
            words = in(reg) place.words,
            at = in(reg) place.at,
            tags = in(reg) place.tags,
            frame = in(reg) place.frame,
            to = in(reg_byte) to,
            inout("al") from => was,
            t = out(reg) result,
            CPU_ID = const CPU_ID,
            BIAS = const RawPlace::BIAS,
            options(nostack),
        );
    }
    (result, was)
}
