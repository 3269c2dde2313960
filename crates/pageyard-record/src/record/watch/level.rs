//! How much is watched.

/// How much is watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Failures, requests above order 3, fallbacks, and the beginning and end of compactions: the kernel's own filter
    /// leaves the rest out. Frees are not watched: a filter that looks at each of them costs about half as much again.
    #[default]
    Light,
    /// All that a recording has.
    Full,
}

/// A request that got nothing: the number of its frame is all ones.
///
/// # Linux
/// `trace_mm_page_alloc` at the end of `__alloc_pages`
const LARGE_OR_FAILED: &str = "order > 3 || pfn == 0xffffffffffffffff";

/// The events of the light level, each with its filter.
const LIGHT: [(&str, &str, &str); 5] = [
    ("kmem", "mm_page_alloc", LARGE_OR_FAILED),
    ("kmem", "mm_page_alloc_extfrag", ""),
    ("compaction", "mm_compaction_begin", ""),
    ("compaction", "mm_compaction_end", ""),
    ("migrate", "mm_migrate_pages", ""),
];

impl Level {
    /// Returns the name that options and documents use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Level::Light => "light",
            Level::Full => "full",
        }
    }

    /// Chooses from the tracepoints that a kernel has, each with a filter.
    pub(super) fn events<'a>(self, names: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str, &'static str)> {
        let filter = |system: &str, name: &str| match self {
            Level::Full => Some(""),
            Level::Light => {
                LIGHT.iter().find(|(s, n, _)| (*s, *n) == (system, name)).map(|(_, _, filter)| *filter)
            }
        };
        names.iter().filter_map(|(system, name)| Some((*system, *name, filter(system, name)?))).collect()
    }

    /// Returns the bytes that are enough in a CPU's buffer between two looks.
    pub(super) const fn most_in_kernel(self) -> u64 {
        match self {
            Level::Light => 1 << 20,
            Level::Full => 16 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_light_level_asks_for_little_of_what_there_is() {
        let names =
            [("kmem", "mm_page_alloc"), ("kmem", "mm_page_pcpu_drain"), ("compaction", "mm_compaction_end")];
        let light = Level::Light.events(&names);
        assert_eq!(
            light,
            [("kmem", "mm_page_alloc", LARGE_OR_FAILED), ("compaction", "mm_compaction_end", "")]
        );
        assert_eq!(Level::Full.events(&names).len(), 3);
    }
}
