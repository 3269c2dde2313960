//! `/proc/slabinfo`: the kernel's object caches by name.

use pageyard_trace::text::shown;
use pageyard_trace::{MAX_FRAMES, TraceError};
use serde::Serialize;

use super::largest::Largest;

/// An object cache of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlabCache {
    /// Its name.
    pub name: String,
    /// Frames that its slabs hold.
    pub frames: u64,
    /// Objects that its slabs have room for.
    pub objects: u64,
    /// Objects in use, as far as the kernel counts: those in a CPU's own slabs count as in use.
    pub objects_in_use: u64,
    /// Bytes of an object, padding included.
    pub object_bytes: u64,
}

/// Reads the text and keeps the largest caches.
///
/// # Errors
/// At the first line that is not one of version 2 of the text.
pub(super) fn parse(text: &str) -> Result<Largest<SlabCache>, TraceError> {
    let mut caches = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') || line.starts_with("slabinfo - version") {
            continue;
        }
        caches.push(cache(line).ok_or_else(|| TraceError::Text {
            file: "slabinfo",
            line: index + 1,
            what: "it is not an object cache as version 2 of the text has it".to_owned(),
        })?);
    }
    Ok(Largest::of(caches, |cache| cache.frames))
}

/// Reads `NAME active objects size per-slab frames : tunables .. : slabdata active slabs shared`. A name may have
/// spaces, so the numbers are counted from the colon.
fn cache(line: &str) -> Option<SlabCache> {
    let (counts, rest) = line.split_once(" : tunables ")?;
    let (_, slabs) = rest.split_once(" : slabdata ")?;
    let words: Vec<&str> = counts.split_whitespace().collect();
    let first = words.len().checked_sub(5).filter(|&first| first > 0)?;
    let number = |at: usize| words[first + at].parse::<u64>().ok();
    let slabs: u64 = slabs.split_whitespace().nth(1)?.parse().ok()?;
    Some(SlabCache {
        name: shown(&words[..first].join(" ")),
        frames: slabs.checked_mul(number(4)?).filter(|&frames| frames <= MAX_FRAMES)?,
        objects: number(1)?,
        objects_in_use: number(0)?,
        object_bytes: number(2)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "slabinfo - version: 2.1\n\
        # name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables ..\n\
        kmalloc-64          90    128     64   64    1 : tunables    0    0    0 : slabdata      2      2      0\n\
        ext4_inode_cache   900    980   1128   14    4 : tunables    0    0    0 : slabdata     70     70      0\n\
        \n\
        a name \u{1b} with: all    1    2     8   512    1 : tunables 120 60 8 : slabdata 0 1 0 : globalstat 1 2 3\n\
        dentry               0      0    192   21    1 : tunables    0    0    0 : slabdata      0      0      0\n";

    #[test]
    fn the_largest_caches_come_first() {
        let found = parse(TEXT).unwrap();
        let named: Vec<_> = found.largest.iter().map(|c| (c.name.as_str(), c.frames)).collect();
        assert_eq!(
            named,
            [("ext4_inode_cache", 280), ("kmalloc-64", 2), ("a name \\u{1b} with: all", 1)],
            "those without frames are left out"
        );
        let cache = &found.largest[0];
        assert_eq!((cache.objects, cache.objects_in_use, cache.object_bytes), (980, 900, 1128));
        assert_eq!((found.others, found.other_frames), (0, 0));
    }

    #[test]
    fn a_long_list_is_cut_and_the_rest_counted() {
        let text: String = (1..=100)
            .map(|n| format!("cache-{n} 1 1 8 1 1 : tunables 0 0 0 : slabdata {n} {n} 0\n"))
            .collect();
        let found = parse(&text).unwrap();
        assert_eq!(found.largest.len(), Largest::<SlabCache>::MOST);
        assert_eq!(found.largest[0].name, "cache-100");
        let named: u64 = found.largest.iter().map(|c| c.frames).sum();
        assert_eq!((found.others, named + found.other_frames), (90, 5050));
    }

    #[test]
    fn lines_that_are_no_cache_are_named() {
        let error = |line: &str| parse(&format!("slabinfo - version: 2.1\n{line}")).unwrap_err().to_string();
        for line in [
            "x",
            "kmalloc-64 90 128 64 64 1",
            "90 128 64 64 1 : tunables 0 0 0 : slabdata 2 2 0",
            "kmalloc-64 90 128 64 64 one : tunables 0 0 0 : slabdata 2 2 0",
            "kmalloc-64 90 128 64 64 1 : tunables 0 0 0 : slabdata 2",
            "kmalloc-64 90 128 64 64 16 : tunables 0 0 0 : slabdata 2 18446744073709551615 0",
        ] {
            assert_eq!(
                error(line),
                "slabinfo, line 2: it is not an object cache as version 2 of the text has it",
                "{line}"
            );
        }
        assert!(parse("").unwrap().largest.is_empty());
    }
}
