//! The parts common to all sequences: the descriptor, how it is armed, and where an interrupted sequence goes.

/// The answer of a sequence that found nothing to do: no item, no room, no such CPU.
pub(super) const NOTHING: i64 = -1;
/// The answer of one that was interrupted before its last store, and so did nothing.
pub(super) const ABORTED: i64 = -2;

/// The answer of one that would carry the count of pops out of the list's word, and so did nothing.
pub(super) const CARRY: i64 = -3;
/// The answer of one that found another tag, and so did nothing.
pub(super) const LOST: i64 = CARRY;
/// Emits a sequence. Among its operands must be `area`, and `t`, a scratch register that holds the answer at the end:
/// one of those above, or anything that is not negative. Its instructions lie between the labels 2 and 3, and the last
/// of them is the store that commits it. It goes to label 5 where it finds nothing to do, to label 6 where the count
/// would carry.
///
/// A descriptor says where the sequence begins, how long it is, and where the kernel sends a thread that was
/// interrupted in it (label 4, after the signature). All descriptors lie in the section `__rseq_cs`. Storing the
/// descriptor's address in the thread's area arms it; nothing disarms it, because the kernel looks only whether the
/// thread is inside. The code for an interruption is placed apart, so that the usual path runs straight on.
macro_rules! sequence {
    ({ $($body:expr),* $(,)? } $($operands:tt)*) => {
        core::arch::asm!(
            ".pushsection __rseq_cs, \"aw\", @progbits",
            ".balign 32",
            "77:",
            ".long 0, 0",
            ".quad 2f, 3f - 2f, 4f",
            ".popsection",
            ".pushsection .text.unlikely, \"ax\", @progbits",
            // An undefined instruction with the signature as its operand, so that nothing jumps here by mistake.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {SIGNATURE}",
            "4:",
            "mov {t}, {ABORTED}",
            "jmp 3f",
            "5:",
            "mov {t}, {NOTHING}",
            "jmp 3f",
            "6:",
            "mov {t}, {CARRY}",
            "jmp 3f",
            ".popsection",
            "lea {t}, [rip + 77b]",
            "mov qword ptr fs:[{area} + {SEQUENCE}], {t}",
            "2:",
            $($body,)*
            "3:",
            SIGNATURE = const $crate::rseq::area::SIGNATURE,
            SEQUENCE = const $crate::rseq::area::SEQUENCE,
            ABORTED = const $crate::rseq::emit::ABORTED,
            NOTHING = const $crate::rseq::emit::NOTHING,
            CARRY = const $crate::rseq::emit::CARRY,
            $($operands)*
        )
    };
}

pub(super) use sequence;
