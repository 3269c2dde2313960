//! Gfp flags as people know them.

use std::fmt;

use pageyard::{Gfp, GfpMap};

/// Gfp bits that are written by name, with the kernel's names for the usual combinations.
#[derive(Clone, Copy, Debug)]
pub struct GfpNames(Gfp, u32);

impl GfpNames {
    /// Reads a kernel's bits; `map` is where it keeps its flags.
    #[must_use]
    pub fn new(raw: u32, map: &GfpMap) -> GfpNames {
        let unknown = (0..32).map(|bit| 1 << bit).filter(|&bit| raw & bit != 0 && map.decode(bit).is_empty());
        GfpNames(map.decode(raw), unknown.sum())
    }
}

const RECLAIM: Gfp = Gfp::DIRECT_RECLAIM.union(Gfp::KSWAPD_RECLAIM);
const KERNEL: Gfp = RECLAIM.union(Gfp::IO).union(Gfp::FS);
const USER: Gfp = KERNEL.union(Gfp::HARDWALL);

/// Huge pages of user processes, which may reclaim nothing.
const LIGHT: Gfp = USER
    .difference(RECLAIM)
    .union(Gfp::HIGHMEM)
    .union(Gfp::MOVABLE)
    .union(Gfp::COMP)
    .union(Gfp::NOMEMALLOC)
    .union(Gfp::NOWARN);

/// The kernel's names for usual combinations, larger ones first.
const USUAL: [(&str, Gfp); 10] = [
    ("GFP_TRANSHUGE", LIGHT.union(Gfp::DIRECT_RECLAIM)),
    ("GFP_TRANSHUGE_LIGHT", LIGHT),
    ("GFP_HIGHUSER_MOVABLE", USER.union(Gfp::HIGHMEM).union(Gfp::MOVABLE)),
    ("GFP_HIGHUSER", USER.union(Gfp::HIGHMEM)),
    ("GFP_USER", USER),
    ("GFP_KERNEL", KERNEL),
    ("GFP_NOFS", RECLAIM.union(Gfp::IO)),
    ("GFP_NOIO", RECLAIM),
    ("GFP_ATOMIC", Gfp::HIGH.union(Gfp::KSWAPD_RECLAIM)),
    ("GFP_NOWAIT", Gfp::KSWAPD_RECLAIM),
];

/// Names that only logs have.
const LOGGED: [(&str, Gfp); 4] = [
    ("GFP_DMA", Gfp::DMA),
    ("GFP_DMA32", Gfp::DMA32),
    ("GFP_KERNEL_ACCOUNT", KERNEL.union(Gfp::ACCOUNT)),
    ("GFP_TEMPORARY", KERNEL.union(Gfp::RECLAIMABLE)),
];

/// Reads flags by their names, as a kernel prints them: `GFP_ATOMIC|__GFP_COMP`. Names that are not known here are
/// passed over.
#[must_use]
pub fn gfp_of_names(text: &str) -> Gfp {
    let flag = |name: &str| {
        let usual = USUAL.iter().chain(&LOGGED).find(|(n, _)| *n == name).map(|(_, gfp)| *gfp);
        usual.or_else(|| Gfp::from_name(name.strip_prefix("__GFP_")?))
    };
    let flags = text.split('|').filter_map(|name| match name.trim() {
        // Since 4.4 of a request that can wait.
        "__GFP_RECLAIM" | "__GFP_WAIT" => Some(RECLAIM),
        name => flag(name),
    });
    flags.fold(Gfp::empty(), |all, gfp| all | gfp)
}

impl GfpNames {
    /// Names flags that no kernel's bits are known of.
    #[must_use]
    pub const fn of(gfp: Gfp) -> GfpNames {
        GfpNames(gfp, 0)
    }
}

impl fmt::Display for GfpNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let mut rest = self.0;
        if let Some((name, flags)) = USUAL.into_iter().find(|(_, flags)| rest.contains(*flags)) {
            words.push(name.to_owned());
            rest -= flags;
        }
        words.extend(rest.iter_names().map(|(name, _)| format!("__GFP_{name}")));
        if self.1 != 0 || words.is_empty() {
            words.push(format!("{:#x}", self.1));
        }
        f.write_str(&words.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for raw in [0xcc0, 0x820, 0x14_0cca, 0x3c_24ca, 0x1c_20ca, 0x2920] {
            let gfp = GfpMap::LINUX_6_18.decode(raw);
            assert_eq!(gfp_of_names(&GfpNames::of(gfp).to_string()), gfp, "{raw:#x}");
        }
        assert_eq!(gfp_of_names("GFP_ATOMIC|__GFP_NOTRACK|__GFP_NEW"), gfp_of_names("GFP_ATOMIC"));
        assert_eq!(gfp_of_names(""), Gfp::empty());
    }

    #[test]
    fn gfp_flags_are_named_as_kernel_code_has_them() {
        let name = |raw| GfpNames::new(raw, &GfpMap::LINUX_6_18).to_string();
        assert_eq!(name(0xcc0), "GFP_KERNEL");
        assert_eq!(name(0x820), "GFP_ATOMIC");
        assert_eq!(name(0x140cca), "GFP_HIGHUSER_MOVABLE|__GFP_COMP");
        assert_eq!(name(0x3c24ca), "GFP_TRANSHUGE|__GFP_THISNODE");
        assert_eq!(name(0x1c20ca), "GFP_TRANSHUGE_LIGHT");
        assert_eq!(name(0x2920), "GFP_ATOMIC|__GFP_ZERO|__GFP_NOWARN");
        assert_eq!(name(1 << 31 | 1 << 9), "0x80000200");
        assert_eq!(name(0), "0x0");
    }
}
