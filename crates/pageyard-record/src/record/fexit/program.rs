//! The program that the kernel runs whenever it has moved a folio, and where in the kernel it belongs.

use crate::btf::Btf;

/// One instruction of the kernel's virtual machine.
pub(super) type Instruction = u64;

/// Bytes of a record: the thread (u32 at 4), where the kernel's table of pages begins, the old folio, the new one, and
/// the order.
pub(super) const RECORD: usize = 40;

/// Where the thread, the table, the folios and the order are in it.
const THREAD: i16 = 4;
const TABLE: i16 = 8;
const OLD: i16 = 16;
const NEW: i16 = 24;
const ORDER: i16 = 32;

// Functions that a program can call. # Linux: `BPF_FUNC_*` in `include/uapi/linux/bpf.h`
const GET_CURRENT_PID_TGID: i32 = 14;
const PERF_EVENT_OUTPUT: i32 = 25;
const PROBE_READ_KERNEL: i32 = 113;

// Operations, by their codes; the values of the same file.
const LOAD_8: u8 = 0x79;
const LOAD_1: u8 = 0x71;
const STORE_8: u8 = 0x7b;
const STORE_4: u8 = 0x63;
const SET: u8 = 0xb7;
const SET_32: u8 = 0xb4;
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
const JUMP_IF_NOT_32: u8 = 0x56;
const JUMP_IF_ANY_BIT: u8 = 0x45;
const JUMP: u8 = 0x05;
const CONSTANT: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// A constant that is the descriptor of a map.
const MAP: u8 = 1;

/// The register of the frame's end.
const FRAME: u8 = 10;

/// Functions that are given both folios, the best first: their parameters, and whether they return 0 where it
/// succeeded. The second is called once a move is certain, but not for the folios of drivers.
///
/// # Linux
/// `move_to_new_folio` since 5.18; `folio_migrate_flags` since 5.16.
const CANDIDATES: [(&str, &str, &str, bool); 2] =
    [("move_to_new_folio", "dst", "src", true), ("folio_migrate_flags", "newfolio", "folio", false)];

/// The facts about the kernel that a program needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeTarget {
    pub(super) function: &'static str,
    /// The function's number in BTF.
    pub(super) id: u32,
    /// Whether the program runs when the function returns, and its result decides; else when it is called.
    pub(super) at_exit: bool,
    parameters: u8,
    new: u8,
    old: u8,
    head_bit: u32,
    order_at: i16,
    /// The bytes of `struct page`.
    pub(super) page_bytes: u64,
}

impl ProbeTarget {
    /// Finds it.
    ///
    /// # Errors
    /// The feature that the kernel lacks.
    pub(super) fn find(btf: &Btf<'_>) -> Result<ProbeTarget, &'static str> {
        let (function, found, new, old, at_exit) = CANDIDATES
            .iter()
            .find_map(|&(name, new, old, at_exit)| {
                let function = btf.function(name)?;
                let at = |wanted| function.parameters.iter().position(|&p| p == wanted);
                let (new, old) = (at(new)?, at(old)?);
                (function.parameters.len() <= 6).then_some((name, function, new as u8, old as u8, at_exit))
            })
            .ok_or("none of its functions that move frames can be watched")?;
        // The order of a folio is in its second page: a byte of its own before Linux 6.6, where the flags of that page
        // mean something else, and the lowest byte of those flags since.
        let order_at = ["_folio_order", "_flags_1"].iter().find_map(|m| btf.offset_of("folio", m));
        let head_bit = btf.value("PG_head").filter(|&bit| bit < 31);
        let flags_first = btf.offset_of("folio", "flags") == Some(0);
        let (Some(order_at), Some(head_bit), true) =
            (order_at.and_then(|at| i16::try_from(at).ok()), head_bit, flags_first)
        else {
            return Err("it does not say where a folio keeps its order");
        };
        Ok(ProbeTarget {
            function,
            id: found.id,
            at_exit,
            parameters: found.parameters.len() as u8,
            new,
            old,
            head_bit,
            order_at,
            page_bytes: btf
                .size_of("page")
                .ok_or("it does not say how large its descriptor of a page is")?
                .into(),
        })
    }

    /// Writes the program: it puts a record into the perf buffers of `map` for each move. `table` is the address where
    /// the kernel keeps the address of its table of pages.
    pub(super) fn program(&self, map: i32, table: u64) -> Vec<Instruction> {
        let at = |field: i16| field - RECORD as i16;
        let mut code = vec![op(COPY, 6, 1, 0, 0)];
        if self.at_exit {
            // The result follows the parameters.
            code.push(op(LOAD_8, 2, 6, i16::from(self.parameters) * 8, 0));
            let to_the_end = 25;
            code.push(op(JUMP_IF_NOT_32, 2, 0, to_the_end, 0));
        }
        let begin = code.len();
        let [low, high] = constant(3, 0, table);
        code.extend([
            op(LOAD_8, 7, 6, i16::from(self.old) * 8, 0),
            op(LOAD_8, 8, 6, i16::from(self.new) * 8, 0),
            // A folio of one page is no head and has no order.
            op(SET, 9, 0, 0, 0),
            op(LOAD_8, 1, 7, 0, 0),
            op(JUMP_IF_ANY_BIT, 1, 0, 1, 1 << self.head_bit),
            op(JUMP, 0, 0, 1, 0),
            op(LOAD_1, 9, 7, self.order_at, 0),
            op(STORE_8, FRAME, 7, at(OLD), 0),
            op(STORE_8, FRAME, 8, at(NEW), 0),
            op(STORE_8, FRAME, 9, at(ORDER), 0),
            op(COPY, 1, FRAME, 0, 0),
            op(ADD, 1, 0, 0, i32::from(at(TABLE))),
            op(SET, 2, 0, 0, 8),
            low,
            high,
            op(CALL, 0, 0, 0, PROBE_READ_KERNEL),
            op(CALL, 0, 0, 0, GET_CURRENT_PID_TGID),
        ]);
        let [low, high] = constant(2, MAP, map as u32 as u64);
        code.extend([
            op(STORE_4, FRAME, 0, at(THREAD), 0),
            op(STORE_4, FRAME, 0, at(0), 0),
            op(COPY, 1, 6, 0, 0),
            low,
            high,
            // The buffer of the CPU that it runs on.
            op(SET_32, 3, 0, 0, -1),
            op(COPY, 4, FRAME, 0, 0),
            op(ADD, 4, 0, 0, -(RECORD as i32)),
            op(SET, 5, 0, 0, RECORD as i32),
            op(CALL, 0, 0, 0, PERF_EVENT_OUTPUT),
        ]);
        if self.at_exit {
            let skipped = (code.len() - begin) as i16;
            code[begin - 1] = op(JUMP_IF_NOT_32, 2, 0, skipped, 0);
        }
        code.extend([op(SET, 0, 0, 0, 0), op(EXIT, 0, 0, 0, 0)]);
        code
    }
}

fn op(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> Instruction {
    let [low, high] = offset.to_le_bytes();
    let [a, b, c, d] = constant.to_le_bytes();
    u64::from_le_bytes([code, from << 4 | to, low, high, a, b, c, d])
}

/// Sets a register to a constant of 64 bits.
fn constant(to: u8, kind: u8, value: u64) -> [Instruction; 2] {
    [op(CONSTANT, to, kind, 0, value as i32), op(0, 0, 0, 0, (value >> 32) as i32)]
}

/// A folio that was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) thread: u32,
    pub(super) pfn: u64,
    pub(super) to: u64,
    pub(super) order: u64,
}

/// Reads a record that the program wrote; `None` where it is none.
pub(super) fn read(raw: &[u8], page_bytes: u64) -> Option<Moved> {
    let long = |at: i16| raw.get(at as usize..)?.first_chunk().map(|b| u64::from_le_bytes(*b));
    let table = long(TABLE)?;
    let frame = |at: i16| {
        let offset = long(at)?.checked_sub(table)?;
        offset.is_multiple_of(page_bytes).then_some(offset / page_bytes)
    };
    Some(Moved { thread: (long(0)? >> 32) as u32, pfn: frame(OLD)?, to: frame(NEW)?, order: long(ORDER)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::{made, made_with};

    fn place() -> ProbeTarget {
        ProbeTarget::find(&Btf::parse(&made()).unwrap()).unwrap()
    }

    #[test]
    fn a_place_is_found_by_the_kernels_own_names() {
        let found = place();
        assert_eq!((found.function, found.id, found.at_exit), ("move_to_new_folio", 4, true));
        assert_eq!((found.new, found.old, found.parameters), (0, 1, 2));
        assert_eq!((found.head_bit, found.order_at, found.page_bytes), (6, 64, 64));
    }

    #[test]
    fn a_kernel_that_has_a_byte_for_the_order_keeps_it_there() {
        let bytes = made_with(&["_flags_1", "_folio_order"]);
        let found = ProbeTarget::find(&Btf::parse(&bytes).unwrap()).unwrap();
        assert_eq!(found, ProbeTarget { order_at: 65, ..place() });
    }

    #[test]
    fn a_kernel_that_lacks_something_is_told_so() {
        let spoilt = |name: &str| {
            let mut bytes = made();
            let at = bytes.windows(name.len()).rposition(|w| w == name.as_bytes()).unwrap();
            bytes[at] = b'X';
            ProbeTarget::find(&Btf::parse(&bytes).unwrap()).err()
        };
        assert_eq!(spoilt("move_to"), Some("none of its functions that move frames can be watched"));
        assert_eq!(spoilt("src\0"), Some("none of its functions that move frames can be watched"));
        assert_eq!(spoilt("_flags_1"), Some("it does not say where a folio keeps its order"));
        assert_eq!(spoilt("PG_head"), Some("it does not say where a folio keeps its order"));
        assert_eq!(spoilt("page\0"), Some("it does not say how large its descriptor of a page is"));
    }

    #[test]
    fn a_failure_jumps_to_the_last_two_instructions() {
        let code = place().program(7, 0xffff_8000_1234_5678);
        let jump = code[2].to_le_bytes();
        assert_eq!(jump[0], JUMP_IF_NOT_32);
        let offset = usize::from(u16::from_le_bytes([jump[2], jump[3]]));
        assert_eq!(3 + offset, code.len() - 2);
        assert_eq!(code.last(), Some(&op(EXIT, 0, 0, 0, 0)));
    }

    #[test]
    fn a_record_names_frames() {
        let table = 0xffff_ea00_0000_0000u64;
        let words = [77 << 32 | 77, table, table + 5 * 64, table + 9 * 64, 2];
        let raw: Vec<u8> = words.iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
        assert_eq!(read(&raw, 64), Some(Moved { thread: 77, pfn: 5, to: 9, order: 2 }));
        assert_eq!(read(&raw[..39], 64), None);
        assert_eq!(read(&raw, 48), None, "a folio that is not in the table");
    }
}
