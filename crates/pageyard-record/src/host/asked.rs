//! Which kind of request a host's memory is judged for.

use std::fmt;
use std::str::FromStr;

/// A kind of request, by the name of its flags in a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskedFor {
    /// `GFP_KERNEL`: the kernel's own memory, by a caller that can wait.
    #[default]
    Kernel,
    /// `GFP_ATOMIC`: the kernel's own memory, by a caller that cannot wait.
    Atomic,
    /// `GFP_HIGHUSER_MOVABLE`: memory of processes and page cache.
    HighuserMovable,
}

impl AskedFor {
    /// Every kind.
    pub const ALL: [AskedFor; 3] = [AskedFor::Kernel, AskedFor::Atomic, AskedFor::HighuserMovable];

    /// Returns the name of its flags.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            AskedFor::Kernel => "GFP_KERNEL",
            AskedFor::Atomic => "GFP_ATOMIC",
            AskedFor::HighuserMovable => "GFP_HIGHUSER_MOVABLE",
        }
    }

    /// Says what such a request may use.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            AskedFor::Kernel => {
                "GFP_KERNEL: zones of every node except Movable and HighMem, no reserves, before anything is reclaimed or compacted"
            }
            AskedFor::Atomic => {
                "GFP_ATOMIC: zones of every node except Movable and HighMem, down to three eighths of the min watermark; it cannot wait, so `compact` means that it fails"
            }
            AskedFor::HighuserMovable => {
                "GFP_HIGHUSER_MOVABLE: every zone of every node, no reserves, before anything is reclaimed or compacted"
            }
        }
    }

    /// Returns whether such a request may use a zone, by the zone's name.
    pub(super) fn may_use(self, zone: &str) -> bool {
        match zone {
            "Device" => false,
            "Movable" | "HighMem" => self == AskedFor::HighuserMovable,
            _ => true,
        }
    }

    /// Returns how much of the `min` watermark such a request must leave.
    ///
    /// # Linux
    /// `__zone_watermark_ok`: `__GFP_HIGH` halves it, and a request that cannot wait may use a quarter of that half.
    pub(super) const fn floor(self, min: u64) -> u64 {
        match self {
            AskedFor::Kernel | AskedFor::HighuserMovable => min,
            AskedFor::Atomic => {
                let half = min - min / 2;
                half - half / 4
            }
        }
    }
}

impl fmt::Display for AskedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AskedFor {
    type Err = ();

    /// Finds a kind by the name of its flags, in any case, with or without `GFP_`.
    fn from_str(text: &str) -> Result<AskedFor, ()> {
        let plain = |name: &str| {
            let name = name.to_ascii_uppercase();
            name.strip_prefix("GFP_").map_or(name.clone(), str::to_owned)
        };
        AskedFor::ALL.into_iter().find(|asked| plain(asked.name()) == plain(text)).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_name() {
        for asked in AskedFor::ALL {
            assert_eq!(asked.name().parse(), Ok(asked));
            assert_eq!(asked.name().to_lowercase().parse(), Ok(asked));
            assert!(asked.meaning().starts_with(asked.name()));
        }
        assert_eq!("atomic".parse(), Ok(AskedFor::Atomic));
        assert_eq!("GFP_NOFS".parse::<AskedFor>(), Err(()));
    }

    #[test]
    fn a_request_that_cannot_wait_goes_deeper() {
        assert_eq!(AskedFor::Kernel.floor(800), 800);
        assert_eq!(AskedFor::Atomic.floor(800), 300);
        assert_eq!(AskedFor::Atomic.floor(1), 1);
        assert_eq!(AskedFor::Atomic.floor(0), 0);
    }

    #[test]
    fn only_movable_memory_goes_to_the_movable_zone() {
        for (zone, kernel, movable) in
            [("DMA", true, true), ("Normal", true, true), ("Movable", false, true), ("Device", false, false)]
        {
            assert_eq!(AskedFor::Kernel.may_use(zone), kernel, "{zone}");
            assert_eq!(AskedFor::Atomic.may_use(zone), kernel, "{zone}");
            assert_eq!(AskedFor::HighuserMovable.may_use(zone), movable, "{zone}");
        }
    }
}
