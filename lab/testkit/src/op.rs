//! Operations that print themselves as the Rust that makes them.

use core::fmt;
use pageyard::{CpuId, Frames, Migratetype, NodeMask, Order, Pfn, Region, Request, RequestFlags, ZoneKind};

/// One step of a test. `held` counts the blocks that the test holds, modulo their number; an operation that needs a
/// block and finds none does nothing, so that any part of a list of operations is a valid list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Allocates a block; every answer is judged, so requests can be bad.
    Alloc {
        /// The CPU that asks.
        cpu: CpuId,
        /// The request.
        request: Request,
    },
    /// Frees a held block.
    Free {
        /// The CPU that frees.
        cpu: CpuId,
        /// Which block.
        held: u32,
    },
    /// Frees a held block, and once more.
    FreeTwice {
        /// The CPU that frees.
        cpu: CpuId,
        /// Which block.
        held: u32,
    },
    /// Frees a held block with another order than it has.
    FreeWrongOrder {
        /// The CPU that frees.
        cpu: CpuId,
        /// Which block.
        held: u32,
        /// The order; the next one where it happens to be right.
        order: Order,
    },
    /// Frees part of a held block that is larger than one frame.
    FreeInside {
        /// The CPU that frees.
        cpu: CpuId,
        /// Which block.
        held: u32,
        /// How far inside, modulo the block's size; never its first frame.
        offset: u32,
    },
    /// Frees whatever this is, unless the test holds exactly this block.
    FreeAt {
        /// The CPU that frees.
        cpu: CpuId,
        /// The frame: any number.
        pfn: Pfn,
        /// The order: any.
        order: Order,
    },
    /// Splits a held block.
    Split {
        /// Which block.
        held: u32,
        /// The order of the parts; refused where it is above the block's.
        to: Order,
    },
    /// Splits whatever this is, unless the test holds exactly this block.
    SplitAt {
        /// The frame: any number.
        pfn: Pfn,
        /// The order that it is said to have.
        from: Order,
        /// The order of the parts.
        to: Order,
    },
    /// Allocates several blocks in one call.
    BulkAlloc {
        /// The CPU that asks.
        cpu: CpuId,
        /// The request.
        request: Request,
        /// How many.
        count: u32,
    },
    /// Frees held single frames in one call.
    BulkFree {
        /// The CPU that frees.
        cpu: CpuId,
        /// From which block on single frames are looked for.
        held: u32,
        /// How many at most.
        count: u32,
        /// Whether wrong frames are mixed in.
        spoiled: bool,
    },
    /// Claims a block by its number.
    Claim {
        /// The frame: any number.
        pfn: Pfn,
        /// The order: any.
        order: Order,
        /// The migratetype.
        migratetype: Migratetype,
    },
    /// Drains one CPU's lists, which need not exist.
    Drain {
        /// The CPU.
        cpu: CpuId,
    },
    /// Drains every CPU's lists.
    DrainAll,
    /// Compares the engine's books with the model's.
    Check,
}

impl Op {
    /// Returns the CPU that the operation runs on, if it names one.
    pub fn cpu_mut(&mut self) -> Option<&mut CpuId> {
        match self {
            Op::Alloc { cpu, .. }
            | Op::Free { cpu, .. }
            | Op::FreeTwice { cpu, .. }
            | Op::FreeWrongOrder { cpu, .. }
            | Op::FreeInside { cpu, .. }
            | Op::FreeAt { cpu, .. }
            | Op::BulkAlloc { cpu, .. }
            | Op::BulkFree { cpu, .. }
            | Op::Drain { cpu } => Some(cpu),
            Op::Split { .. } | Op::SplitAt { .. } | Op::Claim { .. } | Op::DrainAll | Op::Check => None,
        }
    }

    /// Returns which held block the operation is about, if it is about one.
    pub fn held_mut(&mut self) -> Option<&mut u32> {
        match self {
            Op::Free { held, .. }
            | Op::FreeTwice { held, .. }
            | Op::FreeWrongOrder { held, .. }
            | Op::FreeInside { held, .. }
            | Op::Split { held, .. }
            | Op::BulkFree { held, .. } => Some(held),
            _ => None,
        }
    }

    /// Returns the frame that the operation names by its number, if it names one.
    pub fn pfn_mut(&mut self) -> Option<&mut Pfn> {
        match self {
            Op::FreeAt { pfn, .. } | Op::SplitAt { pfn, .. } | Op::Claim { pfn, .. } => Some(pfn),
            _ => None,
        }
    }

    /// Returns how many blocks the operation is about, if it is about several.
    pub fn count_mut(&mut self) -> Option<&mut u32> {
        match self {
            Op::BulkAlloc { count, .. } | Op::BulkFree { count, .. } => Some(count),
            _ => None,
        }
    }

    /// Returns the request that the operation makes, if it makes one.
    pub fn request_mut(&mut self) -> Option<&mut Request> {
        match self {
            Op::Alloc { request, .. } | Op::BulkAlloc { request, .. } => Some(request),
            _ => None,
        }
    }
}

/// Prints a value as Rust.
pub struct Rust<T>(pub T);

impl fmt::Debug for Rust<Order> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Order::of({})", self.0)
    }
}

impl fmt::Debug for Rust<Pfn> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Debug for Rust<Migratetype> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Migratetype::{:?}", self.0)
    }
}

impl fmt::Debug for Rust<ZoneKind> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZoneKind::{:?}", self.0)
    }
}

impl fmt::Debug for Rust<RequestFlags> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("RequestFlags::empty()");
        }
        for (n, (name, _)) in self.0.iter_names().enumerate() {
            write!(f, "{}RequestFlags::{name}", if n == 0 { "" } else { " | " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Rust<Request> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = &self.0;
        let plain = Request::new(request.order, request.migratetype);
        let base = format!("Request::new({:?}, {:?})", Rust(request.order), Rust(request.migratetype));
        let added = request.flags.difference(plain.flags);
        if *request == plain {
            return f.write_str(&base);
        }
        if *request == plain.with(added) {
            return write!(f, "{base}.with({:?})", Rust(added));
        }
        f.write_str("Request { ")?;
        if request.highest_zone != plain.highest_zone {
            write!(f, "highest_zone: {:?}, ", Rust(request.highest_zone))?;
        }
        if request.nodes != NodeMask::ALL {
            write!(f, "nodes: NodeMask({:#x}), ", request.nodes.0)?;
        }
        if request.flags != plain.flags {
            write!(f, "flags: {:?}, ", Rust(request.flags))?;
        }
        write!(f, "..{base} }}")
    }
}

impl fmt::Debug for Rust<Region> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Region { start, frames: Frames(frames), node, zone, managed, zeroed: _ } = self.0;
        let base = format!("Region::managed({start:?}, Frames({frames}), {node:?}, {:?})", Rust(zone));
        if managed { f.write_str(&base) } else { write!(f, "Region {{ managed: false, ..{base} }}") }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Op::Alloc { cpu, request } => {
                write!(f, "Op::Alloc {{ cpu: {cpu:?}, request: {:?} }}", Rust(request))
            }
            Op::Free { cpu, held } => write!(f, "Op::Free {{ cpu: {cpu:?}, held: {held} }}"),
            Op::FreeTwice { cpu, held } => write!(f, "Op::FreeTwice {{ cpu: {cpu:?}, held: {held} }}"),
            Op::FreeWrongOrder { cpu, held, order } => {
                write!(f, "Op::FreeWrongOrder {{ cpu: {cpu:?}, held: {held}, order: {:?} }}", Rust(order))
            }
            Op::FreeInside { cpu, held, offset } => {
                write!(f, "Op::FreeInside {{ cpu: {cpu:?}, held: {held}, offset: {offset} }}")
            }
            Op::FreeAt { cpu, pfn, order } => {
                write!(f, "Op::FreeAt {{ cpu: {cpu:?}, pfn: {pfn:?}, order: {:?} }}", Rust(order))
            }
            Op::Split { held, to } => write!(f, "Op::Split {{ held: {held}, to: {:?} }}", Rust(to)),
            Op::SplitAt { pfn, from, to } => {
                write!(f, "Op::SplitAt {{ pfn: {pfn:?}, from: {:?}, to: {:?} }}", Rust(from), Rust(to))
            }
            Op::BulkAlloc { cpu, request, count } => {
                let request = Rust(request);
                write!(f, "Op::BulkAlloc {{ cpu: {cpu:?}, request: {request:?}, count: {count} }}")
            }
            Op::BulkFree { cpu, held, count, spoiled } => {
                write!(f, "Op::BulkFree {{ cpu: {cpu:?}, held: {held}, count: {count}, spoiled: {spoiled} }}")
            }
            Op::Claim { pfn, order, migratetype } => {
                let (order, migratetype) = (Rust(order), Rust(migratetype));
                write!(f, "Op::Claim {{ pfn: {pfn:?}, order: {order:?}, migratetype: {migratetype:?} }}")
            }
            Op::Drain { cpu } => write!(f, "Op::Drain {{ cpu: {cpu:?} }}"),
            Op::DrainAll => f.write_str("Op::DrainAll"),
            Op::Check => f.write_str("Op::Check"),
        }
    }
}
