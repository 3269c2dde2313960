//! `/proc/buddyinfo`: free blocks by zone and order.

use crate::error::TraceError;

use super::line::{self, MAX_ZONES};

/// Free blocks by zone and order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buddyinfo {
    /// The zones that have memory.
    pub zones: Vec<BuddyinfoZone>,
}

/// Free blocks of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuddyinfoZone {
    /// The NUMA node.
    pub node: u8,
    /// The zone's name.
    pub name: String,
    /// Free blocks by order, order 0 first.
    pub counts: Vec<u64>,
}

impl Buddyinfo {
    /// Reads the text.
    ///
    /// # Errors
    /// At the first line that is not one of `/proc/buddyinfo`.
    pub fn parse(text: &str) -> Result<Buddyinfo, TraceError> {
        let mut zones = Vec::new();
        for line in line::lines("buddyinfo", text) {
            let (node, name, words) = line.zone()?;
            if zones.len() == MAX_ZONES {
                return Err(line.error("it has more zones than any machine"));
            }
            zones.push(BuddyinfoZone { node, name: name.to_owned(), counts: line.blocks(words)? });
        }
        Ok(Buddyinfo { zones })
    }

    /// Returns the free frames of all zones.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        self.zones.iter().map(|z| pageyard::metrics::free_frames(&z.counts)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_linux_is_read() {
        let info = Buddyinfo::parse(
            "Node 0, zone      DMA      0      1 \nNode 1, zone   Normal   6565   5680   4824 \n",
        )
        .unwrap();
        assert_eq!(info.zones[0], BuddyinfoZone { node: 0, name: "DMA".into(), counts: vec![0, 1] });
        assert_eq!(info.zones[1].node, 1);
        assert_eq!(info.free_frames(), 2 + 6565 + 2 * 5680 + 4 * 4824);
    }

    #[test]
    fn the_line_at_fault_is_named() {
        let error = |text: &str| Buddyinfo::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("Node 0, zone DMA 1\nhello"),
            "buddyinfo, line 2: it does not start like `Node 0, zone Normal`"
        );
        assert_eq!(error("Node 0, zone DMA 1 x"), "buddyinfo, line 1: `x` is not a number");
        assert_eq!(error("Node 0, zone DMA"), "buddyinfo, line 1: it has no counts: the text is cut short");
        assert_eq!(
            error("Node 0, zone \u{1b}[31mDMA 1"),
            "buddyinfo, line 1: `\\u{1b}[31mDMA` is not a name that Linux gives"
        );
        assert!(error(&format!("Node 0, zone DMA {}", u64::MAX)).contains("more than any machine"));
        assert!(error(&format!("Node 0, zone DMA{}", " 0".repeat(20))).contains("more than 19 orders"));
    }
}
