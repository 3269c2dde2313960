//! gfp flags: how a kernel encodes a request, and how to read it whichever kernel encoded it.
//!
//! The bits move between versions, so they are looked up by name. A trace carries its kernel's names and bits; a
//! name that it lacks takes the value of the kernel named by [`GfpMap::LINUX_6_18`], if that bit is free there.

use bitflags::bitflags;

bitflags! {
    /// The gfp flags of a request, independent of any kernel's bit numbers.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Gfp: u32 {
        /// Memory that 24-bit devices can reach.
        const DMA = 1 << 0;
        /// Memory that need not be mapped.
        const HIGHMEM = 1 << 1;
        /// Memory that 32-bit devices can reach.
        const DMA32 = 1 << 2;
        /// Contents can be copied elsewhere.
        const MOVABLE = 1 << 3;
        /// Contents can be dropped by a shrinker.
        const RECLAIMABLE = 1 << 4;
        /// May use part of the reserves.
        const HIGH = 1 << 5;
        /// May start input and output.
        const IO = 1 << 6;
        /// May call into the file system.
        const FS = 1 << 7;
        /// Wants zeroed frames.
        const ZERO = 1 << 8;
        /// May reclaim by itself.
        const DIRECT_RECLAIM = 1 << 9;
        /// May wake the background reclaimer.
        const KSWAPD_RECLAIM = 1 << 10;
        /// Will be written to soon.
        const WRITE = 1 << 11;
        /// A failure is not worth a warning.
        const NOWARN = 1 << 12;
        /// Tries hard, but may fail.
        const RETRY_MAYFAIL = 1 << 13;
        /// Never fails.
        const NOFAIL = 1 << 14;
        /// Tries lightly.
        const NORETRY = 1 << 15;
        /// May use all of the reserves.
        const MEMALLOC = 1 << 16;
        /// Is one compound page.
        const COMP = 1 << 17;
        /// Must not use the reserves, whatever the other flags say.
        const NOMEMALLOC = 1 << 18;
        /// Keeps to the nodes its owner is bound to.
        const HARDWALL = 1 << 19;
        /// Keeps to the first node.
        const THISNODE = 1 << 20;
        /// Is charged to a control group.
        const ACCOUNT = 1 << 21;
        /// Cannot wait (kernels before 6.4; later ones say `HIGH` without `DIRECT_RECLAIM`).
        const ATOMIC = 1 << 22;
        /// Wants frames that are not in the cache (kernels before 4.15).
        const COLD = 1 << 23;
    }
}

/// The names of the flags, as kernels spell them.
const NAMES: [(&str, Gfp); 24] = [
    ("__GFP_DMA", Gfp::DMA),
    ("__GFP_HIGHMEM", Gfp::HIGHMEM),
    ("__GFP_DMA32", Gfp::DMA32),
    ("__GFP_MOVABLE", Gfp::MOVABLE),
    ("__GFP_RECLAIMABLE", Gfp::RECLAIMABLE),
    ("__GFP_HIGH", Gfp::HIGH),
    ("__GFP_IO", Gfp::IO),
    ("__GFP_FS", Gfp::FS),
    ("__GFP_ZERO", Gfp::ZERO),
    ("__GFP_DIRECT_RECLAIM", Gfp::DIRECT_RECLAIM),
    ("__GFP_KSWAPD_RECLAIM", Gfp::KSWAPD_RECLAIM),
    ("__GFP_WRITE", Gfp::WRITE),
    ("__GFP_NOWARN", Gfp::NOWARN),
    ("__GFP_RETRY_MAYFAIL", Gfp::RETRY_MAYFAIL),
    ("__GFP_NOFAIL", Gfp::NOFAIL),
    ("__GFP_NORETRY", Gfp::NORETRY),
    ("__GFP_MEMALLOC", Gfp::MEMALLOC),
    ("__GFP_COMP", Gfp::COMP),
    ("__GFP_NOMEMALLOC", Gfp::NOMEMALLOC),
    ("__GFP_HARDWALL", Gfp::HARDWALL),
    ("__GFP_THISNODE", Gfp::THISNODE),
    ("__GFP_ACCOUNT", Gfp::ACCOUNT),
    ("__GFP_ATOMIC", Gfp::ATOMIC),
    ("__GFP_COLD", Gfp::COLD),
];

/// Where one kernel keeps its gfp flags: for each bit, what it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GfpMap {
    bits: [Gfp; 32],
}

impl GfpMap {
    /// Linux 6.18. It has neither `__GFP_ATOMIC` nor `__GFP_COLD`.
    pub const LINUX_6_18: GfpMap = {
        let mut bits = [Gfp::empty(); 32];
        let mut bit = 0;
        // Bits 0 to 8 carry the first nine names; bit 9 is taken by `___GFP_UNUSED`.
        while bit < 9 {
            bits[bit] = NAMES[bit].1;
            bit += 1;
        }
        while bit < 22 {
            bits[bit + 1] = NAMES[bit].1;
            bit += 1;
        }
        GfpMap { bits }
    };

    /// Builds a map from `(name, bit)` pairs, as a trace's `gfp_bits` has them.
    ///
    /// Unknown names are ignored, as are bits above 31. A name that is missing takes its place in
    /// [`GfpMap::LINUX_6_18`], unless a given name occupies that bit.
    pub fn from_names<'a>(pairs: impl IntoIterator<Item = (&'a str, u8)>) -> GfpMap {
        let mut bits = [Gfp::empty(); 32];
        let mut occupied = 0u32;
        let mut given = Gfp::empty();
        for (name, bit) in pairs {
            if bit > 31 {
                continue;
            }
            occupied |= 1 << bit;
            if let Some((_, flag)) = NAMES.iter().find(|(n, _)| *n == name) {
                bits[bit as usize] = *flag;
                given |= *flag;
            }
        }
        for (bit, flag) in GfpMap::LINUX_6_18.bits.into_iter().enumerate() {
            if !given.intersects(flag) && occupied & (1 << bit) == 0 {
                bits[bit] = flag;
            }
        }
        GfpMap { bits }
    }

    /// Reads a kernel's bits.
    #[must_use]
    pub fn decode(&self, raw: u32) -> Gfp {
        let mut rest = raw;
        let mut gfp = Gfp::empty();
        while rest != 0 {
            gfp |= self.bits[rest.trailing_zeros() as usize];
            rest &= rest - 1;
        }
        gfp
    }
}

impl Default for GfpMap {
    fn default() -> Self {
        GfpMap::LINUX_6_18
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits that the recordings of Linux 6.18 carry.
    const RECORDED: [(&str, u8); 12] = [
        ("__GFP_DMA", 0),
        ("__GFP_HIGHMEM", 1),
        ("__GFP_MOVABLE", 3),
        ("__GFP_RECLAIMABLE", 4),
        ("__GFP_HIGH", 5),
        ("__GFP_ZERO", 8),
        ("__GFP_DIRECT_RECLAIM", 10),
        ("__GFP_KSWAPD_RECLAIM", 11),
        ("__GFP_MEMALLOC", 17),
        ("__GFP_NOMEMALLOC", 19),
        ("__GFP_THISNODE", 21),
        ("__GFP_ACCOUNT", 22),
    ];

    #[test]
    fn the_built_in_map_agrees_with_a_recording() {
        for (name, bit) in RECORDED {
            let flag = NAMES.iter().find(|(n, _)| *n == name).unwrap().1;
            assert_eq!(GfpMap::LINUX_6_18.decode(1 << bit), flag, "{name}");
        }
        assert_eq!(GfpMap::LINUX_6_18.decode(1 << 9), Gfp::empty());
    }

    #[test]
    fn a_missing_name_takes_the_built_in_bit_unless_that_is_taken() {
        let map = GfpMap::from_names([("__GFP_ATOMIC", 9), ("__GFP_NEW_IN_7", 8)]);
        assert_eq!(map.decode(1 << 9), Gfp::ATOMIC);
        assert_eq!(map.decode(1 << 8), Gfp::empty(), "bit 8 is spoken for by a name not known here");
        assert_eq!(map.decode(1 << 3), Gfp::MOVABLE);
    }

    #[test]
    fn absurd_bits_are_ignored() {
        assert_eq!(GfpMap::from_names([("__GFP_HIGH", 200)]), GfpMap::LINUX_6_18);
    }
}
