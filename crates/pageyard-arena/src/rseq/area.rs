//! The area that a thread shares with the kernel: found where glibc registered it, registered here where glibc did not.

use super::answers::Unavailable;
use pageyard::CpuId;
use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// The signature before each abort handler. The kernel jumps to no other place.
///
/// # Linux
/// `RSEQ_SIG` of x86: an undefined instruction's operand, which glibc registers with.
pub(super) const SIGNATURE: u32 = 0x5305_3053;
/// Offset in the area: the CPU that the thread runs on, or a negative number where the kernel does not write it.
///
/// Never `mm_cid`, which is small and dense but means another CPU in each process.
pub(super) const CPU_ID: usize = 4;
/// Offset in the area: the descriptor of the sequence that the thread is in.
pub(super) const SEQUENCE: usize = 8;
/// Bytes of the area that every kernel with restartable sequences knows, and its alignment.
const SIZE: usize = 32;
/// `RSEQ_FLAG_UNREGISTER`.
const UNREGISTER: libc::c_int = 1;

// An area for each thread where glibc has none. It has a fixed distance from the thread pointer, as glibc's has, and
// says that the thread is not registered until the kernel writes another CPU's number.
global_asm!(
    ".pushsection .tdata.pageyard_arena_rseq, \"awT\", @progbits",
    ".balign 32",
    ".globl pageyard_arena_rseq_area",
    ".hidden pageyard_arena_rseq_area",
    ".type pageyard_arena_rseq_area, @object",
    ".size pageyard_arena_rseq_area, 32",
    "pageyard_arena_rseq_area:",
    ".long 0, -1",
    ".quad 0, 0, 0",
    ".popsection",
    ".weak __rseq_offset",
    ".weak __rseq_size",
);

/// Where glibc says that its areas are, if it registered any.
fn of_libc() -> Option<isize> {
    let (offset, size): (*const isize, *const u32);
    // SAFETY: it reads two words of the global offset table, which are null where nothing defines the symbols.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: glibc defines both, constant before `main` begins. Its size is 0 where it did not register.
    unsafe { (size.read() > 0).then(|| offset.read()) }
}

/// Returns the distance from the thread pointer to the area of this crate.
fn own() -> isize {
    let offset: isize;
    // SAFETY: it reads a word that the linker or the loader wrote.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + pageyard_arena_rseq_area@GOTTPOFF]",
            offset = out(reg) offset,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    offset
}

/// Returns the distance from the thread pointer to the area, and whether it is this crate's.
fn place() -> (isize, bool) {
    static PLACE: OnceLock<(isize, bool)> = OnceLock::new();
    *PLACE.get_or_init(|| of_libc().map_or_else(|| (own(), true), |offset| (offset, false)))
}

/// The distance from the thread pointer to every thread's area: proof that it was determined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area(pub(super) isize);

impl Area {
    /// Returns the number of the CPU, or a number above all of them where the thread is not registered.
    #[inline(always)]
    pub(super) fn cpu(self) -> u32 {
        let cpu: u32;
        // SAFETY: it reads four bytes of the thread's own area, which lives as long as the thread.
        unsafe {
            asm!(
                "mov {cpu:e}, dword ptr fs:[{at} + {CPU_ID}]",
                at = in(reg) self.0,
                cpu = lateout(reg) cpu,
                CPU_ID = const CPU_ID,
                options(readonly, nostack, preserves_flags),
            );
        }
        cpu
    }
}

/// Returns the CPU that the calling thread runs on: one load. None where the thread is not registered.
///
/// By the time the caller uses it, the thread may run elsewhere.
#[inline]
#[must_use]
pub fn current_cpu() -> Option<CpuId> {
    let cpu = Area(place().0).cpu();
    (cpu <= i32::MAX as u32).then_some(CpuId(cpu))
}

/// Returns how many CPUs this host can ever have: CPU numbers are below that.
#[must_use]
pub fn possible_cpus() -> u32 {
    let listed = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = listed.trim().rsplit([',', '-']).next().and_then(|n| n.parse::<u32>().ok());
    // SAFETY: it takes no pointer.
    let configured = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    last.map_or(0, |n| n + 1).max(u32::try_from(configured).unwrap_or(0)).max(1)
}

/// The proof that a thread is registered. Dropping the last one of a thread makes the kernel forget its last sequence,
/// and unregisters the thread where this crate had registered it.
#[derive(Debug)]
pub struct Registered {
    ours: bool,
    /// It belongs to one thread, and stays there.
    thread: PhantomData<*const ()>,
}

thread_local! {
    /// How many [`Registered`] there are of an area of ours.
    static HOLDERS: Cell<u32> = const { Cell::new(0) };
}

fn rseq(flags: libc::c_int) -> Result<(), i32> {
    let area: *mut u8;
    // SAFETY: the first word of a thread's control block is its own address, in every ABI of x86-64.
    unsafe {
        asm!("mov {area}, qword ptr fs:[0]", area = out(reg) area, options(pure, readonly, nostack, preserves_flags));
    }
    let area = area.wrapping_offset(own());
    // SAFETY: the area is the thread's own, 32 bytes, aligned to as many, and lives as long as the thread.
    let answer = unsafe { libc::syscall(libc::SYS_rseq, area, SIZE, flags, SIGNATURE) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
}

/// Registers the calling thread, unless the C library did when it started it.
///
/// With glibc 2.35 and later there is nothing to do, and threads need not call it. Otherwise each thread that wants
/// the per-CPU lists calls it once, and drops what it returns before it ends; without it, its requests go to the zones.
///
/// In a library that can be unloaded, every thread that uses the lists calls it and drops what it returns before the
/// unload: the drop makes the kernel forget the descriptors of this code.
///
/// # Errors
/// [`Unavailable`].
pub fn register_thread() -> Result<Registered, Unavailable> {
    let (_, ours) = place();
    if ours && HOLDERS.get() == 0 {
        rseq(0).map_err(|error| match error {
            libc::ENOSYS => Unavailable::NoRseq,
            libc::EBUSY | libc::EINVAL => Unavailable::Taken,
            other => Unavailable::Filtered(other),
        })?;
    }
    HOLDERS.set(HOLDERS.get() + 1);
    Ok(Registered { ours, thread: PhantomData })
}

impl Drop for Registered {
    fn drop(&mut self) {
        HOLDERS.set(HOLDERS.get() - 1);
        if HOLDERS.get() > 0 {
            return;
        }
        // The kernel reads the descriptor of the last sequence whenever it preempts the thread: after this code is
        // unloaded, the kernel must not read what was there. (The next sequence arms its own.)
        // SAFETY: it writes eight bytes of the thread's own area, which lives as long as the thread.
        unsafe {
            asm!("mov qword ptr fs:[{at} + {SEQUENCE}], 0", at = in(reg) place().0, SEQUENCE = const SEQUENCE, options(nostack));
        }
        if self.ours {
            let _ = rseq(UNREGISTER);
            // SAFETY: it writes four bytes of the thread's own area, which the kernel no longer writes.
            unsafe {
                asm!("mov dword ptr fs:[{at} + {CPU_ID}], -1", at = in(reg) own(), CPU_ID = const CPU_ID, options(nostack));
            }
        }
    }
}

impl Area {
    /// Returns this crate's own area, which says that the calling thread is on `cpu`, unknown to the kernel.
    pub(super) fn pretending(cpu: CpuId) -> Area {
        let at = own();
        // SAFETY: it writes four bytes of the thread's own area; it is not registered, so the kernel does not write it.
        unsafe {
            asm!(
                "mov dword ptr fs:[{at} + {CPU_ID}], {cpu:e}",
                at = in(reg) at,
                cpu = in(reg) cpu.0,
                CPU_ID = const CPU_ID,
                options(nostack, preserves_flags),
            );
        }
        Area(at)
    }
}

/// Finds the area of all threads.
pub(super) fn find() -> Area {
    Area(place().0)
}
