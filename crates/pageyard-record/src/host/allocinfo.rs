//! `/proc/allocinfo`: what each line of the kernel's source has allocated, where allocation profiling is on.

use super::largest::Largest;
use pageyard::PAGE_SIZE;
use pageyard_trace::TraceError;
use pageyard_trace::text::shown;
use serde::Serialize;

/// A place in the kernel's source that allocates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllocationSite {
    /// The function, with its module where it has one, and where it stands.
    pub site: String,
    /// Allocations that are not freed yet.
    pub allocations: u64,
    /// Frames that they take, rounded up.
    pub frames: u64,
}

/// Lines that are read; a kernel has a few thousand sites.
const MOST: usize = 1 << 18;

/// Reads the text, and keeps the largest sites.
///
/// # Errors
/// At the first line that is none of those that Linux prints; and where there are more sites than any kernel has.
pub(super) fn parse(text: &str) -> Result<Largest<AllocationSite>, TraceError> {
    let mut sites = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong =
            |what: &str| TraceError::Text { file: "allocinfo", line: index + 1, what: what.to_owned() };
        // `allocinfo - version: 1.0`, and `#     <size>  <calls> <tag info>`.
        if line.trim().is_empty() || line.starts_with('#') || line.starts_with("allocinfo") {
            continue;
        }
        sites.push(site(line).ok_or_else(|| wrong("it is not a place as Linux prints it"))?);
        if sites.len() > MOST {
            return Err(wrong("it names one place more than any kernel has"));
        }
    }
    Ok(Largest::of(sites, |site| site.frames))
}

/// Reads `  94208   23 mm/slub.c:2420 [module] func:alloc_slab_page`.
fn site(line: &str) -> Option<AllocationSite> {
    let mut words = line.split_whitespace();
    // Added up over CPUs while they count, so that it can be below 0 for a moment.
    let bytes: i64 = words.next()?.parse().ok()?;
    let allocations = words.next()?.parse().ok()?;
    let place = words.next()?;
    let rest: Vec<&str> = words.collect();
    let function = rest.iter().find_map(|word| word.strip_prefix("func:"))?;
    let module = rest.iter().find(|word| word.starts_with('[')).map_or_else(String::new, |m| format!(" {m}"));
    let site = shown(&format!("{function}{module}, {place}"));
    Some(AllocationSite { site, allocations, frames: bytes.max(0).unsigned_abs().div_ceil(PAGE_SIZE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_places_are_named() {
        let text = "allocinfo - version: 2.0\n#     <size>  <calls> <tag info>\n\
            0        0 init/main.c:1314 func:do_initcalls\n -16 1 init/main.c:9 func:f\n\
            8193      3 mm/slub.c:2420 func:alloc_slab_page\n\
            409600    25 fs/ext4/super.c:1388 [ext4] func:ext4_alloc_inode accurate:no\n";
        let found = parse(text).unwrap();
        let of: Vec<_> = found.largest.iter().map(|s| (s.site.as_str(), s.allocations, s.frames)).collect();
        assert_eq!(
            of,
            [
                ("ext4_alloc_inode [ext4], fs/ext4/super.c:1388", 25, 100),
                ("alloc_slab_page, mm/slub.c:2420", 3, 3)
            ]
        );
    }

    #[test]
    fn lines_that_are_no_place_are_named() {
        for line in ["x", "1", "1 2", "1 2 a.c:1", "1 -2 a.c:1 func:f"] {
            let error = parse(&format!("allocinfo - version: 1.0\n{line}\n")).unwrap_err().to_string();
            assert_eq!(error, "allocinfo, line 2: it is not a place as Linux prints it", "{line}");
        }
        assert!(parse("").unwrap().largest.is_empty());
    }
}
