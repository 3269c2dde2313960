//! The suite that every engine passes, on every preset.

use crate::differential::engines::strands_reserved_blocks;
use pageyard_core::{MapError, MemoryMap, Order};
use pageyard_linux::{Config, LinuxAllocator, MAX_PAGE_ORDER};
use pageyard_testkit::Build;

/// Builds the reference as one of its presets, with some knobs set otherwise.
pub struct Reference(&'static str, &'static [(&'static str, &'static str)]);

impl Build for Reference {
    type Engine = LinuxAllocator;

    fn name(&self) -> String {
        format!("{}{:?}", self.0, self.1)
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<LinuxAllocator, MapError> {
        // The suite asks for some nodes together with every privilege; what Linux does then is tested in `numa`.
        let preset = Config::preset(self.0).expect("a preset's name");
        let mut config = Config { cpus, privileged_take_any_node: false, ..preset };
        for (knob, value) in self.1 {
            config.set(knob, value).expect("a knob and its value");
        }
        LinuxAllocator::new(map, &config)
    }

    fn largest_order(&self) -> Order {
        MAX_PAGE_ORDER
    }

    fn strands_reserved_blocks(&self) -> bool {
        strands_reserved_blocks(self.0)
    }

    fn expression(&self) -> String {
        format!("Reference({:?}, &{:?})", self.0, self.1)
    }
}

mod linux_4_6 {
    pageyard_testkit::suite!(super::Reference("linux-4.6", &[]), random_ops = 1_000_000);
}

mod linux_4_10 {
    pageyard_testkit::suite!(super::Reference("linux-4.10", &[]), random_ops = 1_000_000);
}

mod linux_5_10 {
    pageyard_testkit::suite!(super::Reference("linux-5.10", &[]), random_ops = 1_000_000);
}

mod linux_6_1 {
    pageyard_testkit::suite!(super::Reference("linux-6.1", &[]), random_ops = 2_000_000);
}

mod linux_6_12 {
    pageyard_testkit::suite!(super::Reference("linux-6.12", &[]), random_ops = 1_000_000);
}

mod linux_6_18 {
    pageyard_testkit::suite!(super::Reference("linux-6.18", &[]), random_ops = 1_000_000);
}

mod linux_7_2 {
    pageyard_testkit::suite!(super::Reference("linux-7.2", &[]), random_ops = 1_000_000);
}

mod linux_7_3 {
    pageyard_testkit::suite!(super::Reference("linux-7.3", &[]), random_ops = 2_000_000);
}

/// Each CPU's lists may hold an eighth of a zone, and so have room for a pageblock of a small one.
const OWNERS: &[(&str, &str)] =
    &[("pcp_owners", "true"), ("pcp_policy", "classic"), ("percpu_pagelist_high_fraction", "8")];

mod owners_6_1 {
    pageyard_testkit::suite!(super::Reference("linux-6.1", super::OWNERS), random_ops = 500_000);
}

mod owners_7_2 {
    pageyard_testkit::suite!(super::Reference("linux-7.2", super::OWNERS), random_ops = 1_000_000);
}

mod owners_without_room {
    pageyard_testkit::suite!(super::Reference("linux-7.2", &[("pcp_owners", "true")]), random_ops = 500_000);
}

mod superpageblocks {
    pageyard_testkit::suite!(super::Reference("linux-7.2", &[("superpageblock", "4")]), random_ops = 500_000);
}

mod classes {
    pageyard_testkit::suite!(
        super::Reference("linux-7.3", &[("fallback", "classes")]),
        random_ops = 1_000_000
    );
}
