//! `/proc/zoneinfo`: sizes, watermarks and per-CPU lists by zone.

use std::collections::BTreeMap;

use crate::error::TraceError;

use super::line::{self, Line, MAX_ZONES};

/// Sizes, watermarks and per-CPU lists by zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zoneinfo {
    /// The zones, those without memory included.
    pub zones: Vec<ZoneinfoZone>,
}

/// One zone; numbers are frames. What a kernel does not print is 0, or `None` where 0 would mean something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneinfoZone {
    /// The NUMA node.
    pub node: u8,
    /// The zone's name.
    pub name: String,
    /// Free, in the buddy lists.
    pub free: u64,
    /// How far the watermarks are raised for now.
    pub boost: u64,
    /// The lowest watermark.
    pub min: u64,
    /// The watermark below which reclaim is woken.
    pub low: u64,
    /// The watermark at which reclaim stops.
    pub high: u64,
    /// The watermark at which promotion from slower memory stops. Older kernels have none.
    pub promo: Option<u64>,
    /// From the first frame to the last, holes included.
    pub spanned: u64,
    /// Frames that exist.
    pub present: u64,
    /// Frames that the allocator hands out.
    pub managed: u64,
    /// Frames of contiguous areas.
    pub cma: u64,
    /// Frames kept back from requests for each higher zone.
    pub protection: Vec<u64>,
    /// The first frame, where the kernel prints it.
    pub start_pfn: Option<u64>,
    /// The per-CPU lists.
    pub pagesets: Vec<Pageset>,
    /// The zone's other counters, `nr_free_pages` and so on.
    pub counters: BTreeMap<String, u64>,
}

/// The per-CPU lists of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pageset {
    /// The CPU.
    pub cpu: u32,
    /// Frames in the lists.
    pub count: u64,
    /// Frames that the lists may hold.
    pub high: u64,
    /// Frames moved at a time.
    pub batch: u64,
    /// The least that `high` is tuned to. Kernels before 6.7 have none.
    pub high_min: Option<u64>,
    /// The most that `high` is tuned to. Kernels before 6.7 have none.
    pub high_max: Option<u64>,
}

/// Where in a zone's paragraph a line is: names repeat, and mean different things.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Counters of the whole node, which are not read.
    Node,
    Zone,
    Pagesets,
}

impl Zoneinfo {
    /// Reads the text.
    ///
    /// # Errors
    /// At the first line of a known field that cannot be read, and at the last line of a text, or of a zone, that is
    /// cut short.
    pub fn parse(text: &str) -> Result<Zoneinfo, TraceError> {
        let mut zones: Vec<ZoneinfoZone> = Vec::new();
        let mut part = Part::Zone;
        let mut last = None;
        for line in line::lines("zoneinfo", text) {
            if line.text.starts_with("Node") {
                complete(&zones, last)?;
                let (node, name, _) = line.zone()?;
                if zones.len() == MAX_ZONES {
                    return Err(line.error("it has more zones than any machine"));
                }
                zones.push(ZoneinfoZone { node, name: name.to_owned(), ..ZoneinfoZone::default() });
                part = Part::Zone;
                last = Some(line);
                continue;
            }
            last = Some(line);
            let Some(zone) = zones.last_mut() else {
                return Err(line.error("it comes before the first zone"));
            };
            match line.text.trim() {
                "per-node stats" => part = Part::Node,
                "pagesets" => part = Part::Pagesets,
                text if text.starts_with("pages free") => {
                    part = Part::Zone;
                    zone.free = line.frames(text.split_whitespace().nth(2))?;
                }
                _ if part == Part::Node => {}
                _ => zone.field(&line, part)?,
            }
        }
        complete(&zones, last)?;
        if let Some(last) = last.filter(|_| !text.ends_with('\n')) {
            return Err(last.error("the text is cut short: it ends inside this line"));
        }
        Ok(Zoneinfo { zones })
    }
}

/// Checks that the last zone is complete before another one begins, or the text ends at `line`.
///
/// # Linux
/// `zoneinfo_show_print`: a zone ends with its first frame; one without memory, since 4.16, with its reserves.
fn complete(zones: &[ZoneinfoZone], line: Option<Line<'_>>) -> Result<(), TraceError> {
    match (zones.last(), line) {
        (Some(zone), Some(line))
            if zone.start_pfn.is_none() && (zone.managed > 0 || zone.protection.is_empty()) =>
        {
            Err(line.error(format!(
                "the text is cut short: zone {} ends here, before its first frame",
                zone.name
            )))
        }
        _ => Ok(()),
    }
}

impl ZoneinfoZone {
    /// Returns the frames in all the per-CPU lists.
    #[must_use]
    pub fn pcp_frames(&self) -> u64 {
        self.pagesets.iter().map(|p| p.count).sum()
    }

    fn field(&mut self, line: &Line<'_>, part: Part) -> Result<(), TraceError> {
        let mut words = line.text.split_whitespace();
        let name = words.next().unwrap_or_default();
        if name == "start_pfn:" {
            self.start_pfn = Some(line.frames(words.next())?);
            return Ok(());
        }
        if part == Part::Pagesets {
            return self.pageset_field(line, name, words.next());
        }
        let slot = match name {
            "boost" => &mut self.boost,
            "min" => &mut self.min,
            "low" => &mut self.low,
            "high" => &mut self.high,
            "spanned" => &mut self.spanned,
            "present" => &mut self.present,
            "managed" => &mut self.managed,
            "cma" => &mut self.cma,
            "promo" => self.promo.insert(0),
            "protection:" => {
                self.protection = protection(line)?;
                return Ok(());
            }
            // Counters, and whatever newer kernels add.
            _ => {
                if let (Some(value), None) = (words.next(), words.next())
                    && let Ok(value) = value.parse()
                {
                    self.counters.insert(name.to_owned(), value);
                }
                return Ok(());
            }
        };
        *slot = line.frames(words.next())?;
        Ok(())
    }

    fn pageset_field(&mut self, line: &Line<'_>, name: &str, value: Option<&str>) -> Result<(), TraceError> {
        if name == "cpu:" {
            let cpu =
                u32::try_from(line.number(value)?).map_err(|_| line.error("no machine has such a CPU"))?;
            self.pagesets.push(Pageset { cpu, ..Pageset::default() });
            return Ok(());
        }
        let Some(set) = self.pagesets.last_mut() else { return Ok(()) };
        let slot = match name {
            "count:" => &mut set.count,
            "high:" => &mut set.high,
            "batch:" => &mut set.batch,
            "high_min:" => set.high_min.insert(0),
            "high_max:" => set.high_max.insert(0),
            _ => return Ok(()),
        };
        *slot = line.frames(value)?;
        Ok(())
    }
}

/// Reads `protection: (0, 3019, 4683)`.
fn protection(line: &Line<'_>) -> Result<Vec<u64>, TraceError> {
    let inside = line.text.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let Some((inside, _)) = inside else {
        return Err(line.error("the reserves are not in parentheses: the text is cut short"));
    };
    inside.split(',').map(|word| line.frames(Some(word.trim()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 691\n      high 5\n\
        \x20 pages free     3840\n        boost    1\n        min      53\n        low      66\n        high     79\n\
        \x20       promo    92\n        spanned  4095\n        present  3998\n        managed  3840\n        cma      0\n\
        \x20       protection: (0, 3019, 4683)\n      nr_free_pages 3840\n      numa_hit     18446744073709551615\n\
        \x20 pagesets\n    cpu: 1\n              count:    7\n              high:     8\n              batch:    1\n\
        \x20             high_min: 33\n              high_max: 240\n  vm stats threshold: 4\n  node_unreclaimable:  0\n\
        \x20 start_pfn:           1\nNode 0, zone  Movable\n  pages free     0\n        min      32\n\
        \x20       protection: (0, 0, 0)\n";

    #[test]
    fn a_text_of_linux_is_read() {
        let info = Zoneinfo::parse(TEXT).unwrap();
        let zone = &info.zones[0];
        assert_eq!((zone.free, zone.boost, zone.min, zone.low, zone.high), (3840, 1, 53, 66, 79));
        assert_eq!((zone.promo, zone.spanned, zone.present, zone.managed), (Some(92), 4095, 3998, 3840));
        assert_eq!(zone.protection, [0, 3019, 4683]);
        assert_eq!(zone.counters["numa_hit"], u64::MAX, "Linux prints a counter below zero so");
        let set = Pageset { cpu: 1, count: 7, high: 8, batch: 1, high_min: Some(33), high_max: Some(240) };
        assert_eq!(zone.pagesets, [set]);
        assert_eq!(zone.start_pfn, Some(1));
        assert_eq!((info.zones[1].min, info.zones[1].promo, info.zones[1].start_pfn), (32, None, None));
    }

    #[test]
    fn a_text_that_is_cut_short_is_refused_wherever_it_is_cut() {
        // A text cut between two zones looks complete; only comparing it with `buddyinfo` shows what is missing.
        let between = TEXT.find("Node 0, zone  Movable").unwrap();
        for end in (1..TEXT.len()).filter(|&end| end != between) {
            let text = &TEXT[..end];
            assert!(Zoneinfo::parse(text).is_err(), "{text}");
        }
        let error = Zoneinfo::parse(&TEXT[..TEXT.find("      nr_free").unwrap()]).unwrap_err().to_string();
        assert_eq!(
            error,
            "zoneinfo, line 15: the text is cut short: zone DMA ends here, before its first frame"
        );
        assert_eq!(Zoneinfo::parse("").unwrap(), Zoneinfo::default());
    }

    #[test]
    fn the_line_at_fault_is_named() {
        let error = |from: &str, to: &str| Zoneinfo::parse(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert_eq!(
            error("min      53", "min"),
            "zoneinfo, line 7: a number is missing: the text is cut short"
        );
        assert_eq!(error("low      66", "low x"), "zoneinfo, line 8: `x` is not a number");
        assert_eq!(
            error("4683)", "4683"),
            "zoneinfo, line 15: the reserves are not in parentheses: the text is cut short"
        );
        assert_eq!(error("cpu: 1", "cpu: 99999999999"), "zoneinfo, line 19: no machine has such a CPU");
        assert!(error("spanned  4095", "spanned 99999999999999").contains("more than any machine"));
        assert_eq!(
            Zoneinfo::parse("  min 4").unwrap_err().to_string(),
            "zoneinfo, line 1: it comes before the first zone"
        );
    }
}
