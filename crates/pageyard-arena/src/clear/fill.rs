//! The instructions themselves.

use super::primitive::Primitive;
use std::ptr::NonNull;

#[cfg(target_arch = "x86_64")]
mod processor {
    use super::Primitive;
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, _mm_sfence};
    use std::sync::OnceLock;

    /// Bytes that one turn of a loop clears: four cache lines.
    const TURN: usize = 256;

    /// CPUID 0x8000_0008, EBX, bit 0.
    fn has_clzero() -> bool {
        static CLZERO: OnceLock<bool> = OnceLock::new();
        #[allow(unused_unsafe, reason = "the call was unsafe before Rust 1.94")]
        // SAFETY: every processor of 64 bits has the instruction.
        let leaf = |n| unsafe { __cpuid(n) };
        *CLZERO.get_or_init(|| leaf(0x8000_0000).eax >= 0x8000_0008 && leaf(0x8000_0008).ebx & 1 == 1)
    }

    pub fn has(primitive: Primitive) -> bool {
        match primitive {
            Primitive::Memset | Primitive::RepStosb | Primitive::RepStosq => true,
            Primitive::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            Primitive::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
            Primitive::Clzero => has_clzero(),
            Primitive::DcZva => false,
        }
    }

    /// # Safety
    /// As [`super::fill`].
    pub unsafe fn fill(primitive: Primitive, at: *mut u8, bytes: usize) {
        // SAFETY: 1. The caller promises that these bytes may be written, and that the processor has the instructions.
        //         2. Each loop writes `bytes` bytes from `at`, in turns of 256, which divide a frame.
        //         3. `vzeroupper` leaves the upper halves as code without these instructions expects them.
        unsafe {
            match primitive {
                Primitive::RepStosb => asm!(
                    "rep stosb",
                    inout("rdi") at => _, inout("rcx") bytes => _, in("eax") 0,
                    options(nostack, preserves_flags)
                ),
                Primitive::RepStosq => asm!(
                    "rep stosq",
                    inout("rdi") at => _, inout("rcx") bytes / 8 => _, in("rax") 0_u64,
                    options(nostack, preserves_flags)
                ),
                // `vzeroupper` changes the upper half of every vector register, where a caller built for AVX may keep
                // something: so all are clobbered.
                Primitive::Avx2 => asm!(
                    "vpxor xmm0, xmm0, xmm0",
                    "2:",
                    "vmovntdq [rdi], ymm0",
                    "vmovntdq [rdi + 32], ymm0",
                    "vmovntdq [rdi + 64], ymm0",
                    "vmovntdq [rdi + 96], ymm0",
                    "vmovntdq [rdi + 128], ymm0",
                    "vmovntdq [rdi + 160], ymm0",
                    "vmovntdq [rdi + 192], ymm0",
                    "vmovntdq [rdi + 224], ymm0",
                    "add rdi, 256",
                    "dec rcx",
                    "jnz 2b",
                    "vzeroupper",
                    inout("rdi") at => _, inout("rcx") bytes / TURN => _,
                    clobber_abi("sysv64"), options(nostack)
                ),
                Primitive::Avx512 => asm!(
                    "vpxor xmm0, xmm0, xmm0",
                    "2:",
                    "vmovntdq [rdi], zmm0",
                    "vmovntdq [rdi + 64], zmm0",
                    "vmovntdq [rdi + 128], zmm0",
                    "vmovntdq [rdi + 192], zmm0",
                    "add rdi, 256",
                    "dec rcx",
                    "jnz 2b",
                    "vzeroupper",
                    inout("rdi") at => _, inout("rcx") bytes / TURN => _,
                    clobber_abi("sysv64"), options(nostack)
                ),
                Primitive::Clzero => asm!(
                    "2:",
                    "clzero",
                    "add rax, 64",
                    "clzero",
                    "add rax, 64",
                    "clzero",
                    "add rax, 64",
                    "clzero",
                    "add rax, 64",
                    "dec {turns}",
                    "jnz 2b",
                    inout("rax") at => _, turns = inout(reg) bytes / TURN => _,
                    options(nostack)
                ),
                Primitive::Memset | Primitive::DcZva => at.write_bytes(0, bytes),
            }
        }
    }

    pub fn fence() {
        // SAFETY: it is part of x86-64.
        unsafe { _mm_sfence() }
    }
}

#[cfg(target_arch = "aarch64")]
mod processor {
    use super::Primitive;
    use std::arch::asm;

    /// Bytes that `dc zva` clears; none where the system forbids it.
    fn block() -> Option<usize> {
        let id: u64;
        // SAFETY: any program may read this register.
        unsafe { asm!("mrs {}, dczid_el0", out(reg) id, options(nomem, nostack, preserves_flags)) };
        // Bit 4 forbids it; the lowest four are the logarithm of the block in words of four bytes. A frame has whole
        // blocks.
        let bytes = 4_usize << (id & 0xF);
        (id & 0x10 == 0 && bytes <= pageyard::PAGE_SIZE as usize).then_some(bytes)
    }

    pub fn has(primitive: Primitive) -> bool {
        match primitive {
            Primitive::Memset => true,
            Primitive::DcZva => block().is_some(),
            _ => false,
        }
    }

    /// # Safety
    /// As [`super::fill`].
    pub unsafe fn fill(primitive: Primitive, at: *mut u8, bytes: usize) {
        match (primitive, block()) {
            (Primitive::DcZva, Some(block)) => {
                for n in (0..bytes).step_by(block) {
                    // SAFETY: the caller promises that these bytes may be written; blocks are aligned, as frames are.
                    unsafe { asm!("dc zva, {}", in(reg) at.add(n), options(nostack, preserves_flags)) };
                }
            }
            // SAFETY: the caller promises that these bytes may be written.
            _ => unsafe { at.write_bytes(0, bytes) },
        }
    }

    pub fn fence() {}
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod processor {
    use super::Primitive;

    pub fn has(primitive: Primitive) -> bool {
        primitive == Primitive::Memset
    }

    /// # Safety
    /// As [`super::fill`].
    pub unsafe fn fill(_: Primitive, at: *mut u8, bytes: usize) {
        // SAFETY: the caller promises that these bytes may be written.
        unsafe { at.write_bytes(0, bytes) }
    }

    pub fn fence() {}
}

/// Returns whether this processor has a primitive.
pub(super) fn has(primitive: Primitive) -> bool {
    processor::has(primitive)
}

/// Clears whole frames with one call.
///
/// # Safety
/// These bytes are whole, aligned frames, at least one; they are mapped, writable and used by nothing else. The
/// processor has the primitive.
pub(super) unsafe fn fill(primitive: Primitive, at: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { processor::fill(primitive, at.as_ptr(), bytes) }
}

/// Orders stores that bypass the caches before all that follow.
pub(super) fn fence() {
    processor::fence();
}
