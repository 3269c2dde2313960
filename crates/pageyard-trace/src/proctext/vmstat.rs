//! `/proc/vmstat`: counters by name.

use std::collections::BTreeMap;

use crate::error::TraceError;
use crate::text::quoted;

use super::line;

/// Counters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vmstat {
    /// The counters.
    pub counters: BTreeMap<String, u64>,
}

impl Vmstat {
    /// Reads the text.
    ///
    /// # Errors
    /// At the first line that is not a name and a number.
    pub fn parse(text: &str) -> Result<Vmstat, TraceError> {
        let mut counters = BTreeMap::new();
        for line in line::lines("vmstat", text) {
            let mut words = line.text.split_whitespace();
            let name = words.next().unwrap_or_default();
            let value = line.number(words.next())?;
            if words.next().is_some() {
                return Err(line.error(format!("`{}` has more than one number", quoted(name.as_bytes()))));
            }
            counters.insert(name.to_owned(), value);
        }
        Ok(Vmstat { counters })
    }

    /// Returns a counter, or `None` where this kernel has none with that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.counters.get(name).copied()
    }
}

/// Returns the frames that a balloon holds: by the counters, or by the `Balloon` of `meminfo`, `lent`. `None` where
/// neither is known.
#[must_use]
pub fn balloon(vmstat: Option<&Vmstat>, lent: Option<u64>) -> Option<u64> {
    let of = |name: &str| vmstat.and_then(|v| v.get(name)).unwrap_or(0);
    // Events since the start; a balloon that was made smaller by other means than deflating has more inflations.
    let moved = of("balloon_inflate").saturating_sub(of("balloon_deflate"));
    let is_known = vmstat.is_some() || lent.is_some();
    is_known.then(|| lent.unwrap_or(0).max(of("nr_balloon_pages")).max(moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let vmstat = Vmstat::parse("compact_stall 12\ncompact_fail 3\n").unwrap();
        assert_eq!((vmstat.get("compact_stall"), vmstat.get("nothing")), (Some(12), None));
    }

    #[test]
    fn the_line_at_fault_is_named() {
        let error = |text: &str| Vmstat::parse(text).unwrap_err().to_string();
        assert_eq!(error("a 1\nb"), "vmstat, line 2: a number is missing: the text is cut short");
        assert_eq!(error("a -1"), "vmstat, line 1: `-1` is not a number");
        assert_eq!(error("a 1 2"), "vmstat, line 1: `a` has more than one number");
    }
}
