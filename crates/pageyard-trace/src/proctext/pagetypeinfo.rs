//! `/proc/pagetypeinfo`: free blocks and pageblocks by migratetype.

use std::collections::BTreeMap;

use crate::error::TraceError;

use super::line::{self, Line, MAX_ZONES};

/// The largest count that Linux prints; beyond it the lists are not walked to their end.
const CAP: &str = ">100000";

/// Free blocks and pageblocks by migratetype.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pagetypeinfo {
    /// The order of a pageblock, where the text says it.
    pub pageblock_order: Option<u8>,
    /// The zones that have memory.
    pub zones: Vec<PagetypeinfoZone>,
}

/// One zone, with migratetypes by the names that Linux prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PagetypeinfoZone {
    /// The NUMA node.
    pub node: u8,
    /// The zone's name.
    pub name: String,
    /// Free blocks by migratetype.
    pub free: BTreeMap<String, FreeBlocks>,
    /// Pageblocks by migratetype.
    pub blocks: BTreeMap<String, u64>,
}

/// Free blocks of one migratetype.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeBlocks {
    /// Blocks by order, order 0 first.
    pub counts: Vec<u64>,
    /// Whether Linux stopped counting somewhere: it prints `>100000`, which reads as 100,000.
    pub capped: bool,
}

enum Part {
    Head,
    Free,
    Blocks(Vec<String>),
    /// A part that other kernels have and that is unknown here.
    Unknown,
}

impl Pagetypeinfo {
    /// Reads the text.
    ///
    /// # Errors
    /// At the first line that is not one of `/proc/pagetypeinfo`.
    pub fn parse(text: &str) -> Result<Pagetypeinfo, TraceError> {
        let mut info = Pagetypeinfo::default();
        let mut part = Part::Head;
        for line in line::lines("pagetypeinfo", text) {
            if let Some(order) = line.text.strip_prefix("Page block order:") {
                info.pageblock_order = Some(
                    u8::try_from(line.number(Some(order.trim()))?)
                        .map_err(|_| line.error("no pageblock has such an order"))?,
                );
            } else if line.text.starts_with("Free pages count per migrate type") {
                part = Part::Free;
            } else if let Some(types) = line.text.strip_prefix("Number of blocks type") {
                let names = types.split_whitespace().map(|name| line.name(name).map(str::to_owned));
                part = Part::Blocks(names.collect::<Result<_, _>>()?);
            } else if line.text.starts_with("Node") {
                match &part {
                    Part::Head => {
                        return Err(line.error("a zone comes before the line that says what its numbers are"));
                    }
                    Part::Free => info.free_line(&line)?,
                    Part::Blocks(types) => info.blocks_line(&line, types)?,
                    Part::Unknown => {}
                }
            } else if line.text.starts_with("Pages per block:") {
            } else if line.text.starts_with("Number of") {
                part = Part::Unknown;
            } else {
                return Err(line.error("it is not a line of /proc/pagetypeinfo"));
            }
        }
        Ok(info)
    }

    fn zone(&mut self, line: &Line<'_>, node: u8, name: &str) -> Result<&mut PagetypeinfoZone, TraceError> {
        // A zone's lines follow each other, so it is found at the end or, in the second part, from the start.
        let index = match self.zones.iter().rposition(|z| z.node == node && z.name == name) {
            Some(index) => index,
            None if self.zones.len() == MAX_ZONES => {
                return Err(line.error("it has more zones than any machine"));
            }
            None => {
                self.zones.push(PagetypeinfoZone {
                    node,
                    name: name.to_owned(),
                    ..PagetypeinfoZone::default()
                });
                self.zones.len() - 1
            }
        };
        Ok(&mut self.zones[index])
    }

    fn free_line(&mut self, line: &Line<'_>) -> Result<(), TraceError> {
        let (node, name, mut words) = line.zone()?;
        let (Some("type"), Some(kind)) = (words.next(), words.next()) else {
            return Err(line.error("it does not say which migratetype it counts"));
        };
        let kind = line.name(kind)?;
        let capped = words.clone().any(|w| w == CAP);
        let counts = if capped {
            let rest: Vec<&str> = words.map(|w| w.strip_prefix('>').unwrap_or(w)).collect();
            line.blocks(rest.join(" ").split_whitespace())?
        } else {
            line.blocks(words)?
        };
        self.zone(line, node, name)?.free.insert(kind.to_owned(), FreeBlocks { counts, capped });
        Ok(())
    }

    fn blocks_line(&mut self, line: &Line<'_>, types: &[String]) -> Result<(), TraceError> {
        let (node, name, mut words) = line.zone()?;
        let mut blocks = BTreeMap::new();
        for kind in types {
            blocks.insert(kind.clone(), line.frames(words.next())?);
        }
        if words.next().is_some() {
            return Err(line.error("it has more counts than there are migratetypes"));
        }
        self.zone(line, node, name)?.blocks = blocks;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Page block order: 9\nPages per block:  512\n\n\
        Free pages count per migrate type at order       0      1 \n\
        Node    0, zone      DMA, type    Unmovable      3 >100000 \n\
        Node    0, zone      DMA, type      Movable      0      7 \n\n\
        Number of blocks type     Unmovable      Movable \n\
        Node 0, zone      DMA            1            7 \n\n\
        Number of mixed blocks    Unmovable      Movable \n\
        Node 0, zone      DMA            1            1 \n";

    #[test]
    fn a_text_of_linux_is_read() {
        let info = Pagetypeinfo::parse(TEXT).unwrap();
        assert_eq!(info.pageblock_order, Some(9));
        let [zone] = &info.zones[..] else { panic!("{info:?}") };
        assert_eq!(zone.free["Unmovable"], FreeBlocks { counts: vec![3, 100_000], capped: true });
        assert_eq!(zone.free["Movable"], FreeBlocks { counts: vec![0, 7], capped: false });
        assert_eq!(
            zone.blocks.iter().map(|(k, n)| (k.as_str(), *n)).collect::<Vec<_>>(),
            [("Movable", 7), ("Unmovable", 1)]
        );
    }

    #[test]
    fn the_line_at_fault_is_named() {
        let error =
            |from: &str, to: &str| Pagetypeinfo::parse(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert_eq!(error("3 >", "x >"), "pagetypeinfo, line 5: `x` is not a number");
        assert_eq!(
            error("            1            7", " 1"),
            "pagetypeinfo, line 9: a number is missing: the text is cut short"
        );
        assert_eq!(error("order: 9", "order: 999"), "pagetypeinfo, line 1: no pageblock has such an order");
        assert_eq!(
            error("DMA, type    Unmov", "DMA, type    \u{1b}[2J"),
            "pagetypeinfo, line 5: `\\u{1b}[2Jable` is not a name that Linux gives"
        );
        assert!(error("type     Unmovable", &format!("type {}", "x".repeat(9999))).len() < 150);
        assert_eq!(
            error("Free pages", "Free sheep"),
            "pagetypeinfo, line 4: it is not a line of /proc/pagetypeinfo"
        );
    }
}
